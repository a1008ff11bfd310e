"""Links of README and docs/: each leads to a file that exists, and to a heading that is in it."""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path

import pytest

from compose.site.__main__ import LINK, anchors, relinked, sources, split_index, with_anchors
from tests.support.repository.guides import pages
from tests.support.repository.project import ROOT

_LINK = re.compile(r"\[[^\]]*]\(([^)\s:#]*)(#[^)\s]*)?\)")
_NAMED = re.compile(r"\b(docs/[\w/-]+\.md)(?: \(([A-Z][^)]+)\))?")
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


class DescribeSentencesOfThePrograms:
    def it_names_pages_and_headings_that_exist(self):
        folders = [ROOT / name for name in ("api_gateway", "benchmarks", "chordwise", "compose", "pipeline", "workers")]
        files = [ROOT / ".env.example", *(path for folder in folders for path in folder.rglob("*"))]
        wrong = []
        for file in (file for file in files if file.suffix in (".example", ".py", ".yaml")):
            for page, heading in _NAMED.findall(file.read_text(encoding="utf-8")):
                if not (ROOT / page).is_file() or (
                    heading and f"#{anchors(f'# {heading}')[0]}" not in anchors_in(page)
                ):
                    wrong.append(f"{file.relative_to(ROOT)}: {page} {heading}".rstrip())
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


class DescribeTheIndexesOfTheSite:
    def it_gives_each_language_its_own_pages(self, tmp_path):
        index = site(tmp_path, '{"base": "../zh/"}')
        split_index(tmp_path)
        english, chinese = (json.loads((tmp_path / folder / index).read_text("utf-8")) for folder in ("", "zh"))
        assert [section["location"] for section in english["docs"]] == ["", "cli/#use"]
        assert [section["location"] for section in chinese["docs"]] == ["", "cli/#use"]
        assert [section["title"] for section in chinese["docs"]] == ["开始", "Use"]
        assert english["config"] == chinese["config"] == {"lang": ["en"]}

    def it_refuses_a_theme_that_would_search_the_other_index(self, tmp_path):
        site(tmp_path, '{"base": ".."}')
        with pytest.raises(ValueError, match="theme has changed"):
            split_index(tmp_path)


def site(folder: Path, page: str) -> str:
    """A site of two languages; returns the place of its index."""
    names = {"": "Start", "cli/#use": "Use", "zh/": "开始", "zh/cli/#use": "Use"}
    sections = [{"location": location, "title": title, "text": ""} for location, title in names.items()]
    for path, text in {
        "search/search_index.json": json.dumps({"config": {"lang": ["en"]}, "docs": sections}),
        "zh/index.html": page,
    }.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return "search/search_index.json"
