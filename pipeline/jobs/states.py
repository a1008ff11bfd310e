"""The states of an item of a job, and the moves between them, as a table and as SQL. See docs/ingestion.md."""

import enum
from collections.abc import Mapping

from pipeline.records import ItemState

_S = ItemState


class Move(enum.StrEnum):
    """The causes of an item's change of state."""

    CLAIM = "claim"  # a worker takes it, under a lease
    SUCCEED = "succeed"  # it is searchable, or was overtaken by a later upload
    FAIL = "fail"  # at fault, or given up
    PUT_BACK = "put_back"  # something it needs was away: again, later
    EXPIRE = "expire"  # its holder let the lease run out
    CANCEL = "cancel"  # its owner calls it back
    REPLAY = "replay"  # its owner wants it tried again from the start


# The states from which each move is allowed, and the state it leads to. Other moves are refused at the write.
TRANSITIONS: Mapping[Move, tuple[tuple[ItemState, ...], ItemState]] = {
    Move.CLAIM: ((_S.QUEUED,), _S.RUNNING),
    Move.SUCCEED: ((_S.RUNNING,), _S.SUCCEEDED),
    Move.FAIL: ((_S.RUNNING,), _S.FAILED),
    Move.PUT_BACK: ((_S.RUNNING,), _S.QUEUED),
    Move.EXPIRE: ((_S.RUNNING,), _S.QUEUED),
    Move.CANCEL: ((_S.QUEUED, _S.RUNNING), _S.CANCELLED),
    Move.REPLAY: ((_S.FAILED, _S.CANCELLED), _S.QUEUED),
}


def becomes(move: Move) -> str:
    """Return an assignment for SET, such as ``state = 'running'``."""
    _, target = TRANSITIONS[move]
    return f"state = '{target}'"


def may(move: Move) -> str:
    """Return a condition for WHERE, such as ``state IN ('queued')``."""
    sources, _ = TRANSITIONS[move]
    return "state IN (" + ", ".join(f"'{state}'" for state in sources) + ")"
