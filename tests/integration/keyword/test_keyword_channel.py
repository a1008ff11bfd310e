"""The keyword channel on the real server: words, fields, the tenant's dictionary, filters, and other tenants."""

from __future__ import annotations

import uuid
from dataclasses import asdict, replace
from typing import Any

import pytest

from chordwise.contract.dictionary import RuleOut
from pipeline.administration.edit_chunks import Edit, edit_chunks
from pipeline.channels.keyword_channel import KeywordChannel
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.chunk_edit_store import ChunkEdits
from pipeline.keyword.dictionary import EVERY_NAMESPACE, Dictionary
from pipeline.keyword.dictionary_store import Dictionaries
from pipeline.keyword.matching import FieldWeights
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.query.request import Query
from pipeline.records import ChunkId, Filters, Namespace, QueryId, TenantId
from pipeline.resources import Resources
from tests.integration.documents.test_chunk_structure import cut_by
from tests.support.corpora.queries import query_of
from tests.support.corpora.uploads import upload
from tests.support.stacks.corner import Corner

pytestmark = pytest.mark.own_databases

NAMES = {
    "foxes": "Foxes hunt at night.",
    "order": "Order PPR-9087 today.",
    "other": "Order PPR-9088 today.",
    "pressure": "高血压患者应当少吃盐。",
    "hyper": "Hypertension calls for less salt.",
}


@pytest.fixture
def corner(use: Resources, tenant: TenantId, namespace: Namespace) -> Corner:
    found = Corner(use, tenant, namespace)
    found.ingest(*(upload(name, text) for name, text in NAMES.items()))
    return found


def words_alone(fields: FieldWeights) -> Plan:
    """Recall by words alone, with these weights."""
    return Plan(retrieve=RetrievePlan(channels={"keyword": ChannelPlan(options={"fields": asdict(fields)})}))


def query(corner: Corner, text: str, *, fields: FieldWeights | None = None, **options: Any) -> Query:
    made = query_of(
        text,
        query_id=QueryId(str(uuid.uuid4())),
        tenant_id=corner.tenant,
        namespaces=(corner.namespace,),
        plan=words_alone(fields or FieldWeights()),
        deadline_s=10,
    )
    return replace(made, **options)


def documents(corner: Corner, text: str, **options: Any) -> list[str]:
    """The documents found by the words of ``text``, best first."""
    found = KeywordChannel(corner.use.mysql).recall(query(corner, text, **options))
    with unit_of_work(corner.use.mysql) as work:
        known = ChunkEdits(work.connection, corner.tenant).named(list(found.chunk_ids))
    return [known[chunk_id].generation.document_id for chunk_id in found.chunk_ids]


def say(corner: Corner, namespace: Namespace = EVERY_NAMESPACE, **said: Any) -> None:
    with unit_of_work(corner.use.mysql) as work:
        Dictionaries(work.connection, corner.tenant).replace(namespace, Dictionary(**said))


class DescribeRecall:
    def it_tells_how_much_of_a_query_a_chunk_holds(self, corner):
        channel, asked = KeywordChannel(corner.use.mysql), query(corner, "foxes hunt salt")
        found = channel.recall(asked).chunk_ids
        told = channel.coverage(asked, found)
        assert sorted(told) == sorted(found)
        assert 0 < min(told.values()) < 0.5 < max(told.values()) < 1
        assert channel.coverage(query(corner, "foxes hunt at night"), found[:1]) == {found[0]: pytest.approx(1.0)}
        assert channel.coverage(asked, []) == channel.coverage(query(corner, "..."), found) == {}

    def it_tells_nothing_of_words_where_a_rule_has_put_a_document_first(self, corner):
        asked = query(corner, "foxes hunt salt")
        say(corner, rules=(RuleOut(when="foxes", namespace=corner.namespace, document_id="hyper", boost=2.0),))
        channel = KeywordChannel(corner.use.mysql)
        found = channel.recall(asked).chunk_ids
        assert len(found) == 2
        assert channel.coverage(asked, found) == {}

    def it_asks_for_two_words_where_each_alone_is_common(self, use, tenant, monkeypatch):
        monkeypatch.setattr("pipeline.keyword.fulltext_store._MOST_ALONE", 2)
        monkeypatch.setattr("pipeline.keyword.fulltext_store._ENOUGH", 1)
        found = Corner(use, tenant, Namespace("common"))
        texts = ["red fox", "red fox too", "red hen", "red hen too", "grey fox", "grey fox too"]
        found.ingest(*(upload(f"d{place}", text) for place, text in enumerate(texts)))
        assert sorted(documents(found, "red fox")) == ["d0", "d1"]

    def it_ranks_where_more_match_than_are_read(self, corner, monkeypatch):
        monkeypatch.setattr("pipeline.keyword.fulltext_store._NARROW", 0)
        assert documents(corner, "PPR-9087") == ["order", "other"]


class DescribeFieldsOfAChunk:
    def it_knows_summary_and_entity_names_of_segments_and_keeps_them_through_an_edit(self, corner, use):
        story = "# One\n\nsummary: A duel.\nentity_names: Li Lei, 韩梅梅\n\nThey met at dusk."
        corner.ingest(cut_by("segments", replace(upload("story", story), media_type="text/markdown")))
        for word in ("duel", "梅梅", "dusk"):
            assert documents(corner, word) == ["story"]
        [chunk_id] = KeywordChannel(use.mysql).recall(query(corner, "duel")).chunk_ids
        edit_chunks(corner.tenant, [Edit(chunk_id=ChunkId(chunk_id), text="They met at dawn.")], use)
        assert documents(corner, "dusk") == []

        def scored(fields: FieldWeights) -> float:
            return KeywordChannel(use.mysql).recall(query(corner, "duel", fields=fields)).scores[0]

        assert scored(FieldWeights(summary=3)) > scored(FieldWeights()) == scored(FieldWeights(body=3, title=3))
        corner.assert_clean()


class DescribeTheDictionary:
    def it_drops_stop_words_but_never_all(self, corner):
        assert set(documents(corner, "order foxes")) == {"order", "other", "foxes"}
        say(corner, stop_words=("order",))
        assert documents(corner, "order foxes") == ["foxes"]
        assert sorted(documents(corner, "order")) == ["order", "other"]

    def it_may_hold_for_one_namespace(self, corner, use):
        beside = Corner(use, corner.tenant, Namespace("beside"))
        beside.ingest(*(upload(name, NAMES[name]) for name in ("pressure", "hyper")))
        say(corner, corner.namespace, synonyms=(("高血压", "hypertension"),))
        assert sorted(documents(corner, "高血压")) == ["hyper", "pressure"]
        assert documents(beside, "高血压") == ["pressure"]

    def it_prefers_a_document_by_a_rule_within_the_filters(self, corner):
        assert documents(corner, "order now") == documents(corner, "order")
        rule = RuleOut(when="order", namespace=corner.namespace, document_id="foxes", boost=2.5)
        say(corner, rules=(rule,))
        assert documents(corner, "order now")[0] == "foxes"
        assert documents(corner, "salt now")[0] != "foxes"
        assert "foxes" not in documents(corner, "order now", filters=Filters(tags=("animal",)))

    def it_holds_for_a_running_channel_within_seconds(self, corner, use):
        now = [0.0]
        channel = KeywordChannel(use.mysql, clock=lambda: now[0])

        def count() -> int:
            return len(channel.recall(query(corner, "高血压")).chunk_ids)

        assert count() == 1
        say(corner, synonyms=(("高血压", "hypertension"),))
        assert count() == 1  # the dictionary is cached for some seconds
        now[0] += 3.0
        assert count() == 2
        with unit_of_work(use.mysql) as work:
            assert Dictionaries(work.connection, corner.tenant).delete(EVERY_NAMESPACE)
            assert not Dictionaries(work.connection, corner.tenant).delete(EVERY_NAMESPACE)
        now[0] += 3.0
        assert count() == 1
        say(corner, synonyms=(("高血压", "salt"),))
        now[0] += 3.0
        assert count() == 2
