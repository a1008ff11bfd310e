"""Answer a query in the test's own process, without broker and storage of queries."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.answer.result import Answer
from pipeline.channels.channel import Channel
from pipeline.query.request import Query
from pipeline.records import ChannelName
from pipeline.resources import Resources
from pipeline.retrieval.compose import compose
from pipeline.retrieval.explain import ask_without_storing


def ask_in_process(query: Query, use: Resources, channels: Mapping[ChannelName, Channel]) -> Answer:
    """Return the answer to a query, composed as the callback of a chord composes it."""
    return compose(ask_without_storing(query, channels), use, channels)
