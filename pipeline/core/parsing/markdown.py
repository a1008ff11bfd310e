"""Markdown to text.

Read line by line: headings, fences, lists, tables and quotes are all told by how a line begins, and a full parser takes
a second for every 0.5 MB. Links keep their text and lose their address, emphasis loses its stars.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

from pipeline.core.parsing.assembly import Block, assemble
from pipeline.core.parsing.encodings import clean, decode
from pipeline.records import Parsed

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_MATTER_WITHIN = 64 * 1024  # characters
_FRONT_MATTER_LINE = re.compile(r"\s*$|\s*#|\s+\S|-\s|[\w.-]+\s*:")
_FRONT_MATTER_TITLE = re.compile(r"^title\s*+:\s*+(.+)$", re.MULTILINE | re.IGNORECASE)

_FENCE = re.compile(r"\s*(`{3,}|~{3,})([^`]*)$")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_CLOSING_HASHES = re.compile(r"(?:^|[ \t])#+[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(?:(=+)|-+)[ \t]*$")
_RULE = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_QUOTE = re.compile(r" {0,3}>[ \t]?(?:>[ \t]?)*")
_LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+")
_TABLE_RULE = frozenset("|:- \t")
_REFERENCE = re.compile(r" {0,3}\[[^\]]{1,999}\]:[ \t]*\S")
_COMMENT_BLOCK = re.compile(r" {0,3}<!--")

_CODE_SPAN = re.compile(r"(``.{1,999}?``|`[^`]{1,999}`)")
_ADDRESS = r"(?:[^()\s]|\([^()\s]{0,999}\)){0,1999}"
_LINK_TITLE = r"""(?:\s{1,9}["'][^"'()]{0,499}["'])?\s{0,9}"""
_IMAGE_OR_LINK = re.compile(rf"!?\[([^\[\]]{{0,999}})\](?:\(\s{{0,9}}{_ADDRESS}{_LINK_TITLE}\)|\[[^\[\]]{{0,99}}\])")
_AUTOLINK = re.compile(r"<((?:https?://|mailto:)[^\s<>]{1,1999}|[^\s<>@]{1,99}@[^\s<>@]{1,99})>")
_LINE_BREAK = re.compile(r"<br\s{0,9}/?>", re.IGNORECASE)
_TAG = re.compile(r"<!--(?:(?!<!--|-->).){0,1999}-->|</?[a-zA-Z][^<>]{0,1999}>", re.DOTALL)
_STRONG = re.compile(r"\*{2,}(?=\S)|(?<=\S)\*{2,}|~~")
_EMPHASIS = re.compile(
    r"(?<![\w*\\])\*(?=[^\s*])|(?<=[^\s*\\])\*(?![\w*])|(?<![\w\\])_{1,3}(?=[^\s_])|(?<=[^\s_\\])_{1,3}(?!\w)"
)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


def parse_markdown(body: bytes, charset: str | None) -> Parsed:
    """Text under its headings. The title is that of the front matter, else the first heading of level 1."""
    text = clean(decode(body, declared=charset))
    text, title = _without_front_matter(text)
    return assemble(_blocks(text.split("\n")), title=title)


def _without_front_matter(text: str) -> tuple[str, str | None]:
    found = _FRONT_MATTER.match(text[:_FRONT_MATTER_WITHIN]) if text.startswith("---") else None
    if found is None or not all(map(_FRONT_MATTER_LINE.match, (found[1] or "").split("\n"))):
        return text, None
    title = _FRONT_MATTER_TITLE.search(found[1] or "")
    return text[found.end() :], title[1].rstrip().strip("\"'") if title else None


def _blocks(lines: list[str]) -> Iterator[Block]:
    paragraph: list[str] = []

    def ended() -> Iterator[Block]:
        if paragraph:
            yield Block(text=_inline("\n".join(paragraph)))
            paragraph.clear()

    fence, commented = "", False
    code: list[str] = []
    for line in lines:
        if fence:
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                yield Block(text="\n".join(code))
                fence = ""
            else:
                code.append(line)
            continue
        if commented or _COMMENT_BLOCK.match(line):
            commented = "-->" not in line
            line = line.partition("-->")[2]
        if quoted := _QUOTE.match(line):
            line = line[quoted.end() :]
        if found := _FENCE.match(line):
            yield from ended()
            fence, code = found[1], []
        elif found := _HEADING.match(line):
            yield from ended()
            yield Block(text=_inline(_CLOSING_HASHES.sub("", found[2] or "")), level=len(found[1]))
        elif (found := _UNDERLINE.match(line)) and paragraph and not _in_list_or_table(paragraph):
            yield Block(text=_inline(" ".join(paragraph)), level=1 if found[1] else 2)
            paragraph.clear()
        elif not line.strip() or _RULE.match(line):
            yield from ended()
        elif "-" in line and paragraph and "|" in paragraph[-1] and _TABLE_RULE.issuperset(line):
            continue
        elif not (not paragraph and _REFERENCE.match(line)):
            paragraph.append(_cells(line) if line.lstrip().startswith("|") else line)
    if fence:
        yield Block(text="\n".join(code))
    yield from ended()


def _in_list_or_table(paragraph: list[str]) -> bool:
    return "|" in paragraph[-1] or bool(_LIST_ITEM.match(paragraph[-1]))


def _cells(line: str) -> str:
    return line.strip().strip("|").strip()


def _inline(text: str) -> str:
    """Text without the marks around it; code spans are left as they are."""
    pieces = _CODE_SPAN.split(text)
    pieces[0::2] = [_unmarked(piece) for piece in pieces[0::2]]
    pieces[1::2] = [piece.strip("`").strip() for piece in pieces[1::2]]
    return "".join(pieces)


def _unmarked(text: str) -> str:
    if "[" in text:
        text = _IMAGE_OR_LINK.sub(r"\1", _IMAGE_OR_LINK.sub(r"\1", text))  # twice: an image may be a link's text
    if "<" in text:
        text = _AUTOLINK.sub(r"\1", text)
    if "*" in text or "_" in text or "~" in text:
        text = _EMPHASIS.sub("", _STRONG.sub("", text))
    if "\\" in text:
        text = _ESCAPE.sub(r"\1", text)
    if "<" in text:
        text = _TAG.sub("", _LINE_BREAK.sub("\n", text))
    return unescape(text)
