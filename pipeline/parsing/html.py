"""HTML to text, read as a stream of tags without a tree, whose size hostile pages could make unbounded."""

import re
from collections import Counter
from html import unescape

from pipeline.parsing.assembly import Block, assemble
from pipeline.parsing.encodings import read_text
from pipeline.records import Parsed

_MARKUP = re.compile(r"<(?=[a-zA-Z/!?])")
_TAG = re.compile(r"""<(/?)([a-zA-Z][^\s/>]*+)((?:[^>=]++|=\s*+"[^"]*"|=\s*+'[^']*'|=)*+)>""")
# A document type may contain declarations between brackets.
_DECLARATION = re.compile(
    r"""<!doctype\b[^\[>"']*+(?:(?:"[^"]*+"|'[^']*+')[^\[>"']*+)*+\[[^\]<"']*+(?:(?:<!--(?:[^-]|-(?!->))*+-->|<\?[^>]*+>"""
    r"""|<![^<>"']*+(?:(?:"[^"]*+"|'[^']*+')[^<>"']*+)*+>)[^\]<"']*+)*+\]\s*+>""",
    re.IGNORECASE,
)
_ALT = re.compile(r"""(?:^|\s)alt\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_DECLARED_CHARSET = re.compile(
    rb"""<(?:meta|\?xml)[^<>]+(?:charset|encoding)\s*+=\s*+["']?+\s*+([\w.:-]+)""", re.IGNORECASE
)
_DECLARED_WITHIN = 4096  # bytes

_TAG_BEGINS = re.compile(r"</?([a-zA-Z][a-zA-Z0-9-]*)")
_SPACES = re.compile(r"[ \t\r\n\f]+")
_SPACED_LINE_END = re.compile(r" ?\n ?")

_RAW_TEXT = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("title", "textarea", "script", "style", "xmp", "iframe", "noembed", "noframes")
}


def _set_of(names: str) -> frozenset[str]:
    return frozenset(names.split())


_VOID = _set_of("area base br col embed hr img input link meta param source track wbr")
_ELEMENTS = _set_of(
    """a abbr acronym address applet area article aside audio b base basefont bdi bdo big blink blockquote body br button
    canvas caption center cite code col colgroup data datalist dd del details dfn dialog dir div dl dt em embed fieldset
    figcaption figure font footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html i iframe img input ins
    kbd label legend li link main map mark marquee math menu meta meter nav nobr noembed noframes noscript object ol
    optgroup option output p param picture pre progress q rp rt ruby s samp script search section select slot small source
    span strike strong style sub summary sup svg table tbody td template textarea tfoot th thead time title tr track tt u
    ul var video wbr xmp"""
)
_DROPPED = _set_of("nav template noscript svg canvas object audio video map select datalist button rt rp")
# Tags that do not separate text: they may be opened and closed in any order without effect.
_INLINE = _set_of(
    """a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr output q ruby s samp small
    span strike strong sub sup time tt u var wbr"""
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_ENDS_A_HEADING = frozenset({"p", "ul", "ol", "dl", "table", "pre", "section", "article", "blockquote"})
_ENDS_A_BLOCK = frozenset({"tr", "table", "ul", "ol", "dl", "li", "dt", "dd", "pre", *_HEADINGS})
_LONG_CELL = 200  # characters in a table row above which its paragraphs stay paragraphs, because the table is a layout


def parse_html(body: bytes, charset: str | None) -> Parsed:
    """Return a page's readable text without scripts, styles, navigation and controls, in linear time; list items and
    table rows are lines. Title: ``<title>``, else the first ``<h1>``."""
    declared = _DECLARED_CHARSET.search(body[:_DECLARED_WITHIN])
    reader = _Reader()
    decoded = read_text(body, declared=charset or (declared.group(1).decode("ascii") if declared else None))
    reader.read(decoded.text)
    return assemble(reader.blocks, title=reader.title, encoding=decoded.encoding)


def is_element(name: str) -> bool:
    """Return whether HTML has an element of this name."""
    return name.lower() in _ELEMENTS


def blocks_of_fragment(fragment: str) -> list[Block]:
    """Return the blocks of an HTML fragment in another text. Unknown tags are text there."""
    reader = _Reader()
    reader.read(_TAG_BEGINS.sub(lambda tag: tag[0] if is_element(tag[1]) else f"&lt;{tag[0][1:]}", fragment))
    return reader.blocks


class _Reader:
    """Collects blocks while reading tags."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.title: str | None = None
        self._open: list[str] = []  # open elements, without inline ones
        self._open_count: Counter[str] = Counter()
        self._dropped = 0  # number of open elements that hide their content
        self._level: int | None = None  # of the open heading
        self._row = False  # between <tr> and </tr>
        self._pieces: list[str] = []  # text since the last block
        self._collected = 0  # its length in characters
        self._marker = ""  # the prefix of the next block
        self._first = True  # whether the next list item or table row is the first
        self._tight = False  # whether the next block follows without a blank line

    def read(self, html: str) -> None:
        position = 0
        while (markup := _MARKUP.search(html, position)) is not None:
            start = markup.start()
            self._text(html[position:start])
            if tag := _TAG.match(html, start):
                position = self._tag(html, tag)
            elif html.startswith("<!--", start):
                position = _after(html, "-->", start + 2)
            elif declaration := _DECLARATION.match(html, start):
                position = declaration.end()
            elif html[start + 1] in "!?" or not html[start + 2 : start + 3].isalpha():
                position = _after(html, ">", start)
            else:
                position = len(html)  # the page ends within a tag
        self._text(html[position:])
        self._end_block()

    def _tag(self, html: str, tag: re.Match[str]) -> int:
        """Process one tag, with its content if that is not markup. Return the position to continue at."""
        name = tag[2].lower()
        if name in _INLINE:
            return tag.end()
        if tag[1]:
            self._closed(name)
            return tag.end()
        if (raw := _RAW_TEXT.get(name)) is not None:
            end = raw.search(html, tag.end())
            content = html[tag.end() : end.start() if end else len(html)]
            self._raw_text(name, content)
            return _after(html, ">", end.start()) if end else len(html)
        self._opened(name, tag[3])
        if name not in _VOID and not tag[3].endswith("/"):
            self._open.append(name)
            self._open_count[name] += 1
            self._dropped += name in _DROPPED
        return tag.end()

    def _raw_text(self, name: str, content: str) -> None:
        if self._dropped:
            return
        if name == "title":
            self.title = self.title or unescape(content)
        elif name == "textarea":
            self._end_block()
            self.blocks.append(Block(text=unescape(content)))

    def _text(self, text: str) -> None:
        if self._dropped or not text:
            return
        text = unescape(text)
        if not self._open_count["pre"]:
            text = _SPACES.sub(" ", text)
        self._pieces.append(text)
        self._collected += len(text)

    def _opened(self, name: str, attributes: str) -> None:
        if self._dropped or (name in _DROPPED and name != "nav"):
            return
        if name == "img":
            if alt := _ALT.search(attributes):
                self._text(f" {alt[1] or alt[2] or ''} ")
        elif name == "br":
            self._pieces.append(" " if self._row or self._level else "\n")
        elif name in ("td", "th"):
            if self._row and self._collected:
                self._pieces.append(" | ")
        elif name in _HEADINGS:
            self._end_block()
            self._row, self._level = False, _HEADINGS[name]
        elif name in ("ul", "ol", "dl", "table"):
            self._end_block()
            self._row, self._level, self._first = False, None, True
        elif name in ("li", "dt", "dd", "tr"):
            self._end_block()
            self._row, self._marker = name == "tr", "- " if name == "li" else ""
            self._first, self._tight = False, not self._first
        else:
            self._boundary()
            if name in _ENDS_A_HEADING:
                self._level = None

    def _closed(self, name: str) -> None:
        if not self._dropped:
            if name in _ENDS_A_BLOCK:
                self._end_block()
                self._tight = False
            elif name not in ("td", "th"):
                self._boundary()
        if not self._open_count[name]:
            return
        while True:
            closed = self._open.pop()
            self._open_count[closed] -= 1
            self._dropped -= closed in _DROPPED
            if closed in _HEADINGS:
                self._level = None
            if closed in ("tr", "table"):
                self._row = False
            if closed == name:
                return

    def _boundary(self) -> None:
        """Separate blocks: a new paragraph, but only a space within a table row, whose cells are short."""
        if self._row and self._collected <= _LONG_CELL:
            self._pieces.append(" ")
        else:
            self._end_block()

    def _end_block(self) -> None:
        text = "".join(self._pieces)
        self._pieces, self._collected = [], 0
        if not self._open_count["pre"]:
            text = _SPACED_LINE_END.sub("\n", text).strip(" \n")
        if self._row:
            text = _SPACES.sub(" ", text).strip(" |")
        if text.strip():
            self.blocks.append(Block(text=self._marker + text, level=self._level, tight=self._tight))
            self._marker, self._tight = "", False


def _after(html: str, end: str, start: int) -> int:
    position = html.find(end, start)
    return position + len(end) if position >= 0 else len(html)
