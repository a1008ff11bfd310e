"""Answer a query: each channel by itself, then one task that composes the answer. The callback of the chord and the task
sent at the deadline run the same code on the results so far, and the first answer wins. Without a worker the gateway
stores the failure. `answer_in_process` does all of it in one process, with the same answer."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import structlog
from tenacity import RetryCallState, Retrying, retry_if_exception_type, retry_if_not_exception_type, wait_random

from pipeline.answer.ended_query import NOT_TAKEN, UNDERSTAND, EndedQuery, TaskRun
from pipeline.answer.result import Answer
from pipeline.channels.channel import ASKED, AbsentChannel, Channel
from pipeline.errors import CircuitOpen, QuotaExceeded, StoreFull, StoreMisconfigured, StoreUnavailable
from pipeline.outages import tolerate_outage
from pipeline.query.plan import Lane
from pipeline.query.request import Envelope, Query
from pipeline.query.understanding import ChannelRun, QueryState
from pipeline.ranking.fusion import Fused
from pipeline.records import ChannelName, QueryId, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived, Journal
from pipeline.retrieval.ask_channels import (
    RESERVE_S,
    ask_other_wordings,
    ask_with_verdict,
    side_by_side,
    unasked,
)
from pipeline.retrieval.compose import compose, empty_answer, record_losses, render
from pipeline.retrieval.measure import log_answer, measure_answer, measure_channel
from pipeline.retrieval.record_search import search_row
from pipeline.retrieval.record_trace import keep_trace, may_keep, packed_trace
from pipeline.retrieval.reuse_answer import may_be_cached
from pipeline.retrieval.understand import ask_model, await_understanding, understand, understood_in_time
from pipeline.telemetry.tracing import OutsideCall, recorded_calls
from pipeline.threads import start_call

log = structlog.get_logger(__name__)

LAST_S: Final = 0.2  # after the deadline, waiting clients are answered even if Redis does not respond
_REPORT_AGAIN_S: Final = (0.05, 0.2)


class _Reported(NamedTuple):
    """A stored result of a channel, with its milliseconds and its calls outside; the query's state if it was the last one."""

    envelope: Envelope
    elapsed_ms: float
    calls: Sequence[OutsideCall]
    state: QueryState | None


def recall(
    tenant_id: TenantId,
    query_id: QueryId,
    channel: Channel,
    use: Resources,
    *,
    worker: str = "",
    again_since: float = 0.0,
) -> QueryState | None:
    """Ask one channel and store its result, also a fault of the channel. Return the state of the query if every channel has
    reported; None if the query is gone or answered, or if a worker has begun the channel since its header was sent again,
    ``again_since``. Raises StoreUnavailable if the result cannot be stored in time."""
    query = use.queries(tenant_id).load(query_id, begins=channel.name, worker=worker, again_since=again_since)
    return None if query is None else ask_and_report(query, channel, use, worker=worker).state


def ask_and_report(query: Query, channel: Channel, use: Resources, *, worker: str = "") -> _Reported:
    """Ask one channel and store its result. While Redis is away, try again until the query's deadline: the other
    channels' results may be there, and nobody else counts this one. Do not try again where it is full or refuses writes."""
    started = time.perf_counter()
    queries = use.queries(query.tenant_id)

    def report_first(envelope: Envelope) -> None:
        queries.report(query, envelope, elapsed_ms=(time.perf_counter() - started) * 1000, more=True)

    with recorded_calls() as calls:
        envelope = _ask_all_wordings(query, channel, use, report_first)
    elapsed_ms = (time.perf_counter() - started) * 1000
    measure_channel(query, envelope, elapsed_ms, use.meter)

    def report_last(query: Query) -> QueryState | None:
        return queries.report(query, envelope, elapsed_ms=elapsed_ms, worker=worker, calls=calls)

    return _Reported(envelope, elapsed_ms, calls, _until_deadline(report_last, query))


def _has_passed(attempted: RetryCallState) -> bool:
    query: Query = attempted.args[0]
    return query.deadline.has_passed


# Stores something of a query, its first argument, again while Redis is away, as until its successor is elected: once at least,
# also after the deadline. One for all queries: a Retrying refers to itself and is freed only by the garbage collector.
_until_deadline = Retrying(
    retry=retry_if_exception_type(StoreUnavailable) & retry_if_not_exception_type((StoreFull, StoreMisconfigured)),
    wait=wait_random(*_REPORT_AGAIN_S),
    stop=_has_passed,
    reraise=True,
)


def _ask_all_wordings(
    query: Query, channel: Channel, use: Resources, report_first: Callable[[Envelope], object]
) -> Envelope:
    """Ask the channel the query, and its other wordings if they are known by now; ``report_first`` gets the result without
    these, in case they are lost."""
    envelope = unasked(query, _ask_within_limits(query, channel, use))
    if query.model_steps or not envelope.unasked:
        return envelope
    report_first(envelope)
    name = channel.name
    return ask_other_wordings(query, {name: envelope}, {name: channel}, reserve_s=RESERVE_S)[name]


def _ask_within_limits(query: Query, channel: Channel, use: Resources) -> Envelope:
    """Ask the channel, or report it as lost at once if its circuit is open or its calls hang here."""
    try:
        with use.bulkhead.place(channel.name):
            permit = use.breakers.enter(channel.name, query.tenant_id)
            if permit is None:
                asked = f" ({ASKED[channel.name]})" if channel.name in ASKED else ""
                raise CircuitOpen(f"the {channel.name} channel{asked} failed repeatedly; its circuit is open")
            is_late = query.deadline.before(RESERVE_S).left_s() < query.timeout_ms_of(channel.name) / 1000
            envelope, failed = ask_with_verdict(query, channel)
            # The timeout of a query that came too late for the channel proves nothing about the channel.
            if not (is_late and envelope.status == "timeout"):
                use.breakers.leave(permit, failed=failed)
            return envelope
    except CircuitOpen as error:
        return Envelope(channel=channel.name, status="failed", code=error.code, error=str(error))


def answer(
    tenant_id: TenantId,
    query_id: QueryId,
    use: Resources,
    channels: Mapping[ChannelName, Channel],
    *,
    known: QueryState | None = None,
) -> bool:
    """Assemble the answer from the channels' results so far, and store it. Returns False if there was one already. ``known``:
    the state of the query after its last report."""
    state = known or use.queries(tenant_id).state(query_id)
    if state is None or state.answer is not None:
        return False
    return compose_and_store(state, use, channels)


def compose_and_store(
    state: QueryState, use: Resources, channels: Mapping[ChannelName, Channel], *, lane: Lane = "chord"
) -> bool:
    """Assemble the answer from the results in ``state``, and store it. Returns False if there was one already."""
    arrived, answer = _composed(replace(await_understanding(state, use, channels), lane=lane), use, channels)
    return _store(state.query, arrived, answer, use)


def _composed(arrived: Arrived, use: Resources, channels: Mapping[ChannelName, Channel]) -> tuple[Arrived, Answer]:
    """Assemble the answer from the results that arrived; return it with what it was assembled from."""
    arrived = with_journal(arrived, use)
    return arrived, _compose_or_report(arrived, use, channels)


def with_journal(arrived: Arrived, use: Resources) -> Arrived:
    """Return the results with a record of their composition, which begins now."""
    return replace(arrived, journal=Journal(tracing=may_keep(arrived.query, use), began_at=time.time()))


def answer_before_storing(
    query: Query, use: Resources, channels: Mapping[ChannelName, Channel], send: Callable[[bytes], object]
) -> None:
    """Answer a query that Redis does not return, and ``send`` the answer. Then store both, unless Redis is still away or has
    an answer."""
    arrived = with_journal(ask_unstored(query, use, channels), use)
    composed = _compose_or_report(arrived, use, channels)
    answer = _as_told(query, composed)
    _report(answer, arrived, use)
    rendered = render(answer)
    send(rendered)
    ids: dict[str, Any] = {"query_id": query.query_id, "tenant_id": query.tenant_id}
    with tolerate_outage(log.warning, "answer_not_stored", also=(QuotaExceeded,), **ids):
        use.queries(query.tenant_id).open_answered(query, rendered, note=search_row(query, answer, use))
        keep_trace(arrived, answer, use)


def ask_unstored(
    query: Query,
    use: Resources,
    channels: Mapping[ChannelName, Channel],
    known: Mapping[ChannelName, tuple[Envelope, float]] | None = None,
) -> Arrived:
    """Ask the channels, and the model, of a query that Redis does not hold, as the tasks of its chord do, with the same
    breakers, bulkhead, metrics and log lines. ``known``: results that are there already, with their milliseconds."""
    understanding = start_call(ask_model, query, use) if query.model_steps else None

    def ask(name: ChannelName) -> tuple[Envelope, float]:
        started = time.perf_counter()
        envelope = _ask_all_wordings(query, channels.get(name) or AbsentChannel(name), use, lambda _: None)
        elapsed_ms = (time.perf_counter() - started) * 1000
        measure_channel(query, envelope, elapsed_ms, use.meter)
        return envelope, elapsed_ms

    results = dict(known or {})
    results |= side_by_side(query, ask, [name for name in query.channels if name not in results])
    state = QueryState(
        query=query,
        status="running",
        envelopes=tuple(results[name][0] for name in sorted(results)),
        elapsed_ms={name.value: results[name][1] for name in sorted(results)},
        answer=None,
        understood=None if understanding is None else understood_in_time(query, understanding),
    )
    return replace(await_understanding(state, use, channels), lane="in_process")


def answer_unstored(
    arrived: Arrived,
    use: Resources,
    channels: Mapping[ChannelName, Channel],
    fused: Sequence[Fused] | None = None,
) -> Answer:
    """Assemble the answer from the results of `ask_unstored`. The caller stores it. Never raises for a dependency. ``fused``:
    see `compose`."""
    answer = _compose_or_report(arrived, use, channels, fused)
    _report(answer, arrived, use)
    return answer


def _report(answer: Answer, arrived: Arrived, use: Resources) -> None:
    measure_answer(arrived.query, answer, use.meter, by_tenant=use.settings.metrics_tenants)
    log_answer(arrived.query, answer, first=True)


def fail(tenant_id: TenantId, query_id: QueryId, use: Resources) -> bool:
    """Store that no worker answered a query by its deadline; False if one did, or the query is gone. Reads Redis alone.
    Raises StoreUnavailable."""
    began_at, state = time.time(), use.queries(tenant_id).state(query_id)
    if state is None or state.answer is not None:
        return False
    journal = Journal(tracing=may_keep(state.query, use), began_at=began_at)
    arrived = replace(Arrived.of(state), journal=journal)
    return _store(state.query, arrived, _unanswered(arrived), use)


def failed_answer(query: Query) -> bytes:
    """Return the answer to a query whose state is unknown at its deadline, because Redis does not answer."""
    return render(_unanswered(_unheard(query)))


def lost_answer(query: Query) -> bytes:
    """Return the answer to a query that Redis has lost together with the messages to its workers."""
    arrived = _unheard(query)
    for channel in query.channels:
        arrived.journal.lost(channel, "query_lost", "Redis lost the query before its answer was read, as by a restart")
    return render(empty_answer(arrived))


def _unheard(query: Query) -> Arrived:
    return Arrived(query=query, envelopes={}, elapsed_ms={})


def _as_told(query: Query, composed: Answer) -> Answer:
    """Return the answer; from LAST_S after the deadline on that of a failed query, which its caller has got by then."""
    return composed if time.time() < query.deadline_at + LAST_S else _unanswered(_unheard(query))


def _unanswered(arrived: Arrived) -> Answer:
    record_losses(arrived)
    if arrived.usable:
        arrived.journal.lost("answer", "no_answer", "no worker put the answer together before the deadline")
    return empty_answer(arrived)


def _store(asked: Query, arrived: Arrived, composed: Answer, use: Resources) -> bool:
    """Store an answer; ``asked``: the query as it was opened, before a model understood it."""
    rendered = render(composed)

    def store(query: Query) -> bool:
        return use.queries(query.tenant_id).answer(
            asked,
            rendered,
            status=composed.status,
            note=search_row(query, composed, use),
            keep=may_be_cached(query, composed, len(rendered), use),
            trace=packed_trace(arrived, composed) if query.trace else None,
        )

    query = arrived.query
    first = _until_deadline(store, query)
    if first:
        if use.query_ended is not None:
            use.query_ended(ended_query(arrived, composed))
        measure_answer(query, _as_told(query, composed), use.meter, by_tenant=use.settings.metrics_tenants)
    log_answer(query, composed, first=first)
    if first:
        keep_trace(arrived, composed, use)
    return first


def _compose_or_report(
    arrived: Arrived,
    use: Resources,
    channels: Mapping[ChannelName, Channel],
    fused: Sequence[Fused] | None = None,
) -> Answer:
    """Compose the answer; return an empty one that reports a bug, which would occur at the deadline as well."""
    try:
        with recorded_calls() as arrived.journal.calls:
            return compose(arrived, use, channels, fused)
    except Exception as error:
        log.exception("answer_bug", query_id=arrived.query.query_id)
        arrived.journal.lost(
            "answer", "internal_error", f"it could not be put together: unexpected {type(error).__name__}"
        )
        return empty_answer(arrived)


def ended_query(arrived: Arrived, answer: Answer) -> EndedQuery:
    """Return the tasks of a query and its outcome."""
    query, began_at = arrived.query, arrived.journal.began_at
    runs = [_run(channel, arrived) for channel in query.channels]
    if query.model_steps and UNDERSTAND in arrived.elapsed_ms:
        runtime_s = arrived.elapsed_ms[UNDERSTAND] / 1000
        runs.append(TaskRun(part=UNDERSTAND, worker="", started_at=query.created_at, runtime_s=runtime_s))
    losses = [f"{lost.part}:{lost.code}" for lost in answer.stats.degradations]
    return EndedQuery(
        tenant_id=query.tenant_id,
        query_id=query.query_id,
        runs=tuple(runs),
        composed_at=began_at,
        composing_s=max(0.0, time.time() - began_at),
        total_ms=(time.time() - query.created_at) * 1000,
        degraded=answer.stats.degraded,
        error="" if answer.error is None else answer.error.code,
        result=" ".join([f"{len(answer.chunks)} chunks", *(["degraded", *losses] if losses else [])]),
    )


def _run(channel: ChannelName, arrived: Arrived) -> TaskRun:
    run = arrived.ran.get(channel)
    started_at, worker, _ = run or ChannelRun(arrived.query.created_at, "")
    envelope = arrived.envelopes.get(channel)
    error = "no_answer" if run or arrived.lane == "in_process" else NOT_TAKEN
    elapsed_ms = arrived.elapsed_ms.get(channel, (arrived.journal.began_at - started_at) * 1000)
    if envelope is not None:
        error = "" if envelope.status == "ok" else envelope.code or envelope.status
    return TaskRun(
        part=channel.value,
        worker=worker,
        started_at=started_at,
        runtime_s=max(0.0, elapsed_ms) / 1000,
        error=error,
        result="" if envelope is None else f"{len(envelope.chunk_ids)} hits",
    )


def answer_in_process(
    tenant_id: TenantId, query_id: QueryId, use: Resources, channels: Mapping[ChannelName, Channel], *, worker: str = ""
) -> bool:
    """Answer an open query as the tasks of its chord do, with the same breakers, bulkhead, metrics and log lines, and
    store the answer; False if it is gone or answered. Results are stored first, so that another process can finish the
    query. ``worker``: the name of this process. Raises StoreUnavailable."""
    query = use.queries(tenant_id).load(query_id)
    if query is None:
        return False
    if query.model_steps:
        start_call(understand, tenant_id, query_id, use)  # the composing process waits for its result in Redis
    began_at = time.time()

    def ask(name: ChannelName) -> _Reported:
        return ask_and_report(query, channels.get(name) or AbsentChannel(name), use, worker=worker)

    results = side_by_side(query, ask, query.channels)
    state = QueryState(
        query=query,
        status="running",
        envelopes=tuple(results[name].envelope for name in sorted(results)),
        elapsed_ms={name.value: results[name].elapsed_ms for name in sorted(results)},
        answer=None,
        ran={name.value: ChannelRun(began_at, worker, result.calls) for name, result in results.items()},
    )
    return compose_and_store(state, use, channels, lane="in_process")
