"""The garbage collector of a process that starts: nothing that is imported is ever garbage."""

import gc
from typing import Final

_YOUNG: Final = 10_000  # objects until the youngest are looked at: a query makes thousands, few of them in cycles


def wait_with_collecting() -> None:
    """Collect no garbage until ``keep_for_good``: imports make the collector read all objects again and again."""
    gc.disable()


def keep_for_good() -> None:
    """Freeze all present objects (modules, models, tables) out of garbage collection until the process ends."""
    gc.collect()
    gc.freeze()
    gc.collect()  # CPython collects old garbage once it is a quarter of what the last full collection left: now nothing
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
    gc.enable()
