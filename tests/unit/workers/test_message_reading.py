"""Messages are read as kombu reads them, faster."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from kombu.serialization import dumps, loads
from kombu.utils import json

import celery_config  # noqa: F401  # which puts this reading in place
from workers.transport import read

ORDINARY = [
    [],
    {"tenant_id": "t", "query_id": "ü"},
    {"callbacks": None, "expires": 2.9, "nested": [True, -1, "\u2028"]},
]
TAGGED = {"at": datetime(2026, 1, 2, tzinfo=UTC), "id": uuid.UUID(int=7), "n": Decimal("1.50"), "d": date(2026, 1, 2)}


class DescribeReading:
    @pytest.mark.parametrize("message", [ORDINARY, TAGGED, [2**63, -(2**62)], {"inf": float("inf")}, "text", None])
    def it_reads_what_kombu_writes_as_kombu_does(self, message):
        written = json.dumps(message)
        assert read(written) == read(written.encode()) == json.loads(written) == message

    def it_refuses_what_is_no_json(self):
        with pytest.raises(ValueError, match="Expecting"):
            read("{nonsense")

    def it_is_what_celery_uses(self):
        content_type, encoding, body = dumps(TAGGED, serializer="json")
        assert loads(body, content_type, encoding, accept=["application/json"]) == TAGGED
