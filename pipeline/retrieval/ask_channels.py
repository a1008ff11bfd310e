"""Ask channels within their times: one, several in parallel, or each again with other wordings of the query."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

import structlog

from pipeline.channels.channel import ASKED, Channel
from pipeline.channels.semantic_channel import SemanticChannel
from pipeline.deadline import Deadline
from pipeline.errors import ApiSourceTimedOut, CircuitOpen, PipelineError, Unavailable
from pipeline.outages import tolerate_outage
from pipeline.query.request import Degradation, Envelope, Query, Recalled, copied
from pipeline.query.understanding import Wording, merged, pool_share, wordings_of
from pipeline.records import ChannelName
from pipeline.retrieval.arrived import Arrived
from pipeline.threads import start_call

log = structlog.get_logger(__name__)

T = TypeVar("T")

# Reserved for composing the answer when a channel or a reranker uses all of its time.
RESERVE_S = 0.1

# Do not retry a failed channel with less time left than this: it could not answer.
_LEAST_TRY_S = 0.05


def ask_with_verdict(query: Query, channel: Channel) -> tuple[Envelope, bool]:
    """Ask one channel within its time, with the retries that the query allows. Return its envelope, which reports a fault
    of the channel, and whether a dependency of the channel failed or did not answer."""
    last: PipelineError | None = None
    timeout_ms = query.timeout_ms_of(channel.name)
    # Do not retry on timeout: a hanging store would take as long again.
    deadline = query.deadline.before(RESERVE_S).at_most(timeout_ms / 1000)
    for tries in range(query.retry_of(channel.name) + 1):
        left_s = deadline.left_s()
        if left_s <= (_LEAST_TRY_S if tries else 0.0):
            break
        try:
            recalled = start_call(channel.recall, query).result(timeout=left_s)
        except TimeoutError:
            asked = ASKED.get(channel.name)
            return _lost(
                channel, "timeout", "timeout", f"no answer{f' from {asked}' if asked else ''} within {timeout_ms} ms"
            ), True
        except CircuitOpen as error:
            last = error
            break
        except Unavailable as error:
            last = error
        except PipelineError as error:
            last = error
            break
        except Exception as error:
            log.exception("channel_bug", channel=channel.name, query_id=query.query_id)
            return _lost(channel, "failed", "internal_error", f"unexpected {type(error).__name__}"), False
        else:
            return envelope_of(channel, recalled), False
    if last is None:
        return _lost(channel, "timeout", "timeout", "the query's deadline had passed"), False
    status = "timeout" if isinstance(last, ApiSourceTimedOut) else "failed"
    failed = isinstance(last, Unavailable) and not isinstance(last, CircuitOpen)
    return _lost(channel, status, last.code, last.public), failed


def side_by_side(query: Query, ask: Callable[[ChannelName], T], names: Sequence[ChannelName]) -> dict[ChannelName, T]:
    """Return the results of ``ask`` for several channels, in parallel. A channel whose call raises is logged and left out."""
    running = {name: start_call(ask, name).result for name in names[1:]}
    running |= {name: partial(ask, name) for name in names[:1]}  # the first one in this thread
    results: dict[ChannelName, T] = {}
    for name in names:
        try:
            with tolerate_outage(log.warning, "channel_not_reported", channel=name, query_id=query.query_id):
                results[name] = running[name]()
        except Exception as error:  # as a header that raises: the answer names the channel
            log.exception("channel_bug", channel=name, query_id=query.query_id, error=type(error).__name__)
    return results


def ask_side_by_side(
    query: Query, channels: Mapping[ChannelName, Channel]
) -> tuple[dict[ChannelName, Envelope], dict[str, float]]:
    """Ask channels in parallel, each within its own time; return their envelopes and their milliseconds. Store nothing."""

    def timed(name: ChannelName) -> tuple[Envelope, float]:
        started = time.perf_counter()
        envelope, _ = ask_with_verdict(query, channels[name])
        return envelope, (time.perf_counter() - started) * 1000

    answers = side_by_side(query, timed, list(channels))
    envelopes = {name: envelope for name, (envelope, _) in answers.items()}
    return envelopes, {name: elapsed_ms for name, (_, elapsed_ms) in answers.items()}


def envelope_of(channel: Channel, recalled: Recalled) -> Envelope:
    """Return the envelope of a channel that succeeded."""
    listed = {name: tuple(getattr(recalled, name)) for name in ("chunk_ids", "scores", "supplied")}
    return copied(Envelope, recalled, channel=channel.name, status="ok", **listed)


class CallFailure(NamedTuple):
    """The reason why a call gave no result in time."""

    code: str
    error: Exception | None = None

    @property
    def bug(self) -> str | None:
        """The class of an unexpected error; None for errors of a dependency."""
        return None if self.error is None or isinstance(self.error, PipelineError) else type(self.error).__name__


def settled(call: Future[T], deadline: Deadline, *, bug: str, **ids: object) -> T | CallFailure:
    """Return the result of ``call`` by ``deadline``, or why there is none; log other errors as the event ``bug``."""
    try:
        return call.result(timeout=deadline.left_s())
    except TimeoutError:
        return CallFailure("timeout")
    except PipelineError as error:
        return CallFailure(error.code, error)
    except Exception as error:
        log.exception(bug, error=type(error).__name__, **ids)
        return CallFailure("internal_error", error)


def in_time(
    call: Future[T], arrived: Arrived, *, deadline: Deadline, part: str, otherwise: str, bug: str, **ids: object
) -> T | None:
    """Return the result of ``call`` by ``deadline``. Without one, return None and report ``part`` as lost, with the
    sentence ``otherwise``; see `settled`."""
    result = settled(call, deadline, bug=bug, query_id=arrived.query.query_id, **ids)
    if not isinstance(result, CallFailure):
        return result
    reason = result.error.public if isinstance(result.error, PipelineError) else ""
    reason = f"unexpected {result.bug}" if result.bug else reason
    arrived.journal.lost(part, result.code, f"{otherwise}: {reason}" if reason else otherwise)
    return None


def _lost(channel: Channel, status: str, code: str, error: str) -> Envelope:
    return Envelope(channel=channel.name, status="timeout" if status == "timeout" else "failed", code=code, error=error)


_Rankings = list[tuple[Wording, Envelope]]


def unasked(query: Query, envelope: Envelope, *, code: str = "no_answer") -> Envelope:
    """Return a successful envelope with the code for its missing wordings, if the query has any."""
    lacks = envelope.status == "ok" and wordings_of(query, envelope.channel)
    return replace(envelope, unasked=code) if lacks else envelope


def ask_other_wordings(
    query: Query,
    envelopes: Mapping[ChannelName, Envelope],
    channels: Mapping[ChannelName, Channel],
    *,
    reserve_s: float,
) -> dict[ChannelName, Envelope]:
    """Return the envelopes with the hits of the query's other wordings added, asking the channels in parallel.

    Each has its channel's own time, but ends ``reserve_s`` before the query's deadline. Hits found by then count, and
    the envelope names the missing wordings. Never raises for a channel.
    """
    answers: dict[ChannelName, Envelope] = dict(envelopes)
    running: dict[ChannelName, tuple[Future[None], _Rankings, Deadline]] = {}
    deadline = query.deadline.before(reserve_s)
    for name, envelope in envelopes.items():
        wordings = wordings_of(query, name) if envelope.status == "ok" else ()
        channel = channels.get(name)
        if wordings and channel is not None and not deadline.has_passed:
            rankings: _Rankings = []
            own = deadline.at_most(query.timeout_ms_of(name) / 1000)
            running[name] = start_call(_recall_each, query, channel, wordings, rankings), rankings, own
        else:
            answers[name] = unasked(query, envelope, code="timeout" if channel else "no_answer")
    for name, (future, rankings, own) in running.items():
        outcome = settled(future, own, bug="wordings_bug", channel=name, query_id=query.query_id)
        code = outcome.code if isinstance(outcome, CallFailure) else None
        both = merged(envelopes[name], tuple(rankings), pool=query.pool_of(name))
        answers[name] = replace(both, unasked=code)
    return answers


def losses_of(query: Query, envelopes: Mapping[ChannelName, Envelope]) -> list[Degradation]:
    """Return a loss for each channel that was not asked in every wording. Its part is the step that made the first one."""
    return [
        Degradation(
            part=wordings[0].step,
            code=envelope.unasked,
            detail=f"the {name} channel was not asked in every wording of the query",
        )
        for name, envelope in envelopes.items()
        if envelope.unasked and (wordings := wordings_of(query, name))
    ]


def _recall_each(query: Query, channel: Channel, wordings: Sequence[Wording], rankings: _Rankings) -> None:
    """Recall by each wording and append to ``rankings``, so that a caller that stops waiting has the results so far."""
    if isinstance(channel, SemanticChannel):
        channel.prepare(query, [wording.text for wording in wordings])
    smaller = _with_pool(query, channel.name, pool_share(query.pool_of(channel.name), len(wordings)))
    for wording in wordings:
        if query.deadline.has_passed:
            return
        recalled = channel.recall(replace(smaller, query_text=wording.text))
        rankings.append((wording, envelope_of(channel, recalled)))


def _with_pool(query: Query, name: ChannelName, pool: int) -> Query:
    retrieve = query.plan.retrieve
    channels = {**retrieve.channels, name.value: replace(retrieve.channels[name.value], pool=pool)}
    return replace(query, plan=replace(query.plan, retrieve=replace(retrieve, channels=channels)))
