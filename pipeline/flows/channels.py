"""The channels of an installation, and how long one may take."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pipeline.channels.keyword import KeywordChannel
from pipeline.channels.port import Channel
from pipeline.channels.semantic import SemanticChannel
from pipeline.flows.resources import Resources
from pipeline.records import ChannelName

T = TypeVar("T")

# Channel calls run aside, so that one which hangs costs its thread until its socket times out, and never the query.
_ASIDE = ThreadPoolExecutor(max_workers=32, thread_name_prefix="channel")


def make_channels(use: Resources) -> dict[ChannelName, Channel]:
    """Every channel this installation can run, by name."""
    channels: list[Channel] = [KeywordChannel(use.mysql), SemanticChannel(use.embedder, use.vectors)]
    return {channel.name: channel for channel in channels}


def run_bounded(call: Callable[[], T], *, timeout_s: float) -> T:
    """The result of ``call``. Raises TimeoutError when it is not there in time; the call itself is left to end alone."""
    return _ASIDE.submit(call).result(timeout=timeout_s)
