"""Which document is missing, and why: found by part of a title, without typing an id."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.support.corpora.console import MANUAL, OTHERS, fail_one, hand_in

BROKEN = {
    "document_id": "a41",
    "title": "Wartung der 泵",
    "source": {"bytes": "JVBERi0xLjQKbm8=", "media_type": "application/pdf"},
}


class DescribeTheBox:
    @pytest.mark.parametrize(
        ("locale", "box", "no", "why"),
        [
            pytest.param(
                *("en-GB", "Find by title or id", "No", "cut off or damaged and cannot be opened"),
                marks=pytest.mark.thorough,
            ),
            ("zh-CN", "按标题或 ID 查找", "否", "PDF 文件不完整或已损坏，无法打开"),
        ],
    )
    def it_names_the_document_that_is_missing_and_why(self, console, locale, box, no, why):
        made = console(locale=locale)
        hand_in(made.client, MANUAL, *OTHERS)
        hand_in(made.client, BROKEN, {**MANUAL, "document_id": "a42", "title": "Wartung, Band 2"}, namespace="manuals")
        page = made.open("overview")
        expect(page.locator(".attention li").filter(has=page.locator("[href='#/dead-letters']"))).to_contain_text("a41")
        page.get_by_label(box).fill("wartung")
        page.keyboard.press("Enter")
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.first).to_contain_text("Wartung der 泵")
        expect(rows.first).to_contain_text("malformed_document")
        expect(rows.first).to_contain_text(why)
        expect(rows.first.locator(".bad-text")).to_have_text(no)
        rows.first.locator("td a").last.click()
        expect(page.locator("main")).to_contain_text("malformed_document")

    @pytest.mark.thorough
    def it_says_that_a_document_never_arrived(self, console):
        page = console().open("find")
        page.get_by_label(re.compile("^Part of a title")).fill("100% <b>nothing</b> like_this")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Nothing matches “100% <b>nothing</b> like_this”")).to_be_visible()
        expect(page.get_by_text("It was never accepted")).to_be_visible()

    @pytest.mark.thorough
    def it_searches_one_namespace_and_finds_jobs(self, console):
        made = console()
        job = hand_in(made.client, MANUAL)
        hand_in(made.client, {**MANUAL, "document_id": "reset-2"}, namespace="other")
        page = made.open("find/reset")
        expect(page.locator("tbody tr")).to_have_count(2)
        page.get_by_label("Namespace").select_option("other")
        expect(page.locator("tbody tr")).to_have_count(1)
        page.goto(f"{made.url}#/find/{job['job_id'][:8]}")
        page.get_by_label("Namespace").select_option("All")
        expect(page.get_by_role("link", name=f"Job {job['job_id'][:8]}")).to_be_visible()


class DescribeLists:
    @pytest.mark.thorough
    def it_narrows_jobs_and_dead_letters(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        fail_one(made.client, namespace="papers")
        page = made.open("jobs")
        expect(page.locator("tbody tr")).to_have_count(2)
        page.get_by_role("radio", name="Failed", exact=True).check()
        expect(page.locator("tbody tr")).to_have_count(1)
        page.get_by_label("Namespace").select_option("kb")
        expect(page.get_by_text("No jobs in this selection")).to_be_visible()
        page.get_by_role("radio", name="All", exact=True).check()
        page.get_by_role("radio", name="24 hours").check()
        expect(page.locator("tbody tr")).to_have_count(1)

        page.goto(f"{made.url}#/dead-letters")
        page.get_by_label("Namespace").select_option("papers")
        expect(page.get_by_text("upload a corrected document under this id")).to_be_visible()
        expect(page.get_by_role("button", name="Retry these")).to_have_count(0)  # the file is damaged
