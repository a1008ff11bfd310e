"""Ask channels: one within its time, or several side by side."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import structlog

from pipeline.channels.channel import Channel
from pipeline.errors import ApiSourceTimedOut, CircuitOpen, PipelineError, Unavailable
from pipeline.query.request import Envelope, Query
from pipeline.records import ChannelName
from pipeline.retrieval.make_channels import aside

log = structlog.get_logger(__name__)

# Left for putting the answer together when a channel takes all the time it has.
RESERVE_S = 0.1

# Do not retry a failed channel with less time left than this: it could not answer.
_LEAST_TRY_S = 0.05


def ask_channel(query: Query, channel: Channel) -> Envelope:
    """Ask one channel within its time, with the retries that the query allows. Never raises for a fault of the channel;
    the envelope names it."""
    return ask_and_blame(query, channel)[0]


def ask_and_blame(query: Query, channel: Channel) -> tuple[Envelope, bool]:
    """Ask as `ask_channel`; also return whether something behind the channel failed or was silent."""
    last: PipelineError | None = None
    timeout_ms = query.timeout_ms_of(channel.name)
    # A store that hangs is given up by its own client at about the same moment: asking again would take as long again.
    deadline = query.deadline.before(RESERVE_S).at_most(timeout_ms / 1000)
    for tries in range(query.retry_of(channel.name) + 1):
        left_s = deadline.left_s()
        if left_s <= (_LEAST_TRY_S if tries else 0.0):
            break
        try:
            found = aside(channel.recall, query).result(timeout=left_s)
        except TimeoutError:
            return _lost(channel, "timeout", "timeout", f"no answer within {timeout_ms} ms"), True
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
            envelope = Envelope(
                channel=channel.name,
                status="ok",
                chunk_ids=tuple(found.chunk_ids),
                scores=tuple(found.scores),
                upper_bound=found.upper_bound,
                zero=found.zero,
                background=found.background,
                model=found.model,
                trust=found.trust,
                brought=tuple(found.brought),
                guard=found.guard,
            )
            return envelope, False
    if last is None:
        return _lost(channel, "timeout", "timeout", "the query's deadline had passed"), False
    status = "timeout" if isinstance(last, ApiSourceTimedOut) else "failed"
    failed = isinstance(last, Unavailable) and not isinstance(last, CircuitOpen)
    return _lost(channel, status, last.code, last.public), failed


def ask_side_by_side(
    query: Query, channels: Mapping[ChannelName, Channel]
) -> tuple[dict[ChannelName, Envelope], dict[str, float]]:
    """Ask channels side by side, each within its own time; return their envelopes and their milliseconds."""
    if not channels:
        return {}, {}

    def timed(channel: Channel) -> tuple[Envelope, float]:
        started = time.perf_counter()
        envelope = ask_channel(query, channel)
        return envelope, (time.perf_counter() - started) * 1000

    # Threads of its own: those that wait must not take the places of those that are waited for.
    with ThreadPoolExecutor(len(channels), thread_name_prefix="ask") as pool:
        asked = {name: pool.submit(copy_context().run, timed, channel) for name, channel in channels.items()}
        answered = {name: said.result() for name, said in asked.items()}
    return {name: said[0] for name, said in answered.items()}, {name: said[1] for name, said in answered.items()}


def _lost(channel: Channel, status: str, code: str, error: str) -> Envelope:
    return Envelope(channel=channel.name, status="timeout" if status == "timeout" else "failed", code=code, error=error)
