"""Markdown to text by markdown-it-py (CommonMark, tables, strikethrough). Unmatched marks, notes and unknown tags stay
as text; links lose their address, emphasis its stars."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import chain, zip_longest

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from pipeline.documents.clean_text import clean_code
from pipeline.parsing.assembly import Block, assemble
from pipeline.parsing.encodings import read_text
from pipeline.parsing.html import OPEN_ENDED, blocks_of_tree, read_fragment, withheld
from pipeline.parsing.html_tree import LINE_END, Element, Page
from pipeline.parsing.tables import bar_blocks
from pipeline.records import Parsed

_FRONT_MATTER = re.compile(
    r"\A(?:---[ \t]*\n(?P<yaml>.*?\n)?(?:---|\.\.\.)|\+\+\+[ \t]*\n(?P<toml>.*?\n)?\+\+\+)[ \t]*(?:\n|\Z)", re.DOTALL
)
_NOTE = re.compile(r"^\[\^([^\]\[\s]{1,100}+)\]:", re.MULTILINE)
_CALL = re.compile(r"\[\^([^\]\[\s]{1,100}+)\](?!:)")
_HEADING_ATTRIBUTES = re.compile(r"\{:?\s?[#.][^{}\n]{0,200}+\}$")
_CONTAINER = re.compile(r"^:{3,}[ \t]*(?:[\w-]+|\{[^}\n]*\})?[ \t]*", re.MULTILINE)
_FRONT_MATTER_WITHIN = 64 * 1024  # characters
_FRONT_MATTER_LINE = re.compile(r"\s*$|\s*#|\s+\S|-\s|[\w.-]+\s*:|[\w.\"'-]+\s*=|\[[^\]]+\]+\s*$|[\]}]")
_FRONT_MATTER_TITLE = re.compile(r"^title\s*+[:=]\s*+(.+)$", re.MULTILINE | re.IGNORECASE)
# TeX between dollars as pandoc reads it, and between its own brackets.
_TEX = re.compile(
    r"\$\$(?:[^$\\]|\\.){1,5000}+\$\$|\$(?![\s$])(?:[^$\\\n]|\\.){1,1000}+(?<![\s\\])\$(?!\d)"
    r"|\\\((?:(?!\\\)).){1,1000}\\\)|\\\[(?:(?!\\\]).){1,5000}\\\]",
    re.DOTALL,
)


_LONGEST = 1024 * 1024  # characters; the parser takes 1 to 6 s for them, and of longer texts only headings are read
_HEADING_LINE = re.compile(r"^(#{1,6})[ \t]++(.+)$", re.MULTILINE)
_DEEPEST_BLOCK = 40  # nesting of quotes and lists; deeper marks are text
_DEEPEST_INLINE = 60  # above it, or the parser leaves out blocks
_MOST_BRACKETS = 8
_BRACKET = re.compile(r"\\.|[\[\]]", re.DOTALL)

Rule = Callable[[StateBlock, int, int, bool], bool]
InlineRule = Callable[[StateInline, bool], bool]


def parse_markdown(body: bytes, charset: str | None) -> Parsed:
    """Return the text under its headings. The title is that of the front matter, else the first heading of level 1."""
    decoded = read_text(body, declared=charset)
    text, front, title = _without_front_matter(clean_code(decoded.text))
    warnings: list[str] = []
    blocks = chain([Block(text=front)], markdown_blocks(text, warnings))
    return assemble(blocks, title=title, encoding=decoded.encoding, warnings=warnings)


def markdown_blocks(text: str, warnings: list[str]) -> Iterator[Block]:
    """Yield the blocks of a clean text of Markdown, and add a warning of what it does not show; of a very long text only
    headings are read."""
    if len(text) > _LONGEST:
        yield from _headings_alone(text)
        return
    writer = _Writer()
    yield from _with_notes(writer.blocks(_PARSER.parse(text)))
    writer.tell(warnings)


def _without_front_matter(text: str) -> tuple[str, str, str | None]:
    """Return a text without its front matter of YAML or TOML, the front matter without its title, and that title."""
    found = _FRONT_MATTER.match(text[:_FRONT_MATTER_WITHIN]) if text.startswith(("---", "+++")) else None
    front = (found["yaml"] or found["toml"] or "") if found else ""
    if found is None or not all(map(_FRONT_MATTER_LINE.match, front.split("\n"))):
        return text, "", None
    title = _FRONT_MATTER_TITLE.search(front)
    if title is None:
        return text[found.end() :], front, None
    rest = front[: title.start()] + front[title.end() :].lstrip("\n")
    return text[found.end() :], rest, title[1].strip().strip("\"'")


def _with_notes(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks, each with the notes that it is the first to call. Notes that nothing above calls stay in place."""
    parts: list[tuple[str, Block]] = []  # the name of a note, or nothing
    for block in blocks:
        begins = [] if block.is_code or block.level else list(_NOTE.finditer(block.text))
        if not begins or begins[0].start():
            parts.append(("", block))
            continue
        ends = [begin.start() for begin in begins[1:]] + [len(block.text)]
        for begin, end in zip(begins, ends, strict=True):
            parts.append((begin[1], Block(text=block.text[begin.start() : end].rstrip())))
    notes = {name: block for name, block in reversed(parts) if name}
    for name, block in parts:
        if not name:
            yield block
            for call in _CALL.finditer("" if block.is_code else block.text):
                if note := notes.pop(call[1], None):
                    yield note
        elif notes.get(name) is block:
            yield notes.pop(name)


def _headings_alone(text: str) -> Iterator[Block]:
    """Yield the headings of a text, and the lines between them unchanged."""
    end = 0
    for heading in _HEADING_LINE.finditer(text):
        yield Block(text=text[end : heading.start()])
        yield Block(text=heading[2].rstrip("# \t"), level=len(heading[1]))
        end = heading.end()
    yield Block(text=text[end:])


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": _DEEPEST_INLINE, "html": True}).enable(["table", "strikethrough"])
    ruler = parser.block.ruler
    rules = {rule.name: rule for rule in ruler.__rules__}
    for name in ("blockquote", "list"):
        ruler.at(name, _bounded(rules[name].fn), {"alt": rules[name].alt})
    spans = parser.inline.ruler
    inline = {rule.name: rule.fn for rule in spans.__rules__}
    for name in ("link", "image"):
        spans.at(name, _closed(inline[name], offset=int(name == "image")))
    spans.before("escape", "tex", _tex)
    ruler.at("reference", _without_notes(rules["reference"].fn), {"alt": rules["reference"].alt})
    return parser


def _tex(state: StateInline, silent: bool) -> bool:
    """Keep a formula of TeX as it is written, as one text."""
    if state.src[state.pos] not in "$\\":
        return False
    formula = _TEX.match(state.src, state.pos)
    if formula is None:
        return False
    if not silent:
        state.push("text", "", 0).content = formula[0]
    state.pos = formula.end()
    return True


def _bounded(rule: Rule) -> Rule:
    def bounded(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        return state.level < _DEEPEST_BLOCK and rule(state, start, end, silent)

    return bounded


def _without_notes(rule: Rule) -> Rule:
    """Return the rule for link definitions, with definitions of notes left as paragraphs."""

    def without_notes(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        begins = state.bMarks[start] + state.tShift[start]
        return not state.src.startswith("[^", begins) and rule(state, start, end, silent)

    return without_notes


def _closed(rule: InlineRule, *, offset: int) -> InlineRule:
    """Return the rule for links or images limited to closed brackets with few others inside; else it is quadratic."""
    seen: tuple[str, frozenset[int]] = ("", frozenset())

    def closed(state: StateInline, silent: bool) -> bool:
        nonlocal seen
        source, brackets = seen
        if source is not state.src:
            source, brackets = seen = (state.src, _shallow_brackets(state.src))
        return state.pos + offset in brackets and rule(state, silent)

    return closed


def _shallow_brackets(text: str) -> frozenset[int]:
    """Return positions of closed brackets with at most `_MOST_BRACKETS` levels, except in an unclosed address."""
    positions: list[int] = []
    last_parenthesis = text.rfind(")")
    opened: list[tuple[int, int]] = []  # position, and levels within
    for bracket in _BRACKET.finditer(text):
        if bracket[0] == "[":
            opened.append((bracket.start(), 0))
        elif bracket[0] == "]" and opened:
            position, levels = opened.pop()
            has_address = text.startswith("(", bracket.end())
            if levels <= _MOST_BRACKETS and not (has_address and bracket.start() > last_parenthesis):
                positions.append(position)
            if opened:
                outer, inner = opened[-1]
                opened[-1] = (outer, max(inner, levels + 1))
    return frozenset(positions)


class _Writer:
    """Turns the parser's tokens into blocks: lists and tables keep their lines together, paragraphs stand alone."""

    def __init__(self) -> None:
        self._lines: list[str] = []  # lines of the open block
        self._items: list[int] = []  # those of its lines that begin an item
        self._end = -1  # the line of the source at which they end
        self._lists: list[int | None] = []  # the next number of each open list, None for bullets
        self._markers: list[str] = []  # marks of items without text so far
        self._cells: list[str] | None = None  # of the open row
        self._rows: list[list[str]] = []  # of the open table
        self._hidden: str | None = None  # an open element of HTML that is not shown
        self._unseen: list[Element] = []

    def blocks(self, tokens: Sequence[Token]) -> Iterator[Block]:
        """Yield the blocks of a document."""
        level: int | None = None
        for token in tokens:
            kind = token.type
            if self._hidden and kind in ("inline", "fence", "code_block", "html_block"):
                _, end, rest = (
                    token.content.lower().rpartition(f"</{self._hidden}>") if kind == "html_block" else ("",) * 3
                )
                if not end:
                    continue
                yield from self._html(token.content[len(token.content) - len(rest) :])
            elif kind == "inline":
                text = self._inline(token.children or (), is_heading=level is not None)
                if self._cells is not None:
                    self._cells.append(" ".join(text.split()))
                elif level is not None:
                    yield from self._flushed()
                    yield Block(text=self._marked(_HEADING_ATTRIBUTES.sub("", text.rstrip())), level=level)
                else:
                    yield from self._added(_CONTAINER.sub("", text) if ":::" in text else text, token.map)
            elif kind == "heading_open":
                level = int(token.tag[1])
            elif kind == "heading_close":
                level = None
            elif kind in ("fence", "code_block"):
                yield from self._flushed()
                yield Block(text=self._marked(_code(token)), is_code=True)
            elif kind == "html_block":
                yield from self._flushed()
                yield from self._html(token.content)
            else:
                yield from self._structure(token)
        yield from self._flushed()

    def _inline(self, tokens: Sequence[Token], *, is_heading: bool = False) -> str:
        """Return text without the marks around it, without elements that are not shown, and in a heading of words without
        the names of its pictures."""
        pieces: list[str] = []
        has_html = any(token.type == "html_inline" for token in tokens)
        written = escape if has_html else str
        has_words = is_heading and any(
            token.type in ("text", "code_inline") and token.content.strip() for token in tokens
        )
        for token, after in zip_longest(tokens, tokens[1:]):
            if token.type in ("em_open", "em_close"):
                if after and after.content[:1].isdecimal() and pieces and pieces[-1][-1:].isdecimal():
                    pieces.append(token.markup)  # 2*3*4 is no emphasis
            elif token.type in ("text", "text_special", "code_inline"):
                pieces.append(written(token.content))
            elif token.type in ("softbreak", "hardbreak"):
                pieces.append(LINE_END if has_html else "\n")
            elif token.type == "image" and not has_words:
                pieces.append(written(self._inline(token.children or ())))
            elif token.type == "html_inline":
                pieces.append(token.content)
        text = "".join(pieces)
        if not has_html:
            return text
        mark = "" if self._cells is None else "- "  # of a list, which a cell has in one line
        return "\n".join(block.text.removeprefix(mark) for block in blocks_of_tree(self._fragment(text).root))

    def _fragment(self, fragment: str) -> Page:
        """Return the tree of a fragment of HTML, and count its elements that are not shown."""
        page = read_fragment(fragment)
        self._unseen += page.unseen
        return page

    def _html(self, fragment: str) -> list[Block]:
        """Return the blocks of a fragment, which may hide what stands below it."""
        page = self._fragment(fragment)
        self._hidden = next((each.tag for each in page.unclosed if each.is_unseen and each.tag not in OPEN_ENDED), None)
        return blocks_of_tree(page.root)

    def tell(self, warnings: list[str]) -> None:
        """Add a warning of elements that are not shown."""
        warnings += withheld(self._unseen)

    def _structure(self, token: Token) -> Iterator[Block]:
        kind = token.type
        if kind == "ordered_list_open":
            self._lists.append(int(token.attrs.get("start", 1)))
        elif kind == "bullet_list_open":
            self._lists.append(None)
        elif kind in ("ordered_list_close", "bullet_list_close"):
            self._lists.pop()
        elif kind == "list_item_open":
            number = self._lists[-1]
            marker = "- " if number is None else f"{token.info or number}{token.markup} "
            self._markers.append("  " * (len(self._lists) - 1) + marker)
        elif kind == "list_item_close" and self._markers:
            self._markers.pop()
        elif kind == "tr_open":
            self._cells = []
        elif kind == "tr_close":
            self._rows.append(self._cells or [])
            self._cells = None
        elif kind == "table_close":
            yield from self._flushed()
            rows, self._rows = self._rows, []
            yield from bar_blocks(rows, header_rows=1)

    def _added(self, text: str, lines: Sequence[int] | None) -> Iterator[Block]:
        """Add a text to the block of the line above it, or begin a block."""
        first, last = lines or (self._end, self._end)
        if first != self._end:
            yield from self._flushed()
        if self._markers:
            self._items.append(len(self._lines))
        self._lines.append(self._marked(text))
        self._end = last

    def _marked(self, text: str) -> str:
        if not self._markers:
            return text
        markers, self._markers = self._markers, []
        return markers[-1] + text

    def _flushed(self) -> Iterator[Block]:
        """Yield the open block: of a list with nested items one for each outer item, whose line leads those below."""
        lines, self._lines, self._end = self._lines, [], -1
        begins = [index for index in self._items if not lines[index].startswith(" ")]
        self._items = []
        if not begins or begins[0] or len(begins) == len(lines):
            if lines:
                yield Block(text="\n".join(lines))
            return
        for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True):
            item = "\n".join(lines[begin:end])
            is_parent = end - begin > 1 and all(line.startswith(" ") for line in lines[begin + 1 : end])
            yield Block(text=item, tight=begin > 0, lead=len(lines[begin]) if is_parent else 0)


def _code(token: Token) -> str:
    """Return code with the words of its fence beyond a language's name, or the whole fence if there is no code."""
    _, _, words = token.info.strip().partition(" ") if token.content.strip() else ("", "", token.info)
    return f"{words.strip()}\n{token.content}".strip("\n") if words.strip() else token.content.strip("\n")


_PARSER = _parser()
