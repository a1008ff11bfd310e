"""The cells of workbooks: as openpyxl reads them, and where it stops."""

from __future__ import annotations

import datetime
import io

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import MalformedDocument
from pipeline.parsing.formats import CSV, XLSX, parse
from pipeline.parsing.sheets import Row, column_letters, column_number
from pipeline.parsing.workbook import open_workbook
from tests.support.corpora.formats import with_part, xlsx

_SHEET = "xl/worksheets/sheet1.xml"
_HEAD = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'


def rows(body: bytes) -> list[Row]:
    with open_workbook(body) as workbook:
        [sheet] = workbook.sheets
        return list(workbook.rows(sheet, workbook.open(sheet)))


def of_xml(cells: str, *, strings: str = "") -> list[Row]:
    body = with_part(xlsx({"s": [["x"]]}), _SHEET, f"{_HEAD}<sheetData>{cells}</sheetData></worksheet>")
    return rows(body)


def saved(*values: object, formats: dict[int, str] | None = None) -> bytes:
    workbook = openpyxl.Workbook()
    workbook.active.append(values)
    for column, code in (formats or {}).items():
        workbook.active.cell(1, column).number_format = code
    out = io.BytesIO()
    workbook.save(out)
    return out.getvalue()


class DescribeCells:
    @pytest.mark.parametrize(
        ("value", "number_format", "text"),
        [
            ("  shared text ", None, "shared text"),
            (3, None, "3"),
            (3.0, None, "3"),
            (0.1, None, "0.1"),
            (-2.5e-7, None, "-2.5e-07"),
            (10**20, None, "1e+20"),
            (True, None, "TRUE"),
            (datetime.datetime(2026, 1, 2), None, "2026-01-02"),
            (datetime.datetime(2026, 1, 2, 3, 4, 5), None, "2026-01-02 03:04:05"),
            (datetime.date(2026, 1, 2), None, "2026-01-02"),
            (datetime.time(12, 30), None, "12:30:00"),
            (datetime.timedelta(hours=30), "[h]:mm:ss", "30:00:00"),
            (44197, 'yyyy"年"m"月"', "2021年1月"),
            (45413, 'yyyy"年"m"月"d"日";@', "2024年5月1日"),
            (45413, "mmm-yy", "May-24"),
            (45413, "d-mmm", "1-May"),
            (45413, "[$-409]dddd, mmmm d, yyyy", "Wednesday, May 1, 2024"),
            (45413, "aaaa", "星期三"),
            (45413.75, "yyyy/m/d h:mm AM/PM", "2024/5/1 6:00 PM"),
            (45413.75, '上午/下午h"时"mm"分"', "下午6时00分"),
            (1.26, "[h]:mm", "30:14"),
            (0.0104, "mm:ss.0", "14:59"),
            (5, '"ID-"@', "ID-5"),
            ("A7", '"ID-"@', "ID-A7"),
            ("A7", "#,##0;-#,##0;-;@", "A7"),
            (12.34, '0.0"万元"', "12.3万元"),
            (5, 'General" kg"', "5 kg"),
            (1 / 3, None, "0.3333333333"),
            (44197, "[Red]0.00", "44197.00"),
            (44197, '0.00" days"', "44197.00 days"),
            (0.235, "0.0%", "23.5%"),
            (7089, "00000", "07089"),
            (-1234.5, "#,##0.00", "-1,234.50"),
            (-1234.5, "#,##0.0;(#,##0.0)", "(1,234.5)"),
            (120, '0"万元"', "120万元"),
            (1234567, '0.0,," Mio"', "1.2 Mio"),
            (12.5, "[$€-407]0.00", "€12.50"),
            (0, '0;-0;"none"', "none"),
            (44197, "[Magenta]General", "44197"),
            (0.0625, "[h]:mm", "1:30"),
            (0.0625, "[hh]:mm", "01:30"),
            (45413, "ddd d mmm yyyy", "Wed 1 May 2024"),
            (45413, "[$-804]yyyy年m月d日 dddd", "2024年5月1日 星期三"),
            (45413, "[$-zh-CN]yyyy年m月d日 ddd", "2024年5月1日 周三"),
        ],
    )
    def it_reads(self, value, number_format, text):
        [row] = rows(saved(value, formats={1: number_format} if number_format else None))
        assert row.cells == {0: text}

    @pytest.mark.parametrize(
        ("value", "number_format", "stored"),
        [
            (0.23491, "0.0%", "0.23491"),
            (45413, 'm"月"d"日"', "2024-05-01"),
            (1234567, "0.0,,", "1234567"),
            (0.235, "0.0%", None),
            (1234.5, "#,##0.00", None),
            (7089, "00000", None),
            (datetime.date(2026, 1, 2), None, None),
        ],
    )
    def it_keeps_the_value_behind_a_shown_one(self, value, number_format, stored):
        [row] = rows(saved(value, formats={1: number_format} if number_format else None))
        assert getattr(row.cells[0], "stored", None) == stored

    @settings(max_examples=30)
    @given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn"))), max_size=8))
    def it_reads_text_as_openpyxl_does(self, texts):
        body = saved("first", *texts)
        found = rows(body)[0].cells
        sheet = openpyxl.load_workbook(io.BytesIO(body), read_only=True, data_only=True).worksheets[0]
        [values] = sheet.iter_rows(values_only=True)
        assert found == {n: value.strip() for n, value in enumerate(values) if isinstance(value, str) and value.strip()}

    def it_decodes_what_xml_cannot_hold(self):
        [row] = of_xml('<row r="1"><c r="A1" t="inlineStr"><is><t>a_x000A_b_xD800_</t></is></c></row>')
        assert row.cells == {0: "a\nb\ufffd"}

    def it_leaves_out_how_words_are_read(self):
        [row] = of_xml(
            '<row><c t="inlineStr"><is><r><t>血</t></r><r><t>压</t></r><rPh><t>ketsu</t></rPh></is></c></row>'
        )
        assert (row.number, row.cells) == (1, {0: "血压"})

    def it_counts_places_that_are_not_said(self):
        found = of_xml('<row r="3"><c r="B3"><v>1</v></c><c><v>2</v></c></row><row><c><v>3</v></c></row>')
        assert [(row.number, row.cells) for row in found] == [(3, {1: "1", 2: "2"}), (4, {0: "3"})]

    def it_spends_nothing_on_the_gap_between_two_far_cells(self):
        found = of_xml('<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>')
        assert [(row.number, row.cells) for row in found] == [(1, {0: "1"}), (1_048_576, {16_383: "2"})]

    @pytest.mark.parametrize(
        "cells",
        [
            '<row r="1"><c r="XFE1"><v>1</v></c></row>',
            '<row r="1"><c r="1A"><v>1</v></c></row>',
            '<row r="0"/>',
            '<row r="1048577"/>',
            '<row r="1"><c t="s"><v>5</v></c></row>',
            '<row r="1"><c t="s"><v>-</v></c></row>',
            '<row r="1"><c><v>1,5</v></c></row>',
            "<row>",
        ],
    )
    def it_refuses_what_no_workbook_has(self, cells):
        with pytest.raises(MalformedDocument):
            of_xml(cells)


class DescribeColumns:
    @pytest.mark.parametrize(("letters", "number"), [("A", 0), ("Z", 25), ("AA", 26), ("XFD", 16383)])
    def it_counts_in_letters(self, letters, number):
        assert (column_number(letters), column_letters(number)) == (number, letters)


class DescribeLinesOfLabels:
    def it_knows_them_by_another_look_than_the_cells_below(self):
        workbook = openpyxl.Workbook()
        for values in (["Part", "Count", "Price"], ["Bolt", 3, 9], ["Pipes"], ["Elbow", 1, 2], ["Seal"], ["Tee", 5, 6]):
            workbook.active.append(values)
        workbook.active["A4"].font = openpyxl.styles.Font(bold=True)
        out = io.BytesIO()
        workbook.save(out)
        found = parse(out.getvalue(), media_type=XLSX).text.split("\n\n")[1:]
        assert found == [
            "Part: Bolt\nCount: 3\nPrice: 9",
            "Pipes\nPart: Elbow\nCount: 1\nPrice: 2",
            "Pipes\nPart: Seal",
            "Pipes\nPart: Tee\nCount: 5\nPrice: 6",
        ]


class DescribeATitleOverATable:
    @pytest.mark.parametrize(
        ("title", "header", "row", "text"),
        [
            ("Spare parts 2026", ["Name", "Count"], ["Bolt", "3"], "Name: Bolt\nCount: 3"),
            ("备件清单", ["名称", "数量"], ["螺栓", "3"], "名称: 螺栓\n数量: 3"),
        ],
    )
    def it_is_text_and_no_header(self, title, header, row, text):
        workbook = openpyxl.Workbook()
        for values in ([title], [], header, row):
            workbook.active.append(values)
        workbook.active.merge_cells("A1:B1")
        out = io.BytesIO()
        workbook.save(out)
        parsed = parse(out.getvalue(), media_type=XLSX)
        assert parsed.text == f"Sheet\n\n{title}\n\n{text}"
        table = "\n".join(",".join(values) for values in ([title, ""], header, row))
        assert parse(table.encode(), media_type=CSV).text == f"{title}\n\n{text}"

    def it_is_the_header_of_a_table_of_one_column(self):
        assert parse("名称\n螺栓\n".encode(), media_type=CSV).text == "名称: 螺栓"
