"""Sign-on through a provider on loopback, over HTTP: what a person may do, and what is refused on the way."""

from __future__ import annotations

import json
import signal
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest

from pipeline.administration.manage_sessions import end_session
from pipeline.administration.manage_tenants import admit_tenant
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.servers.identity_provider import Provider, identity_provider
from tests.support.stacks.processes import free_port, process, wait_for_http

CLIENT = "chordwise-console"
SECRET = "a-client-secret"
ROLES = {
    "viewer": {"groups": ["staff"]},
    "editor": {"realm_access.roles": ["editors"]},
    "operator": {"email": ["root@acme.example"]},
}
_ORIGIN = "Origin"


@dataclass(frozen=True, kw_only=True)
class Site:
    """A gateway with sign-on, its tenant with a key, and the provider."""

    url: str
    key: str
    tenant_id: str
    provider: Provider
    log: Path
    opened: list[httpx.Client]

    def browser(self, key: str | None = None) -> httpx.Client:
        """A browser without cookies that follows no redirect, or a caller with a key; closed after the test."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.opened.append(httpx.Client(base_url=self.url, headers=headers, timeout=30))
        return self.opened[-1]


@pytest.fixture(scope="module")
def site(use: Resources, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    logs = tmp_path_factory.mktemp("sign-on")
    tenant_id, key = make_tenant(use)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with identity_provider(logs / "provider.log") as provider:
        oidc = {
            "issuer": provider.url,
            "client_id": CLIENT,
            "client_secret": SECRET,
            "url": url,
            "tenant": tenant_id,
            "roles": ROLES,
        }
        environment = {
            "CHORDWISE_GATEWAY_PORT": str(port),
            "CHORDWISE_OIDC": json.dumps(oidc),
            "CHORDWISE_SECRET_KEY": "a-secret-of-the-installation",
        }
        with process("api_gateway", log=logs / "gateway.log", ending=signal.SIGKILL, **environment):
            wait_for_http(f"{url}/healthz", seconds=90)
            provider.has_person("vera", email="vera@acme.example", groups=["staff", "hr"])
            provider.has_person("ed", email="ed@acme.example", realm_access={"roles": ["editors"]}, groups=["staff"])
            provider.has_person("root", email="root@acme.example", email_verified=True)
            provider.has_person("liar", email="root@acme.example", email_verified=False)
            provider.has_person("guest", email="guest@acme.example", groups=["guests"])
            yield Site(url=url, key=key, tenant_id=tenant_id, provider=provider, log=logs / "gateway.log", opened=[])


@pytest.fixture(autouse=True)
def honest(site: Site) -> Iterator[None]:
    yield
    site.provider.control(claims={}, forged=False, away=False, silent_s=0)
    while site.opened:
        site.opened.pop().close()


def at_provider(browser: httpx.Client, person: str) -> str:
    """Begin to sign in, and return the address to which the provider sends the browser back."""
    begun = browser.get("/console/sign-on")
    assert begun.status_code == 303, begun.text
    answer = httpx.post(begun.headers["location"], data={"sub": person})
    assert answer.status_code == 302, answer.text
    return str(answer.headers["location"])


def signed_on(site: Site, person: str) -> httpx.Client:
    """A browser in which a person has signed in."""
    browser = site.browser()
    answer = browser.get(at_provider(browser, person))
    assert answer.headers["location"] == f"{site.url}/console/#/signed-on"
    return browser


def token_of(browser: httpx.Client) -> httpx.Response:
    origin = str(browser.base_url).rstrip("/")
    return browser.post("/console/sign-on/token", headers={_ORIGIN: origin})


def caller(site: Site, person: str) -> httpx.Client:
    """The API with a token of a person."""
    return site.browser(token_of(signed_on(site, person)).json()["token"])


def reason(answer: httpx.Response, site: Site) -> str:
    """Why nobody is signed on: the console's page with a reason, and no session."""
    assert answer.status_code == 303
    assert "chordwise_session" not in answer.headers.get("set-cookie", "")
    address, _, found = answer.headers["location"].rpartition("/")
    assert address == f"{site.url}/console/#/signed-on"
    return found


class DescribeAPerson:
    def it_has_the_scopes_of_its_role_and_the_principals_of_its_groups(self, site):
        own = caller(site, "vera").get("/v1/keys/current").json()
        assert (own["tenant_id"], own["name"], own["scopes"]) == (site.tenant_id, "vera@acme.example", ["read"])
        assert own["principals"] == ["group:hr", "group:staff", "user:vera"]

    @pytest.mark.parametrize(
        ("person", "may_write", "may_administer", "may_operate"),
        [("vera", 403, 403, 403), ("ed", 422, 403, 403), ("root", 422, 200, 200)],
    )
    def it_is_refused_what_its_role_does_not_permit(self, site, person, may_write, may_administer, may_operate):
        api = caller(site, person)
        found = api.post("/v1/documents", json={}), api.get("/v1/keys"), api.get("/v1/tenants")
        assert tuple(answer.status_code for answer in found) == (may_write, may_administer, may_operate)

    def it_needs_a_verified_address_where_the_address_gives_the_role(self, site):
        browser = site.browser()
        assert reason(browser.get(at_provider(browser, "liar")), site) == "no_role"

    def it_is_named_by_the_audit(self, site):
        sent = {"namespace": "people", "documents": [{"document_id": "one", "text": "A pump."}]}
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        assert caller(site, "ed").post("/v1/documents", json=sent, headers=headers).status_code == 202
        admin = site.browser(site.key)
        rows = admin.get("/v1/audit?action=ingest").json()["data"]
        (row,) = [row for row in rows if row["actor"]["key_name"] == "ed@acme.example"]
        assert row["actor"]["scopes"] == ["read", "write"]
        assert admin.get(f"/v1/audit?key_id={row['actor']['key_id']}").json()["data"] == [row]

    def it_sees_the_documents_of_its_groups(self, site):
        documents = [
            {"document_id": "open", "text": "The canteen is open."},
            {"document_id": "pay", "text": "The salaries.", "readers": ["group:hr"]},
            {"document_id": "board", "text": "The board.", "readers": ["group:board"]},
        ]
        owner = site.browser(site.key)
        assert owner.post("/v1/documents", json={"namespace": "papers", "documents": documents}).status_code == 202
        seen = {}
        for person in ("vera", "ed", "root"):
            found = caller(site, person).get("/v1/documents?namespace=papers").json()["data"]
            seen[person] = {row["document_id"] for row in found}
        assert seen == {"vera": {"open", "pay"}, "ed": {"open"}, "root": {"open", "pay", "board"}}


class DescribeASignOn:
    def it_sends_state_nonce_and_the_challenge_of_pkce_to_the_exact_address(self, site):
        browser = site.browser()
        sent = [parse_qs(urlsplit(browser.get("/console/sign-on").headers["location"]).query) for _ in range(2)]
        assert sent[0]["redirect_uri"] == [f"{site.url}/console/sign-on/callback"]
        assert sent[0]["code_challenge_method"] == ["S256"]
        assert all(sent[0][name] != sent[1][name] for name in ("state", "nonce", "code_challenge"))
        assert SECRET not in str(sent)

    def it_keeps_what_it_knows_in_cookies_that_no_script_and_no_other_site_reads(self, site):
        browser = site.browser()
        begun = browser.get("/console/sign-on")
        finished = browser.get(httpx.post(begun.headers["location"], data={"sub": "vera"}).headers["location"])
        for answer, name in ((begun, "chordwise_sign_on"), (finished, "chordwise_session")):
            (cookie,) = [each for each in answer.headers.get_list("set-cookie") if each.startswith(f"{name}=")]
            assert {"HttpOnly", "SameSite=lax", "Path=/console/sign-on"} <= set(cookie.split("; "))

    @pytest.mark.parametrize(
        "fault",
        [
            {"forged": True},
            {"claims": {"exp": 1_000_000_000}},
            {"claims": {"aud": "another-client"}},
            {"claims": {"aud": [CLIENT, "another"], "azp": "another"}},
            {"claims": {"iss": "https://login.example"}},
            {"claims": {"nonce": "of-another-sign-on"}},
            {"claims": {"nonce": None}},
            {"claims": {"iat": 4_000_000_000}},
            {"claims": {"sub": None}},
        ],
        ids=str,
    )
    def it_refuses_a_token_that_is_not_of_this_sign_on(self, site, fault):
        browser = site.browser()
        back = at_provider(browser, "root")
        site.provider.control(**fault)
        assert reason(browser.get(back), site) == "not_valid"
        assert token_of(browser).status_code == 401

    def it_allows_for_clocks_half_a_minute_apart(self, site):
        site.provider.control(claims={"iat": int(time.time()) + 30, "exp": int(time.time()) - 30})
        assert token_of(signed_on(site, "vera")).status_code == 200

    def it_knows_new_keys_of_the_provider_at_once(self, site):
        site.provider.control(kid="second")
        assert token_of(signed_on(site, "vera")).status_code == 200

    def it_refuses_the_answer_to_a_sign_on_of_another_browser(self, site):
        mine, other = site.browser(), site.browser()
        back = at_provider(mine, "root")
        assert reason(other.get(back), site) == "other_browser"
        at_provider(other, "vera")
        assert reason(other.get(back), site) == "other_browser"

    def it_refuses_the_same_answer_a_second_time(self, site):
        browser = site.browser()
        back = at_provider(browser, "vera")
        assert browser.get(back).status_code == 303
        assert reason(browser.get(back), site) == "other_browser"

    def it_says_that_the_provider_refused(self, site):
        browser = site.browser()
        address = browser.get("/console/sign-on").headers["location"]
        state = parse_qs(urlsplit(address).query)["state"][0]
        answer = browser.get("/console/sign-on/callback", params={"error": "access_denied", "state": state})
        assert reason(answer, site) == "refused"

    def it_says_that_the_provider_is_away(self, site):
        with site.browser() as browser:
            back = at_provider(browser, "vera")
            site.provider.control(away=True)
            assert reason(browser.get("/console/sign-on"), site) == "provider_away"
            browser.cookies.clear()
            site.provider.control(away=False)
            back = at_provider(browser, "vera")
            site.provider.control(away=True)
            assert reason(browser.get(back), site) == "provider_away"
        with site.browser(site.key) as program:
            assert program.get("/v1/keys/current").status_code == 200

    @pytest.mark.thorough
    def it_waits_ten_seconds_for_the_provider_at_most(self, site):
        site.provider.control(silent_s=30)
        with site.browser() as browser:
            started = time.monotonic()
            assert reason(browser.get("/console/sign-on"), site) == "provider_away"
        assert 9 < time.monotonic() - started < 20

    def it_leads_to_no_address_but_its_own(self, site):
        with site.browser() as browser:
            for path in ("/console/sign-on", "/console/sign-on/callback"):
                answer = browser.get(
                    path, params={"next": "https://evil.example", "redirect_uri": "https://evil.example"}
                )
                assert "evil.example" not in answer.headers["location"]

    def it_logs_neither_codes_nor_tokens_nor_secrets(self, site):
        browser = signed_on(site, "vera")
        secrets = [token_of(browser).json()["token"], browser.cookies["chordwise_session"], SECRET, "code="]
        log = site.log.read_text(encoding="utf-8")
        assert "signed_on" in log
        assert [secret for secret in secrets if secret in log] == []


class DescribeASession:
    @pytest.mark.parametrize("origin", [None, "https://evil.example", "null"])
    @pytest.mark.parametrize("path", ["token", "end"])
    def it_is_used_by_the_console_alone(self, site, origin, path):
        browser = signed_on(site, "root")
        answer = browser.post(f"/console/sign-on/{path}", headers={} if origin is None else {_ORIGIN: origin})
        assert (answer.status_code, answer.json()["code"]) == (403, "sign_in_refused")
        assert token_of(browser).status_code == 200

    def it_permits_nothing_without_a_token(self, site):
        browser = signed_on(site, "root")
        for cookie in browser.cookies.jar:
            cookie.path = "/"
        assert browser.get("/v1/documents").status_code == 401

    def it_ends_at_once_when_the_person_signs_out(self, site):
        browser = signed_on(site, "vera")
        token = token_of(browser).json()["token"]
        cookie = browser.cookies["chordwise_session"]
        answer = browser.post("/console/sign-on/end", headers={_ORIGIN: site.url})
        assert answer.json()["address"].startswith(f"{site.provider.url}/oauth2/end_session?")
        browser.cookies.set("chordwise_session", cookie, path="/console/sign-on")
        assert token_of(browser).status_code == 401
        with site.browser(token) as api:
            assert api.get("/v1/keys/current").status_code == 401

    def it_refuses_tokens_that_are_forged_or_have_ended_or_are_of_another_tenant(self, site, use):
        token = token_of(signed_on(site, "root")).json()["token"]
        claims = jwt.decode(token, options={"verify_signature": False})
        other, _ = make_tenant(use)
        forged = [
            jwt.encode(claims, "another-secret-of-32-characters-length", algorithm="HS256"),
            jwt.encode(claims, None, algorithm="none"),
            jwt.encode({**claims, "aud": f"chordwise:{other}:sign-on"}, "x" * 32, algorithm="HS256"),
            f"{token[:-4]}AAAA",
        ]
        for each in forged:
            with site.browser(each) as api:
                answer = api.get("/v1/keys/current")
            assert (answer.status_code, answer.json()["code"]) == (401, "invalid_api_key")

    def it_ends_with_its_key_in_redis(self, site, use):
        browser = signed_on(site, "vera")
        end_session(site.tenant_id, browser.cookies["chordwise_session"], use)
        assert token_of(browser).status_code == 401

    def it_is_refused_while_the_tenant_is_disabled(self, site, use):
        token = token_of(signed_on(site, "vera")).json()["token"]
        other = site.browser()
        admit_tenant(site.tenant_id, use, False)
        try:
            assert reason(other.get(at_provider(other, "vera")), site) == "no_tenant"
            assert site.browser(token).get("/v1/keys/current").status_code == 401
        finally:
            admit_tenant(site.tenant_id, use, True)
