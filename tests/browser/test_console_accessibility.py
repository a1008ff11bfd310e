"""axe-core, which finds no serious barrier before signing in; the pages behind: test_console_every_page."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
_RULES = {
    "resultTypes": ["violations"],
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}


def barriers(page: Any) -> list[str]:
    """The serious and critical findings of axe-core, with the elements at fault."""
    page.evaluate(AXE)
    found = page.evaluate("(rules) => axe.run(document, rules)", _RULES)["violations"]
    return [
        f"{each['impact']} {each['id']}: {node['target']} {node['failureSummary']}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


class DescribeTheSignInPage:
    @pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.thorough)])
    def it_has_no_serious_barrier(self, console, theme):
        made = console(color_scheme=theme)
        made.page.goto(made.url)
        made.page.get_by_role("textbox").wait_for()
        assert barriers(made.page) == []

    def it_would_show_a_field_without_a_label(self, console):
        made = console()
        made.page.goto(made.url)
        made.page.get_by_role("textbox").wait_for()
        made.page.evaluate("document.querySelector('main').append(document.createElement('input'))")
        assert [each.partition(":")[0] for each in barriers(made.page)] == ["critical label"]
