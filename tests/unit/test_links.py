"""Links of README and docs/: each leads to a file that exists, and to a heading that is in it."""

from __future__ import annotations

import os
import re
from functools import cache

import pytest

from compose.site.__main__ import LINK, relinked, sources
from tests.support.repository.guides import pages
from tests.support.repository.project import ROOT

_LINK = re.compile(r"\[[^\]]*]\(([^)\s:#]*)(#[^)\s]*)?\)")
_FENCED = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_ALL = (*pages(), "CONTRIBUTING.md", "CHANGELOG.md")


def prose(page: str) -> str:
    """A page without its blocks and what is set in a line as code."""
    return re.sub(r"`[^`\n]*`", "", _FENCED.sub("", (ROOT / page).read_text(encoding="utf-8")))


@cache
def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as sites and code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", (ROOT / page).read_text(encoding="utf-8")), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)]\([^)]*\)", r"\1", heading).replace("`", "") for heading in headings)
    return {"#" + re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", _ALL)
def it_leads_somewhere(page):
    wrong = []
    for path, anchor in _LINK.findall(prose(page)):
        target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not (ROOT / target).exists() or (anchor and target.endswith(".md") and anchor not in anchors(target)):
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
