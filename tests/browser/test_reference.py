"""The API reference at /docs: navigation, search, a request to try."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from tests.support.repository.console_pages import languages_and_widths

_ENGLISH = ("en-GB", "API reference", "Search", "Operations found", "Send GET", "API key")
_CHINESE = ("zh-CN", "API 文档", "搜索", "找到", "发送 GET 请求", "API Key")


def opened(console, operation: str = "", **look) -> Page:
    made = console(**look)
    made.page.goto(f"{made.gateway_url}/docs#/{operation}")
    made.page.get_by_role("heading", level=1).wait_for()
    return made


class DescribeTheReference:
    @pytest.mark.parametrize(("words", "width"), languages_and_widths(_ENGLISH, _CHINESE))
    def it_finds_an_operation_and_tries_it_with_the_key_that_was_typed(self, console, pictures, words, width):
        locale, title, search, found, send, key = words
        made = opened(console, locale=locale, width=width)
        page = made.page
        expect(page.get_by_role("heading", level=1)).to_contain_text(title)
        if width < 860:
            page.get_by_role("button", name="Pages menu" if locale == "en-GB" else "菜单").or_(
                page.locator("button.menu")
            ).first.click()
        page.get_by_label(search).fill("list dead letters")
        expect(page.get_by_role("status").filter(has_text=found)).to_contain_text("2")
        page.get_by_role("navigation").get_by_role("link", name="List dead letters").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("List dead letters")
        page.get_by_label(key).fill(made.key)
        page.get_by_label("limit").fill("7")
        with page.expect_response("**/v1/dead-letters?limit=7") as answered:
            page.get_by_role("button", name=send).click()
        assert answered.value.request.headers["authorization"] == f"Bearer {made.key}"
        expect(page.locator(".answer")).to_contain_text("200")
        expect(page.locator(".answer .body")).to_contain_text('"next_cursor": null')
        assert page.evaluate("sessionStorage.getItem('chordwise.key')") == made.key
        assert not made.scrolls_sideways()
        if pictures:
            page.screenshot(path=pictures / f"reference-{locale}-{width}.png", full_page=True)

    def it_sends_a_body_and_names_what_is_wrong_with_it(self, console):
        made = console()
        made.page.add_init_script(f"sessionStorage.setItem('chordwise.key', '{made.key}')")
        made.page.goto(f"{made.gateway_url}/docs#/submit_v1_documents_post")
        page = made.page
        page.get_by_role("textbox", name="Body").fill("{")
        page.get_by_role("button", name="Send POST").click()
        expect(page.locator(".fault")).to_have_text("This is not JSON")
        document = {"namespace": "kb", "documents": [{"document_id": "d1", "text": "Green tea."}]}
        page.get_by_role("textbox", name="Body").fill(json.dumps(document))
        page.get_by_role("button", name="Send POST").click()
        expect(page.locator(".answer")).to_contain_text("202")
        assert made.client.get("/v1/jobs").json()["data"][0]["total"] == 1

    @pytest.mark.thorough
    def it_opens_the_fields_of_nested_objects(self, console):
        page = opened(console, "ask_v1_queries_post").page
        field = page.locator("section[aria-labelledby=body] > .schema > li").filter(has_text="filters")
        field.locator("summary").first.click()
        expect(field.get_by_text("story_time_max").or_(field.get_by_text("metadata")).first).to_be_visible()

    @pytest.mark.thorough
    def it_shows_the_limits_of_a_field_that_may_be_null(self, console):
        made = opened(console, "ask_v1_queries_post")
        field = made.page.locator(".schema > li", has=made.page.get_by_text("top_k", exact=True)).first
        expect(field.locator(".limit")).to_have_text(["≥ 1", "≤ 1000"])

    def it_shows_every_operation_of_the_document(self, console):
        made = opened(console)
        paths = made.client.get("/openapi.json").json()["paths"]
        count = sum(len(operations) for operations in paths.values())
        expect(made.page.get_by_role("navigation").locator("li")).to_have_count(count)

    @pytest.mark.thorough
    def it_copies_a_command_without_the_key(self, console):
        made = console()
        made.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        made.page.add_init_script(f"sessionStorage.setItem('chordwise.key', '{made.key}')")
        made.page.goto(f"{made.gateway_url}/docs#/current_v1_keys_current_get")
        made.page.get_by_role("button", name="curl").click()
        command = made.page.evaluate("navigator.clipboard.readText()")
        assert "$CHORDWISE_API_KEY" in command
        assert made.key not in command

    @pytest.mark.thorough
    @pytest.mark.refused
    def it_says_that_the_document_cannot_be_read_and_tries_again(self, console):
        made = console()
        made.page.route("**/openapi.json", lambda route: route.fulfill(status=503, body=""))
        made.page.goto(f"{made.gateway_url}/docs")
        expect(made.page.get_by_role("alert")).to_be_visible()
        made.page.unroute("**/openapi.json")
        made.page.get_by_role("button", name="Try again").click()
        expect(made.page.get_by_role("heading", level=1)).to_contain_text("API reference")

    @pytest.mark.thorough
    def it_says_that_an_operation_does_not_exist(self, console):
        expect(opened(console, "nothing").page.get_by_role("alert")).to_contain_text("no such operation")
