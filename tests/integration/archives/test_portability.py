"""Namespaces exported and imported on the real stores: identical afterwards, whole at every moment, and never twice."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
import pytest

from api_gateway.resources.ingestion.archives import entries_of
from chordwise.contract.archive import ImportedPart
from pipeline.administration.delete_documents import delete_document
from pipeline.administration.edit_chunks import Edit, delete_chunks, edit_chunks
from pipeline.archives.archive import NewPart, read_part
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.chunk_edit_store import ChunkEdits
from pipeline.documents.document_views import OwnedChunk
from pipeline.ingestion.accept import Batch
from pipeline.ingestion.import_archive import forget, receive_part
from pipeline.jobs.job_view_store import JobViews
from pipeline.maintenance.export import export_part
from pipeline.maintenance.verify import verify
from pipeline.records import Filters, JobId
from pipeline.resources import Resources
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import in_mysql, in_postgres, sharing
from tests.support.stacks.corner import Corner
from tests.support.stacks.embedders import use_embedder
from tests.support.stacks.one_job import ingest_batch

pytestmark = pytest.mark.own_databases

WORDS = ["pump", "valve", "gasket", "rotor", "bearing", "manual", "pressure", "水泵", "阀门", "压力"]


class CountingEmbedder:
    """The real model, and how often it was asked for how many texts. Not one of our own parts: it stands at the edge."""

    def __init__(self, real: Any, *, model: str | None = None) -> None:
        self._real, self.model, self.dimension = real, model or real.model, real.dimension
        self.texts: list[str] = []

    def embed(self, texts, **options):
        self.texts += texts
        return self._real.embed(texts, **options)

    def close(self) -> None:
        self._real.close()


def counting(use: Resources, *, model: str | None = None) -> tuple[Resources, CountingEmbedder]:
    """The same stores with an embedder that counts, and perhaps has another name."""
    counted = CountingEmbedder(use.embedder, model=model)
    settings = (
        use.settings.model_copy(update={"embedding_provider": "openai", "embedding_model": model})
        if model
        else use.settings
    )
    made = sharing(use, settings=settings, embedder=counted, parser=use.parser)
    use_embedder(made.spaces, made.spaces.base, counted)
    return made, counted


class Target(Corner):
    """Where an archive is imported into."""

    def receive(self, body: bytes, number: int = 1, *, use: Resources | None = None, **options: Any) -> ImportedPart:
        found, use = read_part(body), use or self.use
        batch = Batch(
            tenant_id=self.tenant,
            namespace=self.namespace,
            request_id="r",
            entries=entries_of(found, most_bytes=use.settings.max_document_bytes),
            on_conflict=options.pop("on_conflict", "replace"),
        )
        part = NewPart(
            import_id="archive",
            number=number,
            sha256=hashlib.sha256(body).digest(),
            documents=len(found.documents),
            chunks=found.chunk_count,
            vectors=found.vector_count,
            vectors_kept=True,
        )
        return receive_part(batch, part, use, notify=lambda ticket: None)[1]

    def take(self, *bodies: bytes, use: Resources | None = None, **options: Any) -> list[Any]:
        jobs = []
        for number, body in enumerate(bodies, start=1):
            received = self.receive(body, number, use=use, **options)
            jobs.append(self.finish(received.job_id, use))
        return jobs

    def finish(self, job_id: JobId, use: Resources | None = None) -> Any:
        while ingest_batch(self.tenant, job_id, use or self.use, notify=lambda *_: None):
            pass
        with unit_of_work(self.use.mysql) as work:
            return JobViews(work.connection, self.tenant).one(job_id)


def exported(corner: Corner, **options: Any) -> list[bytes]:
    """Every part of a namespace."""
    bodies, after = [], ""
    while True:
        part = export_part(corner.tenant, corner.namespace, corner.use, after=after, **options)
        bodies.append(part.body)
        if part.following is None:
            return bodies
        after = part.following


def chunks(corner: Corner) -> list[OwnedChunk]:
    asked = {"document_id": None, "enabled": None, "order_by": "document_id", "after": None, "limit": 1000}
    with unit_of_work(corner.use.mysql) as work:
        return ChunkEdits(work.connection, corner.tenant).page(corner.namespace, **asked)


def seen(corner: Corner) -> list[tuple]:
    """All there is to know of the chunks but ids and terms, which are each tenant's own."""
    return [
        (c.generation.document_id, c.ordinal, c.passage, c.fields, c.content_hash, c.enabled, c.version)
        for c in chunks(corner)
    ]


def answers(corner: Corner, question: str) -> list[tuple[str, float]]:
    """Texts and scores of the semantic channel, best first."""
    vector = corner.use.embedder.embed([question])[0]
    found = corner.use.vectors(corner.tenant).nearest(
        vector, namespaces=[corner.namespace], filters=Filters(), limit=10
    )
    texts = {chunk.chunk_id: chunk.passage.text for chunk in chunks(corner)}
    return sorted(
        ((texts[chunk_id], round(score, 6)) for chunk_id, score in found), key=lambda pair: (-pair[1], pair[0])
    )


def filled(corner: Corner, documents: int = 7) -> None:
    corner.ingest(
        *(
            upload(
                f"d{number}",
                "\n\n".join(
                    f"# {word}\n\nThe {word} of part {number} {word * 3}. " * 30 for word in WORDS[: number + 1]
                ),
                title=f"Manual {number}" if number % 2 else None,
                tags=("a", "ü"),
                metadata={"n": number},
                story_time=number,
            )
            for number in range(documents)
        )
    )


def assert_statistics(corner: Corner) -> None:
    report = verify(corner.tenant, [corner.namespace], corner.use, repair=False)
    counted = [report.missing, report.orphaned, report.stale, report.misplaced, report.miscounted, report.leftover]
    assert (*counted, report.statistics) == (0,) * 7


class DescribeARoundTrip:
    @pytest.mark.thorough
    def it_brings_back_what_was_exported_from_a_copy(self, source, target, use):
        filled(source, 3)
        bodies = exported(source)
        target.take(*bodies)
        assert exported(target) == bodies

    def it_keeps_edited_chunks_and_those_that_are_switched_off(self, source, target, use):
        filled(source)
        quiet, model = counting(use)
        first, second, third, *_ = chunks(source)
        edit_chunks(
            source.tenant,
            [Edit(chunk_id=first.chunk_id, text="edited by hand"), Edit(chunk_id=second.chunk_id, enabled=False)],
            use,
        )
        delete_chunks(source.tenant, [third.chunk_id], use)
        target.take(*exported(source), use=quiet)
        assert model.texts == []
        assert seen(target) == seen(source)
        assert [chunk.enabled for chunk in chunks(target)][:2] == [True, False]
        assert answers(target, "edited by hand") == answers(source, "edited by hand")
        assert_statistics(target)
        # A disabled chunk comes without a vector; it gets one when it is enabled.
        off = chunks(target)[1]
        edit_chunks(target.tenant, [Edit(chunk_id=off.chunk_id, enabled=True)], use)
        assert_statistics(target)

    @pytest.mark.thorough
    def it_embeds_anew_what_another_model_made(self, source, target, use):
        filled(source, 3)
        foreign, _ = counting(use, model="another-model")
        bodies = exported(source)
        renamed, model = counting(use, model="the-model-here")
        target.take(*bodies, use=renamed)
        assert sorted(model.texts) == sorted(
            f"{c.fields.title}\n{c.passage.text}" if c.fields.title else c.passage.text for c in chunks(source)
        )
        assert [row[:4] for row in seen(target)] == [row[:4] for row in seen(source)]
        report = verify(target.tenant, [target.namespace], renamed, repair=False)
        assert (report.missing, report.stale, report.statistics) == (0, 0, 0)
        assert foreign.embedder.texts == []

    @pytest.mark.thorough
    def it_embeds_only_what_came_without_a_vector(self, source, target, use):
        filled(source, 3)
        lost = chunks(source)[1]
        in_postgres(
            use,
            "DELETE FROM chunk_embeddings WHERE tenant_id = :tenant AND chunk_id = CAST(:id AS uuid)",
            tenant=source.tenant,
            id=lost.chunk_id,
        )
        part = export_part(source.tenant, source.namespace, use, sleep=lambda _: None)
        assert part.without_vector == 1
        counted, model = counting(use)
        target.take(part.body, use=counted)
        [embedded] = model.texts
        assert lost.passage.text in embedded
        assert_statistics(target)

    @pytest.mark.thorough
    def it_restores_lost_chunks_of_an_import(self, source, target, use):
        filled(source, 2)
        off = chunks(source)[0]
        edit_chunks(source.tenant, [Edit(chunk_id=off.chunk_id, enabled=False)], use)
        target.take(*exported(source))
        before = seen(target)
        in_mysql(use, "DELETE FROM chunks WHERE tenant_id = :tenant AND ordinal = 0", tenant=target.tenant)
        verify(target.tenant, [target.namespace], use, repair=True)
        assert seen(target) == before
        assert_statistics(target)

    def it_replaces_skips_or_refuses_what_is_there(self, source, target):
        filled(source, 2)
        [body] = exported(source)
        target.ingest(upload("d0", "something else"))
        [job] = target.take(body, on_conflict="skip")
        assert job.succeeded == 2
        assert target.shown()["d0"] == ["something else"]
        forget(target.tenant, target.namespace, "archive", target.use)
        [job] = target.take(body)
        assert job.succeeded == 2
        assert target.shown() == source.shown()
        assert_statistics(target)

    @pytest.mark.thorough
    def it_keeps_both_under_two_ids_and_once(self, source, target):
        filled(source, 2)
        [body] = exported(source)
        target.ingest(upload("d0", "something else"))
        target.take(body, on_conflict="new")
        forget(target.tenant, target.namespace, "archive", target.use)
        target.take(body, on_conflict="new")
        shown = target.shown()
        [other] = shown.keys() - {"d0", "d1"}
        assert other.startswith("d0~")
        assert shown == {"d0": ["something else"], "d1": source.shown()["d1"], other: source.shown()["d0"]}
        assert_statistics(target)

    @pytest.mark.thorough
    def it_says_which_chunks_were_reworded(self, source, target, use):
        filled(source, 2)
        changed = chunks(source)[0]
        edit_chunks(source.tenant, [Edit(chunk_id=changed.chunk_id, text="改写过的一句。")], use)
        target.take(*exported(source))
        assert [(each.passage.text, each.passage.reworded) for each in chunks(target)] == [
            (each.passage.text, each.passage.reworded) for each in chunks(source)
        ]
        assert [each.passage.text for each in chunks(target) if each.passage.reworded] == ["改写过的一句。"]


class DescribeAnExport:
    @pytest.mark.thorough
    def it_holds_every_document_once_whatever_the_size_of_parts(self, source):
        filled(source)
        for options in ({"most_documents": 1}, {"most_documents": 2}, {"part_bytes": 1}, {}):
            parts = [read_part(body) for body in exported(source, **options)]
            ids = [document.description["document_id"] for part in parts for document in part.documents]
            assert ids == [f"d{number}" for number in range(7)]
            assert sum(part.chunk_count for part in parts) == len(chunks(source))

    def it_shows_a_document_that_is_replaced_meanwhile_as_old_or_new(self, source, target, use):
        source.ingest(*(upload(f"d{number}", f"old text of {number}") for number in range(4)))
        first = export_part(source.tenant, source.namespace, use, most_documents=2)
        source.ingest(*(upload(f"d{number}", f"new text of {number}") for number in range(4)))
        rest = export_part(source.tenant, source.namespace, use, after=first.following or "", most_documents=5)
        target.take(first.body, rest.body)
        shown = {name: texts[0].split()[0] for name, texts in target.shown().items()}
        assert shown == {"d0": "old", "d1": "old", "d2": "new", "d3": "new"}
        assert (first.without_vector, rest.without_vector) == (0, 0)

    @pytest.mark.thorough
    def it_looks_again_at_a_document_whose_vector_and_text_do_not_fit_yet(self, source, use):
        source.ingest(upload("a", "the text"))
        [chunk] = chunks(source)
        self._spoil(source, chunk)
        waits: list[float] = []

        def heal(seconds: float) -> None:
            waits.append(seconds)
            edit_chunks(source.tenant, [Edit(chunk_id=chunk.chunk_id, text="the new text")], use)

        part = export_part(source.tenant, source.namespace, use, sleep=heal)
        assert (len(waits), part.without_vector, part.vectors) == (1, 0, 1)
        [document] = read_part(part.body).documents
        assert orjson.loads(document.chunks[0])["text"] == "the new text"

    def it_never_lets_a_vector_of_another_text_out(self, source, use):
        source.ingest(upload("a", "the text"))
        self._spoil(source, chunks(source)[0])
        part = export_part(source.tenant, source.namespace, use, sleep=lambda _: None)
        assert (part.vectors, part.without_vector) == (0, 1)

    @pytest.mark.thorough
    def it_leaves_out_what_is_deleted_or_not_shown_yet(self, source, use):
        source.ingest(upload("a", "one"), upload("b", "two"))
        source.accept(upload("c", "three"))
        delete_document(source.tenant, source.namespace, "a", use)
        [body] = exported(source)
        assert [document.description["document_id"] for document in read_part(body).documents] == ["b"]

    def _spoil(self, corner: Corner, chunk: OwnedChunk) -> None:
        in_postgres(
            corner.use,
            "UPDATE chunk_embeddings SET content_hash = decode(repeat('00', 32), 'hex')"
            " WHERE tenant_id = :tenant AND chunk_id = CAST(:id AS uuid)",
            tenant=corner.tenant,
            id=chunk.chunk_id,
        )
