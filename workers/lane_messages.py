"""The protocol between the gateway and its own query processes: one JSON object a line, ids only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

import orjson

from pipeline.records import QueryId, TenantId

THREADS = 4  # queries that such a process answers at a time, as many as a worker
PATIENT_THREADS = 8  # and in addition, queries that wait for a model or a service

Step = Literal["answer", "finish"]


class LaneMessage:
    """A message of the protocol as a line."""

    __slots__ = ()

    def line(self) -> bytes:
        """Return the line to send."""
        return orjson.dumps(self, option=orjson.OPT_APPEND_NEWLINE)

    @classmethod
    def read(cls, line: bytes) -> Self:
        """Parse a line of the other side."""
        return cls(**orjson.loads(line))


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRequest(LaneMessage):
    """An open query. ``finish``: from the results so far. ``patient``: it waits for a model. ``headers``: its trace."""

    step: Step
    tenant_id: TenantId
    query_id: QueryId
    request_id: str
    patient: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneReply(LaneMessage):
    """The end of a step of a query, successful or not; without a query: the process is ready."""

    query_id: str = ""
    step: Step = "answer"
