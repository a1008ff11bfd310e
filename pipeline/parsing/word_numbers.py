"""The automatic numbers of Word's lists, clauses and headings, as ECMA-376, part 1, 17.9 defines them."""

import re
from dataclasses import dataclass, field

from pipeline.parsing.containers import XmlReader
from pipeline.parsing.numbering import numeral, spaced, whole

_PLACE = re.compile(r"%([1-9])")
_DEEPEST = 9


@dataclass(slots=True)
class _Level:
    start: int = 1
    style: str = "decimal"
    text: str | None = None
    is_decimal: bool = False  # all its numbers are decimal
    is_joined: bool = False  # without a space behind the number
    restarts_after: int = _DEEPEST  # the deepest level, from 1, of which a number restarts it; 0 for none


@dataclass(slots=True)
class _List:
    levels: dict[int, _Level] = field(default_factory=dict)


class Numbering(XmlReader):
    """The lists of a document with their counters. `next` counts a paragraph."""

    def __init__(self) -> None:
        self._abstract: dict[str, _List] = {}
        self._lists: dict[str, str] = {}  # the abstract list of each list
        self._linked: dict[str, str] = {}  # the style of the list to which an abstract list refers
        self._styled: dict[str, str] = {}  # the abstract list of a style
        self._overridden: dict[tuple[str, int], _Level] = {}  # levels that a list describes itself
        self._starts: dict[tuple[str, int], int] = {}  # where a list begins anew
        self._counters: dict[str, dict[int, int]] = {}  # by abstract list: the last number of each level
        self._begun: set[tuple[str, int]] = set()
        self._open_abstract = self._open_list = ""
        self._level: _Level | None = None
        self._override = 0

    def started(self, name: str, attributes: dict[str, str], /) -> None:
        """Begin an element."""
        value = attributes.get("val", "")
        if name == "abstractNum":
            self._open_abstract, self._open_list = attributes.get("abstractNumId", ""), ""
            self._abstract[self._open_abstract] = _List()
        elif name == "num":
            self._open_list, self._level = attributes.get("numId", ""), None
        elif name == "abstractNumId":
            self._lists[self._open_list] = value
        elif name == "lvlOverride":
            self._override = whole(attributes.get("ilvl", "0"), 0)
        elif name == "startOverride":
            self._starts[self._open_list, self._override] = whole(value, 0)
        elif name == "lvl":
            self._level, depth = _Level(), whole(attributes.get("ilvl", "0"), 0)
            if self._open_list:
                self._overridden[self._open_list, depth] = self._level
            else:
                self._abstract.setdefault(self._open_abstract, _List()).levels[depth] = self._level
        elif name == "numStyleLink":
            self._linked[self._open_abstract] = value
        elif name == "styleLink":
            self._styled[value] = self._open_abstract
        elif self._level is not None:
            self._describe(self._level, name, value)

    def _describe(self, level: _Level, name: str, value: str) -> None:
        if name == "start":
            level.start = whole(value, 0)
        elif name == "numFmt":
            level.style = value
        elif name == "lvlText":
            level.text = value
        elif name == "lvlRestart":
            level.restarts_after = whole(value, 0)
        elif name == "suff":
            level.is_joined = value == "nothing"
        elif name == "isLgl":
            level.is_decimal = value not in ("0", "false")

    def next(self, list_id: str, depth: int) -> str | None:
        """Return how the next paragraph of a list at this level, from 0, begins: with ``2.1 ``, ``第二条 ``, ``（一）``, ``- ``
        for a bullet, empty without a number. None for a list that the document does not define."""
        abstract = self._lists.get(list_id, "")
        abstract = self._styled.get(self._linked.get(abstract, ""), abstract)
        levels = dict(self._abstract[abstract].levels) if abstract in self._abstract else {}
        levels |= {at: level for (of, at), level in self._overridden.items() if of == list_id}
        level = levels.get(depth)
        if level is None:
            return None
        counters = self._counters.setdefault(abstract, {})
        start = self._starts.get((list_id, depth))
        if start is not None and (list_id, depth) not in self._begun:
            self._begun.add((list_id, depth))
            counters[depth] = start
        else:
            counters[depth] = counters.get(depth, level.start - 1) + 1
        for deeper in range(depth + 1, _DEEPEST):
            if depth < levels.get(deeper, level).restarts_after:
                counters.pop(deeper, None)
        if level.style == "bullet":
            return "- "
        if level.style == "none" or level.text is None:
            return ""

        def written(place: re.Match[str]) -> str:
            index = int(place[1]) - 1
            of = levels.get(index, _Level())
            style = "decimal" if level.is_decimal else of.style
            return numeral(counters.setdefault(index, of.start), style)

        number = _PLACE.sub(written, level.text).strip()
        is_joined = level.is_joined and not (number.isascii() and number[-1:].isalnum())
        return number if is_joined else spaced(number)
