"""Keyword indexes in a process's memory: the same answers as from FULLTEXT, nothing that is not so any more, and bounds."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event, text

from pipeline.channels.keyword import KeywordChannel
from pipeline.channels.port import Recalled
from pipeline.core.dictionary import Dictionary, Rule
from pipeline.core.matching import FieldWeights
from pipeline.flows.chunk_edit import Edit, delete_chunks, edit_chunks
from pipeline.flows.edit import delete_document
from pipeline.flows.erase import delete_namespace
from pipeline.flows.resources import Resources
from pipeline.flows.rollback import roll_back
from pipeline.flows.verify import verify
from pipeline.records import ChunkId, DocumentId, Filters, Namespace, QueryId, TenantId
from pipeline.stores.dictionaries import EVERY_NAMESPACE, Dictionaries
from pipeline.stores.namespaces import Namespaces
from pipeline.stores.work import reading, unit_of_work
from tests.conftest import make_tenant
from tests.integration.test_ingest_flow import Corner, _upload
from tests.integration.test_keyword_channel import query
from tests.support.resident import ANIMALS, Process, animals

QUESTIONS = (
    "red fox",
    "tale f w",
    "hunt night",
    "PPR-9087",
    "高血压 salt",
    "red wolf hunts hares at night",
    "unicorn",
    "the",
)


@pytest.fixture
def use(use_alone: Resources) -> Resources:
    """Stores that the stack's own workers and sweeper do not know."""
    return use_alone


@pytest.fixture
def corner(use: Resources, tenant: TenantId, namespace: Namespace) -> Corner:
    return animals(use, tenant, namespace)


@pytest.fixture
def process(corner: Corner) -> Process:
    found = Process(corner)
    found.warm()
    assert (found.outcomes, found.method()) == (["loaded"], "resident")
    return found


@contextmanager
def statements(use: Resources) -> Iterator[list[str]]:
    """Those that are sent meanwhile."""
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        sent.append(statement)

    event.listen(use.mysql, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(use.mysql, "before_cursor_execute", note)


def same(found: Recalled, expected: Recalled) -> bool:
    """Whether two channels found the same, however they did."""
    return (found.chunk_ids, found.scores, found.upper_bound) == (
        expected.chunk_ids,
        pytest.approx(expected.scores, abs=1e-9),
        pytest.approx(expected.upper_bound),
    )


def chunk_of(corner: Corner, document_id: str) -> ChunkId:
    with unit_of_work(corner.use.mysql) as work:
        statement = "SELECT chunk_id FROM chunks WHERE tenant_id = :tenant AND document_id = :document"
        values = {"tenant": corner.tenant, "document": document_id}
        return ChunkId(work.connection.execute(text(statement), values).scalars().all()[-1])


class DescribeAnswers:
    @pytest.mark.parametrize("fields", [FieldWeights(), FieldWeights(title=3, body=0.5), FieldWeights(body=0)])
    def it_gives_those_that_fulltext_gives(self, process, corner, fields):
        for question in QUESTIONS:
            expected = KeywordChannel(corner.use.mysql).recall(query(corner, question, fields=fields))
            found = process.ask(question, fields=fields)
            assert same(found, expected), question
            assert ((found.guard or {})["method"], (expected.guard or {})["method"]) == ("resident", "fulltext")

    def it_reads_the_dictionary_as_fulltext_does(self, process, corner):
        said = Dictionary(
            synonyms=(("wolf", "red fox"), ("高血压", "hunt")),
            phrases=("red foxes", "at night"),
            rules=(Rule(when="hunt", namespace=corner.namespace, document_id="order", boost=2.5),),
        )
        with unit_of_work(corner.use.mysql) as work:
            Dictionaries(work.connection, corner.tenant).replace(EVERY_NAMESPACE, said)
        reader = Process(corner)
        reader.warm()
        for question in QUESTIONS:
            expected = KeywordChannel(corner.use.mysql).recall(query(corner, question))
            assert same(reader.ask(question), expected), question
        assert reader.method() == "resident"

    def it_reads_nothing_for_a_query_that_says_what_its_namespaces_show(self, process, corner, use):
        asked = replace(query(corner, "red foxes hunt"), stamps={corner.namespace: _stamp(corner)})
        expected = process.channel.recall(replace(asked, query_id=QueryId("other"), stamps={}))
        every = list(expected.chunk_ids)
        with statements(use) as sent:
            assert same(process.channel.recall(asked), expected)
            scored = process.channel.score(asked, every)
            told = process.channel.indexed(asked, every)
        assert sent == []
        assert list(scored.values()) == pytest.approx(expected.scores)
        assert told is not None
        assert set(told) == set(every)

    def it_goes_by_the_moment_at_which_the_query_was_sent(self, process, corner):
        asked = replace(query(corner, "late foxes"), stamps={corner.namespace: _stamp(corner)})
        before = process.channel.recall(replace(asked, query_id=QueryId("before")))
        corner.ingest(_upload("late", "A fox came late."))
        assert same(process.channel.recall(asked), before)
        later = replace(asked, query_id=QueryId("later"), stamps={corner.namespace: _stamp(corner)})
        found = process.channel.recall(later)
        assert (found.guard or {})["method"] == "fulltext"
        assert chunk_of(corner, "late") in found.chunk_ids
        assert process.channel.indexed(later, found.chunk_ids) is None

    def it_scores_what_another_channel_found(self, process, corner):
        asked = query(corner, "red foxes at night")
        every = [chunk_of(corner, name) for name in ANIMALS]
        expected = KeywordChannel(corner.use.mysql).score(asked, every)
        process.channel.recall(asked)
        with statements(corner.use) as sent:
            assert process.channel.score(asked, every) == pytest.approx(expected, abs=1e-9)
        assert sent == []
        stranger = ChunkId(str(uuid.uuid4()))
        assert process.channel.score(asked, [*every, stranger]) == pytest.approx(expected, abs=1e-9)

    def it_needs_one_statement(self, process, corner):
        process.ask("warm up")  # the dictionary
        with statements(corner.use) as sent:
            process.ask("red foxes")
        assert len(sent) == 1

    def it_leaves_filtered_queries_to_fulltext(self, process, corner):
        corner.ingest(_upload("tagged", "Foxes sleep by day.", tags=("animal",)))
        process.warm()
        assert process.method() == "resident"
        assert process.documents("foxes", filters=Filters(tags=("animal",))) == ["tagged"]
        assert process.method(filters=Filters(tags=("animal",))) == "fulltext"

    def it_answers_several_namespaces_once_it_has_them_all(self, process, corner, use):
        beside = Corner(use, corner.tenant, Namespace("beside"))
        beside.ingest(_upload("more", "Foxes and wolves hunt at night, red as they are."))
        both = (corner.namespace, beside.namespace)
        assert process.method(namespaces=both) == "fulltext"
        process.warm(namespaces=both)
        assert process.method(namespaces=both) == "resident"
        for question in QUESTIONS:
            expected = KeywordChannel(use.mysql).recall(query(corner, question, namespaces=both))
            assert same(process.ask(question, namespaces=both), expected), question
        assert process.method(namespaces=(*both, Namespace("nowhere"))) == "fulltext"

    def it_never_mixes_tenants_that_call_their_namespaces_alike(self, process, corner, use):
        other = Corner(use, make_tenant(use)[0], corner.namespace)
        other.ingest(_upload("theirs", "Foxes hunt at night."))
        assert process.method(other) == "fulltext"
        process.warm(other)
        assert process.method(other) == process.method() == "resident"
        assert len(process.ask("foxes", other).chunk_ids) == 1
        assert not set(process.ask("foxes", other).chunk_ids) & set(process.ask("foxes").chunk_ids)


def _replace(corner: Corner) -> None:
    corner.ingest(_upload("foxes", "Bears dance."))


def _edit(corner: Corner) -> None:
    edit_chunks(corner.tenant, [Edit(chunk_id=chunk_of(corner, "foxes"), text="Bears dance.")], corner.use)


def _hide(corner: Corner) -> None:
    edit_chunks(corner.tenant, [Edit(chunk_id=chunk_of(corner, "foxes"), enabled=False)], corner.use)


def _remove(corner: Corner) -> None:
    delete_chunks(corner.tenant, [chunk_of(corner, "foxes")], corner.use)


def _delete(corner: Corner) -> None:
    assert delete_document(corner.tenant, corner.namespace, DocumentId("foxes"), corner.use)


def _begin_anew(corner: Corner) -> None:
    delete_namespace(corner.tenant, corner.namespace, corner.use)
    corner.ingest(_upload("hares", ANIMALS["hares"]))


class DescribeChanges:
    @pytest.mark.parametrize("change", [_replace, _edit, _hide, _remove, _delete, _begin_anew])
    def it_sees_at_once_what_is_not_there_any_more(self, process, corner, change: Callable[[Corner], None]):
        assert sorted(process.documents("foxes")) == ["foxes", "hares"]
        change(corner)
        assert process.documents("foxes") == ["hares"]
        process.warm()
        assert (process.method(), process.documents("foxes")) == ("resident", ["hares"])

    def it_sees_at_once_what_is_new_and_what_is_back(self, process, corner):
        corner.ingest(_upload("late", "A fox came late."))
        assert sorted(process.documents("fox")) == ["foxes", "hares", "late"]
        _hide(corner)
        process.warm()
        edit_chunks(corner.tenant, [Edit(chunk_id=chunk_of(corner, "foxes"), enabled=True)], corner.use)
        assert sorted(process.documents("fox")) == ["foxes", "hares", "late"]
        _replace(corner)
        process.warm()
        assert sorted(process.documents("fox")) == ["hares", "late"]
        key = (corner.tenant, corner.namespace, DocumentId("foxes"), corner.use)
        ticket = roll_back(*key, request_id="r", ring=lambda _: None)
        assert ticket is not None
        corner.work(ticket)
        assert sorted(process.documents("fox")) == ["foxes", "hares", "late"]

    def it_sees_chunks_that_were_lost_and_mended(self, process, corner, use):
        with use.mysql.begin() as connection:
            values = {"tenant": corner.tenant}
            connection.execute(text("DELETE FROM chunks WHERE tenant_id = :tenant AND document_id = 'foxes'"), values)
        verify(corner.tenant, [corner.namespace], use, repair=True)
        process.warm()
        before = _stamp(corner)
        assert sorted(process.documents("foxes")) == ["foxes", "hares"]
        assert verify(corner.tenant, [corner.namespace], use, repair=True).missing == 0
        assert _stamp(corner) == before

    def it_scores_what_became_visible_since_the_query_began(self, process, corner):
        asked = query(corner, "late foxes")
        process.channel.recall(asked)
        corner.ingest(_upload("late", "A fox came late."))
        late = chunk_of(corner, "late")
        assert process.channel.score(asked, [late])[late] > 0


def _stamp(corner: Corner) -> str:
    with reading(corner.use.mysql) as connection:
        return Namespaces(connection, corner.tenant).revisions([corner.namespace])[corner.namespace].stamp
