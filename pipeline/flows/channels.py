"""The channels of an installation, and how long one may take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

import numpy as np
import structlog
from numpy.typing import NDArray

from pipeline.channels.api import ApiChannel
from pipeline.channels.faq import FaqChannel
from pipeline.channels.header_secrets import HeaderSecrets
from pipeline.channels.host_index import HostIndex
from pipeline.channels.keyword import KeywordChannel
from pipeline.channels.plugins import installed_channels
from pipeline.channels.port import Channel
from pipeline.channels.semantic import SemanticChannel
from pipeline.errors import PipelineError
from pipeline.fetching.calling import ApiCaller
from pipeline.flows.journal import Journal
from pipeline.flows.resources import Resources
from pipeline.flows.vectorizing import vectors_of
from pipeline.models.port import Embedder
from pipeline.records import ChannelName, TenantId
from pipeline.stores.usage import Purpose

log = structlog.get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

# Channel calls run aside, so that one which hangs costs its thread until its socket times out, and never the query.
_ASIDE = ThreadPoolExecutor(max_workers=32, thread_name_prefix="channel")


def make_channels(use: Resources) -> dict[ChannelName, Channel]:
    """Every channel this installation can run, by name: our own, and those of installed packages."""

    def ask(embedder: Embedder, tenant_id: TenantId, texts: Sequence[str], seconds: float) -> NDArray[np.float32]:
        return vectors_of(tenant_id, texts, use, purpose=Purpose.QUERY, embedder=embedder, timeout_s=seconds)

    def embed(embedder: Embedder, tenant_id: TenantId, texts: Sequence[str], seconds: float) -> NDArray[np.float32]:
        return vectors_of(tenant_id, texts, use, purpose=Purpose.QUERY, embedder=embedder, timeout_s=seconds)

    keyword = KeywordChannel(use.mysql, use.local_indexes)
    semantic = SemanticChannel(use.searched, ask, HostIndex(use.mysql, use.local_indexes))
    channels: list[Channel] = [
        keyword,
        semantic,
        FaqChannel(use.mysql, keyword, semantic, use.searched, embed),
        make_api_channel(use),
    ]
    return {channel.name: channel for channel in channels} | _installed(use)


def make_api_channel(use: Resources) -> ApiChannel:
    """The channel of business APIs, which the gateway also tries sources with."""
    caller = ApiCaller(permitted=use.settings.api_allow_networks)
    return ApiChannel(use.mysql, caller, header_secrets(use), use.breakers)


def header_secrets(use: Resources) -> HeaderSecrets:
    """What seals the headers of API sources."""
    return HeaderSecrets(use.settings.secret_key, use.settings.api_secrets)


def _installed(use: Resources) -> dict[ChannelName, Channel]:
    """The channels of installed packages. An entry point is a function that makes a channel of the resources. One that
    fails is left out, and queries that ask it are told so."""
    found: dict[ChannelName, Channel] = {}
    for name, entry in installed_channels().items():
        try:
            channel: Channel = entry.load()(use)
            if channel.name != name:
                raise TypeError(f"the channel calls itself {channel.name}")
            found[ChannelName(name)] = channel
        except Exception as error:  # a stranger's code; told of in the log and in every answer that lacks it
            log.exception("channel_not_made", plugin=entry.name, error=type(error).__name__)
    return found


def aside(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
    """Start ``call`` in a thread of its own. Who waits for it sets the bound; a call that hangs is left to end alone."""
    return _ASIDE.submit(copy_context().run, partial(call, *args, **kwargs))


def in_time(call: Future[T], *, limit_s: float, journal: Journal, part: str, otherwise: str) -> T | None:
    """What ``call`` gives within ``limit_s``. None when it is late or something it needs fails; then ``part`` is lost, and
    ``otherwise`` is what the answer says of it. Raises what is neither."""
    try:
        return call.result(timeout=max(0.0, limit_s))
    except (PipelineError, TimeoutError) as error:
        journal.lost(part, error.code if isinstance(error, PipelineError) else "timeout", otherwise)
        return None
