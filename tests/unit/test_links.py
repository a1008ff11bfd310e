"""Links of README and docs/: each leads to a file that exists, and to a heading that is in it."""

from __future__ import annotations

import os
import re
from functools import cache

import pytest

from compose.site.__main__ import LINK, anchors, relinked, sources, with_anchors
from tests.support.repository.guides import pages
from tests.support.repository.project import ROOT

_LINK = re.compile(r"\[[^\]]*]\(([^)\s:#]*)(#[^)\s]*)?\)")
_FENCED = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_ALL = (*pages(), "CONTRIBUTING.md", "CHANGELOG.md")


def prose(page: str) -> str:
    """A page without its blocks and what is set in a line as code."""
    return re.sub(r"`[^`\n]*`", "", _FENCED.sub("", (ROOT / page).read_text(encoding="utf-8")))


@cache
def anchors_in(page: str) -> set[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return {f"#{name}" for name in (*anchors(text), *re.findall(r'<a id="([^"]+)">', text))}


@pytest.mark.parametrize("page", _ALL)
def it_leads_somewhere(page):
    wrong = []
    for path, anchor in _LINK.findall(prose(page)):
        target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not (ROOT / target).exists() or (anchor and target.endswith(".md") and anchor not in anchors_in(target)):
            wrong.append(path + anchor)
    assert wrong == []


class DescribeLinksOfTheSite:
    @pytest.mark.parametrize(
        ("page", "link", "there"),
        [
            ("README.md", "[a](docs/python.md#x)", "[a](python.md#x)"),
            ("README.zh-CN.md", "[a](docs/zh/console.md)", "[a](console.md)"),
            ("docs/zh/console.md", "[a](../formats.md)", "[a](formats.md)"),
            ("docs/python.md", "[a](../README.md#use-it)", "[a](index.md#use-it)"),
            ("docs/tutorials/index.md", "[a](../dify.md)", "[a](../dify.md)"),
            ("docs/chunking.md", "[a](../pipeline/chunking/tokens.py)", "a"),
            ("README.md", "![a](docs/images/demo.png)", "![a](images/demo.png)"),
        ],
    )
    def it_puts_them_in_the_sites_terms(self, page, link, there):
        assert relinked(LINK.fullmatch(link), page, sources()) == there

    def it_leads_to_a_translated_page_by_the_anchors_of_the_original(self):
        page = with_anchors('# 标题\n\n<a id="b-c"></a>\n\n## 乙\n', anchors("# Title\n\n## A `x`\n\n## B, c\n"))
        assert page.splitlines()[:3] == ["# 标题", "", '<a id="a-x"></a>']
