"""The events of a query's tasks as Celery's own state of the cluster, which Flower shows, understands them."""

from __future__ import annotations

import uuid
from dataclasses import replace

from celery.events.state import State

from pipeline.answer.ended_query import NOT_TAKEN, EndedQuery, TaskRun, task_id_of
from pipeline.records import TenantId
from tests.support.corpora.queries import ended_query
from workers.query_events import QueryEvents, task_events


def run(part: str, **given: object) -> TaskRun:
    usual = {"part": part, "worker": "queries@a", "started_at": 1000.0, "runtime_s": 0.02}
    return TaskRun(**{**usual, **given})  # type: ignore[arg-type]


def query(*runs: TaskRun) -> EndedQuery:
    return replace(ended_query(str(uuid.uuid4())), runs=runs, composed_at=1003.0, composing_s=0.01, result="2 chunks")


def shown(ended: EndedQuery, *, is_overdue: bool = False) -> State:
    state = State()  # type: ignore[no-untyped-call]
    for event in task_events(ended, "upkeep@b", is_overdue=is_overdue):
        state.event({**event, "local_received": event["timestamp"]})  # type: ignore[no-untyped-call]
    return state


class DescribeAQueryInFlower:
    def it_books_a_channel_that_never_returned_on_the_worker_that_took_it(self):
        ended = query(run("semantic", worker="queries@stuck", runtime_s=2.9, error="no_answer"), run("keyword"))
        task = shown(ended).tasks[task_id_of(ended.query_id, "semantic")]
        assert (task.worker.hostname, task.state, task.exception) == ("queries@stuck", "FAILURE", "no_answer")
        assert task.runtime == 2.9

    def it_books_one_that_no_worker_took_on_none(self):
        ended = query(run("semantic", worker="", error=NOT_TAKEN))
        state = shown(ended)
        task = state.tasks[task_id_of(ended.query_id, "semantic")]
        assert (task.worker, task.state, task.name) == (None, "PENDING", "recall.channel")
        assert [worker for worker in state.workers if worker.startswith("upkeep")] == ["upkeep@b"]  # of the callback

    def it_links_the_callback_with_its_channels(self):
        ended = query(run("semantic"), run("keyword"), run("api", worker="", error=NOT_TAKEN))
        tasks = shown(ended).tasks
        callback = tasks[ended.query_id]
        channels = {task_id_of(ended.query_id, each.part) for each in ended.runs}
        assert {task.uuid for task in callback.children} == channels
        assert {(tasks[each].root_id, tasks[each].parent_id) for each in channels} == {(ended.query_id,) * 2}

    def it_has_one_name_also_when_it_is_overdue(self):
        task = shown(ended := query(), is_overdue=True).tasks[ended.query_id]
        assert (task.name, task.result) == ("recall.answer", "2 chunks by recall.finish")


class DescribeTheFewBesideTheSample:
    def it_shows_every_query_of_a_calm_tenant_beside_a_busy_one(self):
        now = [0.0]
        events = QueryEvents(percent=0.0001, slow_ms=1000, clock=lambda: now[0])
        calm = 0
        for _ in range(20):  # seconds, in each of which the busy tenant is first
            busy = sum(events.wants(query()) for _ in range(50))
            assert 4 <= busy <= 6
            calm += events.wants(replace(query(), tenant_id=TenantId("calm")))
            now[0] += 1
        assert calm == 20

    def it_shows_some_of_those_that_follow_a_burst_within_its_second(self):
        now = [100.0]
        events = QueryEvents(percent=0.0001, slow_ms=1000, clock=lambda: now[0])
        assert sum(events.wants(query()) for _ in range(100)) in (5, 6)
        now[0] += 0.25
        after = 0
        for _ in range(10):
            now[0] += 0.05
            after += events.wants(query())
        assert 3 <= after <= 5

    def it_bounds_the_queries_of_all_tenants(self):
        events = QueryEvents(percent=0.0001, slow_ms=1000, clock=lambda: 7.0)
        shown_queries = [events.wants(replace(query(), tenant_id=TenantId(f"t{number}"))) for number in range(100)]
        assert 10 <= sum(shown_queries) <= 11

    def it_shows_none_of_them_at_a_share_of_zero(self):
        events = QueryEvents(percent=0, slow_ms=1000, clock=lambda: 7.0)
        assert not events.wants(query())
        assert events.wants(replace(query(), error="retrieval_unavailable"))
