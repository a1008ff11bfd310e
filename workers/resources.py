"""The resources of this process, made at first use, and so after the fork."""

from __future__ import annotations

import functools

from pipeline.channels.port import Channel
from pipeline.flows.channels import make_channels
from pipeline.flows.resources import Resources
from pipeline.records import ChannelName
from pipeline.settings import settings


@functools.cache
def for_ingestion() -> Resources:
    """Patient ones: a batch may take its time."""
    return Resources(settings())


@functools.cache
def for_queries() -> Resources:
    """Impatient ones: a statement that takes longer than a channel may is no use to a query."""
    return Resources(settings(), timeout_s=settings().recall_timeout_ms / 1000)


@functools.cache
def channels() -> dict[ChannelName, Channel]:
    """The channels of this installation."""
    return make_channels(for_queries())
