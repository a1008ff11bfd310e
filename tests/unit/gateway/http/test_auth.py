"""Keys: verified once, remembered for a moment, and longer only while nobody can be asked."""

from __future__ import annotations

import pytest

from api_gateway.http.auth import FRESH_S, Keys, api_key_of
from api_gateway.live.stale_cache import STALE_S
from pipeline.errors import StoreUnavailable
from pipeline.records import TenantId
from pipeline.tenants.accounts import Principal

KEY = "cw_acme_" + "0" * 48
ACME = Principal(tenant_id=TenantId("acme"), scopes=frozenset({"read"}))


class Registry:
    """The keys in MySQL, and how often somebody looked."""

    def __init__(self):
        self.keys = {KEY: ACME}
        self.looks = 0
        self.down = False
        self.now = 0.0

    async def look_up(self, api_key):
        self.looks += 1
        if self.down:
            raise StoreUnavailable("MySQL: gone")
        return self.keys.get(api_key)


@pytest.fixture
def registry():
    return Registry()


@pytest.fixture
def keys(registry):
    return Keys(registry.look_up, clock=lambda: registry.now)


class DescribeKeys:
    async def it_asks_once_for_a_while(self, keys, registry):
        assert [await keys.principal(KEY) for _ in range(3)] == [ACME] * 3
        assert registry.looks == 1
        registry.now = FRESH_S
        await keys.principal(KEY)
        assert registry.looks == 2

    async def it_notices_a_revocation_soon(self, keys, registry):
        await keys.principal(KEY)
        registry.keys.clear()
        registry.now = FRESH_S
        assert await keys.principal(KEY) is None

    async def it_remembers_a_refusal_too(self, keys, registry):
        registry.keys.clear()
        assert await keys.principal(KEY) is None
        assert await keys.principal(KEY) is None
        assert registry.looks == 1
        registry.keys[KEY] = ACME
        registry.now = FRESH_S
        assert await keys.principal(KEY) == ACME

    async def it_keeps_answering_while_nobody_can_be_asked(self, keys, registry):
        await keys.principal(KEY)
        registry.down = True
        registry.now = STALE_S
        assert await keys.principal(KEY) == ACME
        registry.now = STALE_S + 1
        with pytest.raises(StoreUnavailable):
            await keys.principal(KEY)

    async def it_lets_nobody_new_in_while_nobody_can_be_asked(self, keys, registry):
        registry.down = True
        with pytest.raises(StoreUnavailable):
            await keys.principal(KEY)

    @pytest.mark.parametrize("key", ["", "nonsense", "cw__" + "0" * 48, "cw_acme_short", "cw_ACME_" + "0" * 48])
    async def it_does_not_ask_for_what_cannot_be_a_key(self, keys, registry, key):
        assert await keys.principal(key) is None
        assert registry.looks == 0


class DescribeTheHeader:
    @pytest.mark.parametrize("header", ["Bearer k", "bearer k", "BEARER   k ", " Bearer k"])
    def it_gives_the_key(self, header):
        assert api_key_of({"authorization": header}) == "k"
