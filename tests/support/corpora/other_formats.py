"""Small OpenDocument files, EPUB books and binary workbooks, made by code."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.corpora.formats import archive

_NAMESPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "style", "text", "table", "meta", "presentation", "number")
)
_NAMESPACES += ' xmlns:draw="urn:draw" xmlns:fo="urn:fo" xmlns:svg="urn:svg" xmlns:xlink="urn:xlink" xmlns:dc="urn:dc"'
PRICES = Path(__file__).resolve().parents[2] / "unit" / "parsing" / "files" / "prices.xls"


def opendocument(
    kind: str, content: str, *, styles: str = "", master: str = "", parts: Mapping[str, str | bytes] | None = None
) -> bytes:
    """A file of OpenDocument around the XML of its content; ``kind``: text, spreadsheet or presentation."""
    body = f"<office:body><office:{kind}>{content}</office:{kind}></office:body>"
    return archive(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"<office:document-content {_NAMESPACES}>"
            f"<office:automatic-styles>{styles}</office:automatic-styles>{body}</office:document-content>",
            "styles.xml": f"<office:document-styles {_NAMESPACES}>{master}</office:document-styles>",
            **(parts or {}),
        }
    )


def epub(chapters: Mapping[str, str], *, title: str = "Book", parts: Mapping[str, str | bytes] | None = None) -> bytes:
    """An EPUB book of chapters by their names, each the XHTML of a body."""
    items = "".join(f'<item id="{name}" href="{name}.xhtml"/>' for name in chapters)
    order = "".join(f'<itemref idref="{name}"/>' for name in ("nav", *chapters))
    package = (
        f'<package xmlns:dc="urn:dc"><metadata><dc:title>{title}</dc:title></metadata><manifest>{items}'
        f'<item id="nav" href="nav.xhtml" properties="nav"/></manifest><spine>{order}</spine></package>'
    )
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>',
            "OPS/book.opf": package,
            "OPS/nav.xhtml": "<html><body><h1>Contents</h1></body></html>",
            **{
                f"OPS/{name}.xhtml": f"<html><head><title/></head><body>{body}</body></html>"
                for name, body in chapters.items()
            },
            **(parts or {}),
        }
    )


def _record(kind: int, fields: bytes = b"") -> bytes:
    code = bytes([kind]) if kind < 0x80 else bytes([kind & 0x7F | 0x80, kind >> 7])
    size = len(fields)
    return code + bytes([size & 0x7F | 0x80, size >> 7]) + fields


def _wide(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode("utf-16-le")


def xlsb(
    sheets: Mapping[str, Sequence[Sequence[object]]],
    *,
    formats: Sequence[str] = (),
    hidden: Sequence[str] = (),
    hidden_rows: Sequence[int] = (),
    hidden_columns: Sequence[int] = (),
    merged: Sequence[tuple[int, int, int, int]] = (),
    white: bool = False,
) -> bytes:
    """A binary workbook. A value with a format is a pair: the number, and the index of its format from 1. The hidden rows
    and columns and the merged ranges (first and last row, first and last column) count from 0, in every sheet.
    ``white``: the last format writes white."""
    codes = b"".join(_record(44, struct.pack("<H", 164 + number) + _wide(code)) for number, code in enumerate(formats))
    styles = [0, *(164 + number for number in range(len(formats)))]
    used = b"".join(_record(47, struct.pack("<4H", 0, number, white and number == styles[-1], 0)) for number in styles)
    colours = (struct.pack("<BBhI", 5, 0, 0, 0xFF000000 | colour) for colour in (0, 0xFFFFFF))
    looks = _record(611) + b"".join(_record(43, bytes(12) + colour) for colour in colours) + _record(612)
    looks += _record(603) + _record(45, bytes(20)) + _record(604)
    parts: dict[str, bytes | str] = {
        "_rels/.rels": '<R><Relationship Id="r1" Type="urn:/officeDocument" Target="xl/workbook.bin"/></R>',
        "xl/styles.bin": codes + looks + _record(617) + used + _record(618),
    }
    links, index = '<Relationship Id="s" Type="urn:/styles" Target="styles.bin"/>', b""
    for number, (name, rows) in enumerate(sheets.items()):
        index += _record(156, struct.pack("<II", name in hidden, number) + _wide(f"r{number}") + _wide(name))
        links += f'<Relationship Id="r{number}" Type="urn:/worksheet" Target="{number}.bin"/>'
        content = b"".join(_record(60, struct.pack("<IIIIH", c, c, 0, 0, 1)) for c in hidden_columns)
        for row, values in enumerate(rows):
            content += _record(0, struct.pack("<IIHBB", row, 0, 0, 0, 16 * (row in hidden_rows)) + bytes(1))
            content += b"".join(_cell(column, value) for column, value in enumerate(values) if value is not None)
        content += b"".join(_record(176, struct.pack("<4I", *each)) for each in merged)
        parts[f"xl/{number}.bin"] = content
    parts |= {"xl/workbook.bin": index, "xl/_rels/workbook.bin.rels": f"<R>{links}</R>"}
    return archive(parts)


def _cell(column: int, value: object) -> bytes:
    number, style = value if isinstance(value, tuple) else (value, 0)
    place = struct.pack("<II", column, style)
    if isinstance(number, str):
        return _record(6, place + _wide(number))
    if isinstance(number, int):
        return _record(2, place + struct.pack("<I", number << 2 & 0xFFFFFFFF | 2))
    return _record(5, place + struct.pack("<d", number))
