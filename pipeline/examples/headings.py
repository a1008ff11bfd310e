"""Names of the sheets and columns of a book, in Chinese and English."""

import re

from pipeline.documents.clean_text import clean
from pipeline.examples.example import Category, Column
from pipeline.keyword.normal_form import normal_form

_SHEETS: dict[Category, tuple[str, ...]] = {
    Category.QA: ("qa", "q&a", "faq", "问答", "健康咨询", "咨询", "健康问答"),
    Category.RECORD: ("record", "records", "记录", "数据记录"),
    Category.QUERY: ("query", "queries", "查询", "数据查询"),
    Category.GREETING: ("greeting", "greetings", "问候", "寒暄", "打招呼"),
}
_COLUMNS: dict[Column, tuple[str, ...]] = {
    Column.USER_INPUT: ("user_input", "user", "input", "question", "用户输入", "用户问题", "用户", "问题", "提问"),
    Column.AGENT_RESPONSE: (
        *("agent_response", "response", "answer", "agent", "assistant", "assistant_response", "agent_reply", "reply"),
        *("agent回复", "agent回答", "助手回复", "助手回答", "助手", "智能体回复", "回复", "回答", "答案"),
    ),
    Column.TAGS: ("tags", "tag", "labels", "label", "标签"),
    Column.QUALITY_GRADE: ("quality_grade", "grade", "quality", "质量等级", "质量", "等级", "评级"),
    Column.ID: ("id", "example_id", "document_id", "编号", "序号id", "示例编号"),
    Column.NOTES: ("notes", "note", "remark", "remarks", "comment", "comments", "备注", "说明", "注释"),
}
_GUIDES = ("说明", "填写说明", "使用说明", "填写指南", "guide", "readme", "instructions", "help")
_ENDINGS = ("examples", "example", "示例表", "示例", "案例", "样例", "类问题", "类", "表")
_LONGEST_NAME = 1000  # characters, including remarks in brackets; longer names are not examined
# "(必填)", "[required]", a star. A bracket without its partner extends to the end of its line and is kept.
_ASIDE = re.compile(r"([(\[【（<《][^)\]】）>》\n]*+)([)\]】）>》]?)|[*:：]")
_STARS = str.maketrans("", "", "*:：")
_SPACE = re.compile(r"[\s_\-]+")
_BETWEEN_TAGS = re.compile("[,，;；、|｜\n\t]")
_LONGEST_SHOWN = 40  # characters of a value in a sentence about it


def _plain(name: str) -> str:
    return _SPACE.sub("", _ASIDE.sub(_kept, normal_form("NFKC", name[:_LONGEST_NAME]))).casefold()


def _kept(aside: re.Match[str]) -> str:
    return aside[1].translate(_STARS) if aside[1] and not aside[2] else ""


_CATEGORY_OF = {_plain(name): category for category, names in _SHEETS.items() for name in names}
_COLUMN_OF = {_plain(name): column for column, names in _COLUMNS.items() for name in names}
_GUIDE_NAMES = frozenset(map(_plain, _GUIDES))


def category_of(sheet: str) -> Category | None:
    """Return the category named by a sheet, or by a key of the JSON form: ``qa``, ``QA_examples``, ``QA示例``, ``问答``."""
    name = _plain(sheet)
    while name not in _CATEGORY_OF:
        ending = next((ending for ending in _ENDINGS if name.endswith(ending) and name != ending), None)
        if ending is None:
            return None
        name = name.removesuffix(ending)
    return _CATEGORY_OF[name]


def column_of(header: str) -> Column | None:
    """Return the column a header names: ``user_input``, ``User input *``, ``用户输入（必填）``."""
    return _COLUMN_OF.get(_plain(header))


def is_guide(sheet: str) -> bool:
    """Return whether a sheet only explains how to fill in the others."""
    return _plain(sheet) in _GUIDE_NAMES


def one_line(text: str) -> str:
    """Return ``text`` in normal form C without control characters, with white space collapsed to single spaces."""
    return " ".join(normal_form("NFC", clean(text)).split())


def lines(text: str) -> str:
    """Return the text as `one_line` does, but with its line ends; blank lines and white space around lines are removed."""
    tidy = (" ".join(line.split()) for line in normal_form("NFC", clean(text)).split("\n"))
    return "\n".join(line for line in tidy if line)


def split_tags(text: str) -> list[str]:
    """Return the tags in a cell, separated by commas, semicolons, enumeration commas, bars or line ends."""
    return [tag for tag in map(one_line, _BETWEEN_TAGS.split(text)) if tag]


def shown(value: object) -> str:
    """Return a value in quotes, short enough for a sentence and without control characters."""
    text = one_line(str(value))
    return f"“{text[: _LONGEST_SHOWN - 1]}…”" if len(text) > _LONGEST_SHOWN else f"“{text}”"
