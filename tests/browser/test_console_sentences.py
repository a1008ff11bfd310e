"""The server's sentences in the language of the page: failures, warnings, problems, explanations."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import expect

from tests.support.corpora.console import MANUAL, OTHERS, fail_one, hand_in
from tests.support.corpora.documents import search
from tests.support.corpora.formats import pdf_with_picture
from tests.support.repository.console_pages import languages_and_widths

_ENGLISH = ("en-GB", "the PDF file is cut off or damaged", "1 of 3 pages holds only pictures (2)", "malformed_document")
_CHINESE = (
    "zh-CN",
    "PDF 文件不完整或已损坏，无法打开。",
    "共 3 页，其中 1 页只有图片（第 2 页）",
    "文档格式有误或已损坏",
)
LANGUAGES = pytest.mark.parametrize(
    "words", [pytest.param(_ENGLISH, marks=pytest.mark.thorough), _CHINESE], ids=["en", "zh"]
)


def _upload(client: httpx.Client, name: str, body: bytes) -> dict:
    answer = client.post("/v1/files", files={"file": (name, body)}, data={"namespace": "kb"})
    answer.raise_for_status()
    return client.get(f"/v1/jobs/{answer.json()['job_id']}", params={"wait": 30}).json()


class DescribeFailedDocuments:
    @pytest.mark.parametrize(("words", "width"), languages_and_widths(_ENGLISH, _CHINESE))
    def it_gives_the_reason_in_the_language_of_the_page(self, console, words, width):
        locale, reason, _, code = words
        made = console(locale=locale, width=width)
        job = fail_one(made.client)
        page = made.open(f"jobs/{job['job_id']}")
        expect(page.get_by_text(code).first).to_be_visible()
        expect(page.get_by_text(reason).first).to_be_visible()
        assert not made.scrolls_sideways()
        page.goto(f"{made.url}#/dead-letters")
        expect(page.get_by_text(reason).first).to_be_visible()

    @LANGUAGES
    def it_warns_of_pages_that_were_not_read(self, console, words, pictures):
        locale, _, warning, _ = words
        made = console(locale=locale, width=360)
        job = _upload(made.client, "scan.pdf", pdf_with_picture("The seal of the cooling pump."))
        assert job["status"] == "succeeded"
        page = made.open(f"jobs/{job['job_id']}")
        expect(page.get_by_text(warning)).to_be_visible()
        assert "CHORDWISE_OCR_LANGUAGES" in page.inner_text("main")
        assert not made.scrolls_sideways()
        if pictures:
            page.screenshot(path=pictures / f"unread-{locale}.png", full_page=True)


class DescribeChineseProblems:
    @pytest.mark.refused
    def it_puts_the_fault_of_a_field_in_chinese(self, console):
        page = console(locale="zh-CN").open("upload")
        page.get_by_label("命名空间").fill("手册/一")
        page.get_by_role("radio", name="文本").check()
        page.get_by_role("textbox", name="文本").fill("重置按钮。")
        page.get_by_role("button", name="上传", exact=True).click()
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("请求内容有误")
        expect(alert).to_contain_text("只能包含字母、数字")
        assert not re.search("may hold|The request", alert.inner_text())

    @pytest.mark.thorough
    @pytest.mark.refused
    def it_names_a_missing_record_in_chinese(self, console):
        page = console(locale="zh-CN").open("jobs/01900000-0000-7000-8000-000000000000")
        expect(page.get_by_role("alert")).to_contain_text("任务不存在")

    @pytest.mark.thorough
    def it_explains_in_chinese_why_a_chunk_is_missing(self, console):
        made = console(locale="zh-CN")
        hand_in(made.client, MANUAL, *OTHERS)
        query = search(
            made.client, "kb", "reset the wireless adapter", top_k=1, trace=True, retrieve={"method": "full_text"}
        )
        page = made.open(f"traces/{query['query_id']}")
        page.get_by_role("tab", name="未返回").click()
        page.locator("summary").filter(has_text="超出返回数量").click()
        page.get_by_role("button", name="为什么没有命中？").first.click()
        expect(page.get_by_text("在“结果选择”阶段被排除：超出返回数量")).to_be_visible()
