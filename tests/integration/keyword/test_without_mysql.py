"""A host's index in the place of a MySQL that does not answer, or does not answer in time: the same hits and texts, of the
revision that it knows, and a loss for all that it cannot know."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import make_url

from pipeline.administration.delete_documents import delete_document
from pipeline.answer.result import Answer
from pipeline.channels.keyword_channel import KeywordChannel
from pipeline.database.unit_of_work import reading
from pipeline.errors import StoreUnavailable
from pipeline.query.request import Query
from pipeline.ranking.fusion import Fused
from pipeline.records import ChannelName, ChunkId, DocumentId, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived, Journal
from pipeline.retrieval.ask_channels import ask_side_by_side
from pipeline.retrieval.compose import compose
from pipeline.retrieval.load_text import hydrate
from pipeline.retrieval.reuse_answer import may_be_cached
from pipeline.tenants.namespace_store import Namespaces
from tests.conftest import make_tenant
from tests.integration.keyword.test_keyword_channel import query
from tests.support.corpora.uploads import upload
from tests.support.stacks.corner import Corner
from tests.support.stacks.keyword_index import Host
from tests.support.stacks.processes import free_port

DOCUMENTS = {
    "fox": "Foxes hunt at night. A fox is a quiet hunter.",
    "den": "The den of foxes has many doors.",
    "狐狸": "狐狸在夜里捕猎。",
    "owl": "The owl sleeps by day.",
}


@pytest.fixture
def corner(use_alone: Resources, tenant: TenantId, namespace: Namespace) -> Corner:
    found = Corner(use_alone, tenant, namespace)
    found.ingest(*(upload(name, body, title=f"About {name}") for name, body in DOCUMENTS.items()))
    return found


@pytest.fixture
def host(corner: Corner, tmp_path: Path) -> Iterator[Host]:
    found = Host(corner, tmp_path)
    found.catch_up()
    return found


@pytest.fixture
def away(host: Host) -> Iterator[Resources]:
    """Return the resources of a query worker on that host whose MySQL refuses connections."""
    settings = host.corner.use.settings
    nowhere = make_url(settings.mysql_url.get_secret_value()).set(host="127.0.0.1", port=free_port())
    changed = {
        "mysql_url": SecretStr(nowhere.render_as_string(hide_password=False)),
        "keyword_engine": "tantivy",
        "keyword_index_dir": host.root,
    }
    use = Resources(settings.model_copy(update=changed), timeout_s=0.8, reading=True)
    yield use
    use.close()


def channel(use: Resources) -> KeywordChannel:
    return KeywordChannel(use.mysql, local=use.local_indexes)


def texts(asked: Query, chunk_ids: tuple[ChunkId, ...], use: Resources) -> tuple[dict[str, str], Journal]:
    fused = [Fused(chunk_id=each, score=1.0 - place / 100, contributions=()) for place, each in enumerate(chunk_ids)]
    arrived = Arrived(query=asked, envelopes={}, elapsed_ms={})
    found = hydrate(arrived, fused, {}, use)
    return {chunk_id: passage.text for chunk_id, passage in found.items()}, arrived.journal


class DescribeAMySQLThatIsAway:
    @pytest.mark.parametrize("question", ["foxes", "狐狸 捕猎"])
    def it_leaves_the_hits_and_the_texts_that_were_there(self, host, away, question):
        asked = query(host.corner, question)
        before = host.channel.recall(asked)
        after = channel(away).recall(replace(asked, query_id="another"))
        assert before.chunk_ids
        assert (after.chunk_ids, after.scores) == (before.chunk_ids, before.scores)
        assert after.guard is not None
        assert after.guard["age_s"] > 0
        was, _ = texts(asked, before.chunk_ids, host.corner.use)
        now, journal = texts(asked, before.chunk_ids, away)
        assert now == was
        assert [(each.part, each.code) for each in journal.degradations] == [("mysql", "mysql_unavailable")]
        assert journal.index_age_s is not None
        assert 0 < journal.index_age_s < 600

    def it_names_what_the_index_cannot_show(self, host, away):
        asked = query(host.corner, "foxes")
        found = channel(away).recall(replace(asked, namespaces=(host.corner.namespace, Namespace("elsewhere"))))
        assert found.chunk_ids
        assert found.guard is not None
        assert found.guard["lost"]["code"] == "namespace_not_indexed"
        assert "elsewhere" in found.guard["lost"]["detail"]
        unknown = ChunkId("00000000-0000-0000-0000-000000000000")
        shown, journal = texts(asked, (*found.chunk_ids, unknown), away)
        assert set(shown) == set(found.chunk_ids)
        assert ("hydrate", "not_in_index") in {(each.part, each.code) for each in journal.degradations}

    def it_shows_a_document_that_was_deleted_after_the_revision_it_knows(self, host, away):
        asked = query(host.corner, "foxes")
        before = host.channel.recall(asked)
        delete_document(host.corner.tenant, host.corner.namespace, DocumentId("fox"), host.corner.use)
        assert channel(away).recall(replace(asked, query_id="another")).chunk_ids == before.chunk_ids
        host.catch_up()
        assert set(channel(away).recall(replace(asked, query_id="a third")).chunk_ids) < set(before.chunk_ids)

    def it_withholds_texts_while_the_tenants_rules_are_not_known(self, host, away):
        asked = query(host.corner, "foxes", rules_known=False)
        found = channel(away).recall(asked)
        shown, journal = texts(asked, found.chunk_ids, away)
        assert found.chunk_ids
        assert shown == {}
        assert ("hydrate", "rules_unknown") in {(each.part, each.code) for each in journal.degradations}

    @pytest.mark.thorough
    def it_has_nothing_for_a_tenant_whose_index_is_not_here(self, host, away):
        other, _ = make_tenant(host.corner.use)
        with pytest.raises(StoreUnavailable):
            channel(away).recall(replace(query(host.corner, "foxes"), tenant_id=other))

    def it_is_asked_once_by_a_query(self, host, away):
        asked = query(host.corner, "foxes")
        channel(away).recall(asked)
        time.sleep(0.1)
        began = time.thread_time()
        for _ in range(20):
            with pytest.raises(StoreUnavailable), reading(away.mysql):
                pass
        assert time.thread_time() - began < 0.1, "refused without a connection"


@contextmanager
def dictionaries_locked(use: Resources) -> Iterator[None]:
    """Let nobody else read a dictionary meanwhile."""
    with use.mysql.connect() as connection:
        connection.exec_driver_sql("LOCK TABLES dictionaries WRITE")
        try:
            yield
        finally:
            connection.exec_driver_sql("UNLOCK TABLES")


class DescribeADictionaryThatIsNotReadInTime:
    @pytest.fixture
    def asked(self, host: Host) -> Query:
        """Return a query that may be answered from the cache, with its revisions, which need not be read."""
        with reading(host.corner.use.mysql) as connection:
            revisions = Namespaces(connection, host.corner.tenant).revisions([host.corner.namespace])
        stamps = {name: revision.stamp for name, revision in revisions.items()}
        found = query(host.corner, "foxes", cache_key="a-key", stamps=stamps)
        return replace(found, plan=replace(found.plan, highlight=True))  # by the words that only the dictionary knows

    def composed(self, asked: Query, recalling: KeywordChannel, composing: KeywordChannel, use: Resources) -> Answer:
        """Return the answer that one process composes from what another one recalled."""
        envelopes, elapsed_ms = ask_side_by_side(asked, {ChannelName.KEYWORD: recalling})
        arrived = Arrived(query=asked, envelopes=envelopes, elapsed_ms=elapsed_ms)
        return compose(arrived, use, {ChannelName.KEYWORD: composing})

    def losses(self, answer: Answer) -> list[tuple[str, str]]:
        return [(lost.part, lost.code) for lost in answer.stats.degradations]

    def it_is_a_loss_of_the_answer_which_is_not_cached(self, host, asked):
        use = host.corner.use
        with dictionaries_locked(use):
            found = self.composed(asked, host.channel, host.channel, use)
        assert found.chunks
        assert self.losses(found) == [("keyword", "dictionary_not_read")]
        assert not may_be_cached(asked, found, 10, use)
        later = replace(asked, query_id="later")
        found = self.composed(later, host.channel, host.channel, use)
        assert self.losses(found) == []
        assert may_be_cached(later, found, 10, use)

    @pytest.mark.thorough
    def it_is_a_loss_where_only_the_composing_process_did_not_know_it(self, host, asked):
        use = host.corner.use
        host.ask("foxes")
        with dictionaries_locked(use):
            found = self.composed(asked, host.channel, Host(host.corner, host.root).channel, use)
        assert self.losses(found) == [("keyword", "dictionary_not_read")]
        assert not may_be_cached(asked, found, 10, use)

    @pytest.mark.thorough
    def it_is_named_beside_a_namespace_that_the_index_lacks(self, host, away):
        found = channel(away).recall(query(host.corner, "foxes", namespaces=(host.corner.namespace, Namespace("else"))))
        assert found.guard is not None
        assert found.guard["lost"]["code"] == "namespace_not_indexed"
        assert "dictionary" in found.guard["lost"]["detail"]
