"""On a narrow screen, by keyboard alone, in the dark, in Chinese."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.corpora.console import MANUAL, OTHERS, fail_one, hand_in


def focused(page: Page) -> str:
    """Return the accessible name of the focused element."""
    named = page.evaluate(
        "(() => { const e = document.activeElement;"
        " return e.getAttribute('aria-label') || e.labels?.[0]?.innerText || e.innerText || ''; })()"
    )
    return " ".join(str(named).split())


def press_until(page: Page, key: str, name: str, *, most: int = 60) -> None:
    """Press a key until the focus is on the element of this name; the focus must be visible on the way."""
    for _ in range(most):
        page.keyboard.press(key)
        if focused(page) == name:
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
    pytest.fail(f"{most} times {key} did not lead to {name!r}; the focus is on {focused(page)!r}")


def luminance(page: Page, selector: str, what: str) -> float:
    """Relative luminance (WCAG 2) of a computed colour."""
    value = page.locator(selector).first.evaluate(f"e => getComputedStyle(e).{what}")
    channels = [int(number) / 255 for number in re.findall(r"\d+", value)[:3]]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(first: float, second: float) -> float:
    return (max(first, second) + 0.05) / (min(first, second) + 0.05)


class DescribeNarrowScreens:
    @pytest.mark.thorough
    def it_keeps_the_words_of_a_long_cell_whole(self, console):
        made = console(width=390, height=844)
        fail_one(made.client)
        page = made.open("dead-letters")
        cell = page.locator("td.wide").filter(has_text="malformed_document")
        code, cause = cell.locator("code").bounding_box(), cell.bounding_box()
        assert code["height"] < 30, "the code stands in one line"
        assert cause["height"] < 200, "its reason is as wide as the card"

    @pytest.mark.thorough
    def it_never_scrolls_sideways_beside_an_answer(self, console, pictures):
        made = console(width=360, height=740)
        hand_in(made.client, {**MANUAL, "title": "A_title_without_any_place_to_break_it_" * 3}, *OTHERS)
        page = made.open("playground")
        page.get_by_label("Question").fill("reset the router")
        page.get_by_role("button", name="Ask", exact=True).click()
        expect(page.locator(".hit").first).to_be_visible()
        wide = []
        for name in ("Channels", "Stages", "Context", "Timing", "Left out", "Why not?", "Answer"):
            page.locator(".side-result").first.get_by_role("tab", name=name).click()
            if made.scrolls_sideways():
                wide.append(name)
            if pictures:
                page.screenshot(path=pictures / f"narrow-{name}.png")
        assert wide == []

    def it_turns_tables_into_cards_and_opens_the_menu(self, console):
        made = console(width=360, height=740)
        hand_in(made.client, MANUAL)
        page = made.open("jobs")
        row = page.locator("tbody tr").first
        expect(row).to_have_css("display", "grid")
        assert row.locator("td").first.evaluate("e => getComputedStyle(e, '::before').content") == '"Namespace"'
        menu = page.get_by_role("button", name="Menu")
        menu.click()
        page.get_by_role("link", name="Documents").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Documents")
        expect(page.get_by_role("link", name="Jobs")).to_be_hidden()

        menu.click()
        expect(page.get_by_role("link", name="Health")).to_be_hidden()  # its section is closed at first
        page.locator("nav summary", has_text="Operations").press("Enter")
        page.locator("nav summary", has_text="Retrieval").press("Enter")
        page.get_by_role("link", name="Health").click()
        page.reload()
        menu.click()
        expect(page.get_by_role("link", name="Health")).to_have_attribute("aria-current", "page")
        expect(page.get_by_role("link", name="Playground")).to_be_hidden()
        page.goto(f"{made.url}#/playground")  # a page is never without its entry
        menu.click()
        expect(page.get_by_role("link", name="Playground")).to_be_visible()


class DescribeTheKeyboard:
    def it_can_be_used_without_a_mouse(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        page = made.page
        page.goto(f"{made.url}#/playground")
        page.get_by_label("API key").wait_for()
        press_until(page, "Tab", "API key")
        page.keyboard.type(made.key)
        page.keyboard.press("Enter")
        page.get_by_role("search").wait_for()

        press_until(page, "Tab", "Skip to the content")
        page.keyboard.press("Enter")
        press_until(page, "Tab", "Question")
        page.keyboard.type("reset the router")
        page.keyboard.press("Enter")
        expect(page.locator(".hit").first).to_be_visible()
        press_until(page, "Tab", "Answer 1")
        page.keyboard.press("ArrowRight")
        assert focused(page) == "Rank flow"
        expect(page.get_by_role("tab", name="Rank flow").first).to_have_attribute("aria-selected", "true")

        press_until(page, "Shift+Tab", "Documents")
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Delete: reset")).to_be_visible()
        press_until(page, "Tab", "Delete: reset")
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.locator(":focus")).to_have_attribute("aria-label", "Delete: reset")  # where it was before
        page.keyboard.press("Enter")
        press_until(page, "Tab", "Delete")
        page.keyboard.press("Enter")
        expect(page.get_by_text("No documents here")).to_be_visible()


class DescribeColours:
    @pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.thorough), "dark"])
    def it_follows_the_system_and_can_be_told_otherwise(self, console, scheme, pictures):
        made = console(color_scheme=scheme)
        hand_in(made.client, MANUAL)
        page = made.open("jobs")
        page.locator("tbody tr").wait_for()
        background = luminance(page, "body", "backgroundColor")
        assert (background < 0.1) == (scheme == "dark")
        for selector in (".about", "tbody td", "tbody th a", ".side li a"):
            surface = luminance(page, ".side", "backgroundColor")
            assert contrast(luminance(page, selector, "color"), surface) >= 4.5, selector
        if pictures:
            page.screenshot(path=pictures / f"{scheme}.png")

        switch = page.get_by_role("button", name=re.compile("^Theme"))
        for _ in range(3):
            switch.click()
            if (luminance(page, "body", "backgroundColor") < 0.1) != (scheme == "dark"):
                break
        else:
            pytest.fail("the switch changes nothing")
        page.reload()
        page.locator("tbody tr").wait_for()
        assert (luminance(page, "body", "backgroundColor") < 0.1) != (scheme == "dark")


class DescribeChinese:
    def it_speaks_chinese_to_a_chinese_browser_and_switches(self, console, pictures):
        made = console(locale="zh-CN")
        hand_in(made.client, MANUAL, *OTHERS)
        page = made.open("playground")
        expect(page.get_by_role("heading", level=1)).to_have_text("检索实验台")
        assert page.evaluate("document.documentElement.lang") == "zh-CN"
        page.get_by_label("问题").fill("怎么做恢复演练")
        page.get_by_role("button", name="提问", exact=True).click()
        expect(page.locator(".hit").first).to_contain_text("数据库备份")
        # Drawn with a font that has the characters: boxes for missing ones would all be of one shape.
        shapes = page.evaluate(
            "['检', '一', '试'].map((text) => { const c = document.createElement('canvas').getContext('2d');"
            " c.font = `40px ${getComputedStyle(document.body).fontFamily}`; c.fillText(text, 5, 45);"
            " return [...c.getImageData(0, 0, 60, 60).data].filter((v) => v > 128).length; })"
        )
        assert len(set(shapes)) == 3
        if pictures:
            page.screenshot(path=pictures / "chinese-playground.png")
        page.get_by_role("button", name="English").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Playground")
        page.reload()
        expect(page.get_by_role("heading", level=1)).to_have_text("Playground")
