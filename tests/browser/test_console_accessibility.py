"""axe-core finds no serious barrier on any page of the console: every fourth page wide and light, every fourth narrow
and dark, and all in both ways where time does not matter. Only contrast depends on the theme, and no colour on the
width."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import expect

from pipeline.database.unit_of_work import unit_of_work
from pipeline.tenants.tenant_store import ApiKeys
from tests.conftest import gateway, make_tenant
from tests.support.corpora.console import MANUAL, hand_in
from tests.support.repository.console_pages import PAGES

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


class DescribeEveryPage:
    @pytest.mark.refused  # a tenant without a dictionary
    @pytest.mark.parametrize(
        ("theme", "width", "pages"),
        [
            ("light", 1360, PAGES[::4]),
            ("dark", 360, PAGES[2::4]),
            pytest.param("light", 1360, [*PAGES[1::4], *PAGES[2::4], *PAGES[3::4]], marks=pytest.mark.thorough),
            pytest.param("dark", 360, [*PAGES[::4], *PAGES[1::4], *PAGES[3::4]], marks=pytest.mark.thorough),
        ],
        ids=["wide and light", "narrow and dark", "wide and light, the others", "narrow and dark, the others"],
    )
    def it_has_no_serious_barrier(self, console, use, theme, width, pages):
        tenant_id, _ = make_tenant(use)
        with unit_of_work(use.mysql) as work:
            key = ApiKeys(work.connection, tenant_id).issue("console", ("read", "write", "admin", "operator")).secret
        with gateway(key) as client:
            hand_in(client, MANUAL)
            query = {"query_text": "reset", "namespaces": ["kb"]}
            traced = client.post("/v1/rag/debug", json=query).json()["query_id"]
        made = console(key=key, color_scheme=theme, width=width)
        page = made.open("overview")
        found = []
        for view in (*pages, f"traces/{traced}", "documents/kb/reset"):
            page.goto(f"{made.url}?{view}#/{view}")  # as a page of its own, so that nothing of the one before is read
            page.get_by_role("heading", level=1).wait_for()
            expect(page.locator(".skeleton")).to_have_count(0)
            found += [f"{view}: {barrier}" for barrier in barriers(page)]
        assert found == []

    @pytest.mark.parametrize("theme", ["light", "dark"])
    def it_has_none_before_signing_in(self, console, theme):
        made = console(color_scheme=theme)
        made.page.goto(made.url)
        made.page.get_by_role("textbox").wait_for()
        assert barriers(made.page) == []

    def it_would_see_one(self, console):
        made = console()
        made.page.goto(made.url)
        made.page.get_by_role("textbox").wait_for()
        made.page.evaluate("document.querySelector('main').append(document.createElement('input'))")
        assert [each.partition(":")[0] for each in barriers(made.page)] == ["critical label"]
