"""The words and the drawn rules of a PDF page with their places, read in bulk into arrays: a call and an object for each
of them would cost more than pdfium takes for the page."""

import ctypes
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, compress, pairwise, repeat
from typing import Any

import numpy as np
import pypdfium2
from numpy.typing import NDArray
from pypdfium2 import raw

from pipeline.parsing.formulas import raised
from pipeline.parsing.pdf.lines import RIGHT_TO_LEFT, SOFT, WIDE_GAP, LinePart, turned

_SOFT_HYPHEN, _BROKEN = 0xFFFE, 2  # pdfium's hyphens at a line's end, with which it joins the next line
_UNICODE_HYPHEN, _LOST = 0x2010, 0xFFFD
_LEADERS = re.compile(r"[.·•‧…_](?: {0,3}[.·•‧…_]){3,}+")
_QUARTER = math.pi / 2
_POWER = re.compile(r"[-+−–]?\d{1,5}")
_INNER_NUMBER = re.compile(r"\d(?<=[^\W_]\d|[-+−–]\d)(?=[^\d\s])")
_LONGEST_POWER, _RISE = 6, 0.12  # characters, and times the height of the digits before
_JUMP, _CJK_JUMP, _SAME_EDGE, _FAR_BACK = 0.8, 1.25, 0.3, 3  # times the height
_FIRST_CJK = 0x2E80
_SMALLER = 0.85  # times the size of the digits before: raised ones
_SKEWED = 0.2  # radians from the nearest right angle: such lines are stamps and watermarks
_UNIT = np.dtype("<u2")  # of UTF-16, by which pdfium counts characters
_SPACE = _UNIT.type(ord(" "))
_IS_OF_WORD = np.ones(0x10000, bool)
_IS_RIGHT_TO_LEFT = np.zeros(0x10000, bool)  # letters of Hebrew, Arabic and the like, but not their digits
for _first, _stop in ((0x590, 0x660), (0x66D, 0x6F0), (0x6FA, 0x900), (0xFB1D, 0xFE00), (0xFE70, 0xFEFD)):
    _IS_RIGHT_TO_LEFT[_first:_stop] = True
_IS_OF_WORD[[*range(0x20), 0x200B, 0xFEFF, 0xFFFE, *(code for code in range(0x3001) if chr(code).isspace())]] = False


_TINY, _WHITE = 1.0, 250  # points of a letter; of 255 parts of each colour
_MOST_OBJECTS = 20_000  # of a page in which rules are looked for
_MOST_COMPARED = 10_000_000  # objects and white words of a page
_MOST_POINTS = 2_000  # of a drawn line
_THIN = 3.0  # points; a rectangle that is not higher or not wider is a rule
_RECTANGLE = 5  # points of its path
_EDGES = np.array([(0, 1, 2, 1), (0, 3, 2, 3), (0, 1, 0, 3), (2, 1, 2, 3)])  # of a rectangle, by its sides
_INT, _POINTER = ctypes.c_int, ctypes.c_void_p

_font, _flags = ctypes.create_string_buffer(128), ctypes.c_int()
_FONT_AT, _FLAGS_AT = ctypes.addressof(_font), ctypes.addressof(_flags)
_EQUAL_WIDTHS = re.compile(
    rb"courier|consol|menlo|monaco|mono(?!type)|sourcecode|firacode|cascadia|CMTT", re.IGNORECASE
)

Sides = NDArray[np.float64]  # left, bottom, right and top in points, a row for each box
Places = NDArray[np.int64]
_Mask = NDArray[np.bool_]
_Codes = NDArray[np.uint16]


def _address(handle: object) -> int:
    return ctypes.cast(handle, _POINTER).value or 0  # type: ignore[arg-type]


def _plain(function: object, result: Any, *arguments: Any) -> Callable[..., Any]:
    """Return a function of pdfium that takes addresses as numbers, which is cheaper in many calls."""
    return ctypes.PYFUNCTYPE(result, *arguments)(_address(function))


_read_index = _plain(raw.FPDFText_GetTextIndexFromCharIndex, _INT, _POINTER, _INT)
_read_text = _plain(raw.FPDFText_GetText, _INT, _POINTER, _INT, _INT, _POINTER)
_read_code = _plain(raw.FPDFText_GetUnicode, ctypes.c_uint, _POINTER, _INT)
_read_angle = _plain(raw.FPDFText_GetCharAngle, ctypes.c_float, _POINTER, _INT)
_read_font = _plain(raw.FPDFText_GetFontInfo, ctypes.c_ulong, _POINTER, _INT, _POINTER, ctypes.c_ulong, _POINTER)
_read_size = _plain(raw.FPDFText_GetFontSize, ctypes.c_double, _POINTER, _INT)
_read_fill = _plain(raw.FPDFText_GetFillColor, _INT, _POINTER, _INT, *[_POINTER] * 4)
_read_drawn = _plain(raw.FPDFText_GetTextObject, _POINTER, _POINTER, _INT)
_read_mode = _plain(raw.FPDFTextObj_GetTextRenderMode, _INT, _POINTER)
_read_letter = _plain(raw.FPDFText_GetMatrix, _INT, _POINTER, _INT, _POINTER)
_read_box = _plain(raw.FPDFText_GetLooseCharBox, _INT, _POINTER, _INT, _POINTER)
_read_object = _plain(raw.FPDFPage_GetObject, _POINTER, _POINTER, _INT)
_read_kind = _plain(raw.FPDFPageObj_GetType, _INT, _POINTER)
_read_bounds = _plain(raw.FPDFPageObj_GetBounds, _INT, *[_POINTER] * 5)
_read_matrix = _plain(raw.FPDFPageObj_GetMatrix, _INT, _POINTER, _POINTER)
_count_points = _plain(raw.FPDFPath_CountSegments, _INT, _POINTER)
_read_point = _plain(raw.FPDFPath_GetPathSegment, _POINTER, _POINTER, _INT)
_read_place = _plain(raw.FPDFPathSegment_GetPoint, _INT, *[_POINTER] * 3)
_read_stroke = _plain(raw.FPDFPathSegment_GetType, _INT, _POINTER)


def give_extent(page: pypdfium2.PdfPage) -> None:
    """Give the texts of a page that have none an extent, by a stroke: pdfium leaves out single letters of a font that is
    neither in the file nor on this machine, and words that stand again below themselves."""
    count = raw.FPDFPage_CountObjects(page.raw)
    objects = [_read_object(_address(page.raw), index) for index in range(count if count <= _MOST_OBJECTS else 0)]
    texts = [each for each in objects if _read_kind(each) == raw.FPDF_PAGEOBJ_TEXT]
    boxes = np.zeros((len(texts), 4), np.float32)
    _run(_read_bounds, texts, *_addresses(boxes))
    for index in ((boxes[:, :2] == boxes[:, 2:]).any(axis=1) & np.isfinite(boxes).all(axis=1)).nonzero()[0].tolist():
        if _read_mode(texts[index]) == raw.FPDF_TEXTRENDERMODE_FILL:
            letter = ctypes.cast(texts[index], raw.FPDF_PAGEOBJECT)
            raw.FPDFTextObj_SetTextRenderMode(letter, raw.FPDF_TEXTRENDERMODE_FILL_STROKE)
            raw.FPDFPageObj_Transform(letter, 1, 0, 0, 1, 0, 0)


@dataclass(slots=True)
class Words:
    """The words of a page. ``runs``: those without a wide gap between them, by direction (see `turned`); ``aslant``: lines in
    no such direction; ``places``: of all words on the page as it lies; ``unseen``: how many words no reader sees."""

    runs: dict[int, list[LinePart]] = field(default_factory=dict)
    aslant: list[str] = field(default_factory=list)
    places: Sides = field(default_factory=lambda: np.zeros((0, 4)))
    unseen: int = 0


class PageText:
    """The characters of an open page. ``jumps``: those that stand in another line than the one before, although pdfium
    joins them. ``size``: how many characters and drawings it has."""

    def __init__(self, page: pypdfium2.PdfPage) -> None:
        self.page, self._text_page, self.jumps = page, page.get_textpage(), list[int]()
        self.handle = _address(self._text_page.raw)
        count = self._text_page.count_chars()
        self.size = count + raw.FPDFPage_CountObjects(page.raw)
        self.codes = np.zeros(count + 1, _UNIT)
        if count and [_read_index(self.handle, at) for at in (0, count - 1)] == [0, count - 1]:
            _read_text(self.handle, 0, count, self.codes.ctypes.data)
        elif count:  # pdfium's text leaves out characters without a meaning
            codes = np.fromiter(map(_read_code, repeat(self.handle), range(count)), np.uint32, count)
            self.codes[:-1] = codes.astype(_UNIT)
        self.codes[self.codes == _BROKEN] = _SOFT_HYPHEN
        self.codes[self.codes == _UNICODE_HYPHEN] = ord("-")
        self.codes[-1] = ord("\n")


class _Characters:
    """The characters of several pages, one after the other."""

    def __init__(self, pages: Sequence[PageText]) -> None:
        self._handles = np.array([page.handle for page in pages], np.uint64)
        self._begins = np.cumsum([0, *(len(page.codes) for page in pages)])

    def pages(self, characters: Places) -> Places:
        """Return the index of each character's page."""
        return self._begins.searchsorted(characters, "right") - 1

    def addresses(self, characters: Places) -> tuple[list[int], list[int]]:
        """Return the handle of each character's page, and its index there."""
        pages = self.pages(characters)
        return self._handles[pages].tolist(), (characters - self._begins[pages]).tolist()

    def boxes(self, characters: Places) -> Sides:
        """Return the left, bottom, right and top of characters, a column for each."""
        boxes = np.zeros((len(characters), 4), np.float32)
        _run(_read_box, *self.addresses(characters), _addresses(boxes)[0])
        return boxes.T[[0, 3, 2, 1]].astype(float)

    def are_white(self, characters: Places) -> _Mask:
        """Return which characters do not stand out from white paper: white, transparent, or drawn without fill and stroke,
        as above scanned pages."""
        colours, addresses = np.zeros((len(characters), 4), np.uint32), self.addresses(characters)
        _run(_read_fill, *addresses, *_addresses(colours))
        modes = np.fromiter(map(_read_mode, map(_read_drawn, *addresses)), int, len(characters))
        white: _Mask = np.all(colours[:, :3] >= _WHITE, axis=1) | (colours[:, 3] == 0)
        white |= modes == raw.FPDF_TEXTRENDERMODE_INVISIBLE
        return white


def words_of(pages: Sequence[PageText]) -> list[Words]:
    """Return the words that each page shows. Several pages cost less together, as each step costs more than its words."""
    characters = _Characters(pages)
    codes = np.concatenate([page.codes for page in pages])
    is_mirrored = _with_letters_in_order(characters, codes, len(pages))
    text = _decoded(np.where(codes & 0xF800 == 0xD800, _LOST, codes))  # as many characters as codes
    if _LEADERS.search(text):
        text = _LEADERS.sub(lambda dots: " " * len(dots[0]), text)
        codes[np.frombuffer(text.encode("utf-16-le"), _UNIT) == _SPACE] = _SPACE
    offsets = [0, *accumulate(len(page.codes) for page in pages)]
    jumps = [offset + at for offset, page in zip(offsets, pages, strict=False) for at in page.jumps]
    is_of_word = np.zeros(len(codes) + 1, bool)
    is_of_word[1:] = _IS_OF_WORD[codes]
    edges = (is_of_word[1:] != is_of_word[:-1]).nonzero()[0]
    starts, ends = edges[::2], edges[1::2]
    if cuts := [at for at in jumps if is_of_word[at]]:  # within words
        starts, ends = np.union1d(starts, cuts), np.union1d(ends, cuts)
    spaced = np.where(is_of_word[1:], codes, _SPACE)
    words = _decoded(np.insert(spaced, cuts, _SPACE) if cuts else spaced).split()
    is_end = (codes == ord("\n")) | (codes == _SOFT_HYPHEN)
    is_end[jumps] = True
    lines = is_end.cumsum()  # ended before each character
    is_long = ends - starts > 1
    begin = characters.boxes(starts)
    end = begin.copy()
    end[:, is_long] = characters.boxes(ends[is_long] - 1)
    places = np.concatenate([np.minimum(begin[:2], end[:2]), np.maximum(begin[2:], end[2:])]).T
    is_seen = _are_seen(pages, characters, starts, lines[starts], begin, places)
    unseen = np.bincount(characters.pages(starts[~is_seen]), minlength=len(pages)).tolist()
    is_kept = _without_marks_of_notes(words, is_seen, lines[starts], begin, end)
    if not is_kept.all():
        starts, ends, begin, end = starts[is_kept], ends[is_kept], begin[:, is_kept], end[:, is_kept]
        words, places = list(compress(words, is_kept.tolist())), places[is_kept]
    bounds = pairwise(starts.searchsorted(offsets).tolist())
    found = [
        Words(places=places[first:stop], unseen=count) for (first, stop), count in zip(bounds, unseen, strict=True)
    ]
    if not words:
        return found
    is_first = np.ones(len(starts), bool)  # in its line
    is_first[1:] = lines[starts[1:]] != lines[starts[:-1]]
    firsts, line_of = is_first.nonzero()[0], is_first.cumsum() - 1
    by_length = (ends - starts) * len(starts) - np.arange(len(starts))
    longest = -np.maximum.reduceat(by_length, firsts) % len(starts)  # has the line's height: formulas have any
    handles, numbers = characters.addresses(starts)
    addresses = list(zip(handles, numbers, strict=True))
    sizes = [round(abs(_read_size(*addresses[word])), 1) for word in longest.tolist()]

    def is_of_code(word: int) -> bool:
        return _is_of_equal_widths(*addresses[word])

    words_of_lines = zip(firsts.tolist(), longest.tolist(), [*(firsts[1:] - 1).tolist(), -1], strict=True)
    are_code = [is_of_code(first) and is_of_code(main) and is_of_code(last) for first, main, last in words_of_lines]
    angles = np.array([_read_angle(*addresses[word]) for word in firsts.tolist()])
    for index in _are_aslant(angles).nonzero()[0].tolist():
        angles[index] = _angle_of_line(*addresses[firsts[index]])
    is_aslant, turns = _are_aslant(angles), np.rint(angles / _QUARTER).astype(int) % 4
    turns += RIGHT_TO_LEFT * is_mirrored[characters.pages(starts[firsts])]
    is_changed = (begin[1] != end[1]) | (begin[3] != end[3])
    for turn in {*turns.tolist()} - {0}:
        of_turn = turns[line_of] == turn
        begin[:, of_turn], end[:, of_turn] = turned(begin[:, of_turn], turn), turned(end[:, of_turn], turn)
    if is_mirrored.any():
        mirrored = (turns[line_of] >= RIGHT_TO_LEFT).nonzero()[0]
        columns = (mirrored, line_of[mirrored], turns[line_of[mirrored]], starts[mirrored], ends[mirrored])
        _turn_other_words(characters, codes, zip(*(each.tolist() for each in columns), strict=True), begin, end)
    if not np.isfinite(places).all() or not all(map(math.isfinite, sizes)):
        is_aslant |= ~np.isfinite(np.add.reduceat(begin.sum(axis=0) + end.sum(axis=0), firsts) + sizes)
    jumping = [] if jumps else _jumps(characters, begin, end, starts, ends, is_first, codes)
    lefts, rights = begin[0], np.fmax(begin[0], end[2])
    bottoms, tops = begin[1, longest], begin[3, longest]
    heights = np.maximum(1.0, tops - bottoms)

    inner = [number.start() for number in _INNER_NUMBER.finditer(text)]
    may_have_powers: set[int] = {
        *is_changed.nonzero()[0].tolist(),
        *(starts.searchsorted(inner, "right") - 1).tolist(),
    } - {-1}
    for index in may_have_powers:
        if not is_aslant[line_of[index]]:
            words[index] = _with_powers(*addresses[index], words[index])
    for hyphen in (codes == _SOFT_HYPHEN).nonzero()[0].tolist():
        index = int(starts.searchsorted(hyphen)) - 1
        if index >= 0 and lines[starts[index]] + 1 == lines[hyphen]:
            words[index] += SOFT

    gaps = lefts[1:] - rights[:-1]
    is_first[1:] |= (gaps <= -heights[line_of[1:]]) | (gaps > WIDE_GAP * heights[line_of[1:]])
    placed = list(zip(lefts.tolist(), rights.tolist(), words, strict=True))
    by_line = [each.tolist() for each in (characters.pages(starts[firsts]), is_aslant, turns, bottoms, tops, heights)]
    of_lines = list(zip(*by_line, sizes, are_code, strict=True))
    run_starts = is_first.nonzero()[0]
    stops = [*run_starts[1:].tolist(), len(words)]
    for line, start, stop in zip(line_of[run_starts].tolist(), run_starts.tolist(), stops, strict=True):
        page, is_left_out, turn, bottom, top, height, size, is_code = of_lines[line]
        if not is_left_out:
            run = placed[start:stop]
            right = max(run[-1][1], run[0][1])
            part = LinePart(" ".join(words[start:stop]), run[0][0], right, bottom, top, height, size, run, (), is_code)
            found[page].runs.setdefault(turn, []).append(part)
    for line in is_aslant.nonzero()[0].tolist():
        first = starts[firsts[line]]
        written = codes[first : lines.searchsorted(lines[first], "right") + 1]
        found[of_lines[line][0]].aslant.append(_decoded(written).strip())
    of_pages = characters.pages(np.array(jumping, int)).tolist()
    for at, index in zip(jumping, of_pages, strict=True):
        pages[index].jumps.append(at - offsets[index])
    again = sorted({*of_pages})
    for index, read in zip(again, words_of([pages[index] for index in again]) if again else (), strict=True):
        found[index] = read
    return found


def _with_letters_in_order(characters: _Characters, codes: _Codes, pages: int) -> _Mask:
    """Return which pages are mostly written from right to left. Put the letters of each of their glyphs in order, such as
    lam and alef in one, which pdfium reverses with the line."""
    found = _IS_RIGHT_TO_LEFT[codes].nonzero()[0]
    if not len(found):
        return np.zeros(pages, bool)
    counts = [np.bincount(characters.pages(of), minlength=pages) for of in (found, _IS_OF_WORD[codes].nonzero()[0])]
    is_mirrored: _Mask = 2 * counts[0] > counts[1]
    found = found[is_mirrored[characters.pages(found)]]
    boxes = characters.boxes(found)
    is_same = (boxes[:, 1:] == boxes[:, :-1]).all(axis=0) & (np.diff(found) == 1) & (boxes[0] < boxes[2])[1:]
    changes = np.diff(np.concatenate([[False], is_same, [False]]).astype(int)).nonzero()[0]
    for first, last in changes.reshape(-1, 2).tolist():
        glyph = slice(found[first], found[last] + 1)
        codes[glyph] = codes[glyph][::-1].copy()
    return is_mirrored


def _turn_other_words(
    characters: _Characters, codes: _Codes, words: Iterable[tuple[int, int, int, int, int]], begin: Sides, end: Sides
) -> None:
    """Let numbers and words from left to right go on as the others of a mirrored page do. ``words``: index, line, turn,
    start and end of those of such pages."""
    runs: list[list[int]] = []
    before = (-2, -1)  # index and line of the last such word
    for index, line, turn, start, stop in words:
        is_right_to_left = _IS_RIGHT_TO_LEFT[codes[start:stop]]
        if not is_right_to_left.any():
            gap, height = end[0, index - 1] - begin[2, index], begin[3, index] - begin[1, index]
            goes_on = before == (index - 1, line) and -height < gap <= WIDE_GAP * height
            runs[-1:] = [[*runs[-1], index]] if goes_on else [*runs[-1:], [index]]
            before = (index, line)
        elif any(map(str.isalnum, _decoded(codes[start:stop][~is_right_to_left]))):
            whole = turned(characters.boxes(np.arange(start, stop)), turn)
            begin[0, index], end[2, index] = whole[0].min(), whole[2].max()
    for run in runs:
        both = min(begin[0, run].min(), end[0, run].min()) + max(begin[2, run].max(), end[2, run].max())
        for sides in (begin, end):
            sides[0, run], sides[2, run] = both - sides[2, run], both - sides[0, run]


def _without_marks_of_notes(words: list[str], is_seen: _Mask, lines: Places, begin: Sides, end: Sides) -> _Mask:
    """Write raised numbers at which pdfium begins a line, as marks of notes, behind the words that they touch. Return
    which of the seen words are none."""
    heights = (end[3] - end[1])[:-1]
    is_mark = begin[3, 1:] - begin[1, 1:] < _SMALLER * heights
    is_mark &= begin[1, 1:] - end[1, :-1] > _RISE * heights
    is_mark &= (np.abs(begin[0, 1:] - end[2, :-1]) < heights / 2) & (lines[1:] != lines[:-1])
    is_kept = is_seen.copy()
    for index in (is_mark & is_seen[1:] & is_seen[:-1]).nonzero()[0].tolist():
        if _POWER.fullmatch(words[index + 1]):
            words[index] += raised(words[index], words[index + 1])
            end[2, index], is_kept[index + 1] = end[2, index + 1], False
    return is_kept


def _is_of_equal_widths(page: int, character: int) -> bool:
    length = _read_font(page, character, _FONT_AT, len(_font), _FLAGS_AT)
    return 1 < length <= len(_font) and _names_equal_widths(_font.value)


@lru_cache(maxsize=1024)
def _names_equal_widths(font: bytes) -> bool:
    return _EQUAL_WIDTHS.search(font) is not None


def _jumps(
    characters: _Characters, begin: Sides, end: Sides, starts: Places, ends: Places, is_first: _Mask, codes: _Codes
) -> list[int]:
    """Return the characters that stand far below the one before in the same line of pdfium, and at the same edge or far
    to the left: cells of a column that hold one character each. Chinese ones may be written downwards."""

    def jump(one: Sides, other: Sides, places: Places, lefts: NDArray[np.float64]) -> _Mask:
        heights = np.maximum(one[3] - one[1], other[3] - other[1])
        least = np.where(codes[places] < _FIRST_CJK, _JUMP, _CJK_JUMP) * heights
        shift = other[0] - lefts
        is_same_edge = np.minimum(np.abs(shift), np.abs(one[2] - other[2])) < _SAME_EDGE * heights
        is_apart = np.abs(one[3] + one[1] - other[3] - other[1]) > 2 * least
        jumps: _Mask = is_apart & (is_same_edge | (shift < -_FAR_BACK * heights))
        return jumps

    found = starts[1:][jump(end[:, :-1], begin[:, 1:], starts[1:], begin[0, :-1]) & ~is_first[1:]].tolist()
    is_uneven = np.abs(begin[1] - end[1]) > _JUMP * (begin[3] - begin[1])
    for index in is_uneven.nonzero()[0].tolist():
        within = np.arange(starts[index], ends[index])
        sides = characters.boxes(within)
        found += within[1:][jump(sides[:, :-1], sides[:, 1:], within[1:], sides[0, :1])].tolist()
    return sorted(found)


def _are_seen(
    pages: Sequence[PageText], characters: _Characters, starts: Places, lines: Places, begin: Sides, places: Sides
) -> _Mask:
    """Return for each word whether a reader sees it: a part of its line is on the page, it is not tiny, and it is not
    white on white paper."""
    of_pages = characters.pages(starts)
    paper = np.array([page.page.get_bbox() for page in pages])[of_pages]
    seen: _Mask = np.all((places[:, :2] < paper[:, 2:]) & (places[:, 2:] > paper[:, :2]), axis=1)
    is_empty: _Mask = np.any(paper[:, 2:] <= paper[:, :2], axis=1)
    seen |= ~np.isfinite(places.sum(axis=1)) | is_empty
    if not seen.all():
        seen = np.isin(lines, lines[seen])
    sizes = np.maximum(begin[2] - begin[0], begin[3] - begin[1])
    seen &= (sizes <= 0) | (sizes >= _TINY) | ~np.isfinite(sizes)
    is_edge = np.ones(len(starts), bool)  # first or last in its line: the others are looked at if one of these is white
    is_edge[1:-1] = (lines[1:-1] != lines[:-2]) | (lines[1:-1] != lines[2:])
    edges = is_edge.nonzero()[0]
    white = edges[characters.are_white(starts[edges])]
    if len(white):
        white = np.isin(lines, lines[white]).nonzero()[0]
        white = white[seen[white] & characters.are_white(starts[white])]
        for index in {*of_pages[white].tolist()}:
            on_page = white[of_pages[white] == index]
            seen[on_page] &= _are_painted(pages[index].page, places[on_page])
    return seen


def _are_painted(page: pypdfium2.PdfPage, places: Sides) -> _Mask:
    """Return for each place whether anything but text is drawn there, or may be."""
    count = raw.FPDFPage_CountObjects(page.raw)
    if count > _MOST_OBJECTS or count * len(places) > _MOST_COMPARED:
        return np.ones(len(places), bool)
    objects = map(_read_object, repeat(_address(page.raw)), range(count))
    drawn = [each for each in objects if _read_kind(each) != raw.FPDF_PAGEOBJ_TEXT]
    if not drawn:
        return np.zeros(len(places), bool)
    boxes = np.zeros((len(drawn), 4), np.float32)
    _run(_read_bounds, drawn, *_addresses(boxes))
    on_place = (((boxes[:, :2] < place[2:]) & (boxes[:, 2:] > place[:2])).all(axis=1).any() for place in places)
    return np.fromiter(on_place, bool, len(places))


def _are_aslant(angles: NDArray[np.float64]) -> _Mask:
    return np.abs(angles - np.rint(angles / _QUARTER) * _QUARTER) > _SKEWED


def _angle_of_line(page: int, character: int) -> float:
    """Return the angle of a character's line, which for letters that are drawn slanted is not that of their strokes."""
    matrix = raw.FS_MATRIX()
    _read_letter(page, character, ctypes.addressof(matrix))
    return math.atan2(-matrix.b, matrix.a) % math.tau


def _decoded(units: bytes | _Codes) -> str:
    return bytes(units).decode("utf-16-le", "replace")


def _addresses(rows: NDArray[Any]) -> list[range]:
    """Return for each column the addresses of its numbers."""
    start, size, step = rows.ctypes.data, rows.itemsize, rows.itemsize * rows.shape[1]
    return [range(start + at * size, start + at * size + rows.nbytes, step) for at in range(rows.shape[1])]


def _run(function: Callable[..., Any], *arguments: Iterable[Any]) -> None:
    """Call a function with each set of arguments."""
    deque(map(function, *arguments), maxlen=0)


def _with_powers(page: int, start: int, word: str) -> str:
    """Return a word with those of its numbers that are powers as such, also where it goes on behind them, as Chinese does."""
    ends = [number.end() for number in _INNER_NUMBER.finditer(word)]
    for end in reversed([*ends, len(word)] if word[-1].isdecimal() else ends):
        word = _with_power(page, start, word[:end]) + word[end:]
    return word


def _with_power(page: int, start: int, word: str) -> str:
    """Return a word of which the last digits are smaller and raised with these as a power: ``10^6``, not 106."""
    whole, at = _read_size(page, start), len(word)
    while at and len(word) - at < _LONGEST_POWER and _read_size(page, start + at - 1) < _SMALLER * whole:
        at -= 1
    if not at or word[at - 1] in "-−–" or not _POWER.fullmatch(word, at):
        return word
    boxes = np.zeros((2, 4), np.float32)
    _run(_read_box, repeat(page), (start + at - 1, start + at), _addresses(boxes)[0])
    (_, top, _, bottom), (_, _, _, raised_bottom) = boxes.tolist()
    return word[:at] + raised(word[:at], word[at:]) if raised_bottom - bottom > _RISE * (top - bottom) else word


def rules_of(page: pypdfium2.PdfPage, words: Sides) -> Sides:
    """Return the upright and level lines that are drawn on a page, among them the edges of rectangles, and of other
    drawings those around words."""
    count = raw.FPDFPage_CountObjects(page.raw)
    objects = map(_read_object, repeat(_address(page.raw)), range(count if count <= _MOST_OBJECTS else 0))
    paths = [drawn for drawn in objects if _read_kind(drawn) == raw.FPDF_PAGEOBJ_PATH]
    if not paths:
        return np.zeros((0, 4))
    boxes = np.zeros((len(paths), 4), np.float32)
    _run(_read_bounds, paths, *_addresses(boxes))
    sides = boxes.astype(float)
    sides[~np.isfinite(sides.sum(axis=1))] = 0
    is_thin = (sides[:, 2:] - sides[:, :2] <= _THIN).any(axis=1)
    drawn: list[Sides] = []
    for path, rule, thin in zip(paths, sides[:, None], is_thin.tolist(), strict=True):
        points = 0 if thin else _count_points(path)
        if points <= _RECTANGLE:
            drawn.append(rule if thin else rule[0, _EDGES])
        elif points <= _MOST_POINTS and ((words[:, :2] < rule[:, 2:]) & (words[:, 2:] > rule[:, :2])).all(axis=1).any():
            drawn.append(_strokes(path, points))
    return np.concatenate([*drawn, np.zeros((0, 4))])


def _strokes(path: int, count: int) -> Sides:
    """Return the upright and level strokes of a drawing of many."""
    matrix = raw.FS_MATRIX()
    _read_matrix(path, ctypes.addressof(matrix))
    points = list(map(_read_point, repeat(path), range(count)))
    places = np.zeros((count, 2), np.float32)
    _run(_read_place, points, *_addresses(places))
    x, y = places.T.astype(float)
    x, y = matrix.a * x + matrix.c * y + matrix.e, matrix.b * x + matrix.d * y + matrix.f
    is_line = np.fromiter(map(_read_stroke, points[1:]), int, count - 1) == raw.FPDF_SEGMENT_LINETO
    ends = np.stack([x, y], axis=1)
    strokes: Sides = np.hstack([np.minimum(ends[1:], ends[:-1]), np.maximum(ends[1:], ends[:-1])])
    is_straight = (strokes[:, 2:] - strokes[:, :2] <= 1).any(axis=1) & np.isfinite(strokes.sum(axis=1))
    return strokes.compress(is_line & is_straight, axis=0)
