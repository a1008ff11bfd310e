"""Load fusions of installed packages by the name of their entry point."""

from __future__ import annotations

import functools
from importlib.metadata import entry_points
from typing import cast

from pipeline.errors import FusionPluginFailed
from pipeline.ranking.custom_fusion import FusionPlugin

GROUP = "chordwise.fusion"


@functools.cache
def installed_fusions() -> tuple[str, ...]:
    """Return the names of the installed fusions without loading any."""
    return tuple(sorted(entry_points(group=GROUP).names))


@functools.cache
def load_fusion(name: str) -> FusionPlugin:
    """Return the fusion of this name, loaded once in each process. Raises FusionPluginFailed."""
    try:
        found = next(iter(entry_points(group=GROUP, name=name))).load()
    except StopIteration:
        raise FusionPluginFailed("it is not installed here") from None
    except Exception as error:  # a third-party module may raise anything when it is loaded
        raise FusionPluginFailed(f"it could not be loaded: {type(error).__name__}") from error
    if not callable(found):
        raise FusionPluginFailed(f"a {type(found).__name__} cannot be called")
    return cast(FusionPlugin, found)
