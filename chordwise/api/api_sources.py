"""Business APIs that queries may ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Unpack

from chordwise.api.queries import QueryKeywords, query_body
from chordwise.contract import api_source
from chordwise.records import Result
from chordwise.resource import Resource, operation, path
from chordwise.transport import Steps


class ApiSource(Result):
    """A business API that queries may ask. The values of ``headers`` are never shown; ``raw`` may be changed and stored."""

    name: str
    url: str = ""
    method: str = "GET"
    enabled: bool = True
    namespaces: tuple[str, ...] = ()
    headers: Mapping[str, Any] = field(default_factory=dict)
    mapping: Mapping[str, Any] = field(default_factory=dict)
    timeout_ms: int | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


TriedSource = api_source.TriedSource


class ApiSourceOperations(Resource):
    """Operations on business APIs. Every call may be sent twice."""

    @operation
    def api_sources(self) -> Steps[list[ApiSource]]:
        """Return every business API that queries may ask."""
        return self._list(ApiSource, path("api-sources"))

    @operation
    def api_source(self, name: str) -> Steps[ApiSource]:
        """Return one business API, without the values of its headers."""
        return self._one(ApiSource, "GET", path("api-sources", name))

    @operation
    def store_api_source(self, name: str, source: Mapping[str, Any]) -> Steps[ApiSource]:
        """Add or change a business API: ``url``, ``mapping`` and more, see docs/channels.md."""
        return self._one(ApiSource, "PUT", path("api-sources", name), body=dict(source))

    @operation
    def delete_api_source(self, name: str) -> Steps[None]:
        """Remove a business API; queries that name it go on without it and report that."""
        return self._delete(path("api-sources", name))

    @operation
    def try_api_source(self, name: str, text: str, **options: Unpack[QueryKeywords]) -> Steps[TriedSource]:
        """Ask a business API now, as this query would. A failure of the API is returned, not raised."""
        return self._one(TriedSource, "POST", path("api-sources", name, "test"), body=query_body(text, **options))
