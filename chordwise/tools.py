"""Search as a tool for a language model, over namespaces that it cannot choose.

from chordwise.tools import Knowledge, KnowledgeTool

tool = KnowledgeTool(Knowledge(["kb"], retrieve={"top_k": 5}))
tool.openai()                                            # the description for a model service
tool.run('{"query": "how are documents replaced"}')      # a call by the model; returns Markdown
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from chordwise.agents.asker import Asker, OwnsConnections
from chordwise.agents.knowledge import Knowledge as Knowledge
from chordwise.agents.knowledge import tool_schema
from chordwise.async_client import AsyncChordwise
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError, InvalidInput, missing
from chordwise.prompting import format_markdown

if TYPE_CHECKING:
    from langchain_core.tools import StructuredTool
    from llama_index.core.tools import FunctionTool

__all__ = ["Knowledge", "KnowledgeTool"]

NOTHING_FOUND: Final = "No passage answers this."
_DESCRIPTION: Final = "Search the knowledge base. Gives the passages that answer the query, best first, as Markdown."


class KnowledgeTool(OwnsConnections):
    """A tool with the argument ``query`` and the optional ``retrieve``, ``filters`` and ``namespaces``.

    A model can only choose among the namespaces of ``knowledge`` and cannot loosen its filters. Called as a function, the
    tool raises ChordwiseError; ``run`` and ``arun`` take the arguments of a model and always return a text, so that the
    model can read what was wrong. Uses clients of its own unless some are given.
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
        """Return the arguments as a JSON schema."""
        return tool_schema(self.knowledge)

    def __call__(
        self,
        query: str,
        namespaces: Iterable[str] | str | None = None,
        retrieve: Mapping[str, Any] | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the passages as Markdown. Raises InvalidInput for a namespace that is not bound."""
        options = self.knowledge.asked(query, namespaces, retrieve, filters)
        return format_markdown(self._asker.ask(query, **options)) or self.nothing_found

    async def acall(
        self,
        query: str,
        namespaces: Iterable[str] | str | None = None,
        retrieve: Mapping[str, Any] | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the same, to be awaited."""
        options = self.knowledge.asked(query, namespaces, retrieve, filters)
        return format_markdown(await self._asker.aask(query, **options)) or self.nothing_found

    def run(self, arguments: str | Mapping[str, Any]) -> str:
        """Return the reply to a model's call with these arguments, parsed or as JSON. Never raises ChordwiseError."""
        try:
            return self(**self._parse(arguments))
        except ChordwiseError as error:
            return f"The search failed: {error}"

    async def arun(self, arguments: str | Mapping[str, Any]) -> str:
        """Return the same, to be awaited."""
        try:
            return await self.acall(**self._parse(arguments))
        except ChordwiseError as error:
            return f"The search failed: {error}"

    def openai(self) -> dict[str, Any]:
        """Return the entry for ``tools`` of a chat completion."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def anthropic(self) -> dict[str, Any]:
        """Return the entry for ``tools`` of a message."""
        return {"name": self.name, "description": self.description, "input_schema": self.parameters}

    def langchain(self) -> StructuredTool:
        """Return the tool for LangChain and LangGraph's ``ToolNode``. Raises MissingExtra without the extra."""
        try:
            from langchain_core.tools import StructuredTool
        except ModuleNotFoundError as error:
            raise missing("langchain", error) from error

        # Without checks by LangChain: ``run`` checks the arguments and reports errors to the model as text.
        def search(**arguments: Any) -> str:
            return self.run(arguments)

        async def asearch(**arguments: Any) -> str:
            return await self.arun(arguments)

        return StructuredTool(
            name=self.name, description=self.description, args_schema=self.parameters, func=search, coroutine=asearch
        )

    def llamaindex(self) -> FunctionTool:
        """Return the tool for LlamaIndex. Raises MissingExtra without the extra."""
        try:
            from llama_index.core.tools import FunctionTool
        except ModuleNotFoundError as error:
            raise missing("llamaindex", error) from error

        # These declare each argument, because LlamaIndex derives the schema from them.
        def search(
            query: str,
            namespaces: list[str] | None = None,
            retrieve: dict[str, Any] | None = None,
            filters: dict[str, Any] | None = None,
        ) -> str:
            return self.run({"query": query, "namespaces": namespaces, "retrieve": retrieve, "filters": filters})

        async def asearch(
            query: str,
            namespaces: list[str] | None = None,
            retrieve: dict[str, Any] | None = None,
            filters: dict[str, Any] | None = None,
        ) -> str:
            return await self.arun({"query": query, "namespaces": namespaces, "retrieve": retrieve, "filters": filters})

        names = ", ".join(self.knowledge.namespaces)
        choice = f"namespaces, retrieve and filters may be left out; namespaces: some of {names}."
        description = f"{self.description}\n{choice}"
        return FunctionTool.from_defaults(fn=search, async_fn=asearch, name=self.name, description=description)

    def _parse(self, arguments: str | Mapping[str, Any]) -> dict[str, Any]:
        try:
            values = json.loads(arguments) if isinstance(arguments, str) else arguments
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, Mapping):
            raise InvalidInput("the arguments are not a JSON object")
        unknown = sorted(set(map(str, values)) - set(self.parameters["properties"]) - {"namespaces"})
        if unknown:
            raise InvalidInput(f"unknown argument {', '.join(unknown)}")
        return {"query": None, **values}
