"""The whole of a retrieval in this process, without Celery: the same pipeline, and the same answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.channels.port import Channel
from pipeline.core.answer import Answer
from pipeline.core.query import Query
from pipeline.flows.answer import compose
from pipeline.flows.arrived import Arrived
from pipeline.flows.asking import RESERVE_S, ask_side_by_side
from pipeline.flows.journal import Journal
from pipeline.flows.resources import Resources
from pipeline.flows.tracing import trace_from
from pipeline.flows.wordings import asked_otherwise
from pipeline.records import ChannelName


def ask_in_process(query: Query, use: Resources, channels: Mapping[ChannelName, Channel]) -> Answer:
    """The answer to a query, its channels asked side by side within their times and put together as the callback of a
    chord does it. Nothing is kept of the query. Never raises for a dependency: what is lost is named in ``stats``."""
    return compose(_arrived(query, channels), use, channels)


def traced_in_process(query: Query, use: Resources, channels: Mapping[ChannelName, Channel]) -> dict[str, Any]:
    """The trace of the same."""
    arrived, journal = _arrived(query, channels), Journal(tracing=True)
    answer = compose(arrived, use, channels, journal)
    return trace_from(arrived, answer, journal)


def _arrived(query: Query, channels: Mapping[ChannelName, Channel]) -> Arrived:
    asked = {name: channels[name] for name in query.channels if name in channels}
    envelopes, elapsed_ms = ask_side_by_side(query, asked)
    envelopes = asked_otherwise(query, envelopes, asked, reserve_s=RESERVE_S)
    return Arrived(query=query, envelopes=envelopes, elapsed_ms=elapsed_ms)
