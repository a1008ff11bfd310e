"""Answers that are given again: never one that what is stored would not give now, never to somebody else."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest

from pipeline.administration.delete_documents import delete_document
from pipeline.administration.edit_chunks import Edit, delete_chunks, edit_chunks
from pipeline.errors import StoreUnavailable
from pipeline.maintenance.erase import delete_namespace
from pipeline.query.compression import compressed
from pipeline.query.plan import ContextOptions, Plan
from pipeline.query.request import Query
from pipeline.records import ChunkId, DocumentId, Namespace, QueryId
from pipeline.resources import Resources
from pipeline.retrieval import answer_query
from pipeline.retrieval.reuse_answer import AnswerCache
from pipeline.tenants.audit_store import AuditQueue, unpacked
from tests.conftest import make_tenant
from tests.support.corpora.uploads import upload
from tests.support.stacks.asking import BOTH, Asker
from tests.support.stacks.corner import Corner

pytestmark = pytest.mark.own_databases

QUESTION = "green tea"


@pytest.fixture(scope="module")
def reader(use) -> Iterator[Resources]:
    found = replace(use, reading=True)
    yield found
    found.close()


class Gateway:
    """The gateway's part: read the answer cache, and query if it has nothing."""

    def __init__(self, corner: Corner, reader: Resources) -> None:
        self.corner, self.kept, self.asker = corner, AnswerCache(reader), Asker(corner)

    def ask(self, query: Query | None = None, **settings: Any) -> dict[str, Any]:
        """The answer as JSON, with whether it was kept in its stats."""
        keyed = self.kept.keyed(query or self.asker.query(QUESTION, **settings))
        raw = self.kept.answer(keyed)
        return self.asker.ask(keyed) if raw is None else orjson.loads(raw)

    def settle(self) -> None:
        """Let the last change be long ago."""
        self.corner.execute("UPDATE namespaces SET revised_at = '2000-01-01' WHERE tenant_id = :tenant")

    def keep(self) -> dict[str, Any]:
        """Have an answer kept, and make sure that it is."""
        self.settle()
        first, again = self.ask(), self.ask()
        assert (first["stats"]["cached"], again["stats"]["cached"]) == (False, True)
        return first


@pytest.fixture
def gateway(corner, reader) -> Gateway:
    corner.ingest(upload("d1", "green tea is mild"), upload("d2", "green tea is cheap"), upload("d3", "soup"))
    return Gateway(corner, reader)


def texts(answer: dict[str, Any]) -> set[str]:
    return {chunk["text"] for chunk in answer["chunks"]}


def chunk_of(corner: Corner, document_id: str) -> ChunkId:
    return ChunkId(
        corner.execute(
            "SELECT chunk_id FROM chunks WHERE tenant_id = :tenant AND document_id = :document", document=document_id
        )[0][0]
    )


def replaced(corner: Corner) -> None:
    corner.ingest(upload("d1", "green tea is bitter"))


def retitled(corner: Corner) -> None:
    corner.ingest(upload("d1", "green tea is mild", title="Another title"))


def added(corner: Corner) -> None:
    corner.ingest(upload("d4", "green tea is green"))


def deleted(corner: Corner) -> None:
    delete_document(corner.tenant, corner.namespace, DocumentId("d1"), corner.use)


def edited(corner: Corner) -> None:
    edit_chunks(corner.tenant, [Edit(chunk_id=chunk_of(corner, "d1"), text="green tea was mild")], corner.use)


def switched_off(corner: Corner) -> None:
    edit_chunks(corner.tenant, [Edit(chunk_id=chunk_of(corner, "d1"), enabled=False)], corner.use)


def chunk_deleted(corner: Corner) -> None:
    delete_chunks(corner.tenant, [chunk_of(corner, "d1")], corner.use)


def namespace_made_anew(corner: Corner) -> None:
    delete_namespace(corner.tenant, corner.namespace, corner.use)
    corner.ingest(upload("d1", "green tea of another house"))


CHANGES = [
    replaced,
    deleted,
    edited,
    *(
        pytest.param(change, marks=pytest.mark.thorough)
        for change in (retitled, added, switched_off, chunk_deleted, namespace_made_anew)
    ),
]


class DescribeAKeptAnswer:
    def it_is_the_same_but_for_its_id_its_time_and_that_it_says_so(self, gateway):
        first = gateway.keep()
        again = gateway.ask()
        assert again.pop("query_id") != first.pop("query_id")
        stats, before = again.pop("stats"), first.pop("stats")
        assert again == first
        assert (stats.pop("cached"), before.pop("cached")) == (True, False)
        assert list(stats.pop("latency_ms")) == ["total"]
        before.pop("latency_ms")
        assert stats == before

    def it_is_a_query_like_any_other(self, gateway, corner, use):
        gateway.keep()
        query = gateway.asker.query(QUESTION)
        answer = gateway.ask(query)
        state = use.queries(corner.tenant).state(query.query_id)
        assert state is not None
        assert (state.status, orjson.loads(state.answer)) == ("succeeded", answer)
        noted = [unpacked(row) for row in AuditQueue(use.redis).oldest(corner.tenant, limit=99)]
        [mine] = [row for row in noted if row.audit_id == query.query_id]
        assert (mine.detail["cached"], mine.request_id, mine.count) == (True, query.request_id, len(answer["chunks"]))

    @pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
    def it_is_never_given_again_after_a_change(self, gateway, corner, change: Callable[[Corner], None]):
        before = gateway.keep()
        change(corner)
        now = gateway.ask()
        assert not now["stats"]["cached"]
        assert now["chunks"] != before["chunks"]
        # A query that is asked right after a change may still see the document as it was: nothing is kept of that.
        gateway.settle()
        fresh = gateway.ask()
        assert not fresh["stats"]["cached"]
        assert texts(fresh) == texts(gateway.asker.ask_for(QUESTION))
        assert gateway.ask()["stats"]["cached"]

    def it_is_not_kept_within_seconds_of_a_change(self, gateway, corner):
        gateway.keep()
        added(corner)
        assert [gateway.ask()["stats"]["cached"] for _ in range(2)] == [False, False]

    def it_goes_to_nobody_else(self, gateway, reader, use):
        gateway.keep()
        other = Corner(use, make_tenant(use)[0], gateway.corner.namespace)
        other.ingest(upload("d1", "green tea of somebody else"))
        theirs = Gateway(other, reader)
        theirs.settle()
        answer = theirs.ask()
        assert not answer["stats"]["cached"]
        assert texts(answer) == {"green tea of somebody else"}

    @pytest.mark.parametrize("part", ["context", "highlights"])
    def it_is_kept_with_and_without_a_part_that_an_answer_has_on_request(self, gateway, part):
        without = gateway.keep()
        on_request = {"context": {"context": ContextOptions()}, "highlights": {"highlight": True}}[part]
        asked = Plan(top_k=5, retrieve=BOTH, **on_request)
        answers = [gateway.ask(plan=asked), gateway.ask(plan=asked), gateway.ask()]
        assert [each["stats"]["cached"] for each in answers] == [False, True, True]
        places = [answer if part == "context" else answer["chunks"][0] for answer in (without, *answers)]
        assert [part in each for each in places] == [False, True, True, False]

    @pytest.mark.thorough
    def it_is_not_given_to_who_asks_in_more_namespaces(self, gateway, corner, use):
        gateway.keep()
        other = Namespace(f"ns-{uuid.uuid4().hex[:8]}")
        Corner(use, corner.tenant, other).ingest(upload("x", "green tea elsewhere"))
        gateway.settle()
        both = {"namespaces": (corner.namespace, other)}
        assert not gateway.ask(**both)["stats"]["cached"]
        assert gateway.ask(**both)["stats"]["cached"]
        Corner(use, corner.tenant, other).ingest(upload("x", "green tea changed"))
        assert not gateway.ask(**both)["stats"]["cached"]
        gateway.settle()
        assert gateway.ask()["stats"]["cached"]  # the first namespace did not change

    @pytest.mark.thorough
    def it_is_forgotten_with_the_query_that_it_was_made_for(self, gateway, corner, use):
        first = gateway.keep()
        assert use.queries(corner.tenant).cancel(QueryId(first["query_id"]))
        assert not gateway.ask()["stats"]["cached"]

    @pytest.mark.thorough
    def it_is_not_given_to_who_wants_a_trace(self, gateway):
        gateway.keep()
        assert not gateway.ask(trace=True)["stats"]["cached"]

    @pytest.mark.thorough
    def it_is_never_replaced_by_that_of_a_copy_which_may_not_be_kept(self, gateway):
        gateway.settle()
        query = gateway.kept.keyed(gateway.asker.query(QUESTION))
        assert query.cache_key
        assert gateway.kept.keyed(replace(query, trace=True)).cache_key == ""

    @pytest.mark.parametrize("how", [{"keep": False}, {"trace": True}], ids=["no-store", "trace"])
    def it_has_no_key_but_the_query_says_what_is_shown_where_it_is_not_to_be_kept(self, gateway, corner, how):
        gateway.settle()
        query = replace(gateway.asker.query(QUESTION), trace=how.get("trace", False))
        keyed = gateway.kept.keyed(query, keep=how.get("keep", True))
        assert (keyed.cache_key, list(keyed.stamps)) == ("", [corner.namespace])
        assert gateway.kept.keyed(gateway.asker.query(QUESTION)).stamps == keyed.stamps

    def it_is_not_kept_if_something_was_lost(self, gateway, corner, use):
        gateway.settle()
        query = gateway.kept.keyed(gateway.asker.query(QUESTION))
        assert query.cache_key
        use.queries(corner.tenant).open(query)
        answer_query.answer(corner.tenant, query.query_id, use, {})  # no channel came back
        assert use.queries(corner.tenant).cached_answer(query.cache_key) is None

    @pytest.mark.thorough
    def it_is_not_kept_if_the_installation_says_so(self, corner, gateway):
        other = replace(corner.use, settings=corner.use.settings.model_copy(update={"result_cache_ttl_s": 0}))
        unkept = Gateway(Corner(other, corner.tenant, corner.namespace), replace(other, reading=True))
        unkept.settle()
        assert [unkept.ask()["stats"]["cached"] for _ in range(2)] == [False, False]
        unkept.kept.use.close()
        other.close()

    def it_is_asked_for_no_more_while_mysql_is_away(self, gateway, reader):
        gateway.keep()
        now = [0.0]
        tries: list[int] = []

        class Gone:
            def __init__(self) -> None:
                self.pool = self

            def connect(self) -> Any:
                tries.append(1)
                raise StoreUnavailable("MySQL: gone")

        away = replace(reader, settings=reader.settings)
        away.__dict__.update(mysql=Gone(), redis=reader.redis)
        kept = AnswerCache(away, clock=lambda: now[0])
        for _ in range(3):
            assert kept.keyed(gateway.asker.query(QUESTION)).cache_key == ""
        assert len(tries) == 1
        now[0] = 60.0
        kept.keyed(gateway.asker.query(QUESTION))
        assert len(tries) == 2

    @pytest.mark.thorough
    def it_is_not_asked_for_where_somebody_else_waited_for_mysql_in_vain(self, gateway, reader):
        is_away = [True]
        kept = AnswerCache(reader, away=lambda: is_away[0])
        gateway.settle()
        query = gateway.asker.query(QUESTION)
        assert (kept.keyed(query).cache_key, dict(kept.keyed(query).stamps)) == ("", {})
        is_away[0] = False
        assert kept.keyed(query).cache_key

    @pytest.mark.thorough
    def it_is_asked_anew_if_another_version_has_kept_it(self, gateway, corner, use):
        first = gateway.keep()
        strange = b'{"query_id": "x", "chunks": "in another shape"}'
        use.redis.hset(f"{corner.tenant}:query:{first['query_id']}", "answer", compressed(strange))
        again = gateway.ask()
        assert not again["stats"]["cached"]
        [key] = list(use.redis.scan_iter(match=f"{corner.tenant}:answer:*"))
        use.redis.set(key, strange, ex=60)
        assert not gateway.ask()["stats"]["cached"]
