"""HTML to text: headings, paragraphs, lists with their numbers, tables with merged cells, formulas in a line."""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from pipeline.parsing.assembly import Block, assemble, one_line, usable_title
from pipeline.parsing.encodings import DecodedText, read_text
from pipeline.parsing.formulas import linear_mathml, lowered, raised, with_fractions
from pipeline.parsing.html_tree import (
    AS_BLOCK,
    AS_INLINE,
    CHIP,
    DROPPED,
    INLINE,
    LINE_END,
    SHIFTED,
    TAB,
    Element,
    Page,
    read_page,
    set_of,
)
from pipeline.parsing.numbering import numeral, spaced
from pipeline.parsing.table_headers import looks_like_header
from pipeline.parsing.tables import table_blocks
from pipeline.records import Parsed

_DECLARED_CHARSET = re.compile(
    rb"""<(?:meta|\?xml)[^<>]+(?:charset|encoding)\s*+=\s*+["']?+\s*+([\w.:-]+)""", re.IGNORECASE
)
_DECLARED_WITHIN = 4096  # bytes
_TAG_BEGINS = re.compile(r"</?([a-zA-Z][a-zA-Z0-9-]*)")
_SPACES = re.compile(r"[\t\r\n\f][ \t\r\n\f]*| [ \t\r\n\f]+")
_SPACED_LINE_END = re.compile(rf" ?{LINE_END} ?")
OPEN_ENDED = set_of("p li dt dd td th tr option")  # their end tags are often left out
_LIST_STYLE = re.compile(r"list-style(?:-type)?\s*+:\s*+([a-z-]+)", re.IGNORECASE)
_LIST_STYLES = {
    **dict.fromkeys(("lower-alpha", "lower-latin"), "a"),
    **dict.fromkeys(("upper-alpha", "upper-latin"), "A"),
    "lower-roman": "i",
    "upper-roman": "I",
    "decimal-leading-zero": "decimalZero",
    **dict.fromkeys(("cjk-ideographic", "cjk-decimal", "simp-chinese-informal", "trad-chinese-informal"), "一"),
    "none": "none",
}
_ELEMENTS = INLINE | set_of(
    """address applet area article aside audio base basefont blink blockquote body br button canvas caption center col
    colgroup datalist dd details dialog dir div dl dt embed fieldset figcaption figure footer form frame frameset h1 h2
    h3 h4 h5 h6 head header hgroup hr html iframe img input legend li link main map marquee menu meta meter nav noembed
    noframes noscript object ol optgroup option p param picture pre progress script search section select slot source
    style summary svg table tbody td template textarea tfoot th thead title tr track ul video xmp"""
)
_NAVIGATION = set_of("nav")
_FURNITURE = set_of("header footer aside")  # of a page, outside its main content
_LEAST_LINKS = 5  # of a block that is nothing but navigation
_LEAST_WITH_HOME = 2  # likewise, one of them to the start page
_HOME = re.compile(r"\s*(?:home(?: ?page)?|start(?:seite)?|accueil|inicio|首页|主页|首頁|主頁)\s*", re.IGNORECASE)
_FEW_BLOCKS = 20  # of a page that may be nothing but navigation
_FEW_CHARACTERS = 400  # of a page that asks for cookies or JavaScript, and may be nothing else
_ASKS = re.compile(
    r"(?:enable|activate|allow|turn on|requires?)\W(?:[\w-]{1,20}\W{1,3}){0,4}(?:cookies|javascript)|checking your browser"
    r"|(?:启用|开启|打开|允许|請啟用|啟用)[^。.]{0,9}(?:javascript|js|cookie)",
    re.IGNORECASE,
)
_LINK_SHARE = 0.8  # of its characters
_LEAST_SENTENCE = 40  # bytes of UTF-8 outside of links by which a text is content
_LARGEST = 2**40
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = set_of("ul ol menu dir")
_LONG_CELL = 200  # characters in a cell above which its paragraphs stay paragraphs, because the table is a layout
_MOST_COLUMNS = 1000
_INDENT = "  "


def parse_html(body: bytes, charset: str | None) -> Parsed:
    """Return a page's readable text, in linear time: its main content first, without scripts, styles, navigation and
    elements that are not shown. Title: ``<title>``, else the first ``<h1>``. A page that holds nothing but navigation, or
    little more than a request for cookies or JavaScript, is read with a warning."""
    decoded = decode_page(body, charset)
    page = read_page(decoded.text)
    blocks = _page_blocks(page)
    warnings = withheld(page.unseen)
    content = DROPPED | _NAVIGATION | _FURNITURE
    is_short = len(blocks) < _FEW_BLOCKS and page.main is None
    is_bare = is_short and not any(map(_has_words, _Writer(dropped=content | {"a"}).blocks(page.root)))
    blocks = blocks or (_Writer(dropped=DROPPED).blocks(page.root) if is_bare else [])
    text = " ".join(block.text for block in blocks[:_FEW_BLOCKS])
    if (is_bare and blocks) or (len(text) < _FEW_CHARACTERS and _ASKS.search(text)):
        warnings.append("the page holds no content of its own: navigation, or a request for cookies or JavaScript")
    return assemble(blocks, title=usable_title(page.title), encoding=decoded.encoding, warnings=warnings)


def _has_words(block: Block) -> bool:
    return any(map(str.isalnum, block.text))


def decode_page(body: bytes, charset: str | None) -> DecodedText:
    """Return the text of a page, in the encoding that it names itself if ``charset`` is None."""
    declared = _DECLARED_CHARSET.search(body[:_DECLARED_WITHIN])
    return read_text(body, declared=charset or (declared.group(1).decode("ascii") if declared else None))


def withheld(unseen: Iterable[Element]) -> list[str]:
    """Return the warning about elements that hold words and are not shown, if there are any."""
    hidden = sum(element.is_withheld for element in unseen)
    return [f"{hidden} elements that the page does not show were left out"] if hidden else []


# Remarks of programs that describe pictures themselves.
_OF_PROGRAM = re.compile(
    r"(?i)(?:description (?:automatically )?generated|AI-generated content|描述已自动生成|AI 生成的内容).*$"
)
_PICTURE_NAME = re.compile(
    r"(?i)$|\w:\\|https?:\S*$|(?:image|img|picture|photo|grafik|bild|图片?|图像|画像|logo)[\s_-]*\d*$"
    r"|.*\.(?:png|jpe?g|gif|bmp|[ew]mf|tiff?|svg|webp|heic)$"
)


def picture_text(alternative: str | None) -> str:
    """Return the alternative text of a picture in one line; empty if it is the name of a file or the like."""
    text = _OF_PROGRAM.sub("", one_line(alternative or "")).strip()
    return "" if _PICTURE_NAME.match(text) else text


def blocks_of_tree(root: Element) -> list[Block]:
    """Return the blocks of a whole tree, without scripts, navigation and elements that are not shown."""
    return _Writer(dropped=DROPPED | _NAVIGATION).blocks(root)


def read_fragment(fragment: str) -> Page:
    """Return the tree of an HTML fragment in another text. Unknown tags are text there."""
    return read_page(
        _TAG_BEGINS.sub(lambda tag: tag[0] if tag[1].lower() in _ELEMENTS else f"&lt;{tag[0][1:]}", fragment)
    )


def _page_blocks(page: Page) -> list[Block]:
    """Return the main content, and below it the remaining text that is no part of every page of a site."""
    root, main = page.root, page.main
    dropped, menus = DROPPED | _NAVIGATION, _menus(root, main)
    if main is not None and (blocks := _Writer(dropped=dropped, without=menus).blocks(main)):
        others = _Writer(dropped=dropped | _FURNITURE, without={id(main), *menus}).blocks(root)
        return blocks + [replace(block, outside=True) if block.level is None else block for block in others]
    return _Writer(dropped=dropped, without=menus).blocks(root)


def _menus(root: Element, main: Element | None) -> set[int]:
    """Return the ids of blocks of links that stand above the first sentence of a page or of its main content, or below
    the last one of the page: menus, languages, partners. A page without sentences has none."""
    blocks: list[tuple[int, int, int]] = []  # id, and the texts around
    sentences: list[int] = []
    content = (0, 0)
    texts = homes = 0

    def measure(element: Element, is_link: bool) -> tuple[int, int, int]:
        """Return the characters within an element, those of links, and the number of links."""
        nonlocal texts, homes, content
        begin, homes_before = texts, homes
        characters = of_links = links = 0
        for child in element.children:
            if isinstance(child, str):
                if length := len(text := child.strip()):
                    texts += 1
                    characters += length
                    if is_link:
                        of_links += length
                    elif length >= _LEAST_SENTENCE or (length * 3 >= _LEAST_SENTENCE <= len(text.encode())):
                        sentences.append(texts)
            elif child.tag not in DROPPED and not child.is_unseen:
                within = measure(child, is_link or child.tag == "a")
                characters += within[0]
                of_links += within[1]
                links += within[2]
        least = _LEAST_WITH_HOME if homes > homes_before else _LEAST_LINKS
        if element.tag == "a":
            links += characters > 0
            homes += _HOME.fullmatch(element.text) is not None
        elif element.tag == "h1":
            of_links = -_LARGEST  # a menu holds no title
        if element is main:
            content = (begin, texts)
        elif links >= least and of_links >= _LINK_SHARE * characters and element.tag not in INLINE:
            blocks.append((id(element), begin, texts))
        return characters, of_links, links

    measure(root, False)
    if not sentences:
        return set()
    first = next((text for text in sentences if content[0] < text <= content[1]), 0)
    return {
        block
        for block, begin, end in blocks
        if end < sentences[0] or begin >= sentences[-1] or content[0] <= begin <= end < first
    }


def _labels(drawing: Element) -> Iterator[str]:
    for child in drawing.elements():
        if child.tag == "text" and not child.is_unseen:
            yield one_line(child.text)
        elif child.tag not in DROPPED and not child.is_unseen:
            yield from _labels(child)


class _Writer:
    """Walks a tree and collects blocks."""

    def __init__(self, *, dropped: frozenset[str], without: Container[int] = ()) -> None:
        self._dropped = dropped
        self._without = without
        self._blocks: list[Block] = []
        self._pieces: list[str] = []  # text since the last block
        self._level: int | None = None  # of the open heading
        self._marker = ""  # the prefix of the next block
        self._depth = 0  # of lists
        self._tight = False  # whether the next block follows without a blank line
        self._verbatim = False  # within <pre>
        self._term_at = -1  # the block of the last term of a list

    def blocks(self, element: Element) -> list[Block]:
        """Return the blocks of an element."""
        self._children(element)
        self._end_block()
        return self._blocks

    def _children(self, element: Element) -> None:
        before = ""
        for child in element.children:
            if isinstance(child, str):
                self._pieces.append(child)
                before = ""
            elif not (child.tag in self._dropped or child.is_unseen or id(child) in self._without):
                if before == child.tag == "a":
                    self._pieces.append(" ")  # pages keep neighbouring links apart by their style
                self._element(child)
                before = child.tag

    def _element(self, element: Element) -> None:
        if handler := _HANDLERS.get(element.tag):
            handler(self, element)
        elif "role" in element.source and element.attributes.get("role") in _ARIA_TABLES:
            self._table(element)
        elif element.tag in INLINE or element.tag not in _ELEMENTS or AS_INLINE.search(element.source):
            self._shifted(element)
        else:
            self._block(element)

    def _block(self, element: Element) -> None:
        self._end_block()
        self._children(element)
        self._end_block()

    def _heading(self, element: Element) -> None:
        self._end_block()
        self._level = _HEADINGS[element.tag]
        self._block(element)
        self._level = None

    def _br(self, _element: Element) -> None:
        self._pieces.append(" " if self._level else LINE_END)

    def _img(self, element: Element) -> None:
        if alt := picture_text(element.attributes.get("alt")):
            self._pieces.append(f" {alt} ")

    def _sup(self, element: Element) -> None:
        self._pieces.append(raised("".join(self._pieces[-1:]), self._inline(element)))

    def _sub(self, element: Element) -> None:
        self._pieces.append(lowered("".join(self._pieces[-1:]), self._inline(element)))

    def _shifted(self, element: Element) -> None:
        """Read an element within a line, which its style may raise or lower."""
        if AS_BLOCK.search(element.source):
            self._block(element)
            return
        if CHIP.search(element.source):
            self._pieces.append(" ")
            self._children(element)
            self._pieces.append(" ")
            return
        shift = SHIFTED.search(element.source)
        (self._children if shift is None else self._sup if shift[1].lower() == "super" else self._sub)(element)

    def _svg(self, element: Element) -> None:
        """Write the labels of a drawing."""
        if text := "; ".join(filter(None, _labels(element))):
            self._pieces.append(f" {text} ")

    def _math(self, element: Element) -> None:
        self._pieces.append(linear_mathml(element))

    def _button(self, element: Element) -> None:
        """Read a button as a block of its own, as the question of a list that folds."""
        self._end_block_unless_inline()
        self._children(element)
        self._end_block_unless_inline()

    def _select(self, element: Element) -> None:
        options = [option for option in element.descendants() if option.tag == "option" and not option.is_unseen]
        chosen = [option for option in options if "selected" in option.attributes]
        without = self._dropped | {"select", "option"}  # each option once, in linear time
        texts = [one_line(*(b.text for b in _Writer(dropped=without).blocks(option))) for option in chosen or options]
        self._pieces.append(" " + " / ".join(filter(None, texts)) + " ")

    def _input(self, element: Element) -> None:
        attributes = element.attributes
        kind = attributes.get("type", "text").lower()
        if kind in ("checkbox", "radio"):
            self._pieces.append("[x] " if "checked" in attributes else "[ ] ")
        elif kind not in ("password", "submit", "button", "reset", "image", "file") and attributes.get("value"):
            self._pieces.append(f" {attributes['value']} ")

    def _textarea(self, element: Element) -> None:
        self._end_block()
        self._emit(Block(text=element.text))

    def _pre(self, element: Element) -> None:
        self._end_block()
        self._verbatim = True
        self._children(element)
        text = "".join(self._pieces).replace(LINE_END, "\n").replace(TAB, "\t")
        self._pieces, self._verbatim = [], False
        if text.strip():
            self._emit(Block(text=text.removeprefix("\n"), is_code=True))

    def _list(self, element: Element) -> None:
        nested = self._depth > 0
        self._end_block()
        self._tight = nested
        self._depth += 1
        items = [child for child in element.elements() if child.tag == "li"]
        number = _whole(element.attributes.get("start"), len(items) if "reversed" in element.attributes else 1)
        step = -1 if "reversed" in element.attributes else 1
        style = element.attributes.get("type") or _number_style(element)
        for child in element.children:
            if not isinstance(child, Element):
                self._pieces.append(child)
            elif child.tag != "li":
                if child.tag not in self._dropped and not child.is_unseen:
                    self._element(child)
            elif not child.is_unseen:
                number = _whole(child.attributes.get("value"), number)
                marker = (
                    spaced(f"{numeral(number, style)}{'、' if style == '一' else '.'}") if element.tag == "ol" else "- "
                )
                marker = "" if style == "none" else marker
                marker = marker if child.marker is None else child.marker
                self._item(child, _INDENT * (self._depth - 1) + marker)
                number += step
        self._depth -= 1
        self._end_block()
        self._tight = nested

    def _item(self, element: Element, marker: str) -> None:
        """Write an item. With the items nested in it, it is one block, whose later parts repeat its own line."""
        self._end_block()
        first = len(self._blocks)
        self._marker = marker
        self._children(element)
        self._end_block()
        self._marker, self._tight = "", True
        written = self._blocks[first:]
        if self._depth == 1 and len(written) > 1 and all(_is_line(block) for block in written):
            text = "\n".join(block.text for block in written)
            self._blocks[first:] = [Block(text=text, tight=written[0].tight, lead=len(written[0].text))]

    def _dl(self, element: Element) -> None:
        self._end_block()
        self._tight = False
        self._block(element)
        self._tight = False

    def _term(self, element: Element) -> None:
        """Write a term of a list, or its meaning. Both are one block, whose later parts repeat the term."""
        self._end_block()
        first = len(self._blocks)
        self._block(element)
        self._tight = True
        meaning = self._blocks[first:]
        if element.tag == "dt":
            self._term_at = first
        elif meaning and self._term_at == first - 1 and all(map(_is_line, meaning)):
            term = self._blocks[first - 1]
            text = "".join(f"{'' if block.tight else chr(10)}\n{block.text}" for block in meaning)
            self._blocks[first - 1 :] = [replace(term, text=term.text + text, lead=len(term.text))]
            self._term_at = -1

    def _table(self, element: Element) -> None:
        self._end_block()
        rows = list(_rows_of(element))
        if len(rows) == 1 and any(inner.tag == "pre" for cell in rows[0] for inner in cell.descendants()):
            for cell in rows[0]:  # code beside the numbers of its lines
                if not _LINE_NUMBERS.fullmatch(cell.text):
                    self._block(cell)
            return
        if _is_layout(element, rows):
            self._children(element)
            self._end_block()
            return
        cells = [
            [
                (self._cell(cell), _span(cell, "colspan", _MOST_COLUMNS), _span(cell, "rowspan", len(rows)))
                for cell in row
            ]
            for row in rows
        ]
        caption = next((self._inline(child) for child in element.elements() if child.tag == "caption"), "")
        self._tight = False
        for block in table_blocks(cells, marked=_marked_rows(rows), most_columns=_MOST_COLUMNS, caption=caption):
            self._emit(block)
        for cell in (cell for row in rows for cell in row):
            for note in cell.named("note"):
                self._block(note)

    def _cell(self, cell: Element) -> str:
        """Return the text of a cell in one line; its paragraphs and items divided by semicolons."""
        blocks = self._inner(cell)
        return "; ".join(
            one_line(block.text.removeprefix("- ").replace("\n", "; " if block.lead else " ")) for block in blocks
        )

    def _inner(self, element: Element) -> list[Block]:
        return _Writer(dropped=self._dropped | {"note"}).blocks(element)

    def _inline(self, element: Element) -> str:
        return one_line(*(block.text for block in self._inner(element)))

    def _end_block_unless_inline(self) -> None:
        if self._level is None:
            self._end_block()

    def _end_block(self) -> None:
        if not self._pieces:
            return
        text, self._pieces = "".join(self._pieces), []
        if self._verbatim:
            text = text.replace("\n", LINE_END)
        if "  " in text or not text.isprintable():
            text = _SPACED_LINE_END.sub("\n", _SPACES.sub(" ", text)).replace(TAB, "\t")
        text = with_fractions(text.strip(" \n\t"))
        if text.strip():
            if self._level is not None:
                text = one_line(text)
            self._emit(Block(text=self._marker + text, level=self._level, tight=self._tight))
            self._marker = ""
            self._tight = self._depth > 0

    def _emit(self, block: Block) -> None:
        self._blocks.append(block)


_HANDLERS: dict[str, Callable[[_Writer, Element], None]] = {
    **{
        name: getattr(_Writer, f"_{name}")
        for name in set_of("br img sup sub math svg button select input textarea pre table dl")
    },
    **dict.fromkeys(("dt", "dd"), _Writer._term),
    **dict.fromkeys(_LISTS, _Writer._list),
    **dict.fromkeys(_HEADINGS, _Writer._heading),
    "note": _Writer._block,  # of a document in another format, below the paragraph or the table that calls it
}


def _is_line(block: Block) -> bool:
    return block.level is None and not block.is_code and not block.lead and "|" not in block.text


_LINE_NUMBERS = re.compile(r"[\d\s]*+")
_ARIA_TABLES = set_of("table grid treegrid")
_ROW_ROLES, _GROUP_ROLES = set_of("row"), set_of("rowgroup")
_CELL_ROLES, _HEADER_ROLES = set_of("cell gridcell"), set_of("columnheader rowheader")


def _is(element: Element, tag: str, roles: frozenset[str]) -> bool:
    return element.tag == tag or ("role" in element.source and element.attributes.get("role") in roles)


_FRAME = re.compile(r"\b(?:row|column)-headers-background|\bfreezebar-cell")  # Google Sheets adds them


def _rows_of(table: Element) -> Iterator[list[Element]]:
    for child in sorted(table.elements(), key=lambda child: child.tag == "tfoot"):
        if _is(child, "tr", _ROW_ROLES) and not child.is_unseen:
            row = [
                cell
                for cell in child.elements()
                if (_is(cell, "td", _CELL_ROLES) or _is(cell, "th", _HEADER_ROLES)) and not cell.is_unseen
            ]
            shown = [cell for cell in row if not (cell.source and _FRAME.search(cell.source))]
            if shown or not row:
                yield shown
        elif (child.tag in ("thead", "tbody", "tfoot") or _is(child, "", _GROUP_ROLES)) and not child.is_unseen:
            yield from _rows_of(child)


def _is_layout(table: Element, rows: Sequence[Sequence[Element]]) -> bool:
    """Return whether a table arranges a page: one column, or long cells with paragraphs or tables of their own; below
    names of columns they may have paragraphs and lists."""
    if table.attributes.get("role") in ("presentation", "none") or max(map(len, rows), default=0) < 2:
        return True
    if len(rows) == 1 and any(inner.tag in _HEADINGS for cell in rows[0] for inner in cell.descendants()):
        return True  # a heading in a single row of cells is one of the page
    has_names = len(rows) > 1 and looks_like_header([one_line(cell.text) for cell in rows[0]])
    arranged = _PARTS_OF_PAGES if has_names else _PARTS_OF_PAGES | _PARAGRAPHS
    return any(
        any(inner.tag in arranged for inner in cell.descendants()) and len(cell.text) > _LONG_CELL
        for row in rows
        for cell in row
    )


_PARAGRAPHS = set_of("p div ul ol")
_PARTS_OF_PAGES = set_of("table h1 h2 h3 h4 h5 h6 section article pre form")


def _marked_rows(rows: Sequence[Sequence[Element]]) -> int:
    """Return how many rows from the first one on hold nothing but headers."""
    marked = takewhile(lambda row: row and all(_is(cell, "th", _HEADER_ROLES) for cell in row), rows)
    return sum(1 for _ in marked)


def _number_style(ordered: Element) -> str:
    """Return the type of an ordered list's numbers that its style names."""
    style = _LIST_STYLE.search(ordered.attributes.get("style", "")) if ordered.source else None
    return _LIST_STYLES.get(style[1].lower(), "1") if style else "1"


def _span(cell: Element, name: str, most: int) -> int:
    """Return how many columns or rows a cell covers; 0 rows are all that are left."""
    span = _whole(cell.attributes.get(name), 1)
    return max(1, min(span or (most if name == "rowspan" else 1), most))


def _whole(text: str | None, otherwise: int) -> int:
    return int(text.strip()) if text is not None and re.fullmatch(r"-?\d{1,6}", text.strip()) else otherwise
