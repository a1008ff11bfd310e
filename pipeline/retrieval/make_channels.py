"""Create the channels of an installation."""

from collections.abc import Sequence

import numpy as np
import structlog
from numpy.typing import NDArray

from pipeline.api_sources.api_client import ApiCaller
from pipeline.api_sources.header_secrets import HeaderSecrets
from pipeline.channels.business_api import ApiChannel
from pipeline.channels.channel import Channel, installed_channels
from pipeline.channels.faq_channel import FaqChannel
from pipeline.channels.keyword_channel import KeywordChannel
from pipeline.channels.local_indexes import HostIndex
from pipeline.channels.semantic_channel import SemanticChannel
from pipeline.ingestion.make_vectors import vectors_of
from pipeline.models.ports import Embedder
from pipeline.records import ChannelName, TenantId
from pipeline.resources import Resources
from pipeline.tenants.usage import Purpose

log = structlog.get_logger(__name__)


def make_channels(use: Resources) -> dict[ChannelName, Channel]:
    """Return every channel this installation can run, by name: the built-in ones, and those of installed packages."""

    def embed(embedder: Embedder, tenant_id: TenantId, texts: Sequence[str], seconds: float) -> NDArray[np.float32]:
        return vectors_of(tenant_id, texts, use, purpose=Purpose.QUERY, embedder=embedder, timeout_s=seconds)

    keyword = KeywordChannel(use.mysql, use.local_indexes)
    semantic = SemanticChannel(use.searched, embed, HostIndex(use.mysql, use.local_indexes))
    channels: list[Channel] = [
        keyword,
        semantic,
        FaqChannel(use.mysql, keyword, semantic, use.searched, embed),
        make_api_channel(use),
    ]
    return {channel.name: channel for channel in channels} | _installed(use)


def make_api_channel(use: Resources) -> ApiChannel:
    """Create the channel of business APIs, which the gateway also uses to try sources."""
    caller = ApiCaller(permitted=use.settings.api_allow_networks)
    return ApiChannel(use.mysql, caller, header_secrets(use), use.breakers)


def header_secrets(use: Resources) -> HeaderSecrets:
    """Return the cipher for the headers of API sources."""
    return HeaderSecrets(use.settings.secret_key, use.settings.api_secrets)


def _installed(use: Resources) -> dict[ChannelName, Channel]:
    """Create the channels of installed packages. An entry point is a function that creates a channel from the
    resources. One that fails is left out, and answers to queries that name it report the loss."""
    channels: dict[ChannelName, Channel] = {}
    for name, entry in installed_channels().items():
        try:
            channel: Channel = entry.load()(use)
            if channel.name != name:
                raise TypeError(f"the channel calls itself {channel.name}")
            channels[ChannelName(name)] = channel
        except Exception as error:  # third-party code; reported in the log and in every answer that lacks it
            log.exception("channel_not_made", plugin=entry.name, error=type(error).__name__)
    return channels
