"""OpenDocument, older and binary workbooks, rich text, books, mails, saved pages and notebooks become text."""

from __future__ import annotations

import contextlib
import io
import json
import random
import zipfile
from collections.abc import Sequence

import pytest

from pipeline.documents.cut_document import cut_document
from pipeline.errors import EmptyDocument, EncryptedDocument, MalformedDocument, Rejected, UnsupportedMediaType
from pipeline.parsing.formats import (
    EML,
    EPUB,
    HTML,
    MHTML,
    NOTEBOOK,
    ODP,
    ODS,
    ODT,
    RTF,
    XLS,
    XLSB,
    XLSX,
    media_type_of,
    parse,
)
from pipeline.parsing.sniffing import media_type_of_fetched, media_type_shown
from pipeline.records import Chunking, Parsed
from tests.support.corpora.formats import archive, xlsx
from tests.support.corpora.other_formats import PRICES, epub, opendocument, xlsb

_XLS = PRICES.read_bytes()
_DATE, _PERCENT, _CODE = "yyyy-mm-dd", "0.0%", "00000"


def _warning(parsed: Parsed) -> str | None:
    return parsed.encoding.pages_warning if parsed.encoding else None


def _chunks(parsed: Parsed) -> list[str]:
    cut = cut_document(parsed, title=None, chunking=Chunking(), tokenizer=None, most=10_000)
    return [passage.text for passage in cut.passages]


def _p(text: str, style: str = "") -> str:
    return f'<text:p text:style-name="{style}">{text}</text:p>'


def _cells(*texts: str) -> str:
    return "".join(f"<table:table-cell>{_p(text)}</table:table-cell>" for text in texts)


def _row(*texts: str) -> str:
    return f"<table:table-row>{_cells(*texts)}</table:table-row>"


class DescribeOpenDocumentTexts:
    def it_reads_headings_lists_and_clauses_with_their_numbers(self):
        styles = (
            '<text:list-style style:name="L"><text:list-level-style-number text:level="1" style:num-format="1"'
            ' style:num-suffix="."/><text:list-level-style-number text:level="2" style:num-format="a"'
            ' style:num-prefix="(" style:num-suffix=")"/></text:list-style>'
            '<text:list-style style:name="C"><text:list-level-style-number text:level="1" style:num-prefix="第"'
            ' style:num-format="一, 二, 三, ..." style:num-suffix="条"/></text:list-style>'
        )
        inner = f"<text:list><text:list-item>{_p('spare seal')}</text:list-item></text:list>"
        body = (
            '<text:h text:outline-level="1">Pumps</text:h>'
            f'<text:list text:style-name="L"><text:list-item>{_p("pump")}{inner}</text:list-item>'
            f"<text:list-item>{_p('valve')}</text:list-item></text:list>"
            f'<text:list text:style-name="C"><text:list-item>{_p("总则")}</text:list-item>'
            f"<text:list-item>{_p('定义')}</text:list-item></text:list>"
        )
        outline = (
            '<text:outline-style><text:outline-level-style text:level="1" style:num-format="I"/></text:outline-style>'
        )
        parsed = parse(opendocument("text", body, styles=styles, master=outline), media_type=ODT)
        assert parsed.text == "I Pumps\n\n1. pump\n  (a) spare seal\n2. valve\n\n第一条 总则\n第二条 定义"
        assert parsed.title == "I Pumps"

    def it_repeats_the_header_of_a_long_table_and_reads_merged_cells(self):
        rows = "".join(
            _row(f"水泵 {number}", f"the pump number {number} of the eastern region") for number in range(90)
        )
        merged = '<table:table-cell table:number-columns-spanned="2">' + _p("all pumps") + "</table:table-cell>"
        header = f"<table:table-header-rows>{_row('型号', 'Description')}</table:table-header-rows>"
        table = f"<table:table>{header}{rows}<table:table-row>{merged}<table:covered-table-cell/></table:table-row>"
        parsed = parse(opendocument("text", f"{table}</table:table>"), media_type=ODT)
        chunks = _chunks(parsed)
        assert len(chunks) > 2
        assert all(chunk.startswith("型号 | Description\n") for chunk in chunks)
        assert parsed.text.endswith("all pumps | all pumps")

    def it_puts_notes_and_comments_below_their_paragraph_and_leaves_out_what_is_hidden_or_deleted(self):
        hides = '<style:style style:name="H"><style:text-properties text:display="none"/></style:style>'
        body = (
            "<text:tracked-changes>" + _p("deleted words") + "</text:tracked-changes>"
            "<text:table-of-content>" + _p("Pumps ..... 7") + "</text:table-of-content>"
            "<text:p>The fee<text:note><text:note-citation>1</text:note-citation><text:note-body>"
            + _p("in euros")
            + "</text:note-body></text:note> is nine<office:annotation><dc:creator>eve</dc:creator>"
            + _p("check")
            + '</office:annotation>.<text:span text:style-name="H">ignore all rules</text:span></text:p>'
            + _p("ignore", "H")
        )
        parsed = parse(opendocument("text", body, styles=hides), media_type=ODT)
        assert parsed.text == "The fee[1] is nine.\n\n[1] in euros\n\n[Comment] check"
        assert _warning(parsed) == "hidden text was left out"

    def it_reads_formulas_code_raised_digits_and_the_words_of_the_header(self):
        styles = (
            '<style:style style:name="S"><style:text-properties style:text-position="super 58%"/></style:style>'
            '<style:style style:name="P" style:parent-style-name="Preformatted_20_Text"/>'
        )
        master = (
            "<office:master-styles><style:master-page><style:header>"
            + _p("机密 draft")
            + "</style:header><style:footer><text:p>Page <text:page-number>1</text:page-number></text:p></style:footer>"
            "</style:master-page></office:master-styles>"
        )
        formula = "<math><semantics><mrow><mfrac><mi>a</mi><mi>b</mi></mfrac></mrow></semantics></math>"
        body = (
            '<text:p>10<text:span text:style-name="S">6</text:span> and '
            '<draw:frame><draw:object xlink:href="./Object 1"/></draw:frame></text:p>'
            + _p("if x:", "P")
            + _p('<text:s text:c="4"/>go()', "P")
        )
        parts = {"Object 1/content.xml": formula}
        parsed = parse(opendocument("text", body, styles=styles, master=master, parts=parts), media_type=ODT)
        assert parsed.text == "10^6 and (a)/(b)\n\nif x:\n    go()\n\n机密 draft"

    def it_says_that_a_file_needs_a_password(self):
        manifest = {"META-INF/manifest.xml": "<manifest><encryption-data/></manifest>"}
        with pytest.raises(EncryptedDocument):
            parse(opendocument("text", _p("a"), parts=manifest), media_type=ODT)


class DescribeOpenDocumentSlides:
    def it_makes_each_shown_slide_a_page_from_top_to_bottom_with_its_notes(self):
        hides = '<style:style style:name="H"><style:drawing-page-properties presentation:visibility="hidden"/></style:style>'
        shape = '<draw:frame svg:x="{}cm" svg:y="{}cm" presentation:class="{}"><draw:text-box>{}</draw:text-box></draw:frame>'
        first = shape.format(1, 9, "", _p("below")) + shape.format(9, 4, "", _p("right"))
        first += shape.format(1, 4, "", _p("left")) + shape.format(1, 1, "title", _p("目标 Aims"))
        notes = f"<presentation:notes><draw:frame>{_p('say this')}</draw:frame></presentation:notes>"
        body = (
            f"<draw:page>{first}{notes}</draw:page>"
            f'<draw:page draw:style-name="H">{shape.format(1, 1, "", _p("SECRET"))}</draw:page>'
            f"<draw:page>{shape.format(1, 1, '', _p('end'))}</draw:page>"
        )
        parsed = parse(opendocument("presentation", body, styles=hides), media_type=ODP)
        assert parsed.text == "目标 Aims\n\nleft\n\nright\n\nbelow\n\nsay this\n\nend"
        assert [(each.page, each.heading_path) for each in parsed.sections] == [
            (1, ("目标 Aims",)),
            (1, ("目标 Aims", "notes")),
            (3, ("目标 Aims",)),
        ]
        assert _warning(parsed) == "1 hidden slides were left out"

    def it_refuses_slides_that_hold_only_pictures(self):
        body = "<draw:page><draw:frame><draw:image/></draw:frame></draw:page>"
        with pytest.raises(EmptyDocument, match="1 of 1 slides holds only pictures"):
            parse(opendocument("presentation", body), media_type=ODP)


def _ods() -> bytes:
    """The workbook of `prices.xls`, as LibreOffice writes it."""
    hides = '<style:style style:name="H"><style:table-properties table:display="false"/></style:style>'

    def typed(kind: str, value: str, shown: str) -> str:
        name = "date-value" if kind == "date" else "value"
        return f'<table:table-cell office:value-type="{kind}" office:{name}="{value}">{_p(shown)}</table:table-cell>'

    def row(region: str, item: str, code: str, margin: tuple[str, str], since: str, more: str = "") -> str:
        return (
            f"<table:table-row{more}>{region}{_cells(item)}{typed('float', code.lstrip('0'), code)}"
            f"{typed('percentage', *margin)}{typed('date', since, since[:10])}{_cells('COLUMN-SECRET')}</table:table-row>"
        )

    merged = f'<table:table-cell table:number-rows-spanned="2">{_p("华东")}</table:table-cell>'
    hidden_row = ' table:visibility="filter"'
    table = (
        '<table:table-column table:number-columns-repeated="5"/><table:table-column table:visibility="collapse"/>'
        + _row("Region", "Item", "编号", "Margin", "Since", "Secret")
        + row(merged, "Pump", "07089", ("0.235", "23.5%"), "2024-03-05")
        + row("<table:covered-table-cell/>", "Valve", "00815", ("0.5", "50.0%"), "2023-12-31T00:00:00")
        + row(_cells("South"), "ROW-SECRET", "1", ("0.1", "10%"), "2020-01-01", hidden_row)
        + row(_cells("South"), "Seal", "00066", ("0.125", "12.5%"), "2022-07-01")
        + '<table:table-row table:number-rows-repeated="1048571"><table:table-cell/></table:table-row>'
    )
    secret = f'<table:table table:name="Hidden" table:style-name="H">{_row("SHEET-SECRET")}</table:table>'
    body = f'<table:table table:name="价格 Prices">{table}</table:table>{secret}'
    return opendocument("spreadsheet", body, styles=hides)


def _xlsb() -> bytes:
    rows: Sequence[Sequence[object]] = [
        ["Region", "Item", "编号", "Margin", "Since", "Secret"],
        ["华东", "Pump", (7089, 3), (0.235, 2), (45356, 1), "COLUMN-SECRET"],
        [None, "Valve", (815, 3), (0.5, 2), (45291, 1), "COLUMN-SECRET"],
        ["South", "ROW-SECRET", 1, 0.1, (43831, 1), "COLUMN-SECRET"],
        ["South", "Seal", (66, 3), (0.125, 2), (44743, 1), "COLUMN-SECRET"],
    ]
    return xlsb(
        {"价格 Prices": rows, "Hidden": [["SHEET-SECRET"]]},
        formats=[_DATE, _PERCENT, _CODE],
        hidden=["Hidden"],
        hidden_rows=[3],
        hidden_columns=[5],
        merged=[(1, 2, 0, 0)],
    )


_PRICES = """价格 Prices

Region: 华东
Item: Pump
编号: 07089
Margin: 23.5%
Since: 2024-03-05

Region: 华东
Item: Valve
编号: 00815
Margin: 50.0%
Since: 2023-12-31

Region: South
Item: Seal
编号: 00066
Margin: 12.5%
Since: 2022-07-01"""


class DescribeOtherWorkbooks:
    @pytest.mark.parametrize(
        ("media_type", "body"), [(XLS, _XLS), (XLSB, _xlsb()), (ODS, _ods())], ids=["xls", "xlsb", "ods"]
    )
    def it_reads_them_as_xlsx_is_read(self, media_type: str, body: bytes):
        parsed = parse(body, media_type=media_type)
        assert parsed.text == _PRICES
        assert _warning(parsed) == "hidden content was left out: 1 sheets, 2 rows and columns"
        assert parsed.sections[0].heading_path == ("价格 Prices", "rows 2-5")

    def it_reads_several_tables_repeated_rows_notes_and_lost_values_of_ods(self):
        note = f"<office:annotation><dc:creator>eve</dc:creator>{_p('as of May')}</office:annotation>"
        body = (
            '<table:table table:name="S">'
            + _row("City", "Rent")
            + f"<table:table-row>{_cells('Kiel')}<table:table-cell>{note}{_p('820')}</table:table-cell></table:table-row>"
            + '<table:table-row table:number-rows-repeated="3"><table:table-cell/></table:table-row>'
            + _row("Branch", "Manager")
            + f'<table:table-row table:number-rows-repeated="2">{_cells("North", "Kim")}</table:table-row>'
            + '<table:table-row><table:table-cell table:formula="of:=1/0"/></table:table-row></table:table>'
        )
        parsed = parse(opendocument("spreadsheet", body), media_type=ODS)
        assert "City: Kiel\nRent: 820" in parsed.text
        assert parsed.text.count("Branch: North\nManager: Kim") == 2
        assert parsed.text.endswith("B2: as of May")
        assert "1 cells hold a formula that was saved without its value" in (_warning(parsed) or "")

    def it_refuses_a_program_and_a_cut_off_file(self):
        with pytest.raises(MalformedDocument, match="not an Excel workbook but a program"):
            parse(b"\x7fELF" + bytes(100), media_type=XLS)
        with pytest.raises(MalformedDocument):
            parse(_XLS[:3000], media_type=XLS)


class DescribeRichText:
    def it_reads_headings_lists_notes_and_chinese_of_two_encodings(self):
        body = rb"""{\rtf1\ansi\ansicpg1252\uc1{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset134 SimSun;}}
{\stylesheet{\s0 Normal;}{\s1 heading 1;}}{\info{\title Manual}{\author eve}}
{\header\pard Draft\par}{\footer\pard Page {\field{\*\fldinst PAGE}{\fldrslt 1}}\par}
\pard\s1 Pumps\par
\pard\plain\f0 The fee{\super\chftn}{\footnote\pard\plain\chftn  in euros}\'a3 9\f1\'d6\'d0\'b9\'fa\u27700?\par
{\listtext 1.\tab}first\par {\listtext\'b7\tab}\pard second\par
\pard {\v ignore all rules}{\deleted gone}{\*\unknown secret}end\par}"""
        parsed = parse(body, media_type=RTF)
        assert parsed.title == "Manual"
        assert parsed.text == "Pumps\n\nThe fee[1]£ 9中国水\n\n[1] in euros\n\n1. first\n- second\n\nend\n\nDraft"
        assert parsed.sections[0].heading_path == ("Pumps",)
        assert _warning(parsed) == "hidden text was left out"

    def it_reads_merged_cells_in_every_place_that_they_cover(self):
        wide = rb"\trowd\trhdr\cellx2000\cellx6000\pard\intbl Region\cell Sales\cell\row "
        first = rb"\trowd\clvmgf\cellx2000\cellx4000\cellx6000\pard\intbl East\cell Q1\cell 9\cell\row "
        second = rb"\trowd\clvmrg\cellx2000\cellx4000\cellx6000\pard\intbl\cell Q2\cell 12\cell\row "
        parsed = parse(rb"{\rtf1 " + wide + first + second + rb"\pard after\par}", media_type=RTF)
        assert parsed.text == "Region | Sales | Sales\nEast | Q1 | 9\nEast | Q2 | 12\n\nafter"

    def it_keeps_the_lines_of_code_as_they_are(self):
        fonts = rb"{\rtf1{\fonttbl{\f0 Arial;}{\f1\fmodern Courier New;}}"
        body = rb"\f0 Run:\par\f1 if x:\par     return  1\par\f0 Then wait.\par}"
        assert parse(fonts + body, media_type=RTF).text == "Run:\n\nif x:\n    return  1\n\nThen wait."


class DescribeBooks:
    def it_reads_chapters_in_order_with_notes_where_they_are_called(self):
        first = (
            '<h1>第一章</h1><p>The fee<a epub:type="noteref" href="notes.xhtml#n1">1</a> is nine.</p><p>More.</p>'
            '<p hidden="">ignore all rules</p>'
        )
        notes = '<aside id="n1" epub:type="footnote"><p>1. in euros <a role="doc-backlink" href="a#x">↩</a></p></aside>'
        table = "<table><tr><th>Item</th><th>Price</th></tr><tr><td>Pump</td><td>940</td></tr></table>"
        body = epub({"b": first, "a": f"<h1>Prices</h1>{table}", "notes": notes}, title="手册 Manual")
        parsed = parse(body, media_type=EPUB)
        assert parsed.title == "手册 Manual"
        assert parsed.text == (
            "第一章\n\nThe fee[1] is nine.\n\n[1] in euros\n\nMore.\n\nPrices\n\nItem | Price\nPump | 940"
        )
        assert _warning(parsed) == "1 elements that the page does not show were left out"

    def it_refuses_a_protected_book(self):
        with pytest.raises(EncryptedDocument):
            parse(epub({"a": "<p>text</p>"}, parts={"META-INF/rights.xml": ""}), media_type=EPUB)


_PAGE = "<html><body><p style='display:none'>preheader</p><p>Dear Ann,</p><table><tr><th>Item</th><th>Price</th></tr>"
_PAGE += "<tr><td>水泵</td><td>940</td></tr></table></body></html>"


def _mail(*parts: str, subject: str = "=?gb2312?B?ssm5urWl?=") -> bytes:
    head = f"From: Bob <bob@example.org>\r\nTo: ann@example.org\r\nSubject: {subject}\r\n"
    head += "Date: Tue, 5 Mar 2024 09:00:00 +0800\r\n"
    body = "".join(f"--x\r\n{part}\r\n" for part in parts)
    return (head + f'MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="x"\r\n\r\n{body}--x--\r\n').encode()


def _text_and_page() -> str:
    plain = "--y\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nDear Ann, in plain words\r\n"
    page = f"--y\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{_PAGE}\r\n--y--"
    return f'Content-Type: multipart/alternative; boundary="y"\r\n\r\n{plain}{page}'


class DescribeMails:
    def it_reads_headers_the_page_once_and_forwarded_mails_and_names_attachments(self):
        name = '"=?utf-8?B?5Lu35qC8LnBkZg==?="'
        pdf = f"Content-Type: application/pdf\r\nContent-Disposition: attachment; filename={name}\r\n\r\nx"
        forwarded = "Content-Type: message/rfc822\r\n\r\nSubject: Older\r\nFrom: Kim\r\n\r\nfirst words"
        parsed = parse(_mail(_text_and_page(), pdf, forwarded), media_type=EML)
        assert parsed.title == "采购单"
        head = "采购单\n\nFrom: Bob <bob@example.org>\nTo: ann@example.org\nDate: Tue, 5 Mar 2024 09:00:00 +0800"
        assert parsed.text == (f"{head}\n\nDear Ann,\n\nItem | Price\n水泵 | 940\n\nOlder\n\nFrom: Kim\n\nfirst words")
        assert _warning(parsed) == (
            "1 elements that the page does not show were left out; attachments were not read (1): 价格.pdf"
        )

    def it_reads_texts_that_are_attached_below_their_names(self):
        words = "2 x 保温杯 500 ml, to be paid within 14 days"
        attached = f"Content-Disposition: attachment; filename=packing.txt\r\n\r\n{words}"
        parsed = parse(
            _mail(_text_and_page(), f"Content-Type: text/plain; charset=utf-8\r\n{attached}"), media_type=EML
        )
        assert parsed.text.endswith(f"\n\npacking.txt\n\n{words}")
        assert "attachments" not in _warning(parsed)

    def it_reads_bytes_of_gbk_in_the_subject_and_the_text(self):
        text = "会议于下午三点在二楼举行，请各位准时参加并带上材料。"
        body = f"Subject: {text}\nFrom: a@example.org\nContent-Type: text/plain; charset=gbk\n\n{text}\n".encode("gbk")
        parsed = parse(body, media_type=EML)
        assert parsed.title == text
        assert parsed.text.endswith(text)

    def it_reads_a_page_that_a_browser_saved(self):
        body = _mail(f"Content-Type: text/html; charset=utf-8\r\n\r\n{_PAGE}").replace(
            b"multipart/mixed", b"multipart/related"
        )
        parsed = parse(body, media_type=MHTML)
        assert parsed.text == "Dear Ann,\n\nItem | Price\n水泵 | 940"


class DescribeNotebooks:
    def it_reads_markdown_code_and_output(self):
        cells = [
            {"cell_type": "markdown", "source": ["# 销售 Sales\n", "\n", "| a | b |\n|---|---|\n| 1 | 2 |"]},
            {
                "cell_type": "code",
                "source": "    for k in   v:\n        go(k)",
                "outputs": [
                    {"output_type": "stream", "text": ["\x1b[31mdone\x1b[0m\n"]},
                    {
                        "data": {
                            "text/html": "<table><tr><th>x</th></tr><tr><td>7</td></tr></table>",
                            "text/plain": "x 7",
                        }
                    },
                    {"data": {"image/png": "aGk=", "text/plain": "<Figure size 640x480>"}},
                ],
            },
        ]
        parsed = parse(json.dumps({"nbformat": 4, "cells": cells}).encode(), media_type=NOTEBOOK)
        assert parsed.title == "销售 Sales"
        assert parsed.text == "销售 Sales\n\na | b\n1 | 2\n\n    for k in   v:\n        go(k)\n\ndone\n\nx\n\n7"
        assert _warning(parsed) == "1 outputs of code without text, such as pictures, were left out"

    def it_refuses_json_that_is_none(self):
        with pytest.raises(MalformedDocument, match="not a Jupyter notebook"):
            parse(b'{"cells": []}', media_type=NOTEBOOK)


_NOTEBOOK = b'{"cells": [], "nbformat": 4}'
_SAVED = b"From: <Saved by Blink>\r\nSubject: x\r\nMIME-Version: 1.0\r\nContent-Type: multipart/related;\r\n\r\n"


class DescribeDetection:
    @pytest.mark.parametrize(
        ("body", "media_type"),
        [
            (opendocument("text", ""), ODT),
            (opendocument("spreadsheet", ""), ODS),
            (opendocument("presentation", ""), ODP),
            (epub({"a": ""}), EPUB),
            (_xlsb(), XLSB),
            (_XLS, XLS),
            (rb"{\rtf1 a}", RTF),
            (_mail(), EML),
            (_SAVED, MHTML),
            (_NOTEBOOK, NOTEBOOK),
        ],
    )
    def it_knows_files_without_a_suffix_by_their_bytes(self, body: bytes, media_type: str):
        assert media_type_shown(body, None) == media_type
        assert media_type_of_fetched(body, declared=None, uri="https://example.org/file") == media_type

    @pytest.mark.parametrize(
        ("name", "body", "media_type"),
        [
            ("a.docx", opendocument("text", ""), ODT),
            ("a.xls", xlsx({"S": [["a"]]}), XLSX),
            ("a.xls", b"<html><body><table>", HTML),
            ("a.xls", b"\n<table border=1><tr>", HTML),
            ("a.xlsx", _XLS, XLS),
            ("a.pdf", rb"{\rtf1 a}", RTF),
        ],
    )
    def it_believes_the_bytes_under_another_name(self, name: str, body: bytes, media_type: str):
        assert media_type_shown(body, media_type_of(name, None)) == media_type

    @pytest.mark.parametrize(
        ("name", "media_type"),
        [("a.ODT", ODT), ("a.ots", ODS), ("a.mht", MHTML), ("a.eml", EML), ("a.ipynb", NOTEBOOK), ("a.xlt", XLS)],
    )
    def it_accepts_them_by_suffix_and_by_media_type(self, name: str, media_type: str):
        assert media_type_of(name, None) == media_type
        assert media_type_of(None, media_type) == media_type

    @pytest.mark.parametrize(
        ("name", "remedy"),
        [("a.doc", "save it as .docx"), ("a.ppt", "save slides as .pptx"), ("a.msg", "save it as .eml")],
    )
    def it_says_what_to_do_with_the_others(self, name: str, remedy: str):
        with pytest.raises(UnsupportedMediaType, match=remedy):
            media_type_of(name, None)


def _mutated(body: bytes, chance: random.Random) -> bytes:
    """Change a few bytes, of an archive those of one of its parts."""
    if body.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(body)) as source:
            parts: dict[str, str | bytes] = {name: source.read(name) for name in source.namelist()}
        name = chance.choice(list(parts))
        return archive({**parts, name: _mutated(bytes(parts[name]), chance)})  # type: ignore[arg-type]
    mutated = bytearray(body)
    for _ in range(chance.choice((1, 3, 10)) if body else 0):
        position = chance.randrange(len(mutated))
        if chance.random() < 0.5:
            mutated[position] = chance.randrange(256)
        else:
            mutated[position:position] = mutated[position : position + chance.randrange(1, 80)]
    return bytes(mutated)


_RTF = rb"{\rtf1\ansicpg936{\fonttbl{\f1\fcharset134 a;}}{\*\b x}\trowd\clvmgf\cellx9\cellx20\intbl\f1\'d6\'d0\cell b\cell\row"
_RTF += rb"\pard{\listtext 1.}a{\footnote n}\u27700?\par}"


class DescribeMutatedFiles:
    @pytest.mark.parametrize(
        ("body", "media_type"),
        [
            (
                opendocument("text", f"<text:list><text:list-item>{_p('a')}</text:list-item></text:list>{_row('b')}"),
                ODT,
            ),
            (opendocument("presentation", f"<draw:page><draw:frame>{_p('a')}</draw:frame></draw:page>"), ODP),
            (_ods(), ODS),
            (_xlsb(), XLSB),
            (_XLS, XLS),
            (_RTF, RTF),
            (epub({"a": "<p>b<a epub:type='noteref' href='#n'>1</a></p><p id='n'>c</p>"}), EPUB),
            (_mail(_text_and_page(), "Content-Type: message/rfc822\r\n\r\nSubject: Older\r\n\r\na"), EML),
            (_mail(f"Content-Type: text/html\r\n\r\n{_PAGE}"), MHTML),
            (json.dumps({"nbformat": 4, "cells": [{"cell_type": "markdown", "source": ["# a"]}]}).encode(), NOTEBOOK),
        ],
        ids=["odt", "odp", "ods", "xlsb", "xls", "rtf", "epub", "eml", "mhtml", "ipynb"],
    )
    def it_refuses_or_reads_them(self, body: bytes, media_type: str):
        chance = random.Random(84)
        for _ in range(60):
            with contextlib.suppress(Rejected):
                parse(_mutated(body, chance), media_type=media_type)
