"""The first minute in the console: the link that signs in, and the sample documents, in both languages."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from playwright.sync_api import expect

from benchmarks.console import first_view
from compose.localstack.background import sign_in_link
from pipeline.database.unit_of_work import unit_of_work
from pipeline.resources import Resources
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import make_tenant
from tests.support.repository.console_pages import languages_and_widths

_ENGLISH = ("en-GB", "Add English samples", "Explain fault code E04", "HP-200 fault codes")
_CHINESE = ("zh-CN", "添加中文示例", "故障代码 E04 是什么意思？", "HP-200 故障代码")


def link_for(key: str) -> str:
    return sign_in_link(os.environ["CHORDWISE_URL"], key, Path(os.environ["CHORDWISE_STACK_DIR"]) / "run" / "sign-in")


@pytest.mark.alone
class DescribeTheSignInLink:
    @pytest.mark.refused
    @pytest.mark.parametrize(
        ("locale", "ended"),
        [pytest.param("en-GB", "does not sign in", marks=pytest.mark.thorough), ("zh-CN", "此登录链接无效")],
    )
    def it_signs_in_once_and_leaves_the_address(self, console, locale, ended):
        made = console(locale=locale)
        link = link_for(made.key)
        made.page.goto(link)
        expect(made.page.get_by_role("button", name="Sign out" if locale == "en-GB" else "退出登录")).to_be_visible()
        code = link.rpartition("/")[2]
        assert made.page.url == f"{made.url}#/"
        assert made.page.evaluate("sessionStorage.getItem('chordwise.key')") == made.key
        assert all(code not in address for address in made.addresses)
        made.page.go_back()
        assert code not in made.page.url

        second = console(locale=locale)
        second.page.goto(link)
        expect(second.page.locator("form [role=status]")).to_contain_text(ended)
        expect(second.page.get_by_role("button", name="Sign in" if locale == "en-GB" else "登录")).to_be_visible()
        assert second.page.evaluate("sessionStorage.getItem('chordwise.key')") is None
        assert not second.scrolls_sideways()

    @pytest.mark.thorough
    def it_signs_in_where_only_the_part_behind_the_hash_changes(self, console):
        made = console()
        made.page.goto(made.url)
        expect(made.page.get_by_label("API key")).to_be_visible()
        made.page.goto(link_for(made.key))
        expect(made.page.get_by_role("heading", level=1)).to_have_text("Overview")

    @pytest.mark.thorough
    @pytest.mark.refused
    def it_changes_nothing_for_a_tab_that_is_signed_in(self, console):
        made = console()
        made.open("jobs")
        made.page.goto(f"{made.url}#/sign-in/{'x' * 43}")
        expect(made.page.get_by_role("heading", level=1)).to_have_text("Overview")

    def it_leads_from_the_root_to_the_page(self, console):
        made = console()
        made.page.goto(made.gateway_url)
        expect(made.page.get_by_label("API key")).to_be_visible()
        assert made.page.url == made.url


class DescribeTheFirstView:
    def it_stays_small_and_is_kept_by_the_browser(self, browser, console):
        made = console()
        view = first_view(browser, made.gateway_url, made.key, locale="zh-CN")
        assert view["cold"]["unpacked_bytes"] < 330_000
        assert view["cold"]["sent_bytes"] < 140_000
        assert view["warm"]["asked_for"] <= 1  # the page itself


class DescribeSamples:
    @pytest.mark.parametrize(("words", "width"), languages_and_widths(_ENGLISH, _CHINESE))
    def it_adds_documents_and_leads_to_an_answer(self, console, pictures, words, width):
        locale, add, question, title = words
        made = console(locale=locale, width=width, height=900)
        page = made.open()
        page.get_by_role("button", name=add).click()
        asking = page.get_by_role("link", name=question)
        expect(asking).to_be_visible(timeout=60_000)
        assert not made.scrolls_sideways()
        if pictures:
            page.screenshot(path=pictures / f"samples-{locale}-{width}.png", full_page=True)
        asking.click()
        expect(page.get_by_role("search")).to_be_visible()
        expect(page.get_by_text(title).first).to_be_visible(timeout=60_000)
        assert len(made.client.get("/v1/documents", params={"limit": 50}).json()["data"]) == 12
        page.goto(f"{made.url}#/overview")
        expect(page.locator("figure").first).to_be_visible()
        expect(page.get_by_role("button", name=add)).to_have_count(0)

    @pytest.mark.thorough
    def it_offers_them_on_empty_pages(self, console):
        made = console()
        page = made.open("documents")
        for view, title in (("documents", "Documents"), ("jobs", "Jobs"), ("playground", "Playground")):
            page.goto(f"{made.url}#/{view}")
            expect(page.get_by_role("heading", level=1)).to_have_text(title)
            expect(page.get_by_role("button", name="Add English samples")).to_be_visible()
            expect(page.get_by_role("button", name="Add Chinese samples")).to_be_visible()

    @pytest.mark.thorough
    def it_offers_none_to_a_key_that_cannot_write(self, console, use: Resources):
        tenant_id, _ = make_tenant(use)
        with unit_of_work(use.mysql) as work:
            key = Tenants(work.connection, tenant_id).issue_key("reader", scopes=("read",))
        page = console(key=key).open()
        expect(page.locator("figure").first).to_be_visible()
        expect(page.get_by_role("button", name="Add English samples")).to_have_count(0)

    @pytest.mark.thorough
    @pytest.mark.refused
    def it_shows_a_refusal_and_can_be_tried_again(self, console):
        made = console()
        problem = {"title": "Too many documents", "code": "quota_exceeded", "detail": "The quota is used up."}
        answer = {"status": 429, "content_type": "application/problem+json", "body": json.dumps(problem)}
        made.page.route("**/v1/documents", lambda route: route.fulfill(**answer))
        page = made.open()
        page.get_by_role("button", name="Add English samples").click()
        expect(page.get_by_role("alert")).to_contain_text("quota_exceeded")
        made.page.unroute("**/v1/documents")
        page.get_by_role("button", name="Add English samples").click()
        expect(page.get_by_role("link", name="Explain fault code E04")).to_be_visible(timeout=60_000)
