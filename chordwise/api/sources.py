"""Sources: the origins of documents, and stores of files that are followed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chordwise.contract import source
from chordwise.resource import Resource, given, operation, path
from chordwise.transport import Steps

SourceInfo = source.SourceInfo
SourceDeletion = source.SourceDeleted


class SourceOperations(Resource):
    """Operations on sources."""

    @operation
    def sources(
        self, *, namespace: str, kind: str | None = None, followed: bool | None = None, limit: int | None = 100
    ) -> Steps[list[SourceInfo]]:
        """List sources with a searchable or pending document, by id; ``limit`` None for all."""
        return self._pages(
            SourceInfo, "/v1/sources", {"namespace": namespace, "kind": kind, "followed": followed}, limit=limit
        )

    @operation
    def source(self, source_id: str, *, namespace: str) -> Steps[SourceInfo]:
        """Return a source with its counts. ProblemError with status 404 if there is none."""
        return self._one(SourceInfo, "GET", path("sources", source_id), params={"namespace": namespace})

    @operation
    def follow_source(
        self,
        url: str,
        *,
        namespace: str,
        every_seconds: int | None = None,
        rules: Iterable[Mapping[str, Any]] | None = None,
        secret: Mapping[str, str] | None = None,
        source_id: str | None = None,
    ) -> Steps[SourceInfo]:
        """Follow a folder, a store, a repository or a site, and keep its documents current, by default every hour.
        ``rules``: ids, tags, metadata and readers by path. ``secret``: what the store asks for, never shown again. A URL that
        is followed already gets this interval and these rules, and keeps its secret without a new one."""
        body = given(
            url=url,
            namespace=namespace,
            every_seconds=every_seconds,
            rules=None if rules is None else [dict(rule) for rule in rules],
            secret=None if secret is None else dict(secret),
            source_id=source_id,
        )
        return self._one(SourceInfo, "POST", path("sources"), body=body, safe=False)

    @operation
    def run_source(self, source_id: str, *, namespace: str) -> Steps[str]:
        """Begin a run now, and return the id of its job; that of the run under way if there is one."""
        return str((yield from self._act(source_id, "run", namespace))["job_id"])

    @operation
    def confirm_source(self, source_id: str, *, namespace: str) -> Steps[str]:
        """Let a run remove the documents that wait for it (``followed.held_removals``); return the id of its job."""
        return str((yield from self._act(source_id, "confirm", namespace))["job_id"])

    @operation
    def pause_source(self, source_id: str, *, namespace: str) -> Steps[SourceInfo]:
        """Begin no run by itself any more."""
        return self._one(SourceInfo, "POST", path("sources", source_id, "pause"), params={"namespace": namespace})

    @operation
    def resume_source(self, source_id: str, *, namespace: str) -> Steps[SourceInfo]:
        """Follow a paused source again; a run begins at once."""
        return self._one(SourceInfo, "POST", path("sources", source_id, "resume"), params={"namespace": namespace})

    @operation
    def delete_source(
        self, source_id: str, *, namespace: str, keep_documents: bool | None = None
    ) -> Steps[SourceDeletion]:
        """Delete a source with all its documents, pending ones too, and follow it no longer; ``keep_documents``: without
        them."""
        params = {"namespace": namespace, "keep_documents": "true" if keep_documents else None}
        return self._one(SourceDeletion, "DELETE", path("sources", source_id), params=params)

    def _act(self, source_id: str, action: str, namespace: str) -> Steps[Any]:
        route = path("sources", source_id, action)
        answer = yield from self._request("POST", route, params={"namespace": namespace}, safe=False)
        return answer.json()
