"""Looking up names in no more time than there is: the system's own look-up has no limit that a caller could set."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

Found = TypeVar("Found")

_MOST: Final = 64  # look-ups of one process at a time; those nobody waits for any more go on until the system ends them
_places = threading.BoundedSemaphore(_MOST)


def within(look_up: Callable[[], Found], *, seconds: float, places: threading.BoundedSemaphore = _places) -> Found:
    """Return or raise what ``look_up`` does; TimeoutError when late, its thread then ending alone. ``places``: the most
    at a time."""
    ends = time.monotonic() + seconds
    reply: Future[Found] = Future()

    def run() -> None:
        try:
            reply.set_result(look_up())
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            reply.set_exception(error)
        finally:
            places.release()

    if not places.acquire(timeout=max(0.0, seconds)):
        raise TimeoutError("too many names are being looked up")
    try:
        threading.Thread(target=run, name="names", daemon=True).start()
    except RuntimeError:
        places.release()
        raise TimeoutError("no thread could be started") from None
    return reply.result(timeout=max(0.0, ends - time.monotonic()))
