"""Every page of the console, opened once in each language: it shows that it waits, what fails, and then its content, which
fits the window, is in the language of the browser, and has no barrier that axe-core finds. Every suite opens each page once,
one half of them narrow and dark in English and the other wide and light in Chinese; the thorough one opens all of them in every
look. Axe-core looks at a half of the pages where time matters. Only contrast depends on the theme, and no colour on the
width."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from pipeline.database.unit_of_work import unit_of_work
from pipeline.resources import Resources
from pipeline.tenants.tenant_store import ApiKeys
from tests.browser.test_console_accessibility import barriers
from tests.conftest import gateway, make_tenant
from tests.support.corpora.console import MANUAL, OTHERS, fail_one, hand_in
from tests.support.repository.console_pages import PAGES

BUG = {
    "type": "urn:chordwise:problem:internal_error",
    "title": "An unexpected error",
    "status": 500,
    "detail": "The request failed.",
    "code": "internal_error",
    "request_id": "b7a1c5d2-0000-4000-8000-000000000000",
}
READS_NOTHING = {"find", "preview", "transfer", "upload"}  # before the user has typed something
SAME_IN_BOTH = {"keys", "webhooks"}  # "API Key" and "Webhook", as Chinese programmers say
WORDS = {
    "en-GB": {"slow": "This is taking longer than usual", "again": "Try again"},
    "zh-CN": {"slow": "响应比平时慢", "again": "重试"},
}


class Traffic:
    """The requests of a tab to the API: held back, refused, or let through. The session's own check always passes."""

    def __init__(self, page: Page) -> None:
        self.held: list[Route] = []
        self.way = "through"
        page.route(re.compile(r"/v1/(?!keys/current)"), self._take)

    def _take(self, route: Route) -> None:
        if self.way == "held":
            self.held.append(route)
        elif self.way == "refused":
            self._refuse(route)
        else:
            route.continue_()

    def refuse(self) -> None:
        """Refuse what is held, and everything from now on."""
        self.way = "refused"
        while self.held:
            self._refuse(self.held.pop())

    @staticmethod
    def _refuse(route: Route) -> None:
        route.fulfill(status=500, content_type="application/problem+json", body=json.dumps(BUG))


@pytest.fixture(scope="module")
def tenant_key(use: Resources) -> Iterator[tuple[str, list[str]]]:
    """A key that may open every page, and the pages of single records, among them some with long names."""
    tenant_id, _ = make_tenant(use)
    with unit_of_work(use.mysql) as work:
        key = ApiKeys(work.connection, tenant_id).issue("console", ("read", "write", "admin", "operator")).secret
    with gateway(key) as client:
        hand_in(client, MANUAL | {"title": "A_title_without_any_place_to_break_it_" * 3}, *OTHERS)
        job = fail_one(client)
        client.post("/v1/webhooks", json={"url": f"http://127.0.0.1:9/{'long' * 60}"}).raise_for_status()
        query = {"query_text": "reset", "namespaces": ["kb"]}
        traced = client.post("/v1/rag/debug", json=query).raise_for_status().json()["query_id"]
    records = [f"jobs/{job['job_id']}", "documents/kb/reset", f"traces/{traced}", f"tenants/{tenant_id}"]
    return key, [*records, "profiles/support", "profiles/+", "experiments/+", "api-sources/+", "find/reset"]


@pytest.mark.refused
@pytest.mark.parametrize(
    ("locale", "width", "theme", "half", "thorough"),
    [
        ("en-GB", 360, "dark", 0, False),
        ("zh-CN", 1360, "light", 1, False),
        *(
            pytest.param(*look, half, True, marks=pytest.mark.thorough)
            for look in (
                ("en-GB", 360, "dark"),
                ("zh-CN", 1360, "light"),
                ("en-GB", 1360, "light"),
                ("zh-CN", 360, "dark"),
            )
            for half in (0, 1)
        ),
    ],
)
def it_waits_fails_recovers_and_fits(console, tenant_key, pictures, locale, width, theme, half, thorough):
    key, records = tenant_key
    made = console(key=key, locale=locale, width=width, color_scheme=theme)
    made.page.clock.install()
    page = made.open("nowhere")
    traffic, words, found = Traffic(page), WORDS[locale], list[str]()
    for number, view in enumerate((*PAGES, *records)[half::2]):
        is_record = view in records
        if not is_record:
            traffic.way = "held"
        page.evaluate("view => { location.hash = `#/${view}`; }", view)
        if not is_record:
            expect(page.locator(f"nav [href='#/{view}'][aria-current]")).to_have_count(1)
            if view not in READS_NOTHING:
                shows_that_it_waits(page, view, words["slow"])
                traffic.refuse()
                shows_what_fails(page, view, traffic, words["again"])
            traffic.way = "through"
        page.get_by_role("main").get_by_role("heading", level=1).wait_for()
        expect(page.locator("main [aria-busy=true], main .skeleton"), view).to_have_count(0)
        expect(page.get_by_role("alert"), view).to_have_count(0)
        found += wrong_of(made, view, locale, is_record)
        if thorough or number % 4 == (0 if theme == "dark" else 2):
            found += [f"{view}: {barrier}" for barrier in barriers(page)]
        if pictures:
            page.screenshot(path=pictures / f"{view.replace('/', '-')}-{width}-{locale}.png", full_page=True)
    assert found == []


def shows_that_it_waits(page: Page, view: str, slow: str) -> None:
    expect(page.locator("main [aria-busy=true]").first, view).to_be_visible()
    page.clock.fast_forward("00:03")
    expect(page.get_by_text(slow).first, view).to_be_visible()


def shows_what_fails(page: Page, view: str, traffic: Traffic, again: str) -> None:
    """The problem with its request id, and its content once the user has asked to try again."""
    alert = page.get_by_role("main").get_by_role("alert").first
    expect(alert, view).to_contain_text(BUG["code"])
    expect(alert, view).to_contain_text(BUG["request_id"])
    traffic.way = "through"
    buttons = page.get_by_role("main").get_by_role("button", name=again)
    expect(buttons.first, view).to_be_visible()
    buttons.evaluate_all("buttons => buttons.forEach((button) => button.click())")


def wrong_of(made: Any, view: str, locale: str, is_record: bool) -> Iterator[str]:
    """Name what is wrong with the page that is shown: its width, its language."""
    if made.scrolls_sideways():
        yield f"{view}: scrolls sideways"
    title = made.page.locator("main h1").inner_text()
    if not is_record and view not in SAME_IN_BOTH and bool(re.search(r"[\u4e00-\u9fff]", title)) != (locale == "zh-CN"):
        yield f"{view}: is titled {title}"
    if keys := re.findall(r"\b[a-z_]+\.[a-z_]+\b", made.page.locator("nav").inner_text()):
        yield f"{view}: {keys} have no words"
