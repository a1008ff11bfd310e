"""Parents, windows, segments and document vectors on the real stores: right after every edit, and mended when lost."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from pipeline.administration.delete_documents import delete_document
from pipeline.administration.edit_chunks import Edit, delete_chunks, edit_chunks
from pipeline.administration.list_documents import list_chunks
from pipeline.chunking.strategies.registry import complete
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.document_views import OwnedChunk
from pipeline.documents.parent_store import Parents
from pipeline.keyword.fulltext_store import KeywordIndex, Search
from pipeline.maintenance.erase import erase_tenant
from pipeline.maintenance.verify import verify
from pipeline.records import ChunkId, Filters, Upload
from tests.support.corpora.uploads import upload
from tests.support.stacks.corner import Corner

pytestmark = pytest.mark.own_databases

LONG = "\n\n".join(f"Paragraph {n} is about the pump. It has words of its own {n}." for n in range(40))


def cut_by(strategy: str, sent: Upload, **options: Any) -> Upload:
    return replace(sent, chunking=complete(strategy, options, {"max_tokens": 400, "overlap": 0.2}))


def listed(corner: Corner, **asked: Any) -> list[OwnedChunk]:
    return [
        chunk
        for chunk, _ in list_chunks(
            corner.tenant, corner.namespace, corner.use, reads_as=None, **{"limit": 500, **asked}
        )
    ]


def windows(corner: Corner) -> list[str | None]:
    return [window for _, window in list_chunks(corner.tenant, corner.namespace, corner.use, reads_as=None, limit=500)]


def parent_text(corner: Corner, parent_id: ChunkId) -> str:
    with unit_of_work(corner.use.mysql) as work:
        return Parents(work.connection, corner.tenant).texts([parent_id])[parent_id]


def postgres(corner: Corner, statement: str) -> Any:
    with corner.use.postgres.begin() as connection:
        result = connection.execute(text(statement), {"tenant": corner.tenant})
        return result.all() if result.returns_rows else result.rowcount


def mysql(corner: Corner, statement: str) -> int:
    with unit_of_work(corner.use.mysql) as work:
        return work.connection.execute(text(statement), {"tenant": corner.tenant}).rowcount


def assert_document_vectors(corner: Corner) -> None:
    """Each is the mean of its chunks' vectors, of length 1, and there is one for each document that has any."""
    chunks: dict[tuple[str, int], list[np.ndarray]] = {}
    columns, where = "document_id, generation, embedding::text", "WHERE tenant_id = :tenant"
    for row in postgres(corner, f"SELECT {columns} FROM chunk_embeddings {where}"):
        chunks.setdefault((row[0], row[1]), []).append(np.array(json.loads(row[2])))
    there = postgres(corner, f"SELECT {columns}, chunk_count FROM document_embeddings {where}")
    assert {(row[0], row[1]) for row in there} == set(chunks)
    for document_id, generation, embedding, count in there:
        vectors = chunks[document_id, generation]
        mean = np.mean(vectors, axis=0)
        assert np.allclose(np.array(json.loads(embedding)), mean / np.linalg.norm(mean), atol=2e-3)
        assert count == len(vectors)
    assert verify(corner.tenant, None, corner.use, repair=False).document_vectors == 0


@pytest.fixture
def family(corner) -> Corner:
    corner.ingest(cut_by("parent_child", upload("a", LONG, title="Pumps"), max_tokens=32, parent_tokens=128))
    return corner


class DescribeParents:
    def it_follows_its_children(self, family, use):
        parent = listed(family, chunk_type="parent")[0]
        first, second, third = listed(family, parent_id=parent.chunk_id)[:3]
        edit_chunks(family.tenant, [Edit(chunk_id=first.chunk_id, text="A green parrot.")], use)
        edit_chunks(family.tenant, [Edit(chunk_id=second.chunk_id, enabled=False)], use)
        delete_chunks(family.tenant, [third.chunk_id], use)
        read = parent_text(family, parent.chunk_id)
        assert read.startswith("A green parrot.")
        assert not any(each.passage.text in read for each in (first, second, third))
        edit_chunks(family.tenant, [Edit(chunk_id=second.chunk_id, enabled=True)], use)
        assert second.passage.text in parent_text(family, parent.chunk_id)
        family.assert_clean()
        assert_document_vectors(family)

    def it_may_be_reworded_and_is_switched_off_with_its_children(self, family, use):
        parent = listed(family, chunk_type="parent")[0]
        [done] = edit_chunks(family.tenant, [Edit(chunk_id=parent.chunk_id, text="All of it.", etag=parent.etag)], use)
        assert done.status == "updated"
        assert parent_text(family, parent.chunk_id) == "All of it."
        [late] = edit_chunks(family.tenant, [Edit(chunk_id=parent.chunk_id, text="Late.", etag=parent.etag)], use)
        assert late.code == "precondition_failed"
        edit_chunks(family.tenant, [Edit(chunk_id=parent.chunk_id, enabled=False)], use)
        off = listed(family, enabled=False)
        assert {chunk.chunk_id for chunk in off} == {
            parent.chunk_id,
            *(chunk.chunk_id for chunk in listed(family, parent_id=parent.chunk_id)),
        }
        family._assert_aligned()
        assert_document_vectors(family)

    @pytest.mark.thorough
    def it_comes_back_when_its_row_is_lost_and_goes_when_nobody_needs_it(self, family, use):
        before = listed(family)
        mysql(family, "DELETE FROM parent_chunks WHERE tenant_id = :tenant ORDER BY ordinal LIMIT 2")
        assert verify(family.tenant, None, use, repair=False).miscounted == 1
        assert verify(family.tenant, None, use, repair=True).repaired == 2
        assert [chunk.chunk_id for chunk in listed(family)] == [chunk.chunk_id for chunk in before]
        rows = mysql(
            family,
            "INSERT INTO parent_chunks (tenant_id, namespace, document_id, generation, ordinal, chunk_id, text,"
            " heading_path, start_offset, end_offset, token_count, created_at) SELECT tenant_id, namespace, document_id,"
            " 77, ordinal, UUID(), text, heading_path, 0, 1, 1, created_at FROM parent_chunks WHERE tenant_id = :tenant",
        )
        assert verify(family.tenant, None, use, repair=True).leftover == rows
        family.assert_clean()
        assert family.rows("parent_chunks") == len([chunk for chunk in before if not chunk.searched])

    def it_goes_with_its_generation_its_document_and_its_tenant(self, family, use):
        family.ingest(upload("a", "short"))
        family.assert_clean()
        assert family.rows("parent_chunks") == 0
        assert_document_vectors(family)
        family.ingest(cut_by("parent_child", upload("b", LONG)))
        delete_document(family.tenant, family.namespace, "b", use)
        family.assert_clean()
        assert family.rows("parent_chunks") == 0
        assert_document_vectors(family)
        family.ingest(cut_by("parent_child", upload("c", LONG)))
        report = erase_tenant(family.tenant, use)
        assert report is not None
        assert report.remaining == {}
        assert report.erased["mysql.parent_chunks"] > 0
        assert report.erased["postgres.document_embeddings"] == 2


class DescribeWindows:
    def it_reads_what_is_around_as_it_is_now(self, corner, use):
        corner.ingest(cut_by("window", upload("a", "One here. Two here. Three here.\n\nFour here."), window=1))
        assert windows(corner) == [
            "One here. Two here.",
            "One here. Two here. Three here.",
            "Two here. Three here.\n\nFour here.",
            "Three here.\n\nFour here.",
        ]
        one, two, three, _ = listed(corner)
        edit_chunks(corner.tenant, [Edit(chunk_id=one.chunk_id, text="New here.")], use)
        edit_chunks(corner.tenant, [Edit(chunk_id=three.chunk_id, enabled=False)], use)
        assert windows(corner)[1] == "New here. Two here."
        delete_chunks(corner.tenant, [two.chunk_id], use)
        assert windows(corner)[0] == "New here."
        corner._assert_aligned()
        assert_document_vectors(corner)


STORY = """# One

story_time: 10

The red fox hunts.

# Two

story_time: 20

The red fox sleeps.

# Three

The red fox waits.
"""


class DescribeSegments:
    def recalled(self, corner: Corner, story_time: int | None) -> list[set[str]]:
        """The texts that each channel finds."""
        filters = Filters(story_time=story_time)
        vector = corner.use.embedder.embed(["red fox"])[0]
        near = corner.use.vectors(corner.tenant).nearest(
            vector, namespaces=[corner.namespace], filters=filters, limit=10
        )
        by_id = {chunk.chunk_id: chunk for chunk in listed(corner)}
        token = by_id[near[0][0]].terms
        with unit_of_work(corner.use.mysql) as work:
            index = KeywordIndex(work.connection, corner.tenant)
            rows = index.matches(
                [corner.namespace], Search(groups=(tuple(sorted(set(token))),)), filters=filters, limit=10
            )
        return [
            {by_id[each].passage.text for each in found} for found in ([i for i, _ in near], [r.chunk_id for r in rows])
        ]

    def story(self, corner: Corner, **fields: Any) -> None:
        corner.ingest(cut_by("segments", upload("s", STORY, media_type="text/markdown", **fields)))

    @pytest.mark.thorough
    def it_takes_the_documents_where_a_segment_has_none(self, corner):
        self.story(corner, story_time=30)
        for found in self.recalled(corner, 25):
            assert not any("waits" in each for each in found)
            assert any("sleeps" in each for each in found)

    @pytest.mark.thorough
    def it_keeps_the_structure_of_an_edited_segment(self, corner, use):
        self.story(corner)
        first = listed(corner)[0]
        edit_chunks(corner.tenant, [Edit(chunk_id=first.chunk_id, text="The red fox runs.")], use)
        after = listed(corner)[0]
        assert after.passage.segment == first.passage.segment
        assert after.passage.segment.story_time == 10
        for found in self.recalled(corner, 5):
            assert "The red fox runs." not in found
        assert verify(corner.tenant, None, use, repair=True).repaired == 0
        corner.assert_clean()


class DescribePairs:
    def it_indexes_an_edited_pair_by_its_new_question_and_answer(self, corner, use):
        corner.ingest(cut_by("qa", upload("q", "Q: What is it?\nA: A pump.\n\nQ: Why?\nA: To move water.")))
        first = listed(corner)[0]
        edit_chunks(corner.tenant, [Edit(chunk_id=first.chunk_id, text="Q: What is it?\nA: A green parrot.")], use)
        vector = use.embedder.embed(["What is it? A green parrot."])[0]
        found = use.vectors(corner.tenant).nearest(vector, namespaces=[corner.namespace], filters=Filters(), limit=1)
        assert found[0][0] == first.chunk_id
        assert found[0][1] == pytest.approx(1, abs=0.01)
        corner.assert_clean()


class DescribeDocumentVectors:
    DAMAGE = (
        "DELETE FROM document_embeddings WHERE tenant_id = :tenant AND document_id = 'a'",
        "UPDATE document_embeddings SET content_hash = '\\x00' WHERE tenant_id = :tenant",
        "UPDATE document_embeddings SET model = 'other' WHERE tenant_id = :tenant",
        "UPDATE document_embeddings SET generation = 9 WHERE tenant_id = :tenant AND document_id = 'b'",
    )

    def it_writes_them_with_the_documents(self, corner):
        corner.ingest(upload("a", LONG), upload("b", "short"))
        assert_document_vectors(corner)
        corner.ingest(upload("a", "new"))
        corner.assert_clean()
        assert_document_vectors(corner)

    @pytest.mark.thorough
    @pytest.mark.parametrize("statement", DAMAGE)
    def it_mends_them(self, corner, use, statement):
        corner.ingest(upload("a", LONG), upload("b", "short"))
        postgres(corner, statement)
        found = verify(corner.tenant, None, use, repair=True)
        assert 1 <= found.document_vectors == found.repaired
        assert_document_vectors(corner)

    @pytest.mark.thorough
    def it_makes_them_again_after_chunks_were_mended(self, corner, use):
        corner.ingest(upload("a", LONG))
        postgres(
            corner,
            "UPDATE chunk_embeddings SET content_hash = '\\x00', embedding = embedding + embedding"
            " WHERE tenant_id = :tenant",
        )
        verify(corner.tenant, None, use, repair=True)
        assert_document_vectors(corner)
