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
    """Return the installed channels' entry points by name, unloaded; invalid and taken names are logged."""
    entry_points_by_name: dict[ChannelName, EntryPoint] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        try:
            taken = entry.name in set(ChannelName) or entry.name in entry_points_by_name
            if taken:
                raise ValueError(f"a channel named {entry.name} exists already")
            entry_points_by_name[ChannelName.admit(entry.name)] = entry
        except ValueError as error:
            log.error("channel_not_registered", plugin=entry.name, error=type(error).__name__, detail=str(error))
    return entry_points_by_name
