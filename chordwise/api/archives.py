"""Exporting and importing namespaces: the part of the operations that moves archives."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chordwise.api.archive_files import ArchiveReader, ArchiveWriter, Manifest, PartEntry, counts_of, missing
from chordwise.api.ingestion import Told
from chordwise.api.jobs import Ingestion, Job, together
from chordwise.errors import ChordwiseError, InvalidInput, ProblemError, UnexpectedAnswer
from chordwise.records import decode
from chordwise.resource import Resource, operation, segment
from chordwise.transport import Answer, Steps

PART = "application/vnd.chordwise.part"
_HOLD_S = 60.0  # a part of large documents takes its time, at either end


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import has come to. ``sent``: parts that went over the wire now; the others had arrived before."""

    ingestion: Ingestion
    manifest: Manifest
    sent: int
    vectors_kept: bool


class ArchiveOperations(Resource):
    """What ``Operations`` can do with archives. Every call may be sent twice."""

    @operation
    def export(
        self, namespace: str, path: str | Path, *, on_progress: Callable[[Manifest], None] | None = None
    ) -> Steps[Manifest]:
        """Write a namespace with its chunks and vectors to a folder, or to one file if ``path`` ends in .chordwise.

        Called again after it was broken off, it goes on after the last whole part. Raises InvalidInput as well.
        """
        archive = ArchiveWriter(Path(path), namespace)
        while not archive.manifest.complete:
            cursor = archive.manifest.next_cursor
            source = f"/v1/namespaces/{segment(namespace)}/export"
            answer = yield from self._request("GET", source, params={"cursor": cursor or None}, hold_s=_HOLD_S)
            _require_whole(answer)
            counts = counts_of(answer.headers.get("chordwise-counts", ""))
            archive.add(answer.content, counts, answer.headers.get("next-cursor"))
            if on_progress:
                on_progress(archive.manifest)
        archive.finish()
        return archive.manifest

    @operation
    def import_archive(
        self,
        path: str | Path,
        *,
        namespace: str,
        on_conflict: str | None = None,
        again: bool = False,
        on_progress: Told | None = None,
    ) -> Steps[Imported]:
        """Send the parts of an archive that have not arrived yet; ``again`` sends all. Returns once everything is durable
        at the server: ``wait(imported.ingestion)`` until it is searchable.

        Every part is verified first: InvalidInput names one that is damaged, and nothing was sent. An error in between
        has the jobs before it in ``accepted``; called again, this goes on.
        """
        archive = ArchiveReader(Path(path))
        try:
            archive.verify()
            return (yield from self._import(archive, namespace, on_conflict=on_conflict, again=again, told=on_progress))
        finally:
            archive.close()

    def _import(
        self, archive: ArchiveReader, namespace: str, *, on_conflict: str | None, again: bool, told: Told | None
    ) -> Steps[Imported]:
        manifest = archive.manifest
        place = f"/v1/namespaces/{segment(namespace)}/imports/{segment(manifest.archive_id)}"
        if again:
            yield from self._request("DELETE", place, hold_s=_HOLD_S, expects=frozenset({404}))
        arrived = yield from self._arrived(place)
        waiting = missing(manifest.parts, {int(part["part"]): str(part["sha256"]) for part in arrived})
        kept = all(bool(part.get("vectors_kept")) for part in arrived)
        jobs = [_job(part) for part in arrived]
        done = Ingestion(jobs=tuple(jobs))
        sent = 0
        try:
            for part in waiting:
                if not part.documents:
                    continue
                answer = yield from self._send_part(archive, part, place, on_conflict)
                said = answer.json()
                done, sent = together(done, Ingestion(jobs=(_job(said),))), sent + 1
                kept = kept and bool(said.get("vectors_kept"))
                if told:
                    told(done)
        except ChordwiseError as error:
            error.accepted = done.jobs
            raise
        return Imported(ingestion=done, manifest=manifest, sent=sent, vectors_kept=kept)

    def _arrived(self, place: str) -> Steps[list[dict[str, Any]]]:
        answer = yield from self._request("GET", place, hold_s=_HOLD_S, expects=frozenset({404}))
        if answer.status == 404:
            return []
        said = answer.json()
        if not isinstance(said, dict) or not isinstance(said.get("parts"), list):
            raise UnexpectedAnswer(f"{place} does not answer with a list of parts")
        return list(said["parts"])

    def _send_part(self, archive: ArchiveReader, part: PartEntry, place: str, on_conflict: str | None) -> Steps[Answer]:
        content = archive.part(part)
        digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
        try:
            return (
                yield from self._request(
                    "PUT",
                    f"{place}/parts/{part.number}",
                    params={"on_conflict": on_conflict or None},
                    hold_s=_HOLD_S,
                    headers={"Content-Type": PART, "Content-Digest": f"sha-256=:{digest}:"},
                    content=content,
                )
            )
        except ProblemError as error:
            if error.status == 422:
                raise InvalidInput(f"{part.name} was refused: {error}") from error
            raise


def _require_whole(answer: Answer) -> None:
    """Raises UnexpectedAnswer for a part that is not what its checksum says."""
    digest = base64.b64encode(hashlib.sha256(answer.content).digest()).decode()
    if answer.headers.get("content-digest") != f"sha-256=:{digest}:":
        raise UnexpectedAnswer("a part arrived without its checksum, or damaged")


def _job(said: Any) -> Job:
    if not isinstance(said, dict) or not isinstance(said.get("job_id"), str):
        raise UnexpectedAnswer("a part was answered without its job")
    return decode(Job, {"job_id": said["job_id"], "status": "queued", "total": said.get("documents", 0)})
