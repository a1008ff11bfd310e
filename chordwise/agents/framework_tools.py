"""The knowledge tool in the terms of agent frameworks; each is imported when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chordwise.extras import missing

if TYPE_CHECKING:
    from langchain_core.tools import StructuredTool
    from llama_index.core.tools import FunctionTool

    from chordwise.agents.knowledge_tool import KnowledgeTool


def langchain_tool(tool: KnowledgeTool) -> StructuredTool:
    """LangChain hands on what a model sent; the tool checks it, and tells the model as text what is wrong with it."""
    try:
        from langchain_core.tools import StructuredTool
    except ModuleNotFoundError as error:
        raise missing("langchain", error) from error

    def search(**arguments: Any) -> str:
        return tool.run(arguments)

    async def asearch(**arguments: Any) -> str:
        return await tool.arun(arguments)

    return StructuredTool(
        name=tool.name, description=tool.description, args_schema=tool.parameters, func=search, coroutine=asearch
    )


def llamaindex_tool(tool: KnowledgeTool) -> FunctionTool:
    """LlamaIndex reads a schema from the arguments of a function, so these are spelled out."""
    try:
        from llama_index.core.tools import FunctionTool
    except ModuleNotFoundError as error:
        raise missing("llamaindex", error) from error

    def search(
        query: str,
        namespaces: list[str] | None = None,
        retrieve: dict[str, Any] | None = None,
        filters: dict[str, Any] | None = None,
    ) -> str:
        return tool.run({"query": query, "namespaces": namespaces, "retrieve": retrieve, "filters": filters})

    async def asearch(
        query: str,
        namespaces: list[str] | None = None,
        retrieve: dict[str, Any] | None = None,
        filters: dict[str, Any] | None = None,
    ) -> str:
        return await tool.arun({"query": query, "namespaces": namespaces, "retrieve": retrieve, "filters": filters})

    described = f"{tool.description}\n{_choice(tool)}"
    return FunctionTool.from_defaults(fn=search, async_fn=asearch, name=tool.name, description=described)


def _choice(tool: KnowledgeTool) -> str:
    return (
        f"namespaces, retrieve and filters may be left out; namespaces: some of {', '.join(tool.knowledge.namespaces)}."
    )
