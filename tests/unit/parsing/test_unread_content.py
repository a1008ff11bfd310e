"""Content that a parser cannot read is named in a warning, or the file is refused, in place of being stored as text."""

from __future__ import annotations

import io
import zipfile

import pytest

from pipeline.errors import MalformedDocument, Rejected
from pipeline.parsing.formats import DOCX, EML, EPUB, ODT, PDF, PLAIN, parse
from tests.support.corpora.formats import docx, paragraph, pdf
from tests.unit.parsing.test_pdf_pages import page, text


def warning_of(body: bytes, media_type: str) -> str:
    """Return both warnings of a document."""
    encoding = parse(body, media_type=media_type).encoding
    return f"{encoding.warning or ''} {encoding.pages_warning or ''}" if encoding else ""


def _zipped(parts: dict[str, str]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return written.getvalue()


class DescribeDamagedText:
    @pytest.mark.parametrize(
        ("written", "told"),
        [
            ("Der Vertrag wurde gek\ufffdndigt.", "1 characters had been lost"),
            ("合同：锟斤拷锟斤拷", "characters had been lost"),
            ("Der KÃ¤ufer trÃ¤gt die GebÃ¼hren.", "saved in a wrong encoding"),
        ],
    )
    def it_is_told(self, written: str, told: str):
        assert told in warning_of(written.encode(), PLAIN)

    @pytest.mark.parametrize("written", ["São Paulo, NÃO, 20 °C, «Ânimo»", "图书馆，斤斤计较"])
    def it_is_no_text_with_such_letters(self, written: str):
        assert "wrong encoding" not in warning_of(written.encode(), PLAIN)
        assert "lost" not in warning_of(written.encode(), PLAIN)


class DescribePictures:
    @pytest.mark.parametrize(("size", "is_told"), [(3_600_000, True), (360_000, False)])
    def it_tells_of_large_ones_in_a_word_document(self, size: int, is_told: bool):
        drawing = (
            f'<w:p><w:r><w:drawing><wp:inline xmlns:wp="wp"><wp:extent cx="{size}" cy="{size}"/>'
            '<a:blip xmlns:a="a" embed="rId4"/></wp:inline></w:drawing></w:r></w:p>'
        )
        warning = warning_of(docx(paragraph("见下图：") + drawing), DOCX)
        assert ("pictures were not read (1)" in warning) is is_told

    @pytest.mark.parametrize(("width", "is_told"), [("12cm", True), ("0.5in", False)])
    def it_tells_of_large_ones_in_an_opendocument_text(self, width: str, is_told: bool):
        names = " ".join(f'xmlns:{name}="{name}"' for name in ("office", "text", "draw", "svg"))
        content = (
            f"<office:document-content {names}><office:body><office:text><text:p>Anlage 4</text:p><text:p>"
            f'<draw:frame svg:width="{width}" svg:height="9cm"><draw:image/></draw:frame></text:p></office:text>'
            "</office:body></office:document-content>"
        )
        body = _zipped({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content})
        assert ("pictures were not read (1)" in warning_of(body, ODT)) is is_told

    def it_tells_of_chapters_that_hold_nothing_else(self):
        chapters = {"a": "<img src='cover.png'/>", "b": "<p>第一章</p>", "c": "<img src='1.png' alt=''/>"}
        items = "".join(f'<item id="{name}" href="{name}.xhtml"/>' for name in chapters)
        order = "".join(f'<itemref idref="{name}"/>' for name in chapters)
        parts = {
            "META-INF/container.xml": '<container><rootfile full-path="b.opf"/></container>',
            "b.opf": f"<package><manifest>{items}</manifest><spine>{order}</spine></package>",
        }
        parts |= {f"{name}.xhtml": f"<html><body>{content}</body></html>" for name, content in chapters.items()}
        assert "1 of 3 chapters holds only pictures (3)" in warning_of(_zipped(parts), EPUB)


class DescribePdfFiles:
    def it_refuses_glyphs_29_places_off_their_letters(self):
        words = "the pump and the valve are checked with the lamp before the start"
        shifted = "".join(chr(ord(letter) - 29) if letter != " " else " " for letter in words)
        with pytest.raises(MalformedDocument, match="letters without meaning"):
            parse(page(text(50, 700, shifted.replace("\\", "X"))), media_type=PDF)

    @pytest.mark.parametrize("codes", ["RI WR DQ KX 17", "USB LED HDMI WLAN DVD PCB"])
    def it_reads_abbreviations(self, codes: str):
        assert codes in parse(page(text(50, 700, codes)), media_type=PDF).text

    def it_refuses_a_page_that_asks_for_another_program(self):
        body = pdf("Please wait...").replace(b"/Type /Catalog", b"/Type /Catalog /AcroForm << /Fields [] /XFA [] >>")
        with pytest.raises(Rejected, match="XFA form"):
            parse(body, media_type=PDF)


class DescribeInvitations:
    def it_reads_their_time_and_place(self):
        event = (
            "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;TZID=Asia/Shanghai:20240612T093000\r\nDTEND:20240612T100000Z\r\n"
            "SUMMARY:周会\\, 三号\r\n 楼\r\nLOCATION:Tor Nord\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
        )
        mail = (
            "From: a@x.example\r\nSubject: Termin\r\nMIME-Version: 1.0\r\n"
            "Content-Type: multipart/alternative; boundary=x\r\n\r\n--x\r\n"
            "Content-Type: text/plain\r\n\r\nBitte kommen.\r\n--x\r\nContent-Type: text/calendar; charset=utf-8\r\n"
            f"Content-Transfer-Encoding: 8bit\r\n\r\n{event}--x--\r\n"
        )
        read = parse(mail.encode(), media_type=EML).text
        assert "Bitte kommen." in read
        assert "Event: 周会, 三号楼\nBegins: 2024-06-12 09:30\nEnds: 2024-06-12 10:00 UTC\nLocation: Tor Nord" in read
