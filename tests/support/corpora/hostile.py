"""Malicious and damaged documents, and the expected outcome of each."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.parsing.formats import CSV, DOCX, EML, EPUB, HTML, JSON, ODS, ODT, PDF, PLAIN, RTF, XLS, XLSX
from tests.support.corpora.formats import archive, docx, paragraph, pdf, with_part, written, xlsx
from tests.support.corpora.other_formats import PRICES, epub, opendocument

_SHEET = "xl/worksheets/sheet1.xml"
_SHEET_HEAD = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """``code``: that of the error; None if it holds text that can be had without harm. ``make`` gives its bytes."""

    name: str
    media_type: str
    code: str | None
    make: Callable[[], bytes]


def _zip_bomb() -> bytes:
    return docx(parts={"word/document.xml": b"<w>" + b" " * (300 * 2**20)})  # type: ignore[dict-item]


def _wordy_bomb() -> bytes:
    """Within what an archive may unpack to, but all of it text."""
    return docx(parts={"word/document.xml": _document(paragraph("a" * 2**20) * 200)})


def _document(body: str) -> str:
    return f'<w:document xmlns:w="urn:w"><w:body>{body}</w:body></w:document>'


def _many_entries() -> bytes:
    return archive({f"word/{number}.xml": b"" for number in range(10_001)})


def _symlink() -> bytes:
    out = io.BytesIO(docx(paragraph("text")))
    with zipfile.ZipFile(out, "a") as target:
        link = zipfile.ZipInfo("word/media/image1.png")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        target.writestr(link, "/etc/passwd")
    return out.getvalue()


def _encrypted_zip() -> bytes:
    body = bytearray(docx(paragraph("secret")))
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = -1
        while (place := body.find(signature, place + 1)) >= 0:
            body[place + flags] |= 1
    return bytes(body)


def _encrypted_office() -> bytes:
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 1024 + "EncryptedPackage".encode("utf-16-le") + b"\0" * 512


def _encrypted_pdf() -> bytes:
    handler = f"<< /Filter /Standard /V 1 /R 2 /Length 40 /P -44 /O <{'ab' * 32}> /U <{'cd' * 32}> >>"
    return pdf("secret", extra=f"/Encrypt {handler} /ID [<{'00' * 16}> <{'00' * 16}>]")


def _many_pages() -> bytes:
    kids = " ".join(["3 0 R"] * 100_000)
    return written(
        {
            1: "<< /Type /Catalog /Pages 2 0 R >>",
            2: f"<< /Type /Pages /Count 100000 /Kids [{kids}] >>",
            3: "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 10 10] >>",
        }
    )


def _nested_pdf() -> bytes:
    return written({1: "<< /Type /Catalog /Pages 2 0 R >>", 2: "[" * 200_000 + "]" * 200_000})


def _looping_pdf() -> bytes:
    return written({1: "<< /Type /Catalog /Pages 2 0 R >>", 2: "<< /Type /Pages /Count 9 /Kids [2 0 R 2 0 R] >>"})


def _inflating_pdf() -> bytes:
    """A page whose content unpacks to 2 GB, having been packed twice."""
    packer = zlib.compressobj(9)
    first, another = (packer.compress(b" " * 2**24) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    once = first + another * 127
    twice = zlib.compress(once, 9)
    return written(
        {
            1: "<< /Type /Catalog /Pages 2 0 R >>",
            2: "<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
            3: "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 10 10] /Contents 4 0 R >>",
            4: f"<< /Length {len(twice)} /Filter [/FlateDecode /FlateDecode] >>\nstream\n"
            + twice.decode("latin-1")
            + "\nendstream",
        }
    )


def _empty_rows() -> bytes:
    rows = "".join(f'<row r="{number}"/>' for number in range(1, 1_000_001))
    return _workbook(f"<sheetData>{rows}</sheetData>")


def _wide_promise() -> bytes:
    """A sheet that says it is as large as sheets can be."""
    cell = '<row r="1048576"><c r="XFD1048576" t="inlineStr"><is><t>far</t></is></c></row>'
    return _workbook(f'<dimension ref="A1:XFD1048576"/><sheetData>{cell}</sheetData>')


def _workbook(content: str) -> bytes:
    return with_part(xlsx({"Sheet": [["a"]]}), _SHEET, f"{_SHEET_HEAD}{content}</worksheet>")


def _laughs(document: str) -> str:
    lines = ['<!ENTITY l0 "ha">'] + [f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10)]
    return f"<!DOCTYPE x [{''.join(lines)}]>{document}"


def _laughing_docx() -> bytes:
    return docx(parts={"word/document.xml": _laughs(_document("<w:p><w:r><w:t>&l9;</w:t></w:r></w:p>"))})


def _laughing_xlsx() -> bytes:
    cell = '<row r="1"><c r="A1" t="inlineStr"><is><t>&l9;</t></is></c></row>'
    return with_part(
        xlsx({"Sheet": [["a"]]}), _SHEET, _laughs(f"{_SHEET_HEAD}<sheetData>{cell}</sheetData></worksheet>")
    )


def _file_reader() -> bytes:
    entity = '<!DOCTYPE x [<!ENTITY file SYSTEM "file:///etc/passwd">]>'
    return docx(parts={"word/document.xml": entity + _document("<w:p><w:r><w:t>&file;</w:t></w:r></w:p>")})


def _formulas() -> bytes:
    return xlsx({"Sheet": [["name", "note"], ["eve", "plain text"], ["=cmd|'/C calc'!A1", "@SUM(1+1)"]]})


def _repeated_ods() -> bytes:
    """A sheet of seventeen thousand million cells in a kilobyte."""
    cell = '<table:table-cell table:number-columns-repeated="16384"><text:p>x</text:p></table:table-cell>'
    row = f'<table:table-row table:number-rows-repeated="1048576">{cell}</table:table-row>'
    return opendocument("spreadsheet", f'<table:table table:name="S">{row}</table:table>')


def _looping_xls() -> bytes:
    """A container whose chains of sectors lead back to themselves."""
    body = bytearray(PRICES.read_bytes())
    table = 512 + 512 * struct.unpack_from("<I", body, 76)[0]
    for sector in range(3, 12):
        struct.pack_into("<I", body, table + 4 * sector, 3)
    return bytes(body)


HOSTILE = (
    Hostile(name="zip-bomb.docx", media_type=DOCX, code="document_too_large", make=_zip_bomb),
    Hostile(name="200-mb-of-text.docx", media_type=DOCX, code="document_too_large", make=_wordy_bomb),
    Hostile(name="ten-thousand-entries.docx", media_type=DOCX, code="document_too_large", make=_many_entries),
    Hostile(name="symlink.docx", media_type=DOCX, code="malformed_document", make=_symlink),
    Hostile(
        name="path-traversal.docx",
        media_type=DOCX,
        code="malformed_document",
        make=lambda: docx(paragraph("text"), parts={"../../../../etc/cron.d/evil": "x"}),
    ),
    Hostile(
        name="absolute-path.docx",
        media_type=DOCX,
        code="malformed_document",
        make=lambda: docx(paragraph("text"), parts={"/etc/cron.d/evil": "x"}),
    ),
    Hostile(name="encrypted-entries.docx", media_type=DOCX, code="encrypted_document", make=_encrypted_zip),
    Hostile(name="encrypted.xlsx", media_type=XLSX, code="encrypted_document", make=_encrypted_office),
    Hostile(
        name="old.docx",
        media_type=DOCX,
        code="unsupported_media_type",
        make=lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 2048,
    ),
    Hostile(name="billion-laughs.docx", media_type=DOCX, code="malformed_document", make=_laughing_docx),
    Hostile(name="billion-laughs.xlsx", media_type=XLSX, code="malformed_document", make=_laughing_xlsx),
    Hostile(name="external-entity.docx", media_type=DOCX, code="malformed_document", make=_file_reader),
    Hostile(
        name="cut-off.docx",
        media_type=DOCX,
        code="malformed_document",
        make=lambda: docx(paragraph("text " * 5000))[:-200],
    ),
    Hostile(name="no-word-in-it.docx", media_type=DOCX, code="malformed_document", make=lambda: archive({"a": "b"})),
    Hostile(
        name="deep.docx",
        media_type=DOCX,
        code="empty_document",
        make=lambda: docx("<w:tbl><w:tr><w:tc>" * 30_000 + "</w:tc></w:tr></w:tbl>" * 30_000),
    ),
    Hostile(name="million-empty-rows.xlsx", media_type=XLSX, code="document_too_large", make=_empty_rows),
    Hostile(name="wide-promise.xlsx", media_type=XLSX, code=None, make=_wide_promise),
    Hostile(name="formulas.xlsx", media_type=XLSX, code=None, make=_formulas),
    Hostile(
        name="formulas.csv",
        media_type=CSV,
        code=None,
        make=lambda: b"name,note\n=HYPERLINK('http://evil'),@SUM(1+1)\n+1,-1\n",
    ),
    Hostile(
        name="cut-off.xlsx",
        media_type=XLSX,
        code="malformed_document",
        make=lambda: xlsx({"Sheet": [["a", "b"]] * 100})[:3000],
    ),
    Hostile(
        name="program.pdf", media_type=PDF, code="malformed_document", make=lambda: b"MZ\x90\0" + bytes(range(256)) * 64
    ),
    Hostile(name="archive.pdf", media_type=PDF, code="malformed_document", make=lambda: archive({"a": "b"})),
    Hostile(name="encrypted.pdf", media_type=PDF, code="encrypted_document", make=_encrypted_pdf),
    Hostile(name="cut-off.pdf", media_type=PDF, code="malformed_document", make=lambda: pdf("text")[:60]),
    Hostile(name="100000-pages.pdf", media_type=PDF, code="document_too_large", make=_many_pages),
    Hostile(name="nested.pdf", media_type=PDF, code="malformed_document", make=_nested_pdf),
    Hostile(name="looping.pdf", media_type=PDF, code="malformed_document", make=_looping_pdf),
    Hostile(name="inflating.pdf", media_type=PDF, code="parser_memory", make=_inflating_pdf),
    Hostile(
        name="50-mb-of-tags.html", media_type=HTML, code="parser_timeout", make=lambda: b"<p>a<b>" * (50 * 2**20 // 7)
    ),
    Hostile(
        name="broken-quote.csv",
        media_type=CSV,
        code=None,
        make=lambda: b'name,note\na,"never closed\n' + b"b,c\n" * 50_000,
    ),
    Hostile(
        name="no-mark.csv",
        media_type=CSV,
        code=None,
        make=lambda: "name,note\na,b\n".encode("utf-16-le"),
    ),
    Hostile(
        name="10000-deep.json",
        media_type=JSON,
        code="malformed_document",
        make=lambda: b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    ),
    Hostile(
        name="900-deep.json",
        media_type=JSON,
        code="malformed_document",
        make=lambda: b'{"a":' * 900 + b"1" + b"}" * 900,
    ),
    Hostile(
        name="million-values.json",
        media_type=JSON,
        code="document_too_large",
        make=lambda: b"[" + b"1," * 1_000_000 + b"1]",
    ),
    Hostile(name="long-number.json", media_type=JSON, code=None, make=lambda: b'{"n": ' + b"9" * 100_000 + b"}"),
    Hostile(name="zeros.txt", media_type=PLAIN, code="undecodable_text", make=lambda: b"\0" * 300_000),
    Hostile(
        name="ten-thousand-entries.odt",
        media_type=ODT,
        code="document_too_large",
        make=lambda: opendocument("text", "", parts={f"Pictures/{number}": b"" for number in range(10_001)}),
    ),
    Hostile(
        name="billion-laughs.odt",
        media_type=ODT,
        code="malformed_document",
        make=lambda: opendocument("text", "", parts={"content.xml": _laughs("<x>&l9;</x>")}),
    ),
    Hostile(
        name="billion-laughs.epub",
        media_type=EPUB,
        code="malformed_document",
        make=lambda: epub({}, parts={"OPS/book.opf": _laughs("<x>&l9;</x>")}),
    ),
    Hostile(
        name="deep.odt",
        media_type=ODT,
        code=None,
        make=lambda: opendocument(
            "text", "<text:section>" * 30_000 + "<text:p>a</text:p>" + "</text:section>" * 30_000
        ),
    ),
    Hostile(name="repeated.ods", media_type=ODS, code="document_too_large", make=_repeated_ods),
    Hostile(name="looping.xls", media_type=XLS, code="malformed_document", make=_looping_xls),
    Hostile(name="groups.rtf", media_type=RTF, code="malformed_document", make=lambda: b"{\\rtf1 " + b"{" * 1_000_000),
    Hostile(
        name="mails-in-mails.eml",
        media_type=EML,
        code="malformed_document",
        make=lambda: b"Content-Type: message/rfc822\n\n" * 3000,
    ),
    Hostile(
        name="long-header.eml",
        media_type=EML,
        code=None,
        make=lambda: b"Subject: " + b"=?utf-8?b?5Lu3?= " * 100_000 + b"\n\ntext",
    ),
)
