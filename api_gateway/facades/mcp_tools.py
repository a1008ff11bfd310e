"""The MCP tools as they are listed: always in this order, and varying only by what a key may do."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from mcp import types
from pydantic import BaseModel

from api_gateway.facades import mcp_calls as calls
from api_gateway.facades import mcp_shapes as shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """A tool: what it takes and gives, what it does, and the scope that a key needs for it."""

    name: str
    title: str
    description: str
    takes: type[BaseModel]
    gives: type[BaseModel]
    call: calls.Call
    scope: str = "read"
    idempotent: bool = True

    def described(self) -> types.Tool:
        """The tool as it is listed."""
        reads = self.scope == "read"
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=_schema(self.takes, "validation"),
            output_schema=_schema(self.gives, "serialization"),
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=reads or self.name == "job_status",
                destructive_hint=self.name == "ingest",  # it may replace a document of the same id
                idempotent_hint=self.idempotent,
                open_world_hint=False,
            ),
        )


def _schema(shape: type[BaseModel], mode: Any) -> dict[str, Any]:
    return {**shape.model_json_schema(mode=mode), "type": "object"}


TOOLS: Final = (
    ToolEntry(
        name="search",
        title="Search the knowledge bases",
        description=(
            "Finds passages that answer a question, by words and by meaning, and names the documents they are from. "
            "Read a whole document with fetch."
        ),
        takes=shapes.SearchIn,
        gives=shapes.SearchOut,
        call=calls.search,
    ),
    ToolEntry(
        name="fetch",
        title="Read a document",
        description="Gives the text of a document that search has found, or of a single passage.",
        takes=shapes.FetchIn,
        gives=shapes.FetchOut,
        call=calls.fetch,
    ),
    ToolEntry(
        name="list_namespaces",
        title="List the knowledge bases",
        description="Names the knowledge bases (namespaces) that can be searched, and how much is in each.",
        takes=shapes.NamespacesIn,
        gives=shapes.NamespacesOut,
        call=calls.list_namespaces,
    ),
    ToolEntry(
        name="explain",
        title="Explain an answer",
        description=(
            "Says why the passages of an earlier search stand where they do; for a passage that was expected and not "
            "found, at which stage it was lost."
        ),
        takes=shapes.ExplainIn,
        gives=shapes.ExplainOut,
        call=calls.explain,
    ),
    ToolEntry(
        name="ingest",
        title="Add documents",
        description=(
            "Stores documents in a knowledge base. A document with an id that is there already replaces the one before. "
            "Searches see them when job_status says succeeded, usually within seconds."
        ),
        takes=shapes.IngestIn,
        gives=shapes.IngestOut,
        call=calls.ingest,
        scope="write",
        idempotent=False,  # a document without an id is given a new one each time
    ),
    ToolEntry(
        name="job_status",
        title="Follow an ingestion",
        description="Says how far the documents of an ingest call are, and which could not be taken and why.",
        takes=shapes.JobIn,
        gives=shapes.JobOut,
        call=calls.job_status,
        scope="write",
    ),
)
BY_NAME: Final = {entry.name: entry for entry in TOOLS}


def listed(scopes: Collection[str]) -> list[types.Tool]:
    """The tools that a key with these scopes may call."""
    return [entry.described() for entry in TOOLS if entry.scope in scopes]
