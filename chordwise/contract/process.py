"""The processes of an installation."""

from dataclasses import dataclass
from datetime import datetime

from chordwise.contract.record import Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentProcess(Answered):
    """A process that has given no sign of life `since` then although it did not end in order: killed, frozen, or cut off.
    `served`: its queues, or `gateway`, `indexer`, `clock`."""

    host: str
    name: str
    since: datetime
    served: tuple[str, ...]
