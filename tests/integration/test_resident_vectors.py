"""Vectors in a process's memory: the same answers as from PostgreSQL, and nothing that is not so any more."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event

from pipeline.channels import copies
from pipeline.channels.copies import Outcome
from pipeline.channels.port import Recalled
from pipeline.channels.resident_vectors import ResidentVectors
from pipeline.channels.semantic import SemanticChannel
from pipeline.core.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.core.query import Query
from pipeline.flows.chunk_edit import Edit, edit_chunks
from pipeline.flows.edit import delete_document
from pipeline.flows.resources import Resources
from pipeline.flows.verify import verify
from pipeline.records import ChunkId, DocumentId, Filters, Namespace, QueryId, TenantId
from pipeline.stores.namespaces import Namespaces
from pipeline.stores.vectors import Vectors
from pipeline.stores.work import reading
from tests.conftest import make_tenant
from tests.integration.test_ingest_flow import Corner, _upload
from tests.integration.test_keyword_channel import query
from tests.support.animals import ANIMALS, animals, chunk_of

QUESTIONS = ("red fox", "a wolf", "hunting at night", "高血压", "PPR-9087")


@pytest.fixture
def use(use_alone: Resources) -> Resources:
    """Stores that the stack's own workers and sweeper do not know."""
    return use_alone


@pytest.fixture
def corner(use: Resources, tenant: TenantId, namespace: Namespace) -> Corner:
    return animals(use, tenant, namespace)


class Process:
    """A process that answers from memory whenever it may, and makes copies at once where others do it aside."""

    def __init__(self, corner: Corner, *, most_bytes: int = 2**20) -> None:
        self.corner, self.outcomes = corner, list[Outcome]()
        use = corner.use
        self.vectors = ResidentVectors(
            use.mysql,
            lambda tenant_id, table: Vectors(use.postgres, tenant_id, distance="cosine", table=table),
            distance="cosine",
            most_bytes=most_bytes,
            tell=self.outcomes.append,
            start=lambda work: work(),
            rests=0.0,
        )
        self.channel = SemanticChannel(use.searched, None, self.vectors)

    def ask(self, question: str, corner: Corner | None = None, **options: Any) -> Recalled:
        return self.channel.recall(stamped(corner or self.corner, question, **options))

    def warm(self, corner: Corner | None = None) -> None:
        for _ in range(copies._ASKED):
            self.ask("foxes", corner)

    def in_memory(self, corner: Corner | None = None, **options: Any) -> bool:
        return bool((self.ask("foxes", corner, **options).guard or {})["in_memory"])


def stamped(corner: Corner, question: str, **options: Any) -> Query:
    """A query that says what its namespaces show, as the gateway's do."""
    asked = query(corner, question, **options)
    with reading(corner.use.mysql) as connection:
        revisions = Namespaces(connection, corner.tenant).revisions(asked.namespaces)
    return replace(asked, stamps={name: each.stamp for name, each in revisions.items()})


@pytest.fixture
def process(corner: Corner) -> Process:
    found = Process(corner)
    found.warm()
    assert (found.outcomes, found.in_memory()) == (["loaded"], True)
    return found


def plainly(corner: Corner, asked: Query) -> Recalled:
    return SemanticChannel(corner.use.searched).recall(replace(asked, query_id=QueryId(str(uuid.uuid4()))))


class DescribeAnswers:
    def it_gives_what_postgresql_gives(self, process, corner):
        for question in QUESTIONS:
            asked = stamped(corner, question)
            found, expected = process.channel.recall(asked), plainly(corner, asked)
            assert found.chunk_ids == expected.chunk_ids
            assert found.scores == pytest.approx(expected.scores, abs=1e-3)
            assert (found.guard["method"], found.guard["rows"]) == ("exact", len(ANIMALS))

    def it_scores_what_another_channel_found_and_asks_for_what_came_later(self, process, corner):
        asked = stamped(corner, "red foxes at night")
        every = [chunk_of(corner, name) for name in ANIMALS]
        corner.ingest(_upload("late", "A fox came late."))
        late = chunk_of(corner, "late")
        expected = SemanticChannel(corner.use.searched).score(asked, [*every, late])
        assert process.channel.score(asked, [*every, late]) == pytest.approx(expected, abs=1e-3)
        assert len(expected) == len(ANIMALS) + 1

    def it_asks_postgresql_nothing(self, process, corner, use):
        asked = stamped(corner, "a wolf")
        sent: list[str] = []

        def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            sent.append(statement)

        event.listen(use.postgres, "before_cursor_execute", note)
        found = process.channel.recall(asked)
        process.channel.score(asked, found.chunk_ids)
        event.remove(use.postgres, "before_cursor_execute", note)
        assert (sent, len(found.chunk_ids)) == ([], len(ANIMALS))

    def it_takes_the_best_of_several_namespaces_and_of_each_as_many_as_it_may(self, process, corner, use):
        beside = Corner(use, corner.tenant, Namespace("beside"))
        beside.ingest(_upload("near", "Foxes hunt at night, and red foxes hunt hares."), _upload("far", "Soup."))
        both = replace(stamped(beside, "red foxes"), namespaces=(corner.namespace, beside.namespace))
        with reading(use.mysql) as connection:
            revisions = Namespaces(connection, corner.tenant).revisions(both.namespaces)
        both = replace(both, stamps={name: each.stamp for name, each in revisions.items()})
        process.warm(beside)
        for options in ({}, {"per_namespace": 1}):
            channels = {"semantic": ChannelPlan(options=options)}
            asked = replace(both, plan=Plan(retrieve=RetrievePlan(channels=channels)))
            found, expected = process.channel.recall(asked), plainly(corner, asked)
            assert found.chunk_ids == expected.chunk_ids
            assert found.guard["in_memory"]

    def it_leaves_filters_to_the_store(self, process, corner):
        assert not process.in_memory(filters=Filters(type="manual"))

    def it_leaves_a_query_that_says_nothing_of_its_namespaces_to_the_store(self, process, corner):
        found = process.channel.recall(query(corner, "foxes"))
        assert not found.guard["in_memory"]


class DescribeChanges:
    def it_answers_as_of_the_moment_the_query_was_sent_and_never_from_before_it(self, process, corner):
        before = stamped(corner, "late fox")
        corner.ingest(_upload("late", "A fox came late."))
        assert process.channel.recall(before).guard["in_memory"]
        found = process.ask("late fox")
        assert not found.guard["in_memory"]
        assert chunk_of(corner, "late") in found.chunk_ids

    @pytest.mark.parametrize("change", ["deleted", "edited", "switched off"])
    def it_is_overtaken_by_every_change(self, process, corner, use, change):
        chunk = chunk_of(corner, "wolves")
        if change == "deleted":
            assert delete_document(corner.tenant, corner.namespace, DocumentId("wolves"), use)
        else:
            edit = (
                Edit(chunk_id=chunk, text="Bears dance.") if change == "edited" else Edit(chunk_id=chunk, enabled=False)
            )
            edit_chunks(corner.tenant, [edit], use)
        assert not process.in_memory()
        process.warm()
        assert process.in_memory()
        (shown,) = process.vectors.of(
            corner.tenant, [corner.namespace], use.searched(None).table, stamped(corner, "x").stamps
        ) or [None]
        assert len(shown.rows) == len(ANIMALS) - (0 if change == "edited" else 1)

    def it_holds_nothing_while_a_shown_chunk_has_no_vector(self, corner, use):
        chunk = chunk_of(corner, "wolves")
        use.vectors(corner.tenant).forget([ChunkId(chunk)])
        process = Process(corner)
        process.warm()
        process.warm()
        assert (process.outcomes, process.in_memory()) == (["incomplete"], False)
        verify(corner.tenant, None, use, repair=True)
        process.warm()
        assert (process.outcomes, process.in_memory()) == (["incomplete", "loaded"], True)

    def it_keeps_nothing_of_what_changed_while_it_was_read(self, corner, use):
        process = Process(corner)
        waiting = ["wolves"]

        def change(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if "halfvec_send" in statement and waiting:
                delete_document(corner.tenant, corner.namespace, DocumentId(waiting.pop()), use)

        event.listen(use.postgres, "before_cursor_execute", change)
        process.warm()
        event.remove(use.postgres, "before_cursor_execute", change)
        assert (process.outcomes, process.in_memory()) == (["changed"], False)


class DescribeBounds:
    def it_holds_no_more_than_it_may(self, process, corner, use):
        taken = process.vectors.byte_count
        small = Process(corner, most_bytes=taken)
        beside = Corner(use, corner.tenant, Namespace("beside"))
        beside.ingest(*(_upload(name, body) for name, body in ANIMALS.items()))
        small.warm()
        small.warm(beside)
        assert (small.in_memory(beside), small.in_memory(), small.vectors.byte_count) == (True, False, taken)

    def it_reads_nothing_that_is_too_large(self, corner):
        off, tiny = Process(corner, most_bytes=0), Process(corner, most_bytes=100)
        for each in (off, tiny):
            each.warm()
            each.warm()
        assert (off.outcomes, tiny.outcomes) == ([], ["too_large"])

    def it_reads_page_by_page(self, corner, use):
        vectors = Vectors(use.postgres, corner.tenant, distance="cosine")
        whole = list(vectors.pages(corner.namespace, at_once=100))
        pages = list(vectors.pages(corner.namespace, at_once=2))
        assert [len(ids) for ids, _ in pages] == [2, 2, 1]
        assert [name for ids, _ in pages for name in ids] == whole[0][0]
        assert np.array_equal(np.concatenate([rows for _, rows in pages]), whole[0][1])

    def it_is_of_one_tenant(self, process, corner, use):
        stranger = Corner(use, make_tenant(use)[0], corner.namespace)
        stranger.ingest(_upload("theirs", "Foxes."))
        asked = replace(stamped(stranger, "foxes"), stamps=stamped(corner, "foxes").stamps)
        found = process.channel.recall(asked)
        assert not found.guard["in_memory"]
        assert found.chunk_ids == (chunk_of(stranger, "theirs"),)
