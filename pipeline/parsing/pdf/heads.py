"""Running heads of the pages of a PDF file, and the sizes of its headings."""

import math
import re
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from pipeline.parsing.pdf.lines import ON, Line, LinePart

_ROMAN, _DIGITS = re.compile(r"[ivxl](?<!\w[ivxl])[ivxl]{0,6}+(?!\w)"), re.compile(r"\d+")
_SHORT_NUMBER = re.compile(r"(?<!\w)\d{1,4}(?!\w)")
_LARGER = 1.14  # times the size of most letters: that of headings
_FULL_PAGE, _MOST_REPEATED = 8, 0.6  # lines of a page, and share of the lines that stand on many pages
_EDGE_LINES = 3  # of the top and of the bottom of a page that may be running heads
_PAGE_WORDS = frozenset({"#", "page", "seite", "p", "of", "von", "第", "页", "頁", "共", "页共", "頁共"})
_WORDS = re.compile(r"[^\W_]++|#")
# Within a line of more words.
_PAGE_OF = re.compile(r"\b(?:page|seite|p\.) ?# ?(?:(?:of|von|/) ?#|$)|第 ?# ?[页頁](?: ?共 ?# ?[页頁])?|# ?/ ?#$")


_BETWEEN_DASHES = re.compile(r"[-–—－] ?\d{1,4} ?[-–—－]")
_PRINTED_AT = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4},? \d{1,2}:\d\d(?: ?[AP]M)?$")
_ADDRESS, _PAGE_OF_ALL = re.compile(r"(?:https?|file)://\S+$|about:\w+$"), re.compile(r"\d{1,4}(?:/| of )\d{1,4}$")


def without_browser_lines(segments: list[LinePart]) -> list[LinePart]:
    """Return the segments without those that a browser prints around a page: the time and the title of the page in one
    line above it, its address and the number of the page in one line below it."""
    foot = next((each for each in segments if _PAGE_OF_ALL.match(each.text)), None)
    if foot is None:
        return segments
    low, high = min(each.bottom for each in segments), max(each.bottom for each in segments)
    time = next((each for each in segments if each.bottom > high - each.height and _PRINTED_AT.match(each.text)), None)
    address = next((each for each in segments if each.bottom < low + each.height and _ADDRESS.match(each.text)), None)
    if time is None and address is None:
        return segments
    marks = [each.bottom for each in (foot, time, address) if each is not None]
    return [each for each in segments if min(abs(each.bottom - mark) for mark in marks) >= 1]


def running_heads(pages: Sequence[Sequence[Line]]) -> list[set[int]]:
    """Return for each page the indices of its running heads and page numbers: lines at its top or bottom that stand on
    at least three pages, and on a quarter of them, with at most other numbers. Lines of which a page has several are
    entries of a list, large ones with other numbers are titles, and rows of a table stay together. On pages
    that hold the same lines throughout, as letters to many do, they are no lines of paragraphs."""
    places: dict[tuple[bool, str], list[tuple[int, int]]] = {}
    keys = _keys(pages)
    counted: set[str] = set()  # those that also hold the number of the page
    for page, lines in enumerate(pages):
        tops = [round(line.top) for line in lines]
        places_of_page = sorted({*tops})
        low, high = {*places_of_page[:_EDGE_LINES]}, {*places_of_page[-_EDGE_LINES:]}
        if len(places_of_page) == 1:  # unknown
            tops = [len(lines) - index for index in range(len(lines))]
            low, high = {*tops[-_EDGE_LINES:]}, {*tops[:_EDGE_LINES]}
            places_of_page = sorted(tops)
        for index, top in enumerate(tops):
            if top in low or top in high:
                is_high = top in high and (top not in low or top > places_of_page[len(places_of_page) // 2])
                key, has_page = keys[page][index]
                if has_page:
                    counted.add(key)
                if key:
                    places.setdefault((is_high, key), []).append((page, index))
    heads = [_marked_number(lines) for lines in pages]
    places = {place: found for place, found in places.items() if len({page for page, _ in found}) > 1}
    if not places:
        return heads
    body = body_size(pages) or math.inf
    occurrences: dict[str, list[int]] = {}  # pages, one for each line
    for page, of_page in enumerate(keys):
        for key, _ in of_page:
            occurrences.setdefault(key, []).append(page)
    frequent = max(3, len(pages) // 4 if len(pages) < 40 else 8)
    repeated = {key for key, on in occurrences.items() if len({*on}) >= frequent}
    full = [page for page, lines in enumerate(pages) if len(lines) >= _FULL_PAGE]
    repeats = sum(len(occurrences[key]) for key in repeated) > _MOST_REPEATED * sum(map(len, pages))
    is_series = len(full) * 2 > len(pages) and repeats  # such as letters to many
    for (_, key), found in places.items():
        if "#" in key and _counts_pages([(page, pages[page][at].text) for page, at in found]):
            counted.add(key)
        on = {page for page, _ in found}
        is_number = "#" in key and _PAGE_WORDS.issuperset(_WORDS.findall(key))
        least = 2 if is_number or key in counted else frequent
        if is_series and not is_number and all(_is_in_paragraph(pages[page], at) for page, at in found):
            continue
        is_entry = len(occurrences[key]) > 2 * len({*occurrences[key]}) and key != "#"
        is_title = "#" in key and not is_number and any(pages[page][at].size >= _LARGER * body for page, at in found)
        large = [place for place in found if pages[place[0]][place[1]].size >= _LARGER * body]
        titles = large[: 0 if is_number else len(large) if 2 * len(large) < len(found) else 1]  # of the document itself
        if len(on) >= least and not is_entry and not is_title and (is_number or _are_near(pages, found)):
            for page, index in found:
                if (page, index) not in titles:
                    heads[page].add(index)
    for lines, on_page in zip(pages, heads, strict=True):
        for width, rows in groupby(range(len(lines)), key=lambda index: len(lines[index].cells)):
            if width and not on_page.issuperset(table := [*rows]):
                on_page.difference_update(table)
    return heads


def _marked_number(lines: Sequence[Line]) -> set[int]:
    """Return the index of the number of a page between dashes, if it is the lowest line of one."""
    lowest = min(range(len(lines)), key=lambda index: lines[index].top, default=None)
    return {lowest} if lowest is not None and _BETWEEN_DASHES.fullmatch(lines[lowest].text) else set()


def _keys(pages: Sequence[Sequence[Line]]) -> list[list[tuple[str, bool]]]:
    """Return each line of the pages without its numbers, and whether it holds the number of the page."""
    text = "\n".join([line.text for lines in pages for line in lines])
    texts = iter(_DIGITS.sub("#", _ROMAN.sub("#", text)).casefold().split("\n"))
    return [[_key(next(texts).strip()) for _ in lines] for lines in pages]


def _key(whole: str) -> tuple[str, bool]:
    key = (_PAGE_OF.sub("", whole).strip() if "#" in whole else whole) or whole
    return key, key != whole


def _counts_pages(found: Sequence[tuple[int, str]]) -> bool:
    """Return whether one number of lines grows with their pages, which face others, and all others stay."""
    numbers = [[int(number) for number in _SHORT_NUMBER.findall(text)] for _, text in found]
    if len({*map(len, numbers)}) > 1:
        return False
    growing = [column for column in zip(*numbers, strict=True) if len({*column}) > 1]
    pages = [page for page, _ in found]
    if any(after - page == 1 for page, after in pairwise(pages)):
        return False
    return len(growing) == 1 and len({number - page for number, page in zip(growing[0], pages, strict=True)}) == 1


def _is_in_paragraph(lines: Sequence[Line], index: int) -> bool:
    return any(line.follows == ON for line in lines[max(index, 1) : index + 2])


def _are_near(pages: Sequence[Sequence[Line]], found: Sequence[tuple[int, int]]) -> bool:
    """Return whether the lines stand at about the same height on their pages."""
    tops = sorted(pages[page][index].top for page, index in found)
    return tops[-1] - tops[0] < 40 or sum(1 for low, high in pairwise(tops) if high - low < 2) > len(tops) // 2


def body_size(pages: Sequence[Sequence[Line]]) -> float:
    """Return the size of most letters of a document, 0 if it is unknown."""
    letters = _letters_by_size(line for lines in pages for line in lines if line.size)
    return max(letters, key=lambda size: letters[size], default=0.0)


def heading_sizes(pages: Sequence[Sequence[Line]], body: float) -> list[float]:
    """Return the sizes that headings have, largest first, at most four: clearly above the body's, in short lines."""
    if not body:
        return []
    sizes = _letters_by_size(
        line for lines in pages for line in lines if line.size >= _LARGER * body and not line.cells
    )
    total = sum([len(line.text) for lines in pages for line in lines])
    return [size for size in sorted(sizes, reverse=True) if sizes[size] < total * 0.3][:4]


def _letters_by_size(lines: Iterable[Line]) -> dict[float, int]:
    letters: dict[float, int] = {}
    for line in lines:
        letters[line.size] = letters.get(line.size, 0) + len(line.text)
    return letters
