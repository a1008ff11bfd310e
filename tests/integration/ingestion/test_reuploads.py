"""Re-uploads: what is left alone and what is reused."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event, text

from pipeline.administration.delete_documents import delete_document
from pipeline.administration.drop_replaced import drop_retired
from pipeline.administration.edit_chunks import Edit, delete_chunks, edit_chunks
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.chunk_edit_store import ChunkEdits
from pipeline.records import Chunking, DocumentFields, Upload
from pipeline.resources import Resources
from tests.support.corpora.uploading import A, again, counting_with, history, items, paragraphs
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import embedding_with, in_postgres, sharing
from tests.support.stacks.embedders import use_embedder

pytestmark = pytest.mark.own_databases


@pytest.fixture
def counting(use) -> Resources:
    return counting_with(use)


class DescribeAnUnchangedUpload:
    def it_is_neither_parsed_nor_embedded_and_leaves_everything_as_it_was(self, corner, counting):
        one = upload("a", "text " * 500, title="T", tags=("x",), metadata={"k": [1, True, None]}, author="me")
        corner.ingest(one)
        before = history(corner)
        ticket = corner.accept(one)
        corner.work(ticket, counting)
        assert (counting.embedder.texts, counting.parser.parsed) == ([], 0)
        [item] = items(corner, ticket)
        shown = len(corner.shown()["a"])
        assert (item.status, item.outcome, item.chunks, item.reused) == ("succeeded", "unchanged", shown, shown)
        assert corner.job(ticket).outcomes == {"unchanged": 1}
        assert history(corner).data == before.data
        assert corner.rows("payloads") == corner.rows("generations") == 1
        corner.assert_clean()

    @pytest.mark.thorough
    def it_is_so_without_a_title_of_its_own_too(self, corner, counting):
        one = Upload(document_id=A, fields=DocumentFields(), body=b"# Found title\n\nText.", media_type="text/markdown")
        corner.ingest(one)
        assert again(corner, counting, one) == {"unchanged": 1}

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        "change",
        [
            {"fields": DocumentFields(title="other")},
            {"fields": DocumentFields(author="other")},
            {"fields": DocumentFields(tags=("y",))},
            {"fields": DocumentFields(metadata={"k": 1})},
            {"body": b"other"},
            {"chunking": Chunking(max_tokens=100)},
            {"media_type": "text/markdown"},
            {"source_uri": "file:elsewhere"},
        ],
        ids=lambda change: "-".join(change),
    )
    def it_is_not_what_differs_in_anything(self, corner, counting, change):
        same = {"document_id": A, "fields": DocumentFields(), "body": b"text", "media_type": "text/plain"}
        corner.ingest(Upload(**same))
        assert again(corner, counting, Upload(**{**same, **change})) == {"replaced": 1}
        corner.assert_clean()

    def it_brings_back_what_was_deleted_by_hand(self, corner, counting):
        corner.ingest(upload("a", paragraphs(20)))
        with unit_of_work(corner.use.mysql) as work:
            found = ChunkEdits(work.connection, corner.tenant).page(
                corner.namespace, document_id=A, enabled=None, order_by="document_id", after=None, limit=99
            )
        delete_chunks(corner.tenant, [found[0].chunk_id], corner.use)
        assert again(corner, counting, upload("a", paragraphs(20))) == {"replaced": 1}
        assert len(corner.shown()["a"]) == len(found)

    @pytest.mark.thorough
    @pytest.mark.parametrize("store", ["mysql", "postgres"])
    def it_mends_what_was_lost_of_it(self, corner, counting, store):
        corner.ingest(upload("a", "text"))
        table = {"mysql": "chunks", "postgres": "chunk_embeddings"}[store]
        with getattr(corner.use, store).begin() as connection:
            connection.execute(text(f"DELETE FROM {table} WHERE tenant_id = :tenant"), {"tenant": corner.tenant})
        assert again(corner, counting, upload("a", "text")) == {"replaced": 1}
        assert corner.shown() == {"a": ["text"]}

    def it_is_made_anew_for_another_model(self, corner, counting):
        corner.ingest(upload("a", "text"))
        other = sharing(counting, embedding_provider="openai", embedding_model="another")
        other.embedder.model = "another"
        use_embedder(other.spaces, other.spaces.base, other.embedder)
        assert again(corner, other, upload("a", "text")) == {"replaced": 1}
        assert len(counting.embedder.texts) == 1

    def it_wins_over_an_earlier_upload_that_is_still_under_way(self, corner):
        corner.ingest(upload("a", "old"))
        other, same = corner.accept(upload("a", "new")), corner.accept(upload("a", "old"))
        corner.work(same)
        corner.work(other)
        assert corner.shown() == {"a": ["old"]}
        assert [corner.job(each).outcomes for each in (other, same)] == [{"superseded": 1}, {"unchanged": 1}]
        corner.assert_clean()
        assert corner.rows("payloads") == corner.rows("generations") == 1

    @pytest.mark.thorough
    def it_does_not_undo_a_deletion(self, corner):
        corner.ingest(upload("a", "old"))
        ticket = corner.accept(upload("a", "old"))
        delete_document(corner.tenant, corner.namespace, A, corner.use)
        corner.work(ticket)
        assert (corner.shown(), corner.job(ticket).outcomes) == ({}, {"superseded": 1})
        assert corner.ingest(upload("a", "old")).outcomes == {"created": 1}
        corner.assert_clean()

    @pytest.mark.thorough
    def it_does_not_keep_its_document_from_being_deleted_with_its_last_chunk(self, corner):
        for _ in range(2):
            corner.ingest(upload("a", "text"))
        with unit_of_work(corner.use.mysql) as work:
            [chunk] = ChunkEdits(work.connection, corner.tenant).page(
                corner.namespace, document_id=A, enabled=None, order_by="document_id", after=None, limit=9
            )
        assert edit_chunks(corner.tenant, [Edit(chunk_id=chunk.chunk_id)], corner.use)[0].replacement_pending is False
        delete_chunks(corner.tenant, [chunk.chunk_id], corner.use)
        assert history(corner) is None
        drop_retired(corner.tenant, corner.use)
        assert corner.rows("payloads") == corner.rows("generations") == 0

    @pytest.mark.thorough
    def it_asks_nothing_more_of_the_databases_for_a_first_upload(self, corner, counting):
        ticket = corner.accept(*(upload(f"d{n}", f"text {n}") for n in range(5)))
        seen: list[str] = []

        def note(*arguments: Any) -> None:
            seen.append(arguments[2])

        for engine in (counting.mysql, counting.postgres):
            event.listen(engine, "before_cursor_execute", note)
        try:
            corner.work(ticket, counting)
        finally:
            for engine in (counting.mysql, counting.postgres):
                event.remove(engine, "before_cursor_execute", note)
        assert not [each for each in seen if "settled_generation AS" in each or "kept_generations" in each]
        assert not [each for each in seen if "halfvec_send" in each]


class DescribeReuse:
    def it_embeds_only_what_an_edit_has_changed(self, corner, counting):
        before = upload("a", paragraphs(200), title="T")
        corner.work(corner.accept(before), counting)
        assert len(counting.embedder.texts) == len(corner.shown()["a"]) > 20
        counting.embedder.texts.clear()
        ticket = corner.accept(upload("a", paragraphs(200, changed=100), title="T"))
        corner.work(ticket, counting)
        assert 1 <= len(counting.embedder.texts) <= 3
        [item] = items(corner, ticket)
        assert (item.outcome, item.reused) == ("replaced", item.chunks - len(counting.embedder.texts))
        assert corner.job(ticket).reused == item.reused
        corner.assert_clean()

    def it_gives_each_chunk_the_vector_of_its_own_text(self, corner, counting):
        corner.ingest(upload("a", paragraphs(60)))
        again(corner, counting, upload("a", "A new first line.\n\n" + paragraphs(60, changed=30)))
        with unit_of_work(corner.use.mysql) as work:
            found = ChunkEdits(work.connection, corner.tenant).page(
                corner.namespace, document_id=A, enabled=None, order_by="document_id", after=None, limit=200
            )
        ids = [chunk.chunk_id for chunk in found]
        for chunk in found:
            vector = corner.use.embedder.embed([chunk.passage.text])[0]
            scores = corner.use.vectors(corner.tenant).scores(vector, ids)
            assert scores[chunk.chunk_id] == pytest.approx(1.0, abs=0.001)

    @pytest.mark.thorough
    def it_embeds_nothing_when_only_fields_have_changed(self, corner, counting):
        corner.ingest(upload("a", paragraphs(50), tags=("old",)))
        assert again(corner, counting, upload("a", paragraphs(50), tags=("new",), author="me")) == {"replaced": 1}
        assert counting.embedder.texts == []
        rows = in_postgres(
            corner.use,
            "SELECT DISTINCT author, tags FROM chunk_embeddings WHERE tenant_id = :tenant AND generation = 2",
            tenant=corner.tenant,
        )
        assert [tuple(row) for row in rows] == [("me", ["new"])]

    def it_does_not_reuse_across_documents_or_tenants(self, corner, counting):
        corner.ingest(upload("a", "the same text"), upload("b", "something else"))
        again(corner, counting, upload("b", "the same text"))
        assert counting.embedder.texts == ["the same text"]

    @pytest.mark.thorough
    def it_parks_the_right_document_when_the_model_refuses_one_of_the_new_texts(self, corner, use):
        corner.ingest(upload("a", paragraphs(20)), upload("b", paragraphs(20)))
        ticket = corner.accept(
            upload("a", paragraphs(20) + "\n\n" + "Fine words. " * 50),
            upload("b", paragraphs(20) + "\n\n" + "A forbidden word. " * 50),
        )
        corner.work(ticket, embedding_with(use, refused="forbidden"))
        assert [error.document_id for error in corner.job(ticket).errors] == ["b"]
        assert corner.job(ticket).outcomes == {"replaced": 1}
