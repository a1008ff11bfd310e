"""The channels of an installation, and how long one may take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.channels.keyword import KeywordChannel
from pipeline.channels.port import Channel
from pipeline.channels.semantic import SemanticChannel
from pipeline.flows.resources import Resources
from pipeline.flows.vectorizing import vectors_of
from pipeline.models.port import Embedder
from pipeline.records import ChannelName, TenantId
from pipeline.stores.usage import Purpose

P = ParamSpec("P")
T = TypeVar("T")

# Channel calls run aside, so that one which hangs costs its thread until its socket times out, and never the query.
_ASIDE = ThreadPoolExecutor(max_workers=32, thread_name_prefix="channel")


def make_channels(use: Resources) -> dict[ChannelName, Channel]:
    """Every channel this installation can run, by name."""

    def ask(embedder: Embedder, tenant_id: TenantId, texts: Sequence[str], seconds: float) -> NDArray[np.float32]:
        return vectors_of(tenant_id, texts, use, purpose=Purpose.QUERY, embedder=embedder, timeout_s=seconds)

    channels: list[Channel] = [KeywordChannel(use.mysql), SemanticChannel(use.searched, ask)]
    return {channel.name: channel for channel in channels}


def aside(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
    """Start ``call`` in a thread of its own. Who waits for it sets the bound; a call that hangs is left to end alone."""
    return _ASIDE.submit(call, *args, **kwargs)
