"""Read HTML into a tree of elements in linear time. Full HTML5 trees are quadratic for hostile pages; here the depth is
bounded, formatting may be closed in any order, and a tag closes what readers expect it to close."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import unescape

_MARKUP = re.compile(r"<(?=[a-zA-Z/!?])")
_TAG = re.compile(r"""<(/?)([a-zA-Z][^\s/>]*+)((?:[^>=]++|=\s*+"[^"]*"|=\s*+'[^']*'|=)*+)>""")
# A document type may contain declarations between brackets.
_DECLARATION = re.compile(
    r"""<!doctype\b[^\[>"']*+(?:(?:"[^"]*+"|'[^']*+')[^\[>"']*+)*+\[[^\]<"']*+(?:(?:<!--(?:[^-]|-(?!->))*+-->|<\?[^>]*+>"""
    r"""|<![^<>"']*+(?:(?:"[^"]*+"|'[^']*+')[^<>"']*+)*+>)[^\]<"']*+)*+\]\s*+>""",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"""([^\s=/"'<>]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
DEEPEST = 100  # levels of elements; deeper tags have no effect, their text stays
_RAW_TEXT = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("title", "textarea", "script", "style", "xmp", "iframe", "noembed", "noframes")
}
_ESCAPABLE = ("title", "textarea")


def _set_of(names: str) -> frozenset[str]:
    return frozenset(names.split())


_VOID = _set_of("area base br col embed frame hr img input link meta param source track wbr")
INLINE = _set_of(
    """a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr output q ruby rt rp s samp
    small span strike strong sub sup time tt u var wbr math"""
)
_BLOCKS = _set_of(
    """address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form h1 h2 h3
    h4 h5 h6 header hgroup hr main menu nav ol p pre search section summary table ul xmp"""
)
# A tag closes these open elements, as far as the nearest of the second set.
_CLOSES = {
    "li": (_set_of("li"), _set_of("ul ol menu dir table")),
    "dt": (_set_of("dt dd"), _set_of("dl table")),
    "dd": (_set_of("dt dd"), _set_of("dl table")),
    "tr": (_set_of("tr"), _set_of("table")),
    "td": (_set_of("td th"), _set_of("tr table")),
    "th": (_set_of("td th"), _set_of("tr table")),
    **dict.fromkeys(("thead", "tbody", "tfoot"), (_set_of("thead tbody tfoot"), _set_of("table"))),
    "option": (_set_of("option"), _set_of("select datalist")),
    "optgroup": (_set_of("optgroup option"), _set_of("select")),
    **dict.fromkeys(_BLOCKS, (_set_of("p"), _set_of("td th li dd div section article table button body"))),
    **{
        f"h{level}": (_set_of("p h1 h2 h3 h4 h5 h6"), _set_of("td th li dd div section article table body"))
        for level in range(1, 7)
    },
}
_CELL_SCOPE = _set_of("td th table")  # an end tag of a block within closes nothing outside of them
_TABLE_PARTS = _set_of("td th tr thead tbody tfoot table caption body html")
MAY_HIDE = re.compile(r"hidden|style|navigation", re.IGNORECASE)


@dataclass(slots=False)
class Element:
    """An element with its children in order, texts among them. ``tag``: lower case; ``#root`` for the whole page.
    ``marker``: of an item of a list in another format, which numbers it."""

    tag: str
    source: str = ""  # of the attributes
    children: list[Element | str] = field(default_factory=list)
    marker: str | None = None
    may_hide: bool = field(init=False)  # whether its attributes can keep it from being shown; asked of every element

    def __post_init__(self) -> None:
        self.may_hide = bool(self.source) and MAY_HIDE.search(self.source) is not None

    @cached_property
    def attributes(self) -> Mapping[str, str]:
        """Return the attributes by lower-case name; the first of two counts."""
        found: dict[str, str] = {}
        for match in _ATTRIBUTE.finditer(self.source):
            value = match[2] or match[3] or match[4] or ""
            found.setdefault(match[1].lower(), unescape(value))
        return found

    def elements(self) -> Iterator[Element]:
        """Yield the children that are elements."""
        return (child for child in self.children if isinstance(child, Element))

    def descendants(self) -> Iterator[Element]:
        """Yield every element within, in document order."""
        waiting = [*reversed(list(self.elements()))]
        while waiting:
            element = waiting.pop()
            yield element
            waiting += [*reversed(list(element.elements()))]

    @property
    def length(self) -> int:
        """Return the characters of text within."""
        own = sum(len(child) for child in self.children if isinstance(child, str))
        return own + sum(
            len(child) for element in self.descendants() for child in element.children if isinstance(child, str)
        )


def read_tree(html: str) -> Element:
    """Return the tree of a page or a fragment."""
    builder = _Builder()
    position = 0
    while (markup := _MARKUP.search(html, position)) is not None:
        start = markup.start()
        builder.text(html[position:start])
        if tag := _TAG.match(html, start):
            position = builder.tag(html, tag)
        elif html.startswith("<!--", start):
            position = _after(html, "-->", start + 2)
        elif declaration := _DECLARATION.match(html, start):
            position = declaration.end()
        elif html[start + 1] in "!?" or not html[start + 2 : start + 3].isalpha():
            position = _after(html, ">", start)
        else:
            position = len(html)  # the page ends within a tag
    builder.text(html[position:])
    return builder.root


class _Builder:
    def __init__(self) -> None:
        self.root = Element("#root")
        self._open = [self.root]
        self._too_deep = 0  # open elements beyond the depth

    def text(self, text: str) -> None:
        if text:
            self._open[-1].children.append(unescape(text))

    def tag(self, html: str, tag: re.Match[str]) -> int:
        """Process one tag, with its content if that is not markup. Return the position to continue at."""
        name = tag[2].lower()
        if tag[1]:
            self._close(name)
            return tag.end()
        if rule := _CLOSES.get(name):
            self._close_implied(*rule)
        is_open = name not in _VOID and name not in _RAW_TEXT and not tag[3].endswith("/")
        if is_open and len(self._open) > DEEPEST:
            self._too_deep += 1
            return tag.end()
        element = Element(name, tag[3])
        self._open[-1].children.append(element)
        if (raw := _RAW_TEXT.get(name)) is not None:
            end = raw.search(html, tag.end())
            content = html[tag.end() : end.start() if end else len(html)]
            element.children.append(unescape(content) if name in _ESCAPABLE else content)
            return _after(html, ">", end.start()) if end else len(html)
        if is_open:
            self._open.append(element)
        return tag.end()

    def _close(self, name: str) -> None:
        if self._too_deep:
            self._too_deep -= 1
            return
        for index in range(len(self._open) - 1, 0, -1):
            tag = self._open[index].tag
            if tag == name:
                del self._open[index:]
                return
            if name in INLINE and tag not in INLINE:
                return  # formatting that is closed outside of its block
            if tag in _CELL_SCOPE and name not in _TABLE_PARTS:
                return

    def _close_implied(self, names: frozenset[str], within: frozenset[str]) -> None:
        for index in range(len(self._open) - 1, 0, -1):
            tag = self._open[index].tag
            if tag in names:
                del self._open[index:]
                return
            if tag in within:
                return


def _after(html: str, end: str, start: int) -> int:
    position = html.find(end, start)
    return position + len(end) if position >= 0 else len(html)


def tags_of(html: str) -> Iterator[tuple[str, str, bool]]:
    """Yield name, source of the attributes and whether it is an end tag of the tags that open or close an element."""
    position = html.find("<")
    while position >= 0:
        tag = _TAG.match(html, position)
        if tag is None and html[position + 1 : position + 2].isalpha():
            return  # the text ends within a tag
        if tag is not None and tag[2].lower() not in _VOID and not tag[3].endswith("/"):
            yield tag[2].lower(), tag[3], bool(tag[1])
        position = html.find("<", tag.end() if tag else position + 1)
