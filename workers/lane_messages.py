"""The protocol between the gateway and its own query processes, or the query workers of its host: one JSON object a line. Ids
only, unless Redis is away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Literal, Self

import orjson

from pipeline.database.installation import addresses
from pipeline.query.query_store import QUERY
from pipeline.query.request import Query
from pipeline.records import QueryId, TenantId
from pipeline.settings import Settings
from workers.names import MESSAGE_FORMAT

THREADS = 4  # queries that such a process answers at a time, as many as a worker
PATIENT_THREADS = 8  # and in addition, queries that wait for a model or a service

Step = Literal["answer", "finish", "answer_unstored"]


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
    """An open query. ``finish``: from the results so far. ``answer_unstored``: ``query``, as JSON, which Redis does not
    return. ``patient``: it waits for a model. ``headers``: its trace."""

    step: Step
    tenant_id: TenantId
    query_id: QueryId
    request_id: str
    patient: bool = False
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, query: Query, step: Step, *, patient: bool, headers: Mapping[str, str]) -> Self:
        """Return the request for a step of a query."""
        return cls(
            step=step,
            tenant_id=query.tenant_id,
            query_id=query.query_id,
            request_id=query.request_id,
            patient=patient,
            query=QUERY.dump_json(query).decode() if step == "answer_unstored" else "",
            headers=headers,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneReply(LaneMessage):
    """The end of a step of a query, successful or not; without a query: the process is ready. ``answer``: of a query that Redis
    does not return, as JSON."""

    query_id: str = ""
    step: Step = "answer"
    answer: str = ""


def worker_sockets(settings: Settings) -> tuple[Path, str]:
    """Return the folder of the sockets on which this host's query workers listen for its gateways, and the beginning of the
    sockets' names, which differs for processes with other stores or messages."""
    differing = "|".join(map(str, (MESSAGE_FORMAT, *addresses(settings).values())))
    return settings.keyword_index_dir.expanduser(), f"queries-{sha256(differing.encode()).hexdigest()[:8]}-"
