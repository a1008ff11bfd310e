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
    registered = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            found = entry.load()
            if not isinstance(found, Format):
                raise TypeError(f"a {type(found).__name__} is no Format")
            register(found)
        except Exception as error:  # noqa: BLE001 - whatever a stranger's module does when it is loaded; told of below
            _tell(entry.name, error)
        else:
            registered.append(found.media_type)
    return tuple(registered)


def _tell(plugin: str, error: Exception) -> None:
    import structlog  # imported here, because the parser process logs nothing and starts without it

    log = structlog.get_logger(__name__)
    log.error("parser_not_registered", plugin=plugin, error=type(error).__name__, detail=str(error))
