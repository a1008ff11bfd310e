"""The words of a PDF page and their places, read in as few calls as possible and kept in arrays."""

import ctypes
import math
import re
from collections import deque
from collections.abc import Callable
from itertools import pairwise, repeat
from typing import Any

import numpy as np
import pypdfium2
import pypdfium2.raw
from numpy.typing import NDArray

from pipeline.parsing.formulas import raised
from pipeline.parsing.pdf_lines import SOFT, WIDE_GAP, LinePart, turned

_SOFT_HYPHEN = "\ufffe"  # pdfium's hyphen at a line's end, with which it joins the next line
_LEADERS = re.compile(r"[.·•‧…_](?: {0,3}[.·•‧…_]){3,}+")
_QUARTER = math.pi / 2
_SMALLER = 0.85  # times the size of the digits before: raised ones
_SKEWED = 0.2  # radians from the nearest right angle: such lines are stamps and watermarks
_LAST = 0xFFFF  # characters beyond are parts of words
_IS_OF_WORD = np.ones(_LAST + 1, bool)
_IS_OF_WORD[[*range(0x20), 0x200B, 0xFEFF, 0xFFFE, *(code for code in range(0x3001) if chr(code).isspace())]] = False


def _of_characters(function: object, result: Any, *others: Any) -> Callable[..., Any]:  # noqa: ANN401
    """Return a function of pdfium on a page of text and a character that takes addresses as numbers."""
    address = ctypes.cast(function, ctypes.c_void_p).value  # type: ignore[arg-type]
    return ctypes.PYFUNCTYPE(result, ctypes.c_void_p, ctypes.c_int, *others)(address or 0)


_read_code = _of_characters(pypdfium2.raw.FPDFText_GetUnicode, ctypes.c_uint)
_read_angle = _of_characters(pypdfium2.raw.FPDFText_GetCharAngle, ctypes.c_float)
_read_size = _of_characters(pypdfium2.raw.FPDFText_GetFontSize, ctypes.c_double)
_read_box = _of_characters(pypdfium2.raw.FPDFText_GetLooseCharBox, ctypes.c_int, ctypes.c_void_p)


def words_of(text_page: pypdfium2.PdfTextPage) -> tuple[dict[int, list[LinePart]], list[str]]:
    """Return the words of a page in runs without a wide gap, by the quarter turns of their direction, and the lines
    that run aslant."""
    page = ctypes.cast(text_page.raw, ctypes.c_void_p).value
    text: str = text_page.get_text_range(errors="replace")
    count = text_page.count_chars()
    if len(text) != count:  # characters without a meaning, or beyond 16 bits
        text = "".join(map(chr, map(_read_code, repeat(page), range(count))))
    text = _LEADERS.sub(lambda dots: " " * len(dots[0]), text.replace("\x02", _SOFT_HYPHEN))
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    is_of_word = np.zeros(len(codes) + 2, bool)
    is_of_word[1:-1] = _IS_OF_WORD[np.minimum(codes, _LAST)]
    edges = np.flatnonzero(is_of_word[1:] != is_of_word[:-1])
    starts, ends = edges[::2], edges[1::2]
    count = len(starts)
    if not count:
        return {}, []
    words = np.where(is_of_word[1:-1], codes, 0x20).tobytes().decode("utf-32-le", "surrogatepass").split()

    breaks = np.append(np.flatnonzero((codes == ord("\n")) | (codes == ord(_SOFT_HYPHEN))), len(codes))
    line_ends = breaks[np.searchsorted(breaks, starts)]  # of the line of each word
    firsts = np.flatnonzero(np.diff(line_ends, prepend=-1))  # the first word of each line
    per_line = np.diff(firsts, append=count)
    order = (ends - starts) * count - np.arange(count)
    longest = -np.maximum.reduceat(order, firsts) % count  # its box is the line's: those of formulas have any height

    angles = np.fromiter(map(_read_angle, repeat(page), starts[firsts].tolist()), float)
    turns = np.rint(angles / _QUARTER)
    is_aslant = np.abs(angles - turns * _QUARTER) > _SKEWED
    turns = turns.astype(int) % 4
    begin, end = _boxes(page, starts, ends - 1)
    is_changed = (begin[1] != end[1]) | (begin[3] != end[3])
    for turn in {*turns.tolist()} - {0}:
        of_turn = np.repeat(turns == turn, per_line)
        begin[:, of_turn], end[:, of_turn] = turned(begin[:, of_turn], turn), turned(end[:, of_turn], turn)
    lefts, rights = begin[0], np.fmax(begin[0], end[2])
    bottoms, tops = begin[1, longest], begin[3, longest]
    sizes = [round(abs(size), 1) for size in map(_read_size, repeat(page), starts[longest].tolist())]
    is_aslant |= ~np.isfinite(np.add.reduceat(lefts + rights, firsts) + bottoms + tops + sizes)
    aslant = [text[starts[at] : line_ends[at] + 1].strip() for at in firsts[is_aslant].tolist()]

    for index in np.flatnonzero(is_changed).tolist():
        if words[index].isdecimal():
            words[index] = _with_power(page, int(starts[index]), words[index])
    lasts = firsts + per_line - 1
    for index in lasts[np.append(codes, 0)[line_ends[lasts]] == ord(_SOFT_HYPHEN)].tolist():
        words[index] += SOFT

    line_heights = np.maximum(1.0, tops - bottoms)
    gaps, heights = lefts[1:] - rights[:-1], np.repeat(line_heights, per_line)[1:]
    is_first = np.ones(count + 1, bool)
    is_first[1:-1] = (gaps <= -heights) | (gaps > WIDE_GAP * heights)
    is_first[firsts] = True
    placed = list(zip(lefts.tolist(), rights.tolist(), words, strict=True))
    by_line = [each.tolist() for each in (is_aslant, turns, bottoms, tops, line_heights)]
    lines = list(zip(*by_line, sizes, strict=True))
    runs: dict[int, list[LinePart]] = {}
    bounds = np.flatnonzero(is_first)
    of_line = np.searchsorted(firsts, bounds[:-1], "right") - 1
    for line, (start, stop) in zip(of_line.tolist(), pairwise(bounds.tolist()), strict=True):
        is_left_out, turn, bottom, top, height, size = lines[line]
        if not is_left_out:
            run = placed[start:stop]
            right = max(run[-1][1], run[0][1])
            part = LinePart(" ".join(words[start:stop]), run[0][0], right, bottom, top, height, size, run)
            runs.setdefault(turn, []).append(part)
    return runs, aslant


def _boxes(page: int | None, *positions: NDArray[np.int64]) -> list[NDArray[np.float64]]:
    """Return for each array of characters their left, bottom, right and top."""
    boxes = np.zeros((sum(map(len, positions)), 4), np.float32)
    address = boxes.ctypes.data
    characters = np.concatenate(positions).tolist()
    calls = map(_read_box, repeat(page), characters, range(address, address + boxes.nbytes, boxes.strides[0]))
    deque(calls, maxlen=0)
    sides = boxes.T[[0, 3, 2, 1]].astype(float)
    return np.split(sides, len(positions), axis=1)


def _with_power(page: int | None, start: int, digits: str) -> str:
    """Return digits of which the last are smaller and raised as a power: ``10^6``, not 106."""
    whole = _read_size(page, start)
    if _read_size(page, start + len(digits) - 1) >= _SMALLER * whole:
        return digits
    at = next(index for index in range(1, len(digits)) if _read_size(page, start + index) < _SMALLER * whole)
    return digits[:at] + raised(digits[:at], digits[at:])
