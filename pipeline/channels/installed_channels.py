"""Channels of installed packages. Gateway and workers know their names; only workers load their code."""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points

import structlog

from pipeline.records import ChannelName

log = structlog.get_logger(__name__)

GROUP = "chordwise.channels"


@functools.cache
def installed_channels() -> dict[ChannelName, EntryPoint]:
    """Return the entry points of installed channels by name, unloaded. One with an invalid or taken name is logged and
    left out."""
    found: dict[ChannelName, EntryPoint] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        try:
            taken = entry.name in set(ChannelName) or entry.name in found
            if taken:
                raise ValueError(f"there is a channel {entry.name} already")
            found[ChannelName.admit(entry.name)] = entry
        except ValueError as error:
            log.error("channel_not_registered", plugin=entry.name, error=type(error).__name__, detail=str(error))
    return found
