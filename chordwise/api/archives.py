"""Export and import of namespaces as archives."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chordwise.api.archive_files import ArchiveReader, ArchiveWriter, Manifest, PartEntry, counts_of, missing
from chordwise.api.ingestion import Told
from chordwise.api.jobs import Ingestion, Job, together
from chordwise.errors import ChordwiseError, InvalidInput, ProblemError, UnexpectedAnswer
from chordwise.records import decode
from chordwise.resource import Resource, operation
from chordwise.resource import path as resource_path
from chordwise.transport import Answer, Steps

PART = "application/vnd.chordwise.part"
_HOLD_S = 60.0  # the server may take long to read or write a part of large documents


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The outcome of an import. ``sent``: parts sent by this call; the others had arrived before."""

    ingestion: Ingestion
    manifest: Manifest
    sent: int
    vectors_kept: bool


class ArchiveOperations(Resource):
    """Operations on archives. Every call may be sent twice."""

    @operation
    def export(
        self, namespace: str, path: str | Path, *, on_progress: Callable[[Manifest], None] | None = None
    ) -> Steps[Manifest]:
        """Write a namespace with its chunks and vectors to a folder, or to one file if ``path`` ends in .chordwise.

        Repeated after an interruption, it resumes after the last whole part. Raises InvalidInput too.
        """
        archive = ArchiveWriter(Path(path), namespace)
        while not archive.manifest.complete:
            cursor = archive.manifest.next_cursor
            source = resource_path("namespaces", namespace, "export")
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

        Every part is verified first: InvalidInput names a damaged one before anything is sent. A later error
        carries the accepted jobs in ``accepted``; repeating the call resumes the import.
        """
        with closing(ArchiveReader(Path(path))) as archive:
            archive.verify()
            manifest = archive.manifest
            target = resource_path("namespaces", namespace, "imports", manifest.archive_id)
            if again:
                yield from self._request("DELETE", target, hold_s=_HOLD_S, expects=frozenset({404}))
            receipts = yield from self._receipts(target)
            unsent = missing(manifest.parts, {int(part["part"]): str(part["sha256"]) for part in receipts})
            done = Ingestion(jobs=tuple(map(_job, receipts)))
            sent = 0
            try:
                for part in unsent:
                    if not part.documents:
                        continue
                    receipts.append((yield from self._send_part(archive, part, target, on_conflict)).json())
                    done, sent = together(done, Ingestion(jobs=(_job(receipts[-1]),))), sent + 1
                    if on_progress:
                        on_progress(done)
            except ChordwiseError as error:
                error.accepted = done.jobs
                raise
        vectors_kept = all(receipt.get("vectors_kept") for receipt in receipts)
        return Imported(ingestion=done, manifest=manifest, sent=sent, vectors_kept=vectors_kept)

    def _receipts(self, target: str) -> Steps[list[dict[str, Any]]]:
        """Return the server's receipt of every part that has arrived."""
        answer = yield from self._request("GET", target, hold_s=_HOLD_S, expects=frozenset({404}))
        if answer.status == 404:
            return []
        body = answer.json()
        if not isinstance(body, dict) or not isinstance(body.get("parts"), list):
            raise UnexpectedAnswer(f"{target} does not answer with a list of parts")
        return list(body["parts"])

    def _send_part(
        self, archive: ArchiveReader, part: PartEntry, target: str, on_conflict: str | None
    ) -> Steps[Answer]:
        content = archive.part(part)
        try:
            return (
                yield from self._request(
                    "PUT",
                    f"{target}/parts/{part.number}",
                    params={"on_conflict": on_conflict or None},
                    hold_s=_HOLD_S,
                    headers={"Content-Type": PART, "Content-Digest": _digest(content)},
                    content=content,
                )
            )
        except ProblemError as error:
            if error.status == 422:
                raise InvalidInput(f"{part.name} was refused: {error}") from error
            raise


def _require_whole(answer: Answer) -> None:
    """Raise UnexpectedAnswer for a part that does not match its checksum."""
    if answer.headers.get("content-digest") != _digest(answer.content):
        raise UnexpectedAnswer("a part arrived without its checksum, or damaged")


def _digest(content: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(content).digest()).decode()}:"


def _job(receipt: Any) -> Job:
    if not isinstance(receipt, dict) or not isinstance(receipt.get("job_id"), str):
        raise UnexpectedAnswer("the answer to a part lacks its job")
    return decode(Job, {"job_id": receipt["job_id"], "status": "queued", "total": receipt.get("documents", 0)})
