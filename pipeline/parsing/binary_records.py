"""The parts of a binary workbook (xlsb), handed to a reader as the elements that they would be in xlsx.

Records by their numbers in MS-XLSB, 2.3. Each has a kind, a length, and fields in little-endian order.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Protocol

from pipeline.errors import MalformedDocument
from pipeline.parsing.sheets import column_letters

_LISTS = {603: "fills", 611: "fonts", 617: "cellXfs"}  # each ends with the next number
_BARE = (0, 17)  # patterns of fills that are none, or those of the unused second fill
_ERRORS = {0: "#NULL!", 7: "#DIV/0!", 15: "#VALUE!", 23: "#REF!", 29: "#NAME?", 36: "#NUM!", 42: "#N/A"}


class Reader(Protocol):
    """The calls for the elements of a part."""

    def started(self, name: str, attributes: dict[str, str], /) -> None:
        """Begin an element."""

    def ended(self, name: str, /) -> None:
        """End an element."""

    def text(self, text: str, /) -> None:
        """Take characters between tags."""


def replay(part: bytes, reader: Reader) -> Iterator[None]:
    """Call the reader for the records of a part; yield between two rows. Raises MalformedDocument."""
    position, commented = 0, ""
    while position < len(part):
        kind, position = _variable(part, position, most=2)
        size, position = _variable(part, position, most=4)
        record, position = part[position : position + size], position + size
        try:
            if kind == 0:
                yield
            if kind in _CELLS:
                style = _whole(record, 4) & 0xFFFFFF
                type_, value = _CELLS[kind]
                attributes = {"r": column_letters(_whole(record, 0)), "t": type_, "s": str(style)}
                _call(reader, "c", attributes, "v", value(record))
            elif kind == 635:
                commented = f"{column_letters(_whole(record, 12))}{_whole(record, 4) + 1}"
            elif kind == 637:
                _call(reader, "comment", {"ref": commented}, "t", _wide(record, 1))
            elif kind == 19:
                _call(reader, "si", {}, "t", _wide(record, 1))
            elif kind in _LISTS:
                reader.started(_LISTS[kind], {})
            elif kind - 1 in _LISTS:
                reader.ended(_LISTS[kind - 1])
            elif kind in _ELEMENTS:
                name, describe = _ELEMENTS[kind]
                _call(reader, name, describe(record))
        except (struct.error, IndexError, ValueError) as error:
            raise MalformedDocument(f"a part of the document is damaged ({type(error).__name__})") from None
    yield


def _call(reader: Reader, name: str, attributes: dict[str, str], inner: str = "", text: str = "") -> None:
    reader.started(name, attributes)
    if inner:
        reader.started(inner, {})
        reader.text(text)
        reader.ended(inner)
    reader.ended(name)


def _variable(part: bytes, position: int, *, most: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and the position after it."""
    number = 0
    for index in range(most):
        byte = part[position] if position < len(part) else 0
        position += 1
        number |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            break
    return number, position


def _whole(record: bytes, offset: int) -> int:
    return int(struct.unpack_from("<I", record, offset)[0])


def _wide(record: bytes, offset: int) -> str:
    length = _whole(record, offset)
    return record[offset + 4 : offset + 4 + 2 * length].decode("utf-16-le", "replace") if length < 0xFFFF_FFFF else ""


def _real(record: bytes, offset: int = 8) -> str:
    return repr(struct.unpack_from("<d", record, offset)[0])


def _compressed(record: bytes) -> str:
    """Return a number of 30 bits: a whole one or the beginning of a float, divided by a hundred if so marked."""
    field = _whole(record, 8)
    high = struct.pack("<I", field & ~3)
    number = struct.unpack("<i", high)[0] >> 2 if field & 2 else struct.unpack("<d", b"\0\0\0\0" + high)[0]
    return repr(number / 100 if field & 1 else number)


def _style(record: bytes) -> dict[str, str]:
    fields = (int.from_bytes(record[at : at + 2], "little") for at in (2, 4, 6))
    return {name: str(value) for name, value in zip(("numFmtId", "fontId", "fillId"), fields, strict=True)}


def _error(record: bytes) -> str:
    return _ERRORS.get(record[8], "#ERROR")


def _sheet(record: bytes) -> dict[str, str]:
    link = _wide(record, 8)
    state = "hidden" if _whole(record, 0) else "visible"
    return {"id": link, "name": _wide(record, 12 + len(link.encode("utf-16-le"))), "state": state}


def _columns(record: bytes) -> dict[str, str]:
    first, last = struct.unpack_from("<2I", record)
    return {"min": str(first + 1), "max": str(last + 1), "hidden": str(record[16] & 1)}


def _merged(record: bytes) -> dict[str, str]:
    top, bottom, left, right = struct.unpack_from("<4I", record)
    return {"ref": f"{column_letters(left)}{top + 1}:{column_letters(right)}{bottom + 1}"}


# The type of each kind of cell in xlsx, and its value; those from 8 to 11 are saved by formulas.
_CELLS: dict[int, tuple[str, Callable[[bytes], str]]] = {
    2: ("n", _compressed),
    **dict.fromkeys((3, 11), ("e", _error)),
    **dict.fromkeys((4, 10), ("b", lambda record: str(record[8]))),
    **dict.fromkeys((5, 9), ("n", _real)),
    **dict.fromkeys((6, 8), ("str", lambda record: _wide(record, 8))),
    7: ("s", lambda record: str(_whole(record, 8))),
    62: ("str", lambda record: _wide(record, 9)),
}
_ELEMENTS: dict[int, tuple[str, Callable[[bytes], dict[str, str]]]] = {
    0: ("row", lambda record: {"r": str(_whole(record, 0) + 1), "hidden": str(record[11] >> 4 & 1)}),
    44: ("numFmt", lambda record: {"numFmtId": str(record[0] + 256 * record[1]), "formatCode": _wide(record, 2)}),
    43: ("font", lambda each: {"theme": str(each[13])} if each[12] >> 1 == 3 else {"rgb": "FF" + each[16:19].hex()}),
    45: ("fill", lambda record: {"patternType": "none" if _whole(record, 0) in _BARE else "solid"}),
    47: ("xf", _style),
    60: ("col", _columns),
    153: ("workbookPr", lambda record: {"date1904": str(record[0] & 1)}),
    156: ("sheet", _sheet),
    176: ("mergeCell", _merged),
    **dict.fromkeys((461, 550, 551, 562, 661), ("drawing", lambda _record: {})),  # or a colour of another kind
}
