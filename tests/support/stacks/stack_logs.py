"""The log lines of the running local stack, for tests of what operators are told."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from compose.localstack import variables
from compose.localstack.places import StackFolder, stack_names


def told(event: str, *, within_s: float = 10.0, least: int = 1, **fields: Any) -> list[dict[str, Any]]:
    """Lines of this event with these fields, of every process, once there are ``least``."""
    ends = time.monotonic() + within_s
    while True:
        found = [line for line in _lines(event) if fields.items() <= line.items()]
        if len(found) >= least:
            return found
        if time.monotonic() > ends:
            raise AssertionError(f"{len(found)} lines of {event} with {fields}, not {least}, after {within_s} s")
        time.sleep(0.2)


def nobody_wrote(word: str) -> bool:
    """Whether no process of the stack has written this."""
    return not any(word.encode() in path.read_bytes() for path in _folder().glob("*.log"))


def _lines(event: str) -> Iterator[dict[str, Any]]:
    for path in _folder().glob("*.log"):
        for line in _lines_with(event.encode(), path.read_bytes()):
            if line.startswith(b"{"):
                said = json.loads(line)
                if said["event"] == event:
                    yield said


def _lines_with(word: bytes, log: bytes) -> Iterator[bytes]:
    """Found without cutting up all the others: the log of a whole run is long, and read again and again."""
    at = log.find(word)
    while at >= 0:
        begins, ends = log.rfind(b"\n", 0, at) + 1, log.find(b"\n", at)
        ends = len(log) if ends < 0 else ends
        yield log[begins:ends]
        at = log.find(word, ends)


@cache
def _folder() -> Path:
    for stack in map(StackFolder, stack_names()):
        if variables.read(stack.environment).get("CHORDWISE_URL") == os.environ["CHORDWISE_URL"]:
            return stack.logs
    pytest.fail("the logs are those of a local stack: run this with make test", pytrace=False)
