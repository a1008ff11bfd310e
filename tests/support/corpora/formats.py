"""Small documents of the formats that are not text, made by code."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

import openpyxl

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def pdf(*pages: str, outline: Sequence[tuple[str, int]] = (), title: str = "", extra: str = "") -> bytes:
    """A PDF file with lines of text on its pages; ``outline``: headings and the page, from 0, on which each stands.

    ``extra`` goes into the trailer.
    """
    objects: dict[int, str] = {}
    first_page = 10
    kids = [first_page + 2 * index for index in range(len(pages))]
    marks = [first_page + 2 * len(pages) + index for index in range(len(outline))]
    objects[1] = f"<< /Type /Catalog /Pages 2 0 R {'/Outlines 4 0 R' if outline else ''} >>"
    objects[2] = f"<< /Type /Pages /Count {len(pages)} /Kids [{' '.join(f'{kid} 0 R' for kid in kids)}] >>"
    objects[3] = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
    objects[5] = f"<< /Title ({title}) >>"
    for kid, page in zip(kids, pages, strict=True):
        lines = " ".join(f"({_literal(line)}) Tj T*" for line in page.split("\n"))
        stream = f"BT /F1 11 Tf 13 TL 50 800 Td {lines} ET"
        objects[kid] = (
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842]"
            f" /Resources << /Font << /F1 3 0 R >> >> /Contents {kid + 1} 0 R >>"
        )
        objects[kid + 1] = f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream"
    if outline:
        objects[4] = f"<< /Type /Outlines /First {marks[0]} 0 R /Last {marks[-1]} 0 R /Count {len(marks)} >>"
    for place, (mark, (name, page)) in enumerate(zip(marks, outline, strict=True)):
        after = f"/Next {mark + 1} 0 R" if place + 1 < len(marks) else ""
        objects[mark] = f"<< /Title ({name}) /Parent 4 0 R {after} /Dest [{kids[page]} 0 R /Fit] >>"
    return written(objects, extra=extra + " /Info 5 0 R")


def pdf_with_picture(text: str) -> bytes:
    """A PDF file of three pages: one with a line of text, one that holds only a picture, and a blank one."""
    line, drawing = f"BT /F1 11 Tf 50 800 Td ({_literal(text)}) Tj ET", "q 200 0 0 200 100 500 cm /P Do Q"
    shared = "/Type /Page /Parent 2 0 R /MediaBox [0 0 595 842]"
    return written(
        {
            1: "<< /Type /Catalog /Pages 2 0 R >>",
            2: "<< /Type /Pages /Count 3 /Kids [5 0 R 6 0 R 7 0 R] >>",
            3: "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            4: "<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8"
            " /Length 1 >>\nstream\n0\nendstream",
            5: f"<< {shared} /Resources << /Font << /F1 3 0 R >> >> /Contents 8 0 R >>",
            6: f"<< {shared} /Resources << /XObject << /P 4 0 R >> >> /Contents 9 0 R >>",
            7: f"<< {shared} >>",
            8: f"<< /Length {len(line)} >>\nstream\n{line}\nendstream",
            9: f"<< /Length {len(drawing)} >>\nstream\n{drawing}\nendstream",
        }
    )


def written(objects: Mapping[int, str], *, extra: str = "") -> bytes:
    """PDF objects as a file with its table."""
    out = io.BytesIO()
    out.write(b"%PDF-1.7\n")
    places = {}
    for number, content in sorted(objects.items()):
        places[number] = out.tell()
        out.write(f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1"))
    table = out.tell()
    size = max(objects) + 1
    entries = [
        f"{places[number]:010d} 00000 n \n" if number in places else "0000000000 65535 f \n" for number in range(size)
    ]
    out.write(f"xref\n0 {size}\n{''.join(entries)}trailer\n<< /Size {size} /Root 1 0 R {extra} >>\n".encode("latin-1"))
    out.write(f"startxref\n{table}\n%%EOF\n".encode())
    return out.getvalue()


def docx(body: str = "", *, parts: Mapping[str, str] | None = None) -> bytes:
    """A Word document around the XML of its body."""
    return archive(
        {
            "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
            "word/document.xml": f'<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>',
            **(parts or {}),
        }
    )


def styles(*named: tuple[str, str]) -> str:
    """The styles part: ids and names."""
    each = "".join(f'<w:style w:styleId="{style}"><w:name w:val="{name}"/></w:style>' for style, name in named)
    return f'<w:styles xmlns:w="{_WORD}">{each}</w:styles>'


def paragraph(text: str, style: str = "", *, listed: bool = False) -> str:
    """A paragraph of a Word document."""
    properties = (f'<w:pStyle w:val="{style}"/>' if style else "") + ("<w:numPr/>" if listed else "")
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{escape(text)}</w:t></w:r></w:p>"


def table(*rows: Sequence[str]) -> str:
    """A table of a Word document."""
    lines = "".join(f"<w:tr>{''.join(f'<w:tc>{paragraph(cell)}</w:tc>' for cell in row)}</w:tr>" for row in rows)
    return f"<w:tbl>{lines}</w:tbl>"


def archive(parts: Mapping[str, str | bytes]) -> bytes:
    """A ZIP archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as written_to:
        for name, content in parts.items():  # readers of OpenDocument and EPUB look for their media type as it is
            written_to.writestr(name, content, zipfile.ZIP_STORED if name == "mimetype" else None)
    return out.getvalue()


def xlsx(sheets: Mapping[str, Sequence[Sequence[object]]]) -> bytes:
    """An Excel workbook."""
    workbook = openpyxl.Workbook(write_only=True)
    for name, rows in sheets.items():
        sheet = workbook.create_sheet(name)
        for row in rows:
            sheet.append(row)
    out = io.BytesIO()
    workbook.save(out)
    workbook.close()
    return out.getvalue()


def with_part(document: bytes, part: str, content: str | bytes) -> bytes:
    """An Office document with one of its parts replaced or added."""
    with zipfile.ZipFile(io.BytesIO(document)) as read_from:
        parts = {name: read_from.read(name) for name in read_from.namelist()}
    return archive({**parts, part: content})


def _literal(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
