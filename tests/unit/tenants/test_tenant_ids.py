"""Which ids a tenant may have: they begin keys of Redis, so that those of the installation are nobody's."""

from __future__ import annotations

import sys

import pytest
from pydantic import ValidationError

from api_gateway.resources.tenants import TenantRequest
from pipeline.channels import circuit_breaker_store
from pipeline.embedding import cache_store
from pipeline.metrics import meter_store
from pipeline.query.wake_names import WAKE_CHANNEL
from pipeline.records import TenantId
from pipeline.tenants import audit_store, bootstrap, erasure_store
from pipeline.tenants.accounts import RESERVED

OWN_KEYS = [
    audit_store.WAITING,
    audit_store.LOST,
    circuit_breaker_store.CIRCUITS,
    circuit_breaker_store.OPENED,
    meter_store.TOTALS,
    WAKE_CHANNEL,
    cache_store._STATE,
]


class FakeRedis:
    """Holds the names of keys."""

    def __init__(self, keys: set[bytes]) -> None:
        self.keys = keys

    def scan_iter(self, match: str, count: int) -> list[bytes]:
        assert count > 0
        return [key for key in self.keys if key.startswith(match.rstrip("*").encode())]

    def unlink(self, *keys: bytes) -> int:
        self.keys -= {*keys}
        return len(keys)


class DescribeReservedIds:
    def it_holds_what_the_installations_own_keys_begin_with(self):
        assert {key.partition(":")[0] for key in OWN_KEYS} <= RESERVED

    @pytest.mark.parametrize("reserved", sorted(RESERVED))
    def it_is_no_tenant_that_can_be_made(self, reserved, monkeypatch, capsys):
        with pytest.raises(ValidationError, match="a name of the installation itself"):
            TenantRequest.model_validate({"tenant_id": reserved, "name": "x"})
        monkeypatch.setattr(sys, "argv", ["bootstrap", reserved])
        assert bootstrap.main() == 2
        assert "a name of the installation itself" in capsys.readouterr().err

    def it_keeps_the_installations_keys_when_a_tenant_of_that_name_is_erased(self):
        """One that was made before the name was reserved."""
        own = [
            *(key for key in OWN_KEYS if key != WAKE_CHANNEL),
            "chordwise:pace:abc",
            "chordwise:vectors:17",
        ]
        kept = {
            key.encode()
            for key in (*own, "chordwise:metrics:29384", "chordwise:audit:swept", "chordwise:ledger:pruned")
        }
        its = {b"chordwise:audit", b"chordwise:requests", b"chordwise:query:1", b"chordwise:vectors:model:17"}
        held = FakeRedis({*kept, *its})
        batches = erasure_store.key_batches(held, TenantId("chordwise"))
        assert sum(erasure_store.unlink(held, keys) for keys in batches) == len(its)
        assert held.keys == kept

    def it_may_stand_within_an_id(self):
        assert TenantRequest.model_validate({"tenant_id": "chordwise-demo", "name": "x"}).tenant_id == "chordwise-demo"
