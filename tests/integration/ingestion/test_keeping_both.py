"""Ids for uploads whose own are taken, on the real stores."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from pipeline.ingestion.run import ingest_next
from pipeline.records import JobId, Upload
from tests.support.corpora.uploads import upload

pytestmark = pytest.mark.own_databases


def _page(document_id: str, uri: str) -> Upload:
    return upload(document_id, source_uri=uri, to_fetch=True)


class DescribeAcceptingAgain:
    def it_gives_the_same_answer_to_the_same_request(self, corner):
        corner.ingest(upload("d", "狐狸"))
        sent, given = [upload("d", "獾"), upload("e", "鸟")], {"on_conflict": "new", "job_id": JobId(str(uuid.uuid4()))}
        first, again = (corner.accept(*sent, **given) for _ in range(2))
        assert first.renamed == again.renamed
        assert [(each.ordinal, each.requested_id) for each in first.renamed] == [(0, "d")]

    def it_compares_with_the_upload_that_is_on_its_way(self, corner):
        corner.ingest(upload("d", "first"))
        coming = corner.accept(upload("d", "second"))
        old = corner.accept(upload("d", "first"), on_conflict="new")
        new = corner.accept(upload("d", "second"), on_conflict="new")
        assert (len(old.renamed), old.due) == (1, 1)
        assert (len(new.renamed), new.due) == (0, 0)
        for ticket in (coming, old):
            corner.work(ticket)
        assert sorted(text for [text] in corner.shown().values()) == ["first", "second"]

    def it_knows_a_document_to_be_fetched_by_its_address(self, corner):
        corner.accept(_page("d", "https://a.example/1"))
        same = corner.accept(_page("d", "https://a.example/1"), on_conflict="new")
        other = corner.accept(_page("d", "https://a.example/2"), on_conflict="new")
        again = corner.accept(_page("d", "https://a.example/2"), on_conflict="new")
        assert [ticket.due for ticket in (same, other, again)] == [0, 1, 0]
        assert other.renamed == again.renamed


class DescribeBatchesAtOnce:
    def it_keeps_every_text_of_batches_that_share_their_ids_in_opposite_orders(self, corner):
        names, batches = [f"d{number}" for number in range(20)], 6
        together = Barrier(batches)

        def one(number: int) -> int:
            ordered = names if number % 2 else names[::-1]
            together.wait()
            return corner.accept(*(upload(name, f"{name} of {number}") for name in ordered), on_conflict="new").due

        with ThreadPoolExecutor(batches) as pool:
            assert list(pool.map(one, range(batches))) == [len(names)] * batches
        while ingest_next(corner.use, notify=lambda *_: None):
            pass
        texts = [text for found in corner.shown().values() for text in found]
        assert sorted(texts) == sorted(f"{name} of {number}" for name in names for number in range(batches))
