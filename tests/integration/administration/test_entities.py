"""Entities on the real MySQL: the state that holds at a story time, for their own tenant and namespace only."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from chordwise.contract.entity import EntityShape
from pipeline.administration.edit_entities import delete_entities, list_states, put_states
from pipeline.database.unit_of_work import reading
from pipeline.maintenance.erase import delete_namespace
from pipeline.query.plan import ContextOptions, Plan
from pipeline.query.request import Query
from pipeline.ranking.hits import Hydrated
from pipeline.records import Filters, Namespace, QueryId, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.build_context import build_context, states_named
from pipeline.settings import Settings
from pipeline.tenants.namespace_store import Namespaces
from tests.support.corpora.queries import query_of

pytestmark = pytest.mark.own_databases


def state(namespace: str, entity_id: str, name: str, at: int | None = None, **said: object) -> EntityShape:
    return EntityShape(
        namespace=namespace,
        entity_id=entity_id,
        name=name,
        type=None,
        story_time=at,
        state=said,
        updated_at=datetime.now(UTC),
    )


def passage(namespace: str, *names: str) -> Hydrated:
    return Hydrated(
        chunk_id=uuid.uuid4().hex, document_id="d", namespace=namespace, title=None, text="x", metadata={},
        entity_names=names,
    )  # fmt: skip


def listed(use: Resources, tenant: TenantId, namespace: Namespace, **asked) -> list[tuple[str, int | None]]:
    wanted = {"as_of": None, "name": None, "after": "", "limit": 100, **asked}
    return [(each.entity_id, each.story_time) for each in list_states(tenant, use, namespace, **wanted)]


@pytest.fixture
def story(use: Resources, tenant: TenantId, namespace: Namespace) -> Namespace:
    """Two people: one with three states and a name that changes, one who was always the same."""
    states = [
        state(namespace, "lin", "林远", 100, place="南城"),
        state(namespace, "lin", "林远", 200, place="北城"),
        state(namespace, "lin", "Lin the Old", 300, place="sea"),
        state(namespace, "su", "Su Ｙing", None, eyes="grey"),
    ]
    assert put_states(tenant, states, use) == 4
    return namespace


def stamp(use: Resources, tenant: TenantId, namespace: Namespace) -> str:
    with reading(use.mysql) as connection:
        return Namespaces(connection, tenant).revisions([namespace])[namespace].stamp


class DescribeTheStamp:
    def it_moves_when_states_are_written_or_deleted(self, use, tenant, story):
        first = stamp(use, tenant, story)
        put_states(tenant, [state(story, "su", "Su Ying", None, eyes="green")], use)
        second = stamp(use, tenant, story)
        delete_entities(tenant, story, ["su"], use)
        assert len({first, second, stamp(use, tenant, story)}) == 3


class DescribeAsOf:
    @pytest.mark.parametrize(
        ("as_of", "found"),
        [
            (None, [("lin", 300), ("su", None)]),
            (250, [("lin", 200), ("su", None)]),
            (200, [("lin", 200), ("su", None)]),
            (199, [("lin", 100), ("su", None)]),
            (99, [("su", None)]),
            (-(2**63), [("su", None)]),
            (2**63 - 1, [("lin", 300), ("su", None)]),
        ],
    )
    def it_lists_the_latest_state_that_is_not_later(self, use, tenant, story, as_of, found):
        assert listed(use, tenant, story, as_of=as_of) == found

    def it_replaces_the_state_at_the_same_time(self, use, tenant, story):
        put_states(tenant, [state(story, "lin", "林远", 200, place="road")], use)
        (found, _) = list_states(tenant, use, story, as_of=200, name=None, after="", limit=9)
        assert (found.state, found.name, found.story_time) == ({"place": "road"}, "林远", 200)


def asking(tenant_id: TenantId, story_time: int | None = None) -> Query:
    return query_of(
        "?",
        query_id=QueryId(str(uuid.uuid4())),
        tenant_id=tenant_id,
        namespaces=(),
        filters=Filters(story_time=story_time),
        deadline_s=10.0,
    )


class DescribeNamedEntities:
    @pytest.mark.parametrize(
        ("names", "as_of", "places"),
        [
            (["林远"], 250, ["北城"]),
            (["林远"], 100, ["南城"]),
            (["林远"], 99, []),
            (["林远"], None, ["sea"]),  # an earlier name still stands for him
            (["lin the old"], 250, []),  # a later one does not yet: it would tell what is to come
            (["nobody", "SU YING"], 0, [None]),
            (["Su Ying", "林远", "林远"], 250, [None, "北城"]),
            ([], 250, []),
        ],
    )
    def it_finds_what_the_passages_name_in_their_order(self, use, tenant, story, names, as_of, places):
        found = states_named(asking(tenant, as_of), [passage(story, *names)], use)
        assert [each["state"].get("place") for each in found] == places
        assert all(set(each) == {"id", "name", "type", "state", "story_time", "namespace"} for each in found)


class DescribeGoing:
    def it_goes_with_its_namespace_and_no_other(self, use, tenant, story):
        other = Namespace(f"{story}-2")
        put_states(tenant, [state(other, "x", "X")], use)
        assert delete_namespace(tenant, story, use) is not None
        assert listed(use, tenant, story) == []
        assert listed(use, tenant, other) == [("x", None)]


class DescribeTheContext:
    def compose(self, use: Resources, tenant: TenantId, story: Namespace, **options) -> tuple:
        found = passage(story, "林远")
        plan = Plan(context=ContextOptions(**options))
        query = query_of(tenant_id=tenant, namespaces=(story,), filters=Filters(story_time=250), plan=plan)
        arrived = Arrived(query=query, envelopes={}, elapsed_ms={})
        return build_context(arrived, [found], use), arrived.journal

    def it_does_without_them_when_mysql_is_away(self, use, settings: Settings, tenant, story):
        away = replace(use, settings=settings.model_copy(update={"mysql_url": _nowhere(settings)}), timeout_s=0.5)
        context, journal = self.compose(away, tenant, story, entities=True)
        assert context.text
        assert context.entities == ()
        assert [(lost.part, lost.code) for lost in journal.degradations] == [("entities", "store_unavailable")]


def _nowhere(settings: Settings):
    url = settings.mysql_url.get_secret_value()
    return type(settings.mysql_url)(url.replace(url.rsplit("@", 1)[1].split("/")[0], "127.0.0.1:9"))
