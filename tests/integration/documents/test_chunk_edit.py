"""Edit, disable and delete single chunks: both stores and the statistics stay right under concurrent work."""

from __future__ import annotations

import pytest
from sqlalchemy import event

from pipeline.administration.edit_chunks import Edit, delete_chunks, edit_chunks
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.chunk_edit_store import ChunkEdits
from pipeline.documents.document_views import OwnedChunk
from pipeline.maintenance.verify import verify
from pipeline.records import ChunkId, Filters
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import breaking, embedding_with
from tests.support.stacks.corner import Corner

pytestmark = pytest.mark.own_databases


def chunks(corner: Corner, **options) -> list[OwnedChunk]:
    asked = {"document_id": None, "enabled": None, "order_by": "document_id", "after": None, "limit": 100, **options}
    with unit_of_work(corner.use.mysql) as work:
        return ChunkEdits(work.connection, corner.tenant).page(corner.namespace, **asked)


def nearest(corner: Corner, query: str) -> list[ChunkId]:
    vector = corner.use.embedder.embed([query])[0]
    found = corner.use.vectors(corner.tenant).nearest(
        vector, namespaces=[corner.namespace], filters=Filters(), limit=10
    )
    return [chunk_id for chunk_id, _ in found]


class DescribeEditing:
    def it_says_when_a_newer_upload_will_replace_the_edit(self, corner, use):
        corner.ingest(upload("a", "first"))
        ticket = corner.accept(upload("a", "second"))
        [chunk] = chunks(corner)
        [done] = edit_chunks(corner.tenant, [Edit(chunk_id=chunk.chunk_id, text="edited")], use)
        assert (done.status, done.replacement_pending) == ("updated", True)
        corner.work(ticket)
        assert corner.shown() == {"a": ["second"]}
        corner.assert_clean()

    def it_is_refused_when_the_document_is_replaced_while_the_model_thinks(self, corner, use):
        corner.ingest(upload("a", "first"))
        [chunk] = chunks(corner)
        slow = embedding_with(use)
        real = slow.embedder.embed

        def embed(texts, **options):
            vectors = real(texts, **options)
            corner.ingest(upload("a", "second"))
            return vectors

        slow.embedder.embed = embed
        [done] = edit_chunks(corner.tenant, [Edit(chunk_id=chunk.chunk_id, text="edited")], slow)
        assert done.code == "document_replaced"
        assert corner.shown() == {"a": ["second"]}
        corner.assert_clean()

    def it_refuses_what_the_model_refuses_and_takes_the_rest(self, corner, use):
        corner.ingest(upload("a", "one"), upload("b", "two"))
        edits = [
            Edit(chunk_id=chunk.chunk_id, text=text)
            for chunk, text in zip(chunks(corner), ["forbidden", "fine"], strict=True)
        ]
        done = edit_chunks(corner.tenant, edits, embedding_with(use, refused="forbidden"))
        assert [each.status for each in done] == ["failed", "updated"]
        assert corner.shown() == {"a": ["one"], "b": ["fine"]}
        corner.assert_clean()

    def it_changes_nothing_when_the_vector_store_is_away(self, corner, use):
        from pipeline.errors import StoreUnavailable

        corner.ingest(upload("a", "one"))
        [chunk] = chunks(corner)
        with pytest.raises(StoreUnavailable):
            edit_chunks(corner.tenant, [Edit(chunk_id=chunk.chunk_id, text="two")], breaking(use, "upsert"))
        assert corner.shown() == {"a": ["one"]}
        corner.assert_clean()


class DescribeSwitchingOff:
    def it_takes_text_while_it_is_off(self, corner, use):
        corner.ingest(upload("a", "the red fox"))
        [fox] = chunks(corner)
        edit_chunks(corner.tenant, [Edit(chunk_id=fox.chunk_id, enabled=False, text="a green parrot")], use)
        assert verify(corner.tenant, None, use, repair=True).repaired == 0
        edit_chunks(corner.tenant, [Edit(chunk_id=fox.chunk_id, enabled=True)], use)
        assert nearest(corner, "parrot") == [fox.chunk_id]
        corner.assert_clean()


class DescribeDeleting:
    def it_is_refused_for_a_chunk_that_went_while_it_was_looked_up(self, corner, use):
        corner.ingest(upload("a", "first"))
        [chunk] = chunks(corner)
        replaced: list[str] = []

        def replace_once(_: object) -> None:
            if not replaced:
                replaced.append("a")
                corner.ingest(upload("a", "second"))

        event.listen(use.mysql, "commit", replace_once)
        try:
            [done] = delete_chunks(corner.tenant, [chunk.chunk_id], use)
        finally:
            event.remove(use.mysql, "commit", replace_once)
        assert done.code == "document_replaced"
        assert corner.shown() == {"a": ["second"]}
        corner.assert_clean()

    def it_keeps_a_newer_upload_that_was_not_named(self, corner, use):
        corner.ingest(upload("a", "first"))
        ticket = corner.accept(upload("a", "second"))
        delete_chunks(corner.tenant, [chunks(corner)[0].chunk_id], use)
        assert corner.shown() == {}
        corner.work(ticket)
        assert corner.shown() == {"a": ["second"]}
        corner.assert_clean()
