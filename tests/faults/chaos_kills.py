"""Plan and carry out kills, by the process ids in the stack supervisor's file."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import redis

from pipeline.settings import load

_LET_IT_RECOVER_S = (3.0, 9.0)  # between two kills, at least and at most
_BEGIN_AFTER_S = 3.0


@dataclass(frozen=True, slots=True)
class Kill:
    """At ``at_s`` seconds ``victim`` gets ``number``. ``how``: all of it, one child of it, it with what it remembers, or it
    for a few seconds, after which it goes on."""

    at_s: float
    victim: str
    number: signal.Signals
    how: str = "whole"


_KINDS: tuple[tuple[str, signal.Signals, str], ...] = (
    ("worker-ingest", signal.SIGKILL, "whole"),
    ("worker-ingest", signal.SIGTERM, "whole"),
    ("worker-ingest", signal.SIGKILL, "child"),
    ("worker-upkeep", signal.SIGKILL, "whole"),
    ("gateway", signal.SIGKILL, "whole"),
    ("gateway", signal.SIGTERM, "whole"),
    ("redis", signal.SIGKILL, "whole"),
    ("redis", signal.SIGKILL, "emptied"),  # as a Redis without AOF comes back
    ("mariadb", signal.SIGKILL, "whole"),
    ("postgres", signal.SIGKILL, "whole"),
)


_OF_RABBITMQ: tuple[tuple[str, signal.Signals, str], ...] = (
    ("rabbitmq", signal.SIGKILL, "whole"),
    ("rabbitmq", signal.SIGTERM, "whole"),
    ("rabbitmq", signal.SIGSTOP, "frozen"),
)
_FROZEN_S = 4.0


def plan(dice: random.Random, *, seconds: float, broker: str = "redis") -> list[Kill]:
    """Kills until ``seconds``; every kind once, in random order, before any comes a second time."""
    kinds = (*_KINDS, *_OF_RABBITMQ) if broker == "rabbitmq" else _KINDS
    found: list[Kill] = []
    waiting: list[tuple[str, signal.Signals, str]] = []
    at_s = _BEGIN_AFTER_S
    while at_s < seconds:
        if not waiting:
            waiting = dice.sample(kinds, len(kinds))
        victim, number, how = waiting.pop()
        found.append(Kill(at_s, victim, number, how))
        at_s += dice.uniform(*_LET_IT_RECOVER_S)
    return found


def carry_out(kills: Sequence[Kill], stack: Path, *, began: float) -> None:
    """Send each signal at its time. Print and skip a victim that is not running."""
    for kill in kills:
        time.sleep(max(0.0, began + kill.at_s - time.monotonic()))
        done = _carry_out(kill, stack)
        name = signal.Signals(kill.number).name
        print(f"  {kill.at_s:6.1f} s  {kill.victim} ({kill.how}) {name}{'' if done else ': not running'}", flush=True)


def _carry_out(kill: Kill, stack: Path) -> bool:
    processes = json.loads((stack / "run" / "state.json").read_text())["processes"]
    if kill.victim not in processes:
        return False
    pid = int(processes[kill.victim]["pid"])
    if kill.how == "emptied":
        _empty_redis()
    try:
        if kill.how == "child":
            children = _children(pid)
            if not children:
                return False
            pid = children[0]
        os.kill(pid, kill.number)
        if kill.how == "frozen":
            time.sleep(_FROZEN_S)
            os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return False
    return True


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _empty_redis() -> None:
    client = redis.Redis.from_url(load().redis_url.get_secret_value(), socket_timeout=2)
    try:
        client.flushdb()
    except redis.RedisError as error:
        print(f"          not emptied: {type(error).__name__}", flush=True)
    finally:
        client.close()
