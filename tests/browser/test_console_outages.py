"""Every page of the console while its gateway is killed and started again, and when its key is revoked: no page needs a
reload or a click, and none shows what was read earlier as the present state. Two pages in English and one in Chinese, and
all of them where time does not matter: a tab for each page takes the machine a minute."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from pipeline.database.unit_of_work import unit_of_work
from pipeline.resources import Resources
from pipeline.tenants.tenant_store import ApiKeys
from tests.conftest import gateway, make_tenant
from tests.support.corpora.console import MANUAL, hand_in
from tests.support.repository.console_pages import PAGES
from tests.support.stacks.processes import free_port, process, wait_for_http

_NOTICED_MS = 40_000  # a page that reads nothing by itself looks every 15 s; there are as many tabs as pages
BANNER = {"en-GB": "No answer from the gateway since", "zh-CN": "起网关没有响应"}
EXPIRED = {"en-GB": "The key is no longer valid.", "zh-CN": "API Key 已失效"}
_FEW = ("overview", "playground")
_SOME = (*_FEW, "documents", "tenants")
BY_LANGUAGE = pytest.mark.parametrize(
    "pages_by_locale",
    [
        {"en-GB": _FEW, "zh-CN": _FEW[:1]},
        pytest.param({"en-GB": PAGES, "zh-CN": _SOME}, marks=pytest.mark.thorough),
    ],
    ids=["some", "every page"],
)
EVERYTHING = ("read", "write", "admin", "operator")


@contextmanager
def running(port: int, log: Path) -> Iterator[None]:
    """Run a gateway for this test on the stack's databases; kill it with -9 at the end."""
    with process("api_gateway", log=log, ending=signal.SIGKILL, CHORDWISE_GATEWAY_PORT=str(port)):
        wait_for_http(f"http://127.0.0.1:{port}/readyz", seconds=90)
        yield


def opened(made: Any, locale: str, pages: Sequence[str]) -> dict[tuple[str, str], Page]:
    """A tab for each of these pages, signed in, by language and page."""
    tabs = {}
    context = made.page.context
    context.add_init_script(f"sessionStorage.setItem('chordwise.key', '{made.key}')")
    for name in pages:
        tabs[locale, name] = page = context.new_page()
        page.goto(f"{made.url}#/{name}")
        page.get_by_role("heading", level=1).wait_for()
        expect(page.get_by_role("banner")).to_be_visible()
        page.evaluate("window.isTheSame = true")
    return tabs


class DescribeAGatewayThatGoesAndReturns:
    @pytest.mark.refused
    @BY_LANGUAGE
    def it_is_reported_on_every_page_which_then_continues_by_itself(self, console, use, tmp_path, pages_by_locale):
        port = free_port()
        key = key_of_everything(use)
        with gateway(key) as client:
            hand_in(client, MANUAL)
        tabs: dict[tuple[str, str], Page] = {}
        first: dict[str, Page] = {}
        with running(port, tmp_path / "first.log"):
            for locale, pages in pages_by_locale.items():
                width = 360 if locale == "zh-CN" else 1360
                made = console(locale=locale, url=f"http://127.0.0.1:{port}", key=key, width=width)
                first[locale] = made.open("jobs")
                tabs |= opened(made, locale, pages)
        first["en-GB"].evaluate("location.hash = '#/traces'")  # asked for in between; its module was never loaded
        expect(first["en-GB"].get_by_text("This page loads by itself")).to_be_visible()
        for (locale, _), page in tabs.items():
            expect(page.get_by_role("alert").filter(has_text=BANNER[locale])).to_be_visible(timeout=_NOTICED_MS)
            assert not page.evaluate(
                "[...document.querySelectorAll('.verdict.good, .badge.good')].some((each) =>"
                " getComputedStyle(each).color !== getComputedStyle(document.querySelector('.about')).color)"
            ), "green is a state of the present"
        with running(port, tmp_path / "second.log"):
            for name, page in tabs.items():
                expect(page.locator(".away")).to_have_count(0, timeout=_NOTICED_MS)
                expect(page.get_by_role("alert").filter(has_text=re.compile("no_connection"))).to_have_count(0)
                expect(page.get_by_role("heading", level=1)).to_be_visible()
                assert page.evaluate("window.isTheSame"), f"{name} was loaded again"
            expect(first["en-GB"].get_by_role("heading", name="Query traces")).to_be_visible(timeout=_NOTICED_MS)
            for page in tabs.values():
                page.close()


class DescribeARevokedKey:
    @pytest.mark.refused
    @BY_LANGUAGE
    def it_leads_to_the_sign_in_page_with_a_sentence_from_every_page(self, console, use, pages_by_locale):
        tenant_id, _ = make_tenant(use)
        with unit_of_work(use.mysql) as work:
            issued = ApiKeys(work.connection, tenant_id).issue("console", EVERYTHING)
        tabs: dict[tuple[str, str], Page] = {}
        for locale, pages in pages_by_locale.items():
            made = console(locale=locale, key=issued.secret)
            made.open("jobs")
            tabs |= opened(made, locale, pages)
        with unit_of_work(use.mysql) as work:
            assert ApiKeys(work.connection, tenant_id).revoke(issued.key_id)
        for (locale, _), page in tabs.items():
            expect(page.get_by_text(EXPIRED[locale]).first).to_be_visible(timeout=_NOTICED_MS)
            expect(page.get_by_role("textbox")).to_be_visible()
            assert page.evaluate("sessionStorage.length") == 0
            page.close()


def key_of_everything(use: Resources) -> str:
    """A key that may open every page."""
    tenant_id, _ = make_tenant(use)
    with unit_of_work(use.mysql) as work:
        return ApiKeys(work.connection, tenant_id).issue("console", EVERYTHING).secret
