"""Sign-on without a provider: where it is off, behind TLS, and its setting."""

from __future__ import annotations

import json

import httpx
import pytest

from api_gateway.app import create_app
from pipeline.errors import Misconfigured
from pipeline.settings import load
from pipeline.tenants.people import role_of, session_of
from tests.support.repository.guides import blocks

OIDC = {
    "issuer": "https://login.example/realms/acme",
    "client_id": "chordwise",
    "client_secret": "not-to-be-shown",
    "url": "https://search.example/chordwise/",
    "tenant": "acme",
    "roles": {"viewer": {"groups": ["staff"]}},
}


def settings(**changes):
    return load({"oidc": json.dumps({**OIDC, **changes}), "secret_key": "a-secret"})


async def asked(method: str, path: str, use, **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app=create_app(use))
    async with httpx.AsyncClient(transport=transport, base_url="http://inside:8080") as client:
        return await client.request(method, path, headers=headers)


class DescribeWhereItIsOff:
    @pytest.mark.parametrize(
        ("method", "path"), [("GET", ""), ("GET", "/callback"), ("POST", "/token"), ("POST", "/end")]
    )
    async def it_has_no_route(self, method, path):
        answer = await asked(method, f"/console/sign-on{path}", load({}))
        assert (answer.status_code, answer.json()["code"]) == (404, "route_not_found")

    async def it_shows_no_button(self):
        assert (await asked("GET", "/console/config.json", load({}))).json()["sign_on"] is None


class DescribeBehindAProxy:
    async def it_names_the_address_of_the_setting_whatever_the_host_of_the_request(self):
        config = await asked("GET", "/console/config.json", settings(), host="evil.example")
        assert config.json()["sign_on"] == "https://search.example/chordwise/console/sign-on"

    async def it_sets_secure_cookies_below_its_path_behind_tls(self):
        answer = await asked("GET", "/console/sign-on/callback?code=x&state=y", settings(), host="evil.example")
        assert answer.headers["location"] == "https://search.example/chordwise/console/#/signed-on/other_browser"
        parts = set(answer.headers["set-cookie"].split("; "))
        assert {"HttpOnly", "Secure", "SameSite=lax", "Path=/chordwise/console/sign-on"} <= parts


class DescribeTheSetting:
    @pytest.mark.parametrize(
        ("changes", "named"),
        [
            ({"issuer": "http://login.example"}, "issuer"),
            ({"url": "http://search.example"}, "url"),
            ({"url": "https://search.example/?x=1"}, "url"),
            ({"roles": {"boss": {"groups": ["staff"]}}}, "roles boss"),
            ({"tenant": "Not A Tenant"}, "tenant"),
            ({"scope": "email"}, "scope"),
            ({"client": "chordwise"}, "client"),
        ],
    )
    def it_names_the_part_that_is_wrong_and_never_a_secret(self, changes, named):
        with pytest.raises(Misconfigured, match=f"CHORDWISE_OIDC {named}") as refused:
            settings(**changes)
        assert "not-to-be-shown" not in str(refused.value)

    def it_refuses_what_is_no_json(self):
        with pytest.raises(Misconfigured, match="CHORDWISE_OIDC: must be a JSON object"):
            load({"oidc": "https://login.example"})

    def it_needs_a_secret_key_where_people_sign_in(self):
        with pytest.raises(Misconfigured, match="CHORDWISE_OIDC needs CHORDWISE_SECRET_KEY"):
            create_app(load({"oidc": json.dumps(OIDC)}))

    def it_is_off_when_it_is_empty(self):
        assert load({"oidc": ""}).oidc is None


ROLES = {
    "viewer": {"hd": ("acme.example",)},
    "editor": {"realm_access.roles": ("editors",), "https://acme.example/roles": ("editors",)},
    "operator": {"email": ("root@acme.example",)},
}


class DescribeRoles:
    @pytest.mark.parametrize(
        ("claims", "role"),
        [
            ({}, None),
            ({"hd": "other.example"}, None),
            ({"hd": "acme.example"}, "viewer"),
            ({"hd": ["acme.example"]}, "viewer"),
            ({"hd": {"acme.example": True}}, None),
            ({"realm_access": {"roles": ["editors", "x"]}, "hd": "acme.example"}, "editor"),
            ({"realm_access": "editors"}, None),
            ({"https://acme.example/roles": ["editors"]}, "editor"),
            ({"email": "root@acme.example"}, None),
            ({"email": "root@acme.example", "email_verified": "true"}, None),
            ({"email": "root@acme.example", "email_verified": True}, "operator"),
        ],
    )
    def it_gives_the_highest_role_of_the_claims(self, claims, role):
        assert role_of(claims, ROLES) == role

    def it_bounds_the_groups_of_a_session(self):
        claims = {"sub": "42", "groups": [f"g{number}" for number in range(3000)] + ["x" * 300, 7]}
        session = session_of(claims, "viewer", issuer="https://login.example", groups="groups")
        assert len(session["principals"]) == 1000
        assert session["principals"][:2] == ["user:42", "group:g0"]
        assert session["name"] == "42"

    def it_tells_two_providers_people_of_one_name_apart(self):
        ids = {session_of({"sub": "42"}, "viewer", issuer=issuer, groups="g")["id"] for issuer in ("a", "b")}
        assert len(ids) == 2


class DescribeThePage:
    def it_shows_settings_that_are_taken(self):
        whole, *parts = [block.text for block in blocks("docs/sign-on.md", "json")]
        assert settings(**json.loads(whole)).oidc.tenant == "acme"
        assert len(parts) == 3
        for part in parts:
            written = json.loads(f"{{{part}}}".replace("<directory id>", "0760b6cf"))
            taken = settings(**written).oidc
            assert taken.issuer == written["issuer"]
            assert {"viewer", "operator"} <= set(taken.roles)
