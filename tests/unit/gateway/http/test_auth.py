"""Keys: verified once, remembered for a moment, and longer only while nobody can be asked."""

from __future__ import annotations

import pytest

from api_gateway.http.auth import FRESH_S, Keys, api_key_of, require_same_tenant, require_scope
from api_gateway.http.problems import Problem
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

    @pytest.mark.parametrize(
        ("headers", "code"),
        [
            ({}, "missing_api_key"),
            ({"authorization": " "}, "missing_api_key"),
            ({"authorization": "Bearer"}, "malformed_authorization"),
            ({"authorization": "Token k"}, "malformed_authorization"),
        ],
    )
    def it_is_401_otherwise(self, headers, code):
        with pytest.raises(Problem) as refused:
            api_key_of(headers)
        assert (refused.value.status, refused.value.code) == (401, code)
        assert refused.value.headers == {"WWW-Authenticate": "Bearer"}


class DescribeRights:
    def it_needs_the_scope(self):
        require_scope(ACME, "read")
        with pytest.raises(Problem) as refused:
            require_scope(ACME, "write")
        assert (refused.value.status, refused.value.code) == (403, "insufficient_scope")

    @pytest.mark.parametrize("claimed", [None, "acme", 5])
    def it_takes_a_tenant_that_agrees_or_is_left_to_validation(self, claimed):
        require_same_tenant(ACME, claimed)

    def it_refuses_another_tenant(self):
        with pytest.raises(Problem) as refused:
            require_same_tenant(ACME, "other")
        assert refused.value.status == 403
