"""The garbage collector of a process that has just been warmed up."""

from __future__ import annotations

import gc


def keep_for_good() -> None:
    """Freeze all present objects (modules, models, tables) out of garbage collection until the process ends."""
    gc.collect()
    gc.freeze()
