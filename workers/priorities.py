"""Niceness of the processes of one host: first the gateway and the stores, then queries, then everything else. The priority
of jobs is another matter: `pipeline/jobs/turn_store.py`."""

import enum
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_GROUP: Final = Path("/proc/self/autogroup")


class Niceness(enum.IntEnum):
    """How far a process gives way to others (sched(7)); three steps are half of the weight."""

    QUERIES = 3  # a gateway that waits for a processor delays every caller, also those that it only refuses
    BACKGROUND = 8  # a third of the weight of queries, so that a flood of uploads or previews does not slow them


def give_way(niceness: Niceness) -> None:
    """Lower the priority of this process, before it starts threads; with autogroup (sched(7)) that of its session as well,
    unless the session is another's: a terminal would be slow from then on."""
    os.nice(max(0, niceness - os.getpriority(os.PRIO_PROCESS, 0)))
    if os.getsid(0) != os.getpid():
        return
    with suppress(OSError):  # there are no autogroups
        if int(_GROUP.read_text(encoding="ascii").split()[-1]) < niceness:
            _GROUP.write_text(str(int(niceness)), encoding="ascii")
