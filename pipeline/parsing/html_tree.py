"""Read HTML into a tree of elements in linear time. Full HTML5 trees are quadratic for hostile pages; here the depth is
bounded, formatting may be closed in any order, and a tag closes what readers expect it to close."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape

_TAG = re.compile(r"""<(/?)([a-zA-Z][^\s/>]*+)((?:[^>=]++|=\s*+"[^"]*"|=\s*+'[^']*'|=)*+)>""")
# A document type may contain declarations between brackets.
_DECLARATION = re.compile(
    r"""<!doctype\b[^\[>"']*+(?:(?:"[^"]*+"|'[^']*+')[^\[>"']*+)*+\[[^\]<"']*+(?:(?:<!--(?:[^-]|-(?!->))*+-->|<\?[^>]*+>"""
    r"""|<![^<>"']*+(?:(?:"[^"]*+"|'[^']*+')[^<>"']*+)*+>)[^\]<"']*+)*+\]\s*+>""",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"""([^\s=/"'<>]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
_ENDS_IN_VALUE = re.compile(r"=\s*[^\s\"'=>]++(?<=/)$")  # such as ``href=/``
_OF_ANOTHER_NAME = re.compile(r"\A[a-z]+-(?=(?:p|h[1-6])$)")  # elements that a program calls as those of HTML
_TAG_NAME_END = re.compile(r"[\s/>]")
_CONTROLLED = re.compile(
    r"""\b(?:aria-controls|data-(?:bs-)?target|href|onclick)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\s#'\"(),;]+")
SHIFTED = re.compile(r"vertical-align\s*+:\s*+(super|sub)\b", re.IGNORECASE)
AS_BLOCK = re.compile(r"(?<![\w-])display\s*+:\s*+(?:block|flex|grid|list-item|table(?:-row)?\b)", re.IGNORECASE)
AS_INLINE = re.compile(r"(?<![\w-])display\s*+:\s*+inline\s*+(?:[;!\"']|$)", re.IGNORECASE)
CHIP = re.compile(r"\bclass\s*+=[^=]*?(?<![\w-])(?:badge|chip|pill|selected-value|tag)(?![\w-])", re.IGNORECASE)
_SHOWN_APART = re.compile("|".join(each.pattern for each in (SHIFTED, AS_BLOCK, CHIP)), re.IGNORECASE)
_DISPLAY = re.compile(r"(?<![\w-])(?:display|visibility)\s*+:\s*+(?:(none|hidden)|\w)", re.IGNORECASE)
_NAMES, _COMBINATOR = re.compile(r"[.#][\w-]+"), re.compile(r"[\s>]+")
_SELECTOR = re.compile(r"(?=[^.#]*+[.#])[\w.#-]++(?:[\s>]++[\w.#-]++)*+")  # of one or more names, such as `.note > p`
_FOLDED = re.compile(r"answer|panel", re.IGNORECASE)
_OPENS = re.compile(r"aria-expanded|accordion|toggle|collaps|expand|question|faq", re.IGNORECASE)
_DIALOG = re.compile(r"dialog|modal|popup|tooltip|navigation|cookie", re.IGNORECASE)
LINE_END, TAB = "\x0b", "\x1f"  # that a document asks for, among the white space that it does not
_MOST_LOOKED_AT = 8  # elements and texts beside or in which a button is looked for
DEEPEST = 100  # levels of elements; deeper tags have no effect, their text stays
_UNSEEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|opacity\s*:\s*0+(?:\.0+)?%?\s*(?:!|;|$)|transform\s*:\s*(?:scale\(0(?:,\s*0)?\)|translate[XY]?\(-\d{4,}px)"
    r"|(?:left|right|top|text-indent)\s*:\s*-(?:\d{4,}px|\d{3,}(?:r?em|v[hw]))|clip(?:-path)?\s*:\s*(?:rect\((?:0(?:px)?[,\s]*){4}\)|inset\((?:50|100)%\)|polygon\((?:0(?:px|%)?[,\s]*)+\))"
    r"|(?<![\w-])color\s*:\s*(?:transparent|rgba\((?:\d+\s*,\s*){3}0\))|^(?=.*overflow\s*:\s*hidden)(?!.*(?:transition|flex|ellipsis|min-width))"
    r"(?:.*[;\s])?(?:(?:max-)?height|width)\s*:\s*0"
    r"(?:px)?\s*(?:;|$)|(?<![\w-])color\s*:\s*([^;\s]+)\s*;(?:[^;]{0,50};){0,9}\s*background(?:-color)?\s*:\s*\1\s*(?:;|$)",
    re.IGNORECASE,
)
_FADED = re.compile(r"(?:visibility\s*:\s*hidden|opacity\s*:\s*0)\s*(?:!important\s*)?(?:;|$)", re.IGNORECASE)
_LEAST_FADED = 200  # characters
_TINY = ' style="font-size:00"'  # of a class
_NO_SIZE = re.compile(r"font-size\s*:\s*0+(?:\.0+)?(?:px|pt|em|rem|%)?\s*(?:!|;|$)", re.IGNORECASE)
_SIZE = re.compile(r"font-size\s*:\s*+(?!0+(?:\.0*)?(?:px|pt|em|rem|%)?\s*(?:[!;\"']|$))", re.IGNORECASE)
_WHITE = re.compile(r"(?i)(?<![\w-])color\s*+:\s*+(?:white|#(?:f\wf\wf\w|fff)|rgb\((?:25\d[, ]*){3}\))\s*(?:[!;\"']|$)")
_NO_GROUND = r"none|transparent|white|#fff|inherit|initial|0"  # that white text could stand on
_GROUND = re.compile(rf"(?i)background(?:-color|-image)?\s*+(?:=|:\s*+(?!{_NO_GROUND}))|bgcolor|stylesheet")
_MOVES = re.compile(
    r"(?:animation|transition)[\w-]{0,30}+\s*+:|opacity\s*+:\s*+(?:0?\.\d*[1-9]|[1-9])|max-height\s*+:\s*+(?!0)",
    re.IGNORECASE,
)


def set_of(names: str) -> frozenset[str]:
    """Return the names in a text."""
    return frozenset(names.split())


DROPPED = set_of(
    "template noscript canvas object audio video map datalist script style iframe noembed noframes title rp rt"
)
_RAW_TEXT = set_of("title textarea script style xmp iframe noembed noframes")
_ESCAPABLE = set_of("title textarea")
_VOID = set_of("br hr img input")
_LEFT_OUT = set_of("area base col embed frame link meta param source track wbr script style iframe noembed noframes")
INLINE = set_of(
    """a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr output q ruby rt rp s samp
    small span strike strong sub sup time tt u var wbr math"""
)
_FORMATTING = INLINE - set_of("a math rp rt ruby sub sup")  # without a part in what is written
_BLOCKS = set_of(
    """address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form h1 h2 h3
    h4 h5 h6 header hgroup hr main menu nav ol p pre search section summary table ul xmp"""
)
# A tag closes these open elements, as far as the nearest of the second set.
_CLOSES = {
    "li": (set_of("li"), set_of("ul ol menu dir table")),
    "dt": (set_of("dt dd"), set_of("dl table")),
    "dd": (set_of("dt dd"), set_of("dl table")),
    "tr": (set_of("tr"), set_of("table")),
    "td": (set_of("td th"), set_of("tr table")),
    "th": (set_of("td th"), set_of("tr table")),
    **dict.fromkeys(("thead", "tbody", "tfoot"), (set_of("thead tbody tfoot"), set_of("table"))),
    "option": (set_of("option"), set_of("select datalist")),
    "optgroup": (set_of("optgroup option"), set_of("select")),
    **dict.fromkeys(_BLOCKS, (set_of("p"), set_of("td th li dd div section article table button body"))),
    **{
        f"h{level}": (set_of("p h1 h2 h3 h4 h5 h6"), set_of("td th li dd div section article table body"))
        for level in range(1, 7)
    },
}
_CELL_SCOPE = set_of("td th table")  # an end tag of a block within closes nothing outside of them
_TABLE_PARTS = set_of("td th tr thead tbody tfoot table caption body html")


class Element:
    """An element with its children in order, texts among them. ``tag``: lower case; ``#root`` for the whole page.
    ``source``: of its attributes. ``marker``: of an item of a list in another format, which numbers it. ``is_unseen``:
    its attributes keep it from being shown or make it a navigation."""

    __slots__ = ("_attributes", "children", "is_unseen", "marker", "source", "tag")

    def __init__(
        self,
        tag: str,
        source: str = "",
        children: list[Element | str] | None = None,
        marker: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        self.tag = tag
        self.source = source
        self.children: list[Element | str] = [] if children is None else children
        self.marker = marker
        self._attributes = attributes
        self.is_unseen = bool(source) and may_hide(source) and self._is_unseen()
        self.is_unseen |= tag == "dialog" and "open" not in source

    @property
    def attributes(self) -> Mapping[str, str]:
        """Return the attributes by lower-case name; the first of two counts."""
        if self._attributes is None:
            found: dict[str, str] = {}
            for match in _ATTRIBUTE.finditer(self.source):
                value = match[2] or match[3] or match[4] or ""
                found.setdefault(match[1].lower(), unescape(value))
            self._attributes = found
        return self._attributes

    @property
    def is_withheld(self) -> bool:
        """Return whether this element holds text and its attributes keep it from being shown."""
        is_hidden = self._is_hidden() or _WHITE.search(self.attributes.get("style", "")) is not None
        return self.is_unseen and is_hidden and self.tag not in DROPPED and self.text != ""

    def _is_unseen(self) -> bool:
        attributes = self.attributes
        return (
            attributes.get("aria-hidden") == "true"
            or attributes.get("role") == "navigation"
            or (self.tag == "input" and attributes.get("type") == "hidden")
            or any(_CONSENT.search(attributes.get(name, "")) for name in ("id", "class"))
            or self._is_hidden()
        )

    def _is_hidden(self) -> bool:
        is_hidden = self.attributes.get("hidden", "until-found").lower() != "until-found"  # a search opens it
        style = self.attributes.get("style", "")
        is_tiny = "size" in style and _NO_SIZE.search(style) is not None
        return is_hidden or is_tiny or (style != "" and _UNSEEN_STYLE.search(style) is not None)

    @property
    def is_sized_within(self) -> bool:
        """Return whether nothing but a font of no size hides this element, which elements within change for their text."""
        style = self.attributes.get("style", "")
        is_tiny = _NO_SIZE.search(style) is not None and _UNSEEN_STYLE.search(style) is None
        is_of_class = self.source.endswith(_TINY)  # the sizes of the others are unknown
        return is_tiny and any(is_of_class or _SIZE.search(each.source) for each in self.descendants() if each.children)

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

    def named(self, *tags: str) -> Iterator[Element]:
        """Yield the elements within of these names, in document order."""
        return (element for element in self.descendants() if element.tag in tags)

    @property
    def text(self) -> str:
        """Return the text within."""
        found, waiting = list[str](), [*reversed(self.children)]
        while waiting:
            child = waiting.pop()
            if isinstance(child, str):
                found.append(child)
            else:
                waiting += reversed(child.children)
        return "".join(found)


# Questions for consent, as programs for them name their element.
_CONSENT = re.compile(
    r"(?:^|\s)(?:cookies?|(?:[\w-]{0,40}[-_])?cookie[-_]?(?:banner|consent|notice|bar|popup|modal|dialog|law-info-bar)|onetrust-[\w-]+"
    r"|cybotcookiebotdialog)(?:\s|$)",
    re.IGNORECASE,
)


def may_hide(source: str) -> bool:
    """Return whether attributes may keep an element from being shown."""
    source = source.lower()
    return (
        "style" in source or "hidden" in source or "navigation" in source or "cookie" in source or "onetrust" in source
    )


@dataclass(slots=True)
class Page:
    """The tree of a page. ``title``: of its first element of this name. ``unseen``: its elements that are not shown.
    ``unclosed``: elements that are open at its end, the outermost first."""

    root: Element = field(default_factory=lambda: Element("#root"))
    title: str | None = None
    mains: list[Element] = field(default_factory=list)
    articles: list[Element] = field(default_factory=list)
    unseen: list[Element] = field(default_factory=list)
    unclosed: list[Element] = field(default_factory=list)

    @property
    def main(self) -> Element | None:
        """Return the element of the main content: the first that is named so, else the only article."""
        return next(iter(self.mains or (self.articles if len(self.articles) == 1 else ())), None)


def read_page(html: str, *, keeps_formatting: bool = False) -> Page:
    """Return the tree of a page or a fragment, without formatting that has no part in what is shown, but with it if
    asked, and without scripts and styles."""
    builder = _Builder(keeps=_FORMATTING if keeps_formatting else frozenset())
    builder.read(html)
    return builder.page


class _Builder:
    def __init__(self, *, keeps: Collection[str], is_frame: bool = False) -> None:
        self._is_frame = is_frame
        self.page = Page()
        self._open = [self.page.root]
        self._too_deep = 0  # open elements beyond the depth
        self._styled: _Effects = {}
        self._is_on_paper = False  # nothing has a colour that white text could stand on
        self._kept = set(keeps)  # names of formatting of which an element was kept, so that each end tag has its own

    def read(self, html: str) -> None:
        """Add the elements and texts of a page."""
        opened = self._open
        has_white = any(each in html for each in ("#fff", "#FFF", "white", "rgb(25"))
        self._is_on_paper = has_white and _GROUND.search(html) is None
        text = position = 0  # where the text since the last tag begins, and where to look for the next tag
        while (start := html.find("<", position)) >= 0:
            tag = _TAG.match(html, start)
            end = tag.end() if tag else _end_of_other(html, start)
            if end is None:
                position = start + 1
                continue
            if text < start:
                opened[-1].children.append(_unescaped(html[text:start]))
            text = position = end
            if tag is None:
                continue
            is_end, name, source = tag.groups()
            name = _OF_ANOTHER_NAME.sub("", name.lower())
            if name == "template" and "shadowrootmode" in source:
                name = "div"  # is shown
            if is_end:
                if name not in _FORMATTING or name in self._kept:
                    self._close(name)
            elif name in _RAW_TEXT:
                text = position = self._raw_text(html, name, source, end)
            elif name not in _LEFT_OUT:
                self._start(name, source)
        if text < len(html):
            opened[-1].children.append(_unescaped(html[text:]))
        self.page.unclosed = opened[1:]
        self._unfold(html)

    def _unfold(self, html: str) -> None:
        """Show what a button, a tab or a link of the page opens, but no dialogs, and sized text in a font of no size."""
        for element in self.page.unseen:
            element.is_unseen = not (element.is_sized_within or self._fades_in(element))
        folded = [each for each in self.page.unseen if "id" in each.source and not _DIALOG.search(each.source)]
        if folded:
            opened = {name for values in _CONTROLLED.findall(html) for value in values for name in _WORD.findall(value)}
            for element in folded:
                element.is_unseen &= element.attributes.get("id") not in opened
        self.page.unseen = [element for element in self.page.unseen if element.is_unseen]

    def _fades_in(self, element: Element) -> bool:
        """Return whether a program shows an element once the page is loaded: it keeps its place and holds most words."""
        style = element.attributes.get("style", "")
        if not _FADED.search(style) or _UNSEEN_STYLE.search(_FADED.sub("", style)):
            return False
        held, all_of_page = (len("".join(each.text.split())) for each in (element, self.page.root))
        return held > _LEAST_FADED and 2 * held > all_of_page

    def _start(self, name: str, source: str) -> None:
        if rule := _CLOSES.get(name):
            self._close_implied(*rule)
        if self._styled and (source or name in self._styled):
            source += self._of_style(name, source)
        is_formatting = name in _FORMATTING and name not in self._kept
        if is_formatting and not (source and ("role" in source or may_hide(source) or CHIP.search(source))):
            return
        is_open = name not in _VOID and not (source.endswith("/") and _ENDS_IN_VALUE.search(source) is None)
        if is_open and len(self._open) > DEEPEST:
            self._too_deep += 1
            return
        element = Element(name, source)
        if self._is_on_paper and "color" in source and _WHITE.search(element.attributes.get("style", "")):
            element.is_unseen = True
        elif element.is_unseen and self._is_unfolded_by_button(element):
            element.is_unseen = False
        if is_formatting:
            if not (element.is_unseen or "role" in source or _SHOWN_APART.search(source)):
                return
            self._kept.add(name)
        self._add(element)
        if is_open:
            self._open.append(element)

    def _of_style(self, tag: str, source: str) -> str:
        found = [rule for name in _names_of(tag, source) for rule in self._styled.get(name, {}).items()]
        around = {name for each in self._open if found for name in _names_of(each.tag, each.source)}
        return "".join(effect for above, effect in found if above <= around)

    def _is_unfolded_by_button(self, element: Element) -> bool:
        """Return whether the element before is a button, or holds one, that shows this one."""
        siblings = reversed(self._open[-1].children[-_MOST_LOOKED_AT:])
        before = next((each for each in siblings if isinstance(each, Element) or each.strip()), None)
        return (
            isinstance(before, Element)
            and not _DIALOG.search(element.source)
            and (
                before.tag == "button"
                or _OPENS.search(before.source + _FOLDED.sub("question", element.source)) is not None
                or any(
                    isinstance(child, Element) and child.tag == "button" for child in before.children[:_MOST_LOOKED_AT]
                )
            )
        )

    def _add(self, element: Element) -> None:
        self._open[-1].children.append(element)
        if element.is_unseen:
            self.page.unseen.append(element)
        if element.tag == "main" or ("main" in element.source and element.attributes.get("role") == "main"):
            self.page.mains.append(element)
        elif element.tag == "article":
            self.page.articles.append(element)

    def _raw_text(self, html: str, name: str, source: str, start: int) -> int:
        """Take an element whose content is not markup. Return the position after it."""
        if rule := _CLOSES.get(name):
            self._close_implied(*rule)
        end = _end_of_raw_text(html, name, start)
        content = html[start:end]
        if name == "style":
            for selector, effect in _effects_of(content, is_on_paper=self._is_on_paper).items():
                *above, last = _COMBINATOR.split(selector)
                self._styled.setdefault(last, {})[frozenset(above)] = effect
        elif name == "title":
            self.page.title = unescape(content) if self.page.title is None else self.page.title
        elif name == "script" and "math/tex" in source:
            self._open[-1].children.append(f"${content.strip()}$")
        elif name == "iframe" and not self._is_frame:
            frame = _Builder(keeps=self._kept, is_frame=True)
            frame.read(Element(name, source).attributes.get("srcdoc", ""))
            self.page.unseen += frame.page.unseen
            self._add(Element("div", children=frame.page.root.children))
        elif name not in _LEFT_OUT:
            self._add(Element(name, source, [unescape(content) if name in _ESCAPABLE else content]))
        return _after(html, ">", end)

    def _close(self, name: str) -> None:
        if self._too_deep:
            self._too_deep -= 1
            return
        if self._open[-1].tag == name:
            self._open.pop()
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


# By the name of an element, such as `p`, `.note`, `p.note` and `#note`, and those of elements around it: what a style does
# to it, as attributes.
_Effects = dict[str, dict[frozenset[str], str]]


def _names_of(tag: str, source: str) -> list[str]:
    """Return the names that a style may have for an element."""
    attributes = Element("", source).attributes
    own = [f".{name}" for name in attributes.get("class", "").split()] + [f"#{attributes.get('id', '')}"]
    return [tag, *(name for each in own for name in (each, tag + each))]


def _effects_of(style: str, *, is_on_paper: bool) -> dict[str, str]:
    """Return what rules of a style do to elements by selector, as attributes: raise or lower them, or not show them,
    unless another rule shows them, as that of an open panel."""
    first, *commented = style.split("/*")
    rules = first + "".join(part.partition("*/")[2] for part in commented)
    effects, hidden, shown, depth = dict[str, str](), dict[str, str](), set[str](), 0
    for rule in rules.split("}"):
        selectors, _, declarations = rule.rpartition("{")
        is_nested = depth > 0 or "{" in selectors  # within a rule for some screens or for printing
        depth = max(0, depth + rule.count("{") - 1)
        display, shift = _DISPLAY.search(declarations), SHIFTED.search(declarations)
        names = [each.strip() for each in selectors.rpartition("{")[2].rpartition(";")[2].split(",")]
        if shift and not is_nested:
            effects |= dict.fromkeys(filter(_SELECTOR.fullmatch, names), f' style="{shift[0]}"')
        is_tiny = _NO_SIZE.search(declarations) is not None
        if _MOVES.search(declarations) or _SIZE.search(declarations) or (display and display[1] is None):
            shown |= {name for each in names for name in _NAMES.findall(each)}
        elif is_tiny or _UNSEEN_STYLE.search(declarations) or (is_on_paper and _WHITE.search(declarations)):
            hides = filter(_SELECTOR.fullmatch, () if is_nested else names)
            hidden |= dict.fromkeys(hides, _TINY if is_tiny else " hidden")
    return effects | {each: effect for each, effect in hidden.items() if shown.isdisjoint(_NAMES.findall(each))}


def _unescaped(text: str) -> str:
    return unescape(text) if "&" in text else text


def _end_of_other(html: str, start: int) -> int | None:
    """Return the end of a comment, a declaration or a broken tag; None for text."""
    following = html[start + 1 : start + 2]
    if not (following in ("!", "?", "/") or (following.isascii() and following.isalpha())):
        return None
    if html.startswith("<!--", start):
        return _after(html, "-->", start + 2)
    if declaration := _DECLARATION.match(html, start):
        return declaration.end()
    if following in "!?" or not html[start + 2 : start + 3].isalpha():
        return _after(html, ">", start)
    return len(html)  # the page ends within a tag


def _end_of_raw_text(html: str, name: str, start: int) -> int:
    """Return the position of the end tag of an element, or the end of the page."""
    while (start := html.find("</", start)) >= 0:
        end = start + 2 + len(name)
        if html[start + 2 : end].lower() == name and _TAG_NAME_END.match(html, end):
            return start
        start += 2
    return len(html)


def _after(html: str, end: str, start: int) -> int:
    position = html.find(end, start)
    return position + len(end) if position >= 0 else len(html)
