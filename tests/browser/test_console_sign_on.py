"""People sign in to the console at a provider on loopback, in both languages."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.servers.identity_provider import Provider, identity_provider
from tests.support.stacks.processes import free_port, process, wait_for_http

ENGLISH = {
    "locale": "en-GB",
    "enter": "Sign in with your organisation",
    "out": "Sign out",
    "as": "Signed in as: vera@acme.example",
    "no_role": "You are known, but have no role here.",
    "away": "The provider at which people sign in does not answer. Keys work all the same.",
    "refused": "The provider did not sign you in.",
    "reads": "You may read here, but not write.",
    "key": "API key",
    "with_key": "Sign in",
}
CHINESE = {
    "locale": "zh-CN",
    "enter": "使用组织账号登录",
    "out": "退出登录",
    "as": "登录用户: vera@acme.example",
    "no_role": "身份已确认，但你在这里没有角色",
    "away": "身份提供方没有响应，仍可使用 API Key 登录。",
    "refused": "身份提供方未允许登录。",
    "reads": "你只有读取权限，不能写入。",
    "key": "API Key",
    "with_key": "登录",
}
both_languages = pytest.mark.parametrize("words", [ENGLISH, CHINESE], ids=["en", "zh"])
pytestmark = (
    pytest.mark.refused
)  # the provider's page has a style from elsewhere, and requests without a session are refused


@pytest.fixture(scope="module")
def site(use: Resources, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Provider, str]]:
    """The address of a gateway with sign-on, its provider, and a key of its tenant."""
    logs = tmp_path_factory.mktemp("sign-on")
    tenant_id, key = make_tenant(use)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with identity_provider(logs / "provider.log") as provider:
        oidc = {
            "issuer": provider.url,
            "client_id": "chordwise",
            "client_secret": "a-client-secret",
            "url": url,
            "tenant": tenant_id,
            "roles": {"viewer": {"groups": ["staff"]}, "operator": {"groups": ["operators"]}},
        }
        environment = {
            "CHORDWISE_GATEWAY_PORT": str(port),
            "CHORDWISE_OIDC": json.dumps(oidc),
            "CHORDWISE_SECRET_KEY": "a-secret-of-the-installation",
            "CHORDWISE_FLOWER_URL": "http://flower.example",
        }
        with process("api_gateway", log=logs / "gateway.log", ending=signal.SIGKILL, **environment):
            wait_for_http(f"{url}/healthz", seconds=90)
            provider.has_person("vera", email="vera@acme.example", groups=["staff"])
            provider.has_person("root", email="root@acme.example", groups=["operators"])
            provider.has_person("guest", email="guest@acme.example", groups=["guests"])
            yield url, provider, key
            provider.control(away=False)


def enter(page: Page, url: str, words: dict[str, str], person: str, view: str = "") -> None:
    """Sign in as a person, from a view of the console."""
    page.goto(f"{url}/console/#/{view}")
    page.get_by_role("link", name=words["enter"]).click()
    page.locator("input[name=sub]").fill(person)
    page.get_by_role("button", name="Authorize").click()


class DescribeSigningIn:
    @both_languages
    def it_leads_back_to_the_view_and_names_the_person(self, console, site, words):
        url, _, key = site
        made = console(locale=words["locale"], url=url, key=key)
        enter(made.page, url, words, "vera", "documents")
        out = made.page.get_by_role("button", name=words["out"])
        expect(out).to_have_attribute("title", words["as"])
        assert made.page.url == f"{url}/console/#/documents"
        expect(made.page.locator("nav a[href='#/tenants']")).to_have_count(0)
        kept = made.page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie])")
        token = "ey"
        assert token not in kept
        assert not any("token=" in address or "/console/#/signed-on" in address for address in made.addresses)

        made.page.goto(f"{url}/console/#/upload")
        made.page.reload()
        expect(made.page.get_by_text(words["reads"])).to_be_visible()
        out.click()
        expect(made.page).to_have_url(re.compile("/oauth2/end_session"))
        made.page.get_by_role("button", name="End session").click()
        expect(made.page.get_by_role("link", name=words["enter"])).to_be_visible()
        made.page.reload()
        expect(made.page.get_by_role("link", name=words["enter"])).to_be_visible()

    def it_shows_an_operator_everything_and_flower_to_nobody_else(self, console, site):
        url, _, key = site
        for person, sees in (("root", 1), ("vera", 0)):
            made = console(url=url, key=key)
            enter(made.page, url, ENGLISH, person, "health")
            expect(made.page.get_by_role("heading", level=1)).to_have_text("Health")
            made.page.wait_for_load_state("networkidle")
            expect(made.page.get_by_role("link", name="Flower")).to_have_count(sees)
            expect(made.page.locator("nav a[href='#/tenants']")).to_have_count(sees)

    @both_languages
    def it_says_why_nobody_is_signed_in(self, console, site, words):
        url, provider, key = site
        made = console(locale=words["locale"], url=url, key=key)
        page = made.page
        enter(page, url, words, "guest")
        expect(page.locator("form [role=status]")).to_contain_text(words["no_role"])
        page.get_by_role("link", name=words["enter"]).click()
        page.get_by_role("button", name="Deny").click()
        expect(page.locator("form [role=status]")).to_contain_text(words["refused"])
        provider.control(away=True)
        page.get_by_role("link", name=words["enter"]).click()
        expect(page.locator("form [role=status]")).to_contain_text(words["away"])
        provider.control(away=False)
        page.get_by_label(words["key"], exact=True).fill(key)
        page.get_by_role("button", name=words["with_key"], exact=True).click()
        expect(page.get_by_role("button", name=words["out"])).to_be_visible()

    def it_renews_its_token_before_it_ends(self, console, site):
        url, _, key = site
        made = console(url=url, key=key)
        made.page.clock.install()
        enter(made.page, url, ENGLISH, "vera")
        expect(made.page.get_by_role("button", name="Sign out")).to_be_visible()
        with made.page.expect_response(re.compile("/console/sign-on/token")) as renewed:
            made.page.clock.fast_forward("09:30")
        assert renewed.value.ok
        expect(made.page.get_by_role("button", name="Sign out")).to_be_visible()

    @both_languages
    def it_ends_where_the_session_has_ended_elsewhere(self, console, site, words):
        url, _, key = site
        made = console(locale=words["locale"], url=url, key=key)
        enter(made.page, url, words, "vera")
        expect(made.page.get_by_role("button", name=words["out"])).to_be_visible()
        other = made.page.context.new_page()
        other.goto(f"{url}/console/")
        other.get_by_role("button", name=words["out"]).click()
        expect(other).to_have_url(re.compile("/oauth2/end_session"))
        made.page.reload()
        expect(made.page.get_by_role("link", name=words["enter"])).to_be_visible()


class DescribeASignInWithoutIt:
    def it_offers_keys_alone(self, console):
        made = console()
        made.page.goto(made.url)
        expect(made.page.get_by_label("API key", exact=True)).to_be_visible()
        made.page.wait_for_load_state("networkidle")
        expect(made.page.get_by_role("link", name=ENGLISH["enter"])).to_have_count(0)
