"""Parsers from installed packages, which the gateway accepts and the parser process runs beside the built-in ones."""

from __future__ import annotations

import functools
from importlib.metadata import entry_points

from pipeline.parsing.formats import Format, register

GROUP = "chordwise.parsers"


@functools.cache
def register_installed_parsers() -> tuple[str, ...]:
    """Register every `Format` of the entry point group, once per process; return their media types. One that fails to
    load or takes another's place is logged and left out."""
    media_types = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            plugin = entry.load()
            if not isinstance(plugin, Format):
                raise TypeError(f"a {type(plugin).__name__} is no Format")
            register(plugin)
        except Exception as error:  # noqa: BLE001 - whatever a stranger's module raises when it is loaded
            import structlog  # imported here, because the parser process logs nothing and starts without it

            log = structlog.get_logger(__name__)
            log.error("parser_not_registered", plugin=entry.name, error=type(error).__name__, detail=str(error))
        else:
            media_types.append(plugin.media_type)
    return tuple(media_types)
