"""Filters that few chunks of a large tenant pass: their vectors are read by id, and the answers are those of every row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipeline.administration.delete_documents import delete_document
from pipeline.channels.local_indexes import HostIndex, LocalIndexes
from pipeline.channels.semantic_channel import SemanticChannel
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.chunk_edit_store import ChunkEdits
from pipeline.maintenance.build_indexes import keep_indexes
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.query.request import Query
from pipeline.records import Comparison, DocumentId, Filters, Namespace
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.integration.keyword.test_keyword_channel import query
from tests.support.corpora.uploads import upload
from tests.support.stacks.corner import Corner
from tests.support.stacks.keyword_index import Host

_LARGE, _RARE = 400, 40  # documents of one chunk; every so many are of the rare kind
_ENGLISH, _CHINESE = "red foxes hunt at night", "狐狸夜里捕猎"
_RARE_FILTERS = (
    Filters(tags=("rare",)),
    Filters(author="Æsop"),
    Filters(metadata={"kind": {"name": "稀有"}}),
    Filters(where=Comparison(key="shelf", operator="eq", value=7)),
    Filters(where=Comparison(key="shelf", operator="gt", value=6.5)),
    Filters(where=Comparison(key="shelf", operator="lte", value=7)),
    Filters(where=Comparison(key="bought", operator="gte", value="2026-01")),
    Filters(where=Comparison(key="书架", operator="lt", value="甲乙")),
    Filters(start=datetime(2026, 1, 1, tzinfo=UTC)),
)


def _document(number: int, *, rare: bool):
    body = (
        f"狐狸在夜里捕猎第{number}只野兔。"
        if number % 2
        else f"Red fox {number} hunts hares at night, sleeping by day."
    )
    fields = {"tags": ("animal",)}
    if rare:
        fields = {
            "tags": ("animal", "rare"),
            "author": "Æsop",
            "published_at": datetime(2026, 2, 1, tzinfo=UTC),
            "metadata": {
                "kind": {"name": "稀有"},
                "shelf": 7,
                "bought": "2026-01-31",
                "书架": "甲",
                "racks": [{"x": 3}],
            },
        }
    return upload(f"d{number}", body, **fields)


class Shelf:
    """A tenant with vector indexes, its keyword index on this host, and a semantic channel that reads both."""

    def __init__(self, use: Resources, root: Path) -> None:
        self.corner = Corner(use, make_tenant(use)[0], Namespace("shelf"))
        self.corner.ingest(*(_document(number, rare=number % _RARE in (0, 1)) for number in range(_LARGE)))
        for _ in range(3):  # the first look notes the rows, the next one builds
            keep_indexes(use, questions=lambda *_, **__: None)
        self.host = Host(self.corner, root)
        self.host.catch_up()
        indexes = LocalIndexes(root, wait_s=0.0)
        self.channel = SemanticChannel(use.searched, host=HostIndex(use.mysql, indexes))
        self.every_row = SemanticChannel(use.searched)

    def query(self, question: str, filters: Filters) -> Query:
        plan = Plan(retrieve=RetrievePlan(channels={"semantic": ChannelPlan()}))
        return query(self.corner, question, filters=filters, plan=plan)

    def documents(self, channel: SemanticChannel, question: str, filters: Filters) -> list[str]:
        """The shown documents that a channel finds, nearest first."""
        found = channel.recall(self.query(question, filters)).chunk_ids
        with unit_of_work(self.corner.use.mysql) as work:
            known = ChunkEdits(work.connection, self.corner.tenant).named(list(found))
        shown = self.corner.shown()
        documents = [known[chunk_id].generation.document_id for chunk_id in found if chunk_id in known]
        return [document_id for document_id in dict.fromkeys(documents) if document_id in shown]


@pytest.fixture(scope="module")
def shelf(use_alone: Resources, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    use = Resources(use_alone.settings, exact_chunks=100)
    made = Shelf(use, tmp_path_factory.mktemp("keyword-index"))
    yield made
    made.host.indexer.close()
    use.close()


class DescribeFewThatPass:
    @pytest.mark.parametrize("question", [_ENGLISH, _CHINESE])
    @pytest.mark.parametrize("filters", _RARE_FILTERS, ids=str)
    def it_finds_what_every_row_gives(self, shelf, question, filters):
        found = shelf.channel.recall(shelf.query(question, filters))
        expected = shelf.every_row.recall(shelf.query(question, filters))
        assert found.chunk_ids == expected.chunk_ids
        assert found.scores == pytest.approx(expected.scores)
        assert len(found.chunk_ids) == 2 * _LARGE // _RARE

    def it_compares_only_the_chunks_that_pass(self, shelf):
        found = shelf.channel.recall(shelf.query(_ENGLISH, Filters(tags=("rare",))))
        assert (found.guard["method"], found.guard["scanned"]) == ("exact", 2 * _LARGE // _RARE)

    def it_finds_nothing_where_nothing_passes(self, shelf):
        found = shelf.channel.recall(shelf.query(_CHINESE, Filters(author="nobody")))
        assert (found.chunk_ids, found.guard["scanned"]) == ((), 0)

    def it_reads_nothing_by_id_where_most_pass(self, shelf):
        found = shelf.channel.recall(shelf.query(_ENGLISH, Filters(tags=("animal",))))
        assert found.guard["scanned"] is None

    def it_reads_every_row_for_filters_without_terms(self, shelf):
        filters = Filters(metadata={"racks": [{"x": 3}]})
        found = shelf.channel.recall(shelf.query(_ENGLISH, filters))
        assert (found.guard["method"], found.guard["scanned"]) == ("exact", None)
        assert len(found.chunk_ids) == 2 * _LARGE // _RARE

    def it_reads_every_row_without_an_index_on_this_host(self, shelf, tmp_path):
        missing = replace(shelf.channel, host=HostIndex(shelf.corner.use.mysql, LocalIndexes(tmp_path, wait_s=0.0)))
        found = missing.recall(shelf.query(_CHINESE, Filters(author="Æsop")))
        assert (found.guard["scanned"], len(found.chunk_ids)) == (None, 2 * _LARGE // _RARE)


class DescribeChangesBeforeTheIndexer:
    def it_finds_what_came_and_what_was_replaced_and_not_what_was_deleted(self, shelf):
        filters = Filters(author="Æsop")
        shelf.corner.ingest(_document(1000, rare=True), _document(1001, rare=True), _document(0, rare=False))
        delete_document(shelf.corner.tenant, shelf.corner.namespace, DocumentId("d1"), shelf.corner.use)
        found = {each: shelf.documents(shelf.channel, each, filters) for each in (_ENGLISH, _CHINESE)}
        for question, documents in found.items():
            assert {"d1000", "d1001"} <= set(documents)
            assert not {"d0", "d1"} & set(documents)
            assert documents == shelf.documents(shelf.every_row, question, filters)
        shelf.host.catch_up()
        assert {each: shelf.documents(shelf.channel, each, filters) for each in found} == found
