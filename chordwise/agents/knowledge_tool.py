"""Search as a tool that a language model may call, over namespaces that it cannot choose.

from chordwise.tools import Knowledge, KnowledgeTool

tool = KnowledgeTool(Knowledge(["kb"], retrieve={"top_k": 5}))
tool.openai()                                            # what a model service is told of it
tool.run('{"query": "how are documents replaced"}')      # what the model called it with; gives Markdown
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from chordwise.agents.asker import Asker
from chordwise.agents.knowledge import Knowledge, tool_schema
from chordwise.agents.prompts import format_markdown
from chordwise.api.queries import AskKeywords
from chordwise.async_client import AsyncChordwise
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError, InvalidInput

if TYPE_CHECKING:
    from langchain_core.tools import StructuredTool
    from llama_index.core.tools import FunctionTool

__all__ = ["Knowledge", "KnowledgeTool"]

NOTHING_FOUND: Final = "No passage answers this."
_DESCRIPTION: Final = "Search the knowledge base. Gives the passages that answer the query, best first, as Markdown."


class KnowledgeTool:
    """A tool with ``query`` and, if the model wants to say more, ``retrieve``, ``filters`` and ``namespaces``.

    The namespaces are those of ``knowledge``; those that a model names can only be some of them. Filters that are bound
    cannot be loosened. Called as a function it raises ChordwiseError; ``run`` and ``arun`` take what a model sent and give
    a text in any case, so that the model can read what was wrong. An ``Asker`` of its own unless clients are given.
    """

    def __init__(
        self,
        knowledge: Knowledge | Iterable[str] | str,
        *,
        name: str = "search_knowledge",
        description: str = _DESCRIPTION,
        nothing_found: str = NOTHING_FOUND,
        client: Chordwise | None = None,
        async_client: AsyncChordwise | None = None,
        url: str | None = None,
        api_key: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.knowledge = knowledge if isinstance(knowledge, Knowledge) else Knowledge(knowledge)
        self.name, self.description, self.nothing_found = name, description, nothing_found
        self._asker = Asker(client=client, async_client=async_client, url=url, api_key=api_key, timeout=timeout)

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments, as a JSON schema."""
        return tool_schema(self.knowledge)

    def __call__(
        self,
        query: str,
        namespaces: Iterable[str] | str | None = None,
        retrieve: Mapping[str, Any] | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> str:
        """The passages as Markdown. Raises InvalidInput for a namespace that is not bound."""
        asked = self.knowledge.asked(query, namespaces, retrieve, filters)
        return self._told(format_markdown(self._asker.ask(query, **asked)))

    async def acall(
        self,
        query: str,
        namespaces: Iterable[str] | str | None = None,
        retrieve: Mapping[str, Any] | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> str:
        """The same, to be awaited."""
        asked = self.knowledge.asked(query, namespaces, retrieve, filters)
        return self._told(format_markdown(await self._asker.aask(query, **asked)))

    def run(self, arguments: str | Mapping[str, Any]) -> str:
        """What to answer to a call with these arguments, as JSON or read already. Never raises ChordwiseError."""
        try:
            query, asked = self._read(arguments)
            return self._told(format_markdown(self._asker.ask(query, **asked)))
        except ChordwiseError as error:
            return f"The search failed: {error}"

    async def arun(self, arguments: str | Mapping[str, Any]) -> str:
        """The same, to be awaited."""
        try:
            query, asked = self._read(arguments)
            return self._told(format_markdown(await self._asker.aask(query, **asked)))
        except ChordwiseError as error:
            return f"The search failed: {error}"

    def openai(self) -> dict[str, Any]:
        """How the tool is told of in ``tools`` of a chat completion."""
        told = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": told}

    def anthropic(self) -> dict[str, Any]:
        """How the tool is told of in ``tools`` of a message."""
        return {"name": self.name, "description": self.description, "input_schema": self.parameters}

    def langchain(self) -> StructuredTool:
        """The tool of LangChain, also for LangGraph's ``ToolNode``. Raises MissingExtra without the extra."""
        from chordwise.agents.framework_tools import langchain_tool

        return langchain_tool(self)

    def llamaindex(self) -> FunctionTool:
        """The tool of LlamaIndex. Raises MissingExtra without the extra."""
        from chordwise.agents.framework_tools import llamaindex_tool

        return llamaindex_tool(self)

    def close(self) -> None:
        """Close the connections that the tool made for itself."""
        self._asker.close()

    async def aclose(self) -> None:
        """The same, with those of this event loop."""
        await self._asker.aclose()

    def _read(self, arguments: str | Mapping[str, Any]) -> tuple[str, AskKeywords]:
        """Raises InvalidInput for what is no call of this tool."""
        try:
            said = json.loads(arguments) if isinstance(arguments, str) else arguments
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, Mapping):
            raise InvalidInput("the arguments are not a JSON object")
        unknown = sorted(set(map(str, said)) - set(self.parameters["properties"]) - {"namespaces"})
        if unknown:
            raise InvalidInput(f"there is no argument {', '.join(unknown)}")
        query = said.get("query")
        return str(query), self.knowledge.asked(
            query, said.get("namespaces"), said.get("retrieve"), said.get("filters")
        )

    def _told(self, markdown: str) -> str:
        return markdown or self.nothing_found
