"""Lines of a PDF page: words that stand in one row, their text with broken words joined, and paragraphs of lines."""

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from pipeline.parsing.formulas import RAISED_TEXT, lowered, raised

WIDE_GAP = 1.6  # times the height of the letters: a gap within a line that divides columns or cells
GUTTER = 0.8  # times the height: the least white strip between columns
NEAR = 3.5  # times the height: the lines of a block are not further apart
_FIELD_GAP = 0.9  # times the height: between a label and the field of a form
_MARK_GAP = 4.0  # times the height: between the mark of a list item and its text
_VALUES_APART = 0.15  # times the height: between numbers that were drawn one by one
_SAME_ROW = 0.36  # times the height: the middles of one row differ by less
PROSE, CJK_PROSE = 18, 9  # characters on average from which lines beside each other are columns of prose, not cells
_RAISED = 0.85  # times the size of the letters before: smaller ones beside them may be raised
_LOOSE = 1.3  # times the usual distance of lines: a greater one divides paragraphs
OTHER_SIZE = 0.12  # share by which the sizes of a heading and the text below it differ at least
_WORDS_APART = 1.5  # times the usual gap between spaced-out letters
_INITIAL = 1.6  # times the height of the lines beside it
_MOST_INITIALS = 20  # of a page
_INDENT = 0.8  # times the height
_SPACED = re.compile(r"(?:\w )+\w$")
_CJK_SPACED = re.compile("(?:[\u3000-\u9fff] ){1,7}[\u3000-\u9fff]$")
CJK = re.compile("[\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]")
SOFT = "\u00ad"  # a hyphen at a line's end
_BROKEN_WORD = re.compile(r"\u00ad$|(?<=\w)-$")
LIST_ITEM = re.compile(
    r"(?:\[\d{1,3}\]|[-*•●○■□▪‣◦–]|[(（]?\d{1,3}[.．)）、]|[A-H]．|\(?[a-z]\)|[(（]?[一二三四五六七八九十]{1,3}[)）、.])\s?(?!\d)|第[\d一二三四五六七八九十百]{1,5}[条章节]"
    r"|(?:Q\d{0,3}|A\d{1,3}|[问答]\d{0,3})[.:：]|A[:：]"
)
_CLAUSE = re.compile(r"\d{1,2}(?:\.\d{1,2}){1,3}\.? {1,3}(?:[^\W\da-z_]|[\"“(（])")  # 1.2 "Goods" means
_BEGINS_ITEM = frozenset("[-*•●○■□▪‣◦–(（第一二三四五六七八九十QA问答BCDEFGH")
VALUE = re.compile(r"[-+(<>≤≥~$€£¥]*+[\d.,]++[:/%)*†‡\d.,-]*+$|[-–—…*✓]++$|n/?a$", re.IGNORECASE)
SENTENCE_END = re.compile(r"[.!?:;。！？：；…]['\"”’)\]）】]*$")
_FEW = 4  # lines; fewer ones of medium length are no paragraph
ENDING = 6  # characters in which a sentence's end is looked for
RIGHT_TO_LEFT = 4  # added to the quarter turns of pages in Arabic, Hebrew and the like
NEW, BREAK, ON = range(3)  # how a line follows the one before: in another paragraph, in another line, in the same one


class Line(NamedTuple):
    """A line of a page in reading order. ``size``: of its letters, 0 if unknown. ``cells``: of a table's row, the whole
    line if it is code, else empty.
    ``top``: its place on the page, 0 if unknown. ``follows``: NEW, BREAK or ON."""

    text: str
    size: float = 0.0
    top: float = 0.0
    cells: tuple[str, ...] = ()
    follows: int = NEW


class LinePart(NamedTuple):
    """Words of a line without a wide gap between them; or a whole table, code, or boxes, then with their ``lines``.
    ``is_code``: in a font of equal widths."""

    text: str
    left: float
    right: float
    bottom: float
    top: float
    height: float  # of the letters, at least 1
    size: float = 0.0
    words: Sequence[tuple[float, float, str]] = ()  # left, right and text of each
    lines: Sequence[Line] = ()
    is_code: bool = False


def turned(sides: Iterable[Any], turn: int) -> tuple[Any, Any, Any, Any]:
    """Return left, bottom, right and top after turning the page by quarters; from `RIGHT_TO_LEFT` on also mirrored, so that
    lines and columns go from left to right."""
    left, bottom, right, top = sides
    if turn >= RIGHT_TO_LEFT:
        left, bottom, right, top = turned(sides, turn - RIGHT_TO_LEFT)
        return -right, bottom, -left, top
    if turn == 0:
        return left, bottom, right, top
    if turn == 3:
        return bottom, -right, top, -left
    return (-right, -top, -left, -bottom) if turn == 2 else (-top, left, -bottom, right)


def is_cjk(text: str) -> bool:
    """Return whether a text holds Chinese, Japanese or Korean characters."""
    return not text.isascii() and CJK.search(text) is not None


def unplaced(texts: Iterable[str]) -> list[Line]:
    """Return lines of which only the text is known; an empty one divides paragraphs."""
    lines: list[Line] = []
    follows = NEW
    for text in texts:
        if text:
            lines.append(Line(text=tidy(text), follows=follows))
        follows = BREAK if text else NEW
    return lines


def tidy(text: str, words: Sequence[tuple[float, float, str]] = ()) -> str:
    """Return a line with spaced-out words closed, which stand apart where the letters' ``words`` do."""
    if text[1:2] != " ":
        return text
    if len(text) > 6 and _SPACED.match(text) and sum(map(str.isalpha, text)) * 2 > len(text):
        gaps = [0.0, *(after[0] - before[1] for before, after in pairwise(words))]
        least = _WORDS_APART * median(gaps)
        divided = "".join(" " * (gap > least) + word[2] for gap, word in zip(gaps, words, strict=False))
        return divided.strip() if len(words) * 2 - 1 == len(text) and least > 0 else text.replace(" ", "")
    return text.replace(" ", "") if _CJK_SPACED.match(text) else text


def with_initials(segments: list[LinePart]) -> list[LinePart]:
    """Return segments with a large first letter that stands beside several lines as a part of the uppermost of them."""
    letters = [each for each in segments if len(each.text) == 1 and each.text.isupper()]
    for initial in sorted(letters, key=lambda each: -each.height)[:_MOST_INITIALS]:
        beside = [
            each
            for each in segments
            if each.height * _INITIAL < initial.height
            and -1 < each.left - initial.right < each.height
            and initial.bottom < each.top < initial.top + each.height
        ]
        first = max(beside, key=lambda each: each.top, default=initial)
        if len(beside) > 1 and first.text[:1].islower() and first.words:
            (left, right, word), *words = first.words
            whole = first._replace(
                text=initial.text + first.text, words=((left, right, initial.text + word), *words), left=initial.left
            )
            moved = {id(each): each._replace(left=initial.left) for each in beside} | {id(first): whole}
            segments = [moved.get(id(each), each) for each in segments if each is not initial]
    return segments


def rows_of(segments: Iterable[LinePart]) -> list[list[LinePart]]:
    """Return the segments as rows from top to bottom, each from left to right; what was read before is a row of its own."""
    rows: list[list[LinePart]] = []
    taken: Spans = []  # of the open row, in order
    anchor: LinePart | None = None
    for segment in sorted(segments, key=lambda each: -each.top - each.bottom):
        is_below = anchor is None or (
            anchor.top + anchor.bottom - segment.top - segment.bottom > 2 * _SAME_ROW * anchor.height
        )
        place = 0 if is_below else bisect_right(taken, (segment.left, segment.right))
        if (
            anchor is None
            or is_below
            or (place and taken[place - 1][1] > segment.left + 1)
            or (place < len(taken) and taken[place][0] < segment.right - 1)
            or segment.lines
            or anchor.lines
        ):
            rows.append([])
            taken, place, anchor = [], 0, segment
        rows[-1].append(segment)
        taken.insert(place, (segment.left, segment.right))
        if segment.height > anchor.height:
            anchor = segment
    rows = [row if len(row) == 1 else list(_close_ones_joined(sorted(row, key=lambda each: each.left))) for row in rows]
    for step in (1, -1):
        for row, beside in pairwise(range(len(rows))[::step]):
            if len(rows[row]) > len(rows[beside]):
                gaps = [(one.right, other.left) for one, other in pairwise(rows[row])]
                parts = [part for segment in rows[beside] for part in _divided(segment, gaps)]
                if len(parts) == len(rows[row]) and (
                    len(parts) > 2 or all(VALUE.match(two[1].text.partition(" ")[0]) for two in (parts, rows[row]))
                ):
                    rows[beside] = parts
    return rows


def _divided(segment: LinePart, gaps: Sequence[tuple[float, float]]) -> Iterator[LinePart]:
    """Yield a segment in parts where the row beside has a gap and its own words stand a gutter's width apart, as the cells
    of narrow columns do."""
    words, least, start = segment.words, GUTTER * segment.height, 0
    for at in range(1, len(words)):
        left, right = words[at - 1][1], words[at][0]
        if right - left >= least and any(min(right, end) - max(left, begin) >= least for begin, end in gaps):
            yield _part_of(segment, words[start:at])
            start = at
    yield _part_of(segment, words[start:]) if start else segment


def _part_of(segment: LinePart, words: Sequence[tuple[float, float, str]]) -> LinePart:
    text = " ".join([word[2] for word in words])
    return segment._replace(text=text, left=words[0][0], right=words[-1][1], words=words)


def _close_ones_joined(row: Sequence[LinePart]) -> Iterator[LinePart]:
    """Yield the segments of a row with those joined that no gutter divides; raised and lowered ones as such."""
    start = 0
    for index in range(1, len(row) + 1):
        last = row[index - 1]
        if index < len(row):
            gap = row[index].left - last.right
            are_values = VALUE.match(row[index].text) and VALUE.match(last.text)
            is_field = not row[index].size  # of a form, beside its label
            is_mark = len(row) == 2 and LIST_ITEM.fullmatch(last.text) and not VALUE.match(row[1].text)
            most = _VALUES_APART if are_values else _FIELD_GAP if is_field else _MARK_GAP if is_mark else GUTTER
            if gap < most * last.height:
                continue
        run = row[start:index]
        start = index
        main = max(run, key=lambda each: len(each.text))
        text, words = _in_one_line(run)
        yield main._replace(text=text, left=run[0].left, right=max([each.right for each in run]), words=words)


Spans = list[tuple[float, float]]  # where a band's words stand, from left to right, with gutters between


def joined(lines: Sequence[str]) -> str:
    """Return the lines of a cell in one line; between Chinese characters without a space."""
    text = ""
    for line in lines:
        if text.endswith(SOFT):
            text = text[:-1] if line[:1].islower() else text[:-1] + "-"
            text += line
            continue
        text += ("" if not text or (CJK.match(text[-1]) and CJK.match(line)) else " ") + line
    return text


def _in_one_line(row: Sequence[LinePart]) -> tuple[str, list[tuple[float, float, str]]]:
    """Return the text and the words of segments; raised and lowered ones are a part of the word before."""
    text, before, words = row[0].text, row[0], [*row[0].words]
    for segment in row[1:]:
        gap = segment.left - before.right
        part = segment.text
        if segment.size < _RAISED * before.size and gap < before.height / 2 and RAISED_TEXT.fullmatch(part):
            is_raised = segment.bottom > before.bottom + 0.1 * before.height
            shifted = (raised if is_raised else lowered)(text, part)
            text += shifted
            if words:
                left, _, word = words[-1]
                words[-1] = left, segment.right, word + shifted
            continue
        is_close = -before.height / 2 < gap < 0.15 * before.height
        text += part if is_close else f" {part}"
        following = [*segment.words]
        if abs(gap) < 0.15 * before.height and segment.size == before.size and words and following:
            (left, _, begun), (_, right, rest) = words[-1], following[0]
            if len(rest) == 1 or not (VALUE.match(begun) and VALUE.match(rest)):  # one word, drawn letter by letter
                words[-1:] = [(left, right, begun + rest)]
                following = following[1:]
        words += following
        before = segment
    return text, words


def paragraphs_of(rows: Sequence[Sequence[LinePart]]) -> list[Line]:
    """Return rows as lines that tell how they follow each other. A line goes on if the next line's first word had no
    room in it, unless the distance, the size or an indentation divides them."""
    if not rows:
        return []
    tops = [row[0].top if len(row) == 1 else max([segment.top for segment in row]) for row in rows]
    pitches = [0.0, *(above - below for above, below in pairwise(tops))]
    near = _LOOSE * median([pitch for pitch in pitches if pitch > 0] or [0.0])
    edges = _Edges(rows)
    lines: list[Line] = []
    is_first = is_item = True  # of the paragraph of the line before
    above, size_above = rows[0], -1.0
    for index, (row, top, pitch) in enumerate(zip(rows, tops, pitches, strict=True)):
        first = row[0]
        text, size = first.text, first.size
        if len(row) > 1:
            text, size = " ".join([segment.text for segment in row]), max([segment.size for segment in row])
        text = tidy(text, [word for each in row for word in each.words] if text[1:2] == " " else ())
        follows = NEW
        begin = text[:1]
        may_be_item = begin in _BEGINS_ITEM or begin.isdecimal() or text[1:2] == ")"
        item = may_be_item and LIST_ITEM.match(text) is not None
        is_clause = begin.isdecimal() and not item and _CLAUSE.match(text) is not None
        item = item or is_clause
        if (
            item and index and (is_clause or (begin in "QA" and text[1:2] != "．"))
        ):  # of questions and answers, but not of Exhibit A
            item = SENTENCE_END.search(lines[-1].text[-ENDING:]) is not None
        if index and above[-1].text.endswith((SOFT, "-")) and _BROKEN_WORD.search(above[-1].text[-2:]):
            follows = ON
        elif pitch > 0 and not item and abs(size - size_above) <= OTHER_SIZE * size:
            height = max(above[0].height, first.height)
            shift, right = first.left - above[0].left, above[-1].right
            is_indented = (shift > _INDENT * height and not is_item) or (shift < -_INDENT * height and not is_first)
            if (pitch <= near or pitch <= 1.4 * height) and (
                not is_indented or abs(shift + row[-1].right - right) <= height / 2  # or both lines are centred
            ):
                left, end, word = first.words[0] if first.words else (first.left, first.right, "")
                room = end - left + 0.3 * height
                if room > 2 * height and is_cjk(word[:1]):
                    room = 2 * height
                follows = ON
                if edges.are_flush_right(index):
                    follows = BREAK
                elif edges.have_room(index, right, room):
                    follows = NEW if SENTENCE_END.search(lines[-1].text[-ENDING:]) else BREAK
        is_first, is_item = follows != ON, (item if follows != ON else is_item)
        lines.append(Line(text, size, top, (), follows))
        above, size_above = row, size
    return lines


class _Edges:
    """The right edge of the text around each row: of the nearest rows of its size, of all if these are narrow, none if
    they are all short."""

    def __init__(self, rows: Sequence[Sequence[LinePart]]) -> None:
        self._sizes = [row[0].size for row in rows]
        self._lefts, self._rights = [row[0].left for row in rows], [row[-1].right for row in rows]
        self._counts = [sum([len(each.text) for each in row]) for row in rows]
        self._least_width = 0.4 * (max(self._rights) - min(self._lefts))
        self._right = max(self._rights)
        texts = [row[0].text for row in rows]
        are_cjk = not "".join(texts).isascii() and sum(map(is_cjk, texts)) * 2 > len(rows)
        self._shortest = CJK_PROSE if are_cjk else PROSE

    def are_flush_right(self, index: int) -> bool:
        """Return whether the row of this index and the one above end below each other, far from where they begin."""
        lefts, rights = self._lefts[index - 1 : index + 1], self._rights[index - 1 : index + 1]
        return (
            abs(rights[0] - rights[1]) < 1 < abs(lefts[0] - lefts[1])
            and min(lefts) - min(self._lefts) > self._least_width
        )

    def have_room(self, index: int, right: float, room: float) -> bool:
        """Return whether a text as wide as ``room`` fits behind a row that ends at ``right``, above the one of this index."""
        if self._right - right <= room and self._counts[index] >= 2 * self._shortest:
            return False  # as at any edge
        return self._of(index) - right > room

    def _of(self, index: int) -> float:
        near, size = slice(max(0, index - 6), index + 6), self._sizes[index]
        sizes, lefts, rights, counts = self._sizes[near], self._lefts[near], self._rights[near], self._counts[near]
        if sizes.count(size) < len(sizes):
            same = [at for at, other in enumerate(sizes) if abs(other - size) <= OTHER_SIZE * size]
            lefts, rights, counts = [lefts[at] for at in same], [rights[at] for at in same], [counts[at] for at in same]
        if max(counts) < self._shortest * (1 if len(counts) > _FEW else 2):
            return math.inf
        edge = max(rights)
        return edge if edge - min(lefts) >= self._least_width else self._right
