"""Documents that are sent again: their generations, and what parsing and embedding them took."""

from __future__ import annotations

from typing import Any

from chordwise.contract.document import GenerationList
from chordwise.contract.job import Item
from pipeline.administration.drop_replaced import drop_retired
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.generation_store import Generations
from pipeline.ingestion.accept import AcceptedJob
from pipeline.ingestion.reingest import roll_back
from pipeline.maintenance.sweep import release_kept
from pipeline.records import DocumentId, Upload
from pipeline.resources import Resources
from tests.support.stacks.connections import sharing
from tests.support.stacks.corner import Corner, items_of

A = DocumentId("a")


class CountingEmbedder:
    """The real embedder, which remembers what it was asked for."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.model = real.model
        self.texts: list[str] = []

    def embed(self, texts: Any, **options: Any) -> Any:
        self.texts += texts
        return self._real.embed(texts, **options)

    def close(self) -> None:
        self._real.close()


class CountingParser:
    """The real parser, which counts its documents."""

    def __init__(self, real: Any) -> None:
        self._real, self.parsed = real, 0

    def parse(self, *arguments: Any, **options: Any) -> Any:
        self.parsed += 1
        return self._real.parse(*arguments, **options)

    def cut(self, *arguments: Any, **options: Any) -> Any:
        self.parsed += 1
        return self._real.cut(*arguments, **options)

    def close(self) -> None:
        self._real.close()


def counting_with(use: Resources) -> Resources:
    """The same, with a parser and an embedder that remember what they did."""
    return sharing(use, embedder=CountingEmbedder(use.embedder), parser=CountingParser(use.parser))


def items(corner: Corner, ticket: AcceptedJob) -> list[Item]:
    return items_of(corner.use, ticket)


def history(corner: Corner, document_id: DocumentId = A) -> GenerationList | None:
    with unit_of_work(corner.use.mysql) as work:
        return Generations(work.connection, corner.tenant).history(corner.namespace, document_id)


def states(corner: Corner) -> dict[int, str]:
    found = history(corner)
    return {} if found is None else {each.generation: each.state for each in found.data}


def back(corner: Corner, **options: Any) -> AcceptedJob:
    options = {"request_id": "r", "notify": lambda ticket: None, **options}
    ticket = roll_back(corner.tenant, corner.namespace, A, corner.use, **options)
    assert ticket is not None
    return ticket


def expire(corner: Corner) -> None:
    """Let the time be up for everything that is kept or retired."""
    for table, column in (("kept_generations", "kept_until"), ("retired_generations", "due_at")):
        corner.execute(f"UPDATE {table} SET {column} = '2000-01-01' WHERE tenant_id = :tenant")
    release_kept(corner.tenant, corner.use)
    drop_retired(corner.tenant, corner.use)


def again(corner: Corner, use: Resources, *uploads: Upload) -> dict[str, int]:
    ticket = corner.accept(*uploads)
    corner.work(ticket, use)
    return corner.job(ticket).outcomes


def paragraphs(count: int, *, changed: int | None = None) -> str:
    words = [f"Paragraph {n} is about subject {n * 37 % 101} and says so at length. " * 5 for n in range(count)]
    if changed is not None:
        words[changed] = "This paragraph was written anew and says something else entirely. " * 5
    return "\n\n".join(words)
