"""A gateway and workers without processes: the tasks of a query in threads, and one faulty part.

Stores, Redis, channels and clients are real. Faults are injected at the edge: a service with scripted failures, or a
channel or client that fails, hangs or dies where it would have called out.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from ipaddress import ip_network
from typing import Any

import orjson
import pytest
import structlog
from pydantic import SecretStr

from pipeline.administration import edit_api_sources
from pipeline.api_sources.api_source import ApiMapping, ApiSource
from pipeline.channels.channel import Channel
from pipeline.query.plan import ChannelPlan, ContextOptions, Plan, RerankPlan, RetrievePlan, UnderstandPlan
from pipeline.query.request import Query
from pipeline.records import ChannelName, Chunking, Namespace, QueryId, TenantId
from pipeline.resources import Resources
from pipeline.retrieval import answer_query
from pipeline.retrieval.make_channels import make_channels
from pipeline.retrieval.understand import understand, understand_at_once
from pipeline.settings import Settings
from tests.conftest import make_tenant
from tests.support.corpora.queries import query_of
from tests.support.corpora.uploads import upload
from tests.support.servers.business_api import BusinessApi, business_api
from tests.support.servers.openai_server import OpenAIServer
from tests.support.servers.rerank_server import RerankServer, rerank_service
from tests.support.stacks.corner import submit, work_off
from tests.support.stacks.fault_edges import (
    SERVICES_FAIL,
    Fault,
    Faulty,
    Killed,
    Raising,
    expanding,
    judging,
    serving_hits,
)
from workers.resources import warm_up

CHANNELS = ("keyword", "semantic", "faq", "api")
PARTS = (*CHANNELS, "expand", "rerank")
NAMESPACES = ("kb", "second", "third")
DEADLINE_S = 1.0
_PATIENT_MS = 900  # a busy machine is not what is tested here
_EXPAND = "查询扩展员"  # of the prompt
_TEXTS = {
    "button": "Hold the button for ten seconds to reset the router.",
    "clip": "Factory defaults of the gateway device come back with a paper clip.",
    "tea": "Green tea is brewed at eighty degrees.",
}
_PAIR = "Q: How do I reset the router?\nA: Press the red switch until it blinks."

Faults = Mapping[str, Fault]  # by part


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The answer, after how many seconds it was there, and whether the deadline made it."""

    answer: dict[str, Any]
    took_s: float
    overdue: bool
    stored: bytes
    later: bytes

    @property
    def lost(self) -> set[tuple[str, str]]:
        """Part and code of everything that was lost."""
        return {(each["part"], each["code"]) for each in self.answer["stats"]["degradations"]}

    @property
    def parts_present(self) -> set[str]:
        """The parts that had a say in the answer."""
        chunks, stats = self.answer["chunks"], self.answer["stats"]
        recalled = {source["channel"] for chunk in chunks for source in chunk["sources"] if source["rank"]}
        read = {"rerank"} if any(chunk["rerank"] for chunk in chunks) else set()
        return recalled | read | ({"expand"} if stats["expanded_queries"] else set())


class Lab:
    """One tenant's three namespaces, and queries as gateway and workers run them."""

    def __init__(self, settings: Settings, api: BusinessApi, model: OpenAIServer, judge: RerankServer) -> None:
        self.gateway = Resources(settings)
        self.worker = Resources(settings, timeout_s=settings.recall_timeout_ms / 1000, reading=True)
        self.api, self.model, self.judge = api, model, judge
        self.channels = make_channels(self.worker)
        self.tenant: TenantId = make_tenant(self.gateway)[0]
        self._threads: list[threading.Thread] = []
        for namespace in NAMESPACES:
            fill(self.tenant, namespace, self.gateway, api)
        self.heal()

    def heal(self) -> None:
        """Every service answers honestly."""
        self._let_services({})

    def _let_services(self, faults: Faults) -> None:
        fault = {part: fault for part, fault in faults.items() if fault in SERVICES_FAIL}
        self.model.by_prompt = {_EXPAND: expanding(fault.get("expand"))}
        self.judge.always = judging(fault.get("rerank"))
        for namespace in NAMESPACES:
            self.api.answers[f"/{namespace}"] = serving_hits(fault.get("api"), namespace)

    def warm_up(self) -> None:
        """As in a worker and a gateway: everything is loaded and connected before the first query."""
        warm_up(self.worker)
        self.gateway.count_tokens("warm up")
        for _ in range(20):
            if not self.ask(self.query(NAMESPACES), {}).lost:
                return
        raise AssertionError("queries lose something although nothing is at fault")

    def close(self) -> None:
        """Wait for what hangs, then let go of the connections."""
        for thread in self._threads:
            thread.join()
        self.gateway.close()
        self.worker.close()

    def query(self, namespaces: Sequence[str], limits_ms: Mapping[str, int] | None = None) -> Query:
        """A question nobody has asked, to every part; those without a limit have all the time there is."""
        own = {name: (limits_ms or {}).get(name, _PATIENT_MS) for name in PARTS}
        channels = {name: ChannelPlan(timeout_ms=own[name], retry=0) for name in CHANNELS}
        return query_of(
            f"How do I reset the router? {uuid.uuid4().hex[:6]}",
            query_id=QueryId(str(uuid.uuid4())),
            tenant_id=self.tenant,
            namespaces=tuple(map(Namespace, namespaces)),
            plan=Plan(
                top_k=30,
                retrieve=RetrievePlan(channels=channels),
                rerank=RerankPlan(provider="http", budget_ms=own["rerank"]),
                understand=UnderstandPlan(budget_ms=own["expand"]),
                context=ContextOptions(max_tokens=500),
            ),
            deadline_s=DEADLINE_S,
        )

    def ask(self, query: Query, faults: Faults, *, use: Resources | None = None) -> Outcome:
        """Send the query, its tasks running in threads, and wait for the answer as the gateway does. ``use``: the
        workers' resources, if they are not the usual ones."""
        with ExitStack() as whole:
            worker, channels = self._struck(faults, use or self.worker, whole)
            deliveries = {part: (0.0, 0.1) for part, fault in faults.items() if fault in ("redelivered", "overtaken")}
            started = time.monotonic()
            sent = understand_at_once(query, self.gateway)
            self.gateway.queries(self.tenant).open(sent)
            answered = self._run(sent, worker, channels, deliveries)
            overdue = self._wait(sent, answered)
            took_s = time.monotonic() - started
            stored = self._stored(sent)
            if deliveries:  # once more, after the answer
                self._run(sent, worker, channels, deliveries).wait(0.3)
            later = self._stored(sent)
        return Outcome(answer=orjson.loads(stored), took_s=took_s, overdue=overdue, stored=stored, later=later)

    def _wait(self, query: Query, answered: threading.Event) -> bool:
        """The gateway: woken by the answer, or by the alarm at the deadline. Whether it was the deadline."""
        if answered.wait(max(0.0, query.deadline_at - time.time())):
            return False
        while not (state := self.gateway.queries(self.tenant).state(query.query_id)) or not state.overdue_s:
            if state is not None and state.answer is not None:
                return False
            time.sleep(0.001)
        answer_query.answer(
            self.tenant, query.query_id, self.worker, {}
        )  # as the task does that is sent at the deadline
        return True

    def _run(
        self,
        query: Query,
        use: Resources,
        channels: Mapping[ChannelName, Channel],
        deliveries: Mapping[str, Sequence[float]],
    ) -> threading.Event:
        """The tasks of a query, each delivered after so many seconds. Gives what is set once a callback is through."""
        answered = threading.Event()

        def answer() -> None:
            answer_query.answer(query.tenant_id, query.query_id, use, dict(channels))
            answered.set()

        def call_back() -> None:
            for delay_s in deliveries.get("rerank", (0.0,)):
                self._start(answer, delay_s)

        def header(name: ChannelName) -> None:
            if answer_query.recall(query.tenant_id, query.query_id, channels[name], use):
                call_back()

        if query.model_steps:
            for delay_s in deliveries.get("expand", (0.0,)):
                self._start(lambda: understand(query.tenant_id, query.query_id, use), delay_s)
        for name in query.channels:
            for delay_s in deliveries.get(name, (0.0,)):
                self._start(lambda name=name: header(name), delay_s)  # type: ignore[misc]
        return answered

    def _start(self, task: Callable[[], object], delay_s: float) -> None:
        def run() -> None:
            time.sleep(delay_s)
            with suppress(Killed):
                task()

        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def _struck(
        self, faults: Faults, worker: Resources, whole: ExitStack
    ) -> tuple[Resources, Mapping[ChannelName, Channel]]:
        """A worker with some parts at fault, until ``whole`` is over."""
        whole.callback(self.heal)
        self._let_services(faults)
        use, channels = replace(worker), dict(self.channels)
        use.__dict__.update(worker.__dict__)
        let_go = threading.Event()
        whole.callback(let_go.set)
        for part, fault in faults.items():
            if part in CHANNELS and not (part == "api" and fault in SERVICES_FAIL):
                channels[ChannelName(part)] = Faulty(channels[ChannelName(part)], fault, let_go)
            elif fault in ("killed", "broken"):
                error = Killed() if fault == "killed" else LookupError("nobody thought of this")
                use.__dict__["rewriter" if part == "expand" else "rerankers"] = Raising(error)
        return use, channels

    def _stored(self, query: Query) -> bytes:
        state = self.gateway.queries(self.tenant).state(query.query_id)
        assert state is not None
        assert state.answer is not None
        return state.answer


def fill(tenant_id: TenantId, namespace: str, use: Resources, api: BusinessApi) -> None:
    """Put documents, a question-answer pair and an API source into a namespace."""
    uploads = [
        *(upload(name, body) for name, body in _TEXTS.items()),
        upload("pair", _PAIR, chunking=Chunking(strategy="qa")),
    ]
    work_off(use, submit(use, tenant_id, uploads, namespace))
    mapping = ApiMapping(items="/hits", id="/id", text="/body", score="/score", score_range=(0, 10))
    source = ApiSource(url=f"{api.url}/{namespace}", namespaces=(namespace,), mapping=mapping)
    edit_api_sources.put(tenant_id, namespace, source, use, values={}, kept=())


@contextmanager
def fault_lab(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """``settings`` point to databases of the lab's own."""
    with business_api() as api, OpenAIServer() as model, rerank_service("cohere") as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", model.url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
        made = settings.model_copy(
            update={
                "api_allow_networks": (ip_network("127.0.0.0/8"),),
                "llm_model": "a-language-model",
                "rerank_url": judge.url,
                "rerank_model": "judge",
                "rerank_api_key": SecretStr("not-a-real-key"),
                "breaker_failures": 1000,  # every cell is to reach the part that is at fault
            }
        )
        # As in a worker; the default takes most of a second to draw a traceback.
        structlog.configure(processors=[structlog.processors.format_exc_info, structlog.processors.JSONRenderer()])
        lab = Lab(made, api, model, judge)
        try:
            yield lab
        finally:
            lab.close()
            structlog.reset_defaults()


def in_two_tries(check: Callable[[], None]) -> None:
    """Check, and once more if it failed: a virtual machine may stand still for longer than an answer may be late. A
    defect fails twice."""
    try:
        check()
    except AssertionError:
        check()
