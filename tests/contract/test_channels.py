"""The contract of channels, checked for each of them on the real stores."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_network

import pytest
from pydantic import SecretStr
from sqlalchemy import make_url

from pipeline.administration import edit_api_sources
from pipeline.api_sources.api_source import ApiMapping, ApiSource
from pipeline.channels.channel import Channel
from pipeline.errors import Unavailable
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.query.request import Query
from pipeline.records import ChannelName, Chunking, Filters, Namespace, QueryId, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.answer_query import recall
from pipeline.retrieval.load_text import read
from pipeline.retrieval.make_channels import make_channels
from tests.conftest import make_tenant
from tests.support.corpora.queries import query_of
from tests.support.corpora.uploads import upload
from tests.support.servers.business_api import BusinessApi, business_api, says
from tests.support.servers.proxy import Proxy
from tests.support.stacks.connections import sharing
from tests.support.stacks.corner import submit, work_off
from tests.support.stacks.patience import SPARE_S

pytestmark = pytest.mark.stack

QUESTION = "How do I reset the controller password?"
MAY = datetime(2026, 5, 1, tzinfo=UTC)
# document, namespace, question, answer; those of one topic are alike, so that rankings have more than one entry.
PAIRS = [
    ("reset", "kb", "How do I reset the controller password?", "Hold the button for ten seconds."),
    ("change", "kb", "How do I change the controller password?", "Open settings, then security."),
    ("twin-b", "kb", "How can the controller be reset?", "Pull the plug and wait."),
    ("twin-a", "kb", "How can the controller be reset?", "Pull the plug and wait."),
    ("other", "elsewhere", "How do I reset the controller password?", "Ask the concierge."),
]
FILTERED = {
    "type": "manual",
    "author": "Li",
    "tags": ("a", "b"),
    "published_at": MAY,
    "metadata": {"k": "v", "list": ["x", "y"]},
}


@pytest.fixture(scope="module")
def api() -> Iterator[BusinessApi]:
    with business_api() as found:
        yield found


@pytest.fixture(scope="module")
def here(use_alone: Resources) -> Resources:
    return sharing(use_alone, api_allow_networks=(ip_network("127.0.0.0/8"),))


@pytest.fixture(scope="module")
def tenant_with(here: Resources, api: BusinessApi) -> TenantId:
    return fill(here, api, "mine")


@pytest.fixture(scope="module")
def stranger(here: Resources, api: BusinessApi) -> TenantId:
    """A tenant with the very same texts."""
    return fill(here, api, "theirs")


def fill(use: Resources, api: BusinessApi, path: str) -> TenantId:
    """A tenant whose channels all know the same pairs."""
    tenant_id, _ = make_tenant(use)
    for namespace in ("kb", "elsewhere"):
        uploads = [
            upload(
                name,
                f"Q: {question}\nA: {answer}",
                chunking=Chunking(strategy="qa"),
                **(FILTERED if name == "change" else {}),
            )
            for name, place, question, answer in PAIRS
            if place == namespace
        ]
        work_off(use, submit(use, tenant_id, uploads, namespace))
        items = [
            {"id": name, "body": f"{question} {answer}", "score": 9 - (number + 1) // 2}
            | ({**FILTERED, "tags": ["a", "b"], "published_at": MAY.isoformat()} if name == "change" else {})
            for number, (name, place, question, answer) in enumerate(PAIRS)
            if place == namespace
        ]
        api.answers[f"/{path}/{namespace}"] = says({"hits": items})
        source = ApiSource(
            url=f"{api.url}/{path}/{namespace}",
            namespaces=(namespace,),
            mapping=ApiMapping(
                items="/hits",
                id="/id",
                text="/body",
                score="/score",
                score_range=(0, 10),
                type="/type",
                author="/author",
                tags="/tags",
                published_at="/published_at",
                metadata={"k": "/metadata/k", "list": "/metadata/list"},
            ),
        )
        edit_api_sources.put(tenant_id, namespace, source, use, values={}, kept=())
    return tenant_id


def asking(tenant_id: TenantId, *, text: str = QUESTION, namespaces=("kb",), filters=None, top_k=5, **plan) -> Query:
    plan = {"pool": top_k, "timeout_ms": 2000, **plan}
    channels = {name: ChannelPlan(**plan) for name in ("keyword", "semantic", "faq", "api")}
    return query_of(
        text,
        query_id=QueryId(f"q-{time.monotonic_ns()}"),
        tenant_id=tenant_id,
        namespaces=tuple(map(Namespace, namespaces)),
        filters=filters or Filters(),
        plan=Plan(top_k=top_k, retrieve=RetrievePlan(channels=channels)),
    )


class ChannelContract:
    """The contract of channels. Subclass it with the name of a channel that recalls `PAIRS`."""

    name: ChannelName

    @pytest.fixture
    def channel(self, here: Resources) -> Channel:
        return make_channels(here)[self.name]

    def documents(self, use: Resources, query: Query, channel: Channel) -> list[str]:
        """The documents of what was recalled, in order."""
        found = channel.recall(query)
        supplied = {each.chunk_id: each.document_id for each in found.supplied}
        texts = read(query, found.chunk_ids, namespaces=("kb", "elsewhere"), use=use)
        names = {chunk_id: passage.document_id for chunk_id, passage in texts.items()} | supplied
        return [names[chunk_id] for chunk_id in found.chunk_ids]

    def it_finds_what_was_asked_for(self, here, channel, tenant_with):
        found = self.documents(here, asking(tenant_with), channel)
        assert found[0] == "reset"
        assert set(found) <= {"reset", "change", "twin-a", "twin-b"}

    def it_never_finds_what_another_tenant_has(self, channel, tenant_with, stranger):
        mine, theirs = (set(channel.recall(asking(each)).chunk_ids) for each in (tenant_with, stranger))
        assert mine
        assert theirs
        assert not mine & theirs
        assert channel.score(asking(stranger), sorted(mine)) in ({}, dict.fromkeys(mine, 0.0))

    def it_keeps_to_the_namespaces(self, here, channel, tenant_with):
        assert self.documents(here, asking(tenant_with, namespaces=("elsewhere",)), channel) == ["other"]
        both = self.documents(here, asking(tenant_with, namespaces=("kb", "elsewhere")), channel)
        assert {"reset", "other"} <= set(both)

    @pytest.mark.parametrize(
        "filters",
        [
            Filters(type="manual"),
            Filters(author="Li"),
            Filters(tags=("b",)),
            Filters(start=MAY, end=MAY),
            Filters(metadata={"k": "v"}),
            Filters(metadata={"list": "y"}),
        ],
        ids=["type", "author", "tags", "dates", "metadata", "metadata, in a list"],
    )
    def it_applies_the_filters(self, here, channel, tenant_with, filters):
        assert self.documents(here, asking(tenant_with, filters=filters), channel) == ["change"]

    def it_finds_nothing_without_complaint(self, channel, tenant_with):
        nothing = asking(tenant_with, filters=Filters(type="no such type"))
        assert channel.recall(nothing).chunk_ids == ()
        assert channel.recall(asking(tenant_with, namespaces=("empty",))).chunk_ids == ()
        assert channel.score(nothing, []) == {}

    @pytest.mark.parametrize("top_k", [1, 2])
    def it_gives_no_more_than_its_pool(self, channel, tenant_with, top_k):
        assert len(channel.recall(asking(tenant_with, top_k=top_k)).chunk_ids) == top_k

    def it_is_in_order_with_ties_by_id(self, channel, tenant_with):
        found = channel.recall(asking(tenant_with))
        assert len(found.chunk_ids) == len(found.scores) == len(set(found.chunk_ids))
        assert len(found.chunk_ids) >= 3
        pairs = list(zip(found.chunk_ids, found.scores, strict=True))
        assert pairs == sorted(pairs, key=lambda pair: (-pair[1], pair[0]))
        assert len(set(found.scores)) < len(found.scores), "two of them are the same, and tie"

    def it_scores_below_its_bound(self, channel, tenant_with):
        found = channel.recall(asking(tenant_with))
        assert found.upper_bound is not None
        assert all(0.0 <= score <= found.upper_bound + 1e-6 for score in found.scores)

    def it_scores_again_what_it_scored(self, channel, tenant_with):
        query = asking(tenant_with)
        found = channel.recall(query)
        again = channel.score(query, found.chunk_ids)
        recalled = dict(zip(found.chunk_ids, found.scores, strict=True))
        assert {each: pytest.approx(score, abs=1e-5) for each, score in again.items()} == {
            each: recalled[each] for each in again
        }

    def it_says_the_same_again(self, here, tenant_with):
        query = asking(tenant_with)
        first, second = (make_channels(here)[self.name].recall(query) for _ in range(2))
        assert first == second

    @pytest.mark.parametrize("text", ["?!", "🙂", "the", "' OR 1=1 --", "+a -b (c", "x" * 8000, "密码"])
    def it_takes_any_text(self, channel, tenant_with, text):
        found = channel.recall(asking(tenant_with, text=text))
        assert len(found.chunk_ids) == len(found.scores)

    def it_is_unavailable_when_its_store_is(self, here, tenant_with):
        with away(here) as cut_off, pytest.raises(Unavailable):
            make_channels(cut_off)[self.name].recall(asking(tenant_with))

    def it_costs_its_own_time_only_when_its_store_hangs(self, here, tenant_with):
        """As a header task asks it: an envelope comes back in time, and says what was lost."""
        query = asking(tenant_with, timeout_ms=300)
        with away(here, hanging=True) as frozen:
            frozen.queries(tenant_with).open(query)
            started = time.monotonic()
            recall(tenant_with, query.query_id, make_channels(frozen)[self.name], frozen)
            took = time.monotonic() - started
            state = frozen.queries(tenant_with).state(query.query_id)
        assert state is not None
        assert [envelope.status in ("timeout", "failed") for envelope in state.envelopes] == [True]
        assert took < 0.3 + SPARE_S


class away:
    """Resources whose databases are refused, or accept and never answer."""

    def __init__(self, use: Resources, *, hanging: bool = False) -> None:
        self._use, self._hanging = use, hanging

    def __enter__(self) -> Resources:
        settings, moved = self._use.settings, {}
        self._proxies = []
        for name in ("mysql_url", "postgres_url"):
            url = make_url(getattr(settings, name).get_secret_value())
            proxy = Proxy(url.host or "", url.port or 0)
            proxy.__enter__()
            (proxy.freeze if self._hanging else proxy.cut)()
            self._proxies.append(proxy)
            there = url.set(host="127.0.0.1", port=proxy.port)
            moved[name] = SecretStr(there.render_as_string(hide_password=False))
        self._made = Resources(settings.model_copy(update=moved), timeout_s=0.5, reading=True)
        self._made.__dict__["redis"] = self._use.redis
        return self._made

    def __exit__(self, *error: object) -> None:
        for proxy in self._proxies:
            proxy.__exit__(*error)
        for name in ("mysql", "postgres"):
            if name in self._made.__dict__:
                self._made.__dict__[name].dispose()


class DescribeKeywordChannel(ChannelContract):
    name = ChannelName.KEYWORD


class DescribeSemanticChannel(ChannelContract):
    name = ChannelName.SEMANTIC


class DescribeFaqChannel(ChannelContract):
    name = ChannelName.FAQ

    def it_goes_by_the_words_where_there_are_no_vectors(self, here, tenant_with):
        with away(here) as cut_off:
            cut_off.__dict__.update(mysql=here.mysql, spaces=here.spaces)
            found = make_channels(cut_off)[self.name].recall(asking(tenant_with))
        assert found.scores[0] == pytest.approx(0.98), "the same words, without a grade"
        assert found.guard == {
            "lost": {"code": "store_unavailable", "detail": "pairs could not be looked for by meaning"}
        }


class DescribeApiChannel(ChannelContract):
    name = ChannelName.API

    def it_is_unavailable_when_the_api_is(self, here, api, tenant_with, monkeypatch):
        monkeypatch.setitem(api.answers, "/mine/kb", says({"error": "down"}, status=503))
        with pytest.raises(Unavailable):
            make_channels(here)[self.name].recall(asking(tenant_with))

    def it_goes_on_with_the_sources_that_answer(self, here, api, tenant_with, monkeypatch):
        monkeypatch.setitem(api.answers, "/mine/elsewhere", says(b"<html>", status=200))
        found = make_channels(here)[self.name].recall(asking(tenant_with, namespaces=("kb", "elsewhere")))
        assert {each.document_id for each in found.supplied} == {"reset", "change", "twin-a", "twin-b"}
        assert found.guard == {"lost": {"code": "api_source_failed", "detail": "elsewhere: the answer is not JSON"}}
        assert threading.active_count() < 200
