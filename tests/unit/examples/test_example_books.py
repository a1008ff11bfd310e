"""Books of examples: names people use, values they type, and reports of wrong rows."""

from __future__ import annotations

import io

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordwise.contract.example import BookFlaw
from pipeline.chunking.cut import chunk
from pipeline.chunking.tokens import count_tokens
from pipeline.errors import DocumentTooLarge
from pipeline.examples.checks import Checked, check
from pipeline.examples.example import Category, upload_of
from pipeline.examples.headings import category_of, column_of, lines, one_line, split_tags
from pipeline.examples.json_book import json_tables
from pipeline.examples.template import template
from pipeline.examples.workbook_book import read_tables, workbook_tables
from pipeline.parsing.formats import PLAIN, parse
from tests.support.corpora.formats import with_part, xlsx

HEADER = ["user_input", "agent_response", "tags", "quality_grade", "notes"]


def book(sheets: dict[str, list[list[object]]], *, most_rows: int = 1000) -> Checked:
    return check(workbook_tables(read_tables(xlsx(sheets)), most_rows=most_rows))


def qa(*rows: list[object]) -> Checked:
    return book({"qa": [HEADER, *rows]})


def saved(workbook: openpyxl.Workbook) -> Checked:
    out = io.BytesIO()
    workbook.save(out)
    return check(workbook_tables(read_tables(out.getvalue()), most_rows=1000))


def filled(*rows: list[object], title: str = "qa") -> openpyxl.Workbook:
    workbook = openpyxl.Workbook()
    workbook.active.title = title
    for row in rows:
        workbook.active.append(row)
    return workbook


def told(flaws: list[BookFlaw]) -> list[tuple[int | None, str | None, str]]:
    return [(flaw.row, flaw.column, flaw.code) for flaw in flaws]


class DescribeNames:
    @pytest.mark.parametrize(
        ("sheet", "category"),
        [
            ("qa", "qa"),
            ("QA_examples", "qa"),
            ("QA示例", "qa"),
            ("ＱＡ示例表", "qa"),
            ("健康咨询类问题", "qa"),
            ("record", "record"),
            ("记录示例", "record"),
            ("Query Examples", "query"),
            ("查询（最近一周）", "query"),
            ("greeting-examples", "greeting"),
            ("问候", "greeting"),
            ("Sheet1", None),
            ("表", None),
            ("示例", None),
            ("", None),
        ],
    )
    def it_knows_what_a_sheet_is_for(self, sheet, category):
        assert category_of(sheet) == category

    @pytest.mark.parametrize(
        ("header", "column"),
        [
            ("user_input", "user_input"),
            ("User Input *", "user_input"),
            ("用户输入（必填）", "user_input"),
            ("Agent回复", "agent_response"),
            ("助手回复", "agent_response"),
            ("标签", "tags"),
            ("质量等级 [选填]", "quality_grade"),
            ("备注", "notes"),
            ("创建时间", None),
            ("", None),
        ],
    )
    def it_knows_what_a_column_holds(self, header, column):
        assert column_of(header) == column


class DescribeValues:
    @pytest.mark.parametrize(
        ("cell", "tags"),
        [
            ("a,b", ["a", "b"]),
            ("健康咨询，高血压；用药、饮食;其他", ["健康咨询", "高血压", "用药", "饮食", "其他"]),
            ("a | b\nc\td", ["a", "b", "c", "d"]),
            (" , ，, ", []),
            ("blood pressure", ["blood pressure"]),
        ],
    )
    def it_splits_tags(self, cell, tags):
        assert split_tags(cell) == tags

    @pytest.mark.parametrize(
        ("text", "tidy"),
        [("a \r\n\r\n  b\tc", "a\nb c"), ("　您好　", "您好"), ("a\u200bb\x00", "ab"), ("\n\n", "")],
    )
    def it_tidies_white_space_and_keeps_lines(self, text, tidy):
        assert lines(text) == tidy

    @given(st.text())
    def it_changes_nothing_the_second_time(self, text):
        assert lines(lines(text)) == lines(text)
        assert one_line(one_line(text)) == one_line(text)


class DescribeRows:
    def it_becomes_an_example(self):
        checked = qa(["  头晕\n怎么办？", "先坐下。\r\n\r\n 再量血压。", "急症，头晕,头晕", " 优秀 ", "secret"])
        [example] = checked.examples
        assert (example.user_input, example.agent_response) == ("头晕 怎么办？", "先坐下。\n再量血压。")
        assert (example.tags, example.quality_grade, example.row) == (("急症", "头晕"), "优秀", 2)
        assert (checked.errors, checked.warnings) == ([], [])
        assert "secret" not in repr(upload_of(example, book=None))

    @pytest.mark.parametrize(
        ("row", "column", "code"),
        [
            (["", "a"], "user_input", "required"),
            (["q", "\u200b"], "agent_response", "required"),
            (["q", "a", "", "很好"], "quality_grade", "invalid_grade"),
            (["q", "a", "", "=1+1"], "quality_grade", "formula_without_value"),
            (["q", "a", "x" * 129], "tags", "tag_too_long"),
            (["q", "a", ",".join(map(str, range(65)))], "tags", "too_many_tags"),
            (["q", "药" * 5000], "agent_response", "too_long"),
            (["q" * 15000, "a"], "user_input", "too_long"),
        ],
    )
    def it_is_refused_with_sheet_row_and_column(self, row, column, code):
        checked = qa(["good", "row"], row)
        assert told(checked.errors) == [(3, column, code)]
        assert (checked.errors[0].sheet, len(checked.examples)) == ("qa", 1)
        assert str(checked.errors[0]).startswith(f"sheet qa, row 3, column {column}: ")

    def it_tells_every_fault_of_a_row(self):
        checked = qa(["", "", "", "坏"])
        assert told(checked.errors) == [
            (2, "user_input", "required"),
            (2, "agent_response", "required"),
            (2, "quality_grade", "invalid_grade"),
        ]
        assert [flaw.cell for flaw in checked.errors] == ["A2", "B2", "D2"]
        assert checked.statistics[Category.QA].refused == 1

    def it_is_left_out_if_blank_and_counted(self):
        checked = qa(["q", "a"], [None] * 5, ["  ", "\u3000", None, None, "only a note"], ["q2", "a2"], [""])
        statistics = checked.statistics[Category.QA]
        assert (statistics.read, statistics.accepted, statistics.blank) == (2, 2, 2)

    def it_is_not_imported_twice(self):
        checked = qa(["q", "a"], ["q ", "a", "tag"], ["q", "another"])
        assert told(checked.warnings) == [(3, None, "duplicate_row"), (4, None, "near_duplicate_row")]
        statistics = checked.statistics[Category.QA]
        assert (statistics.read, statistics.accepted, statistics.duplicates) == (3, 2, 1)
        assert len({example.document_id for example in checked.examples}) == 2

    @settings(max_examples=30)
    @given(st.lists(st.sampled_from(["q", "r", "", "坏"]), max_size=12))
    def it_is_accepted_refused_or_a_duplicate(self, inputs):
        rows = [
            {"user_input": text, "agent_response": "a", "quality_grade": text if text == "坏" else ""}
            for text in inputs
        ]
        found = check(json_tables({"qa": rows}, most_rows=100)).statistics[Category.QA]
        assert found.read == found.accepted + found.refused + found.duplicates == len(rows)


class DescribeIdentity:
    def it_survives_a_corrected_answer_and_a_moved_row(self):
        before = {e.user_input: e.document_id for e in qa(["q", "a"], ["r", "b"]).examples}
        after = {e.user_input: e.document_id for e in qa(["r", "b!"], [], ["q", "a!"]).examples}
        assert before == after

    def it_keeps_its_place_while_the_row_before_it_is_wrong(self):
        both = [e.document_id for e in qa(["q", "a"], ["q", "b"]).examples]
        second = [e.document_id for e in qa(["q", "a", "", "坏"], ["q", "b"]).examples]
        assert second == both[1:]

    def it_differs_between_categories(self):
        checked = book({"qa": [HEADER, ["q", "a"]], "record": [HEADER, ["q", "a"]]})
        assert [e.document_id.partition("-")[0] for e in checked.examples] == ["qa", "record"]

    def it_may_be_given(self):
        rows = [["编号", "问题", "回答"], [7, "q", "a"], [8.0, "r", "b"], ["7", "s", "c"]]
        checked = book({"qa": rows})
        assert [e.document_id for e in checked.examples] == ["qa-7", "qa-8"]
        assert told(checked.errors) == [(4, "id", "duplicate_id")]


class DescribeWorkbooks:
    def it_takes_chinese_headers_below_a_heading(self):
        [example] = book({"记录": [["示例库"], [], ["助手回复", "用户输入"], ["已记录", "血压120"]]}).examples
        assert (example.category, example.user_input, example.row) == ("record", "血压120", 4)

    @pytest.mark.parametrize(
        ("rows", "row", "column", "code"),
        [
            ([["q", "a"], ["r", "b"]], 1, None, "no_header"),
            ([["user_input", "tags"], ["q", "a"]], 1, "agent_response", "missing_column"),
            ([["user_input", "问题", "回答"], ["q", "a"]], 1, "user_input", "repeated_column"),
        ],
    )
    def it_refuses_a_sheet_it_cannot_read_and_no_other(self, rows, row, column, code):
        checked = book({"qa": rows, "greeting": [HEADER, ["hi", "hello"]]})
        assert told(checked.errors) == [(row, column, code)]
        assert [example.category for example in checked.examples] == ["greeting"]
        found = checked.statistics[Category.QA]
        assert found.read == found.refused > 0

    def it_names_sheets_and_columns_that_it_leaves_out(self):
        sheets = {"qa": [[*HEADER[:2], "作者"], ["q", "a", "Li", "loose"]], "Sheet9": [["x"]], "说明": [["guide"]]}
        checked = book(sheets)
        assert [(flaw.sheet, flaw.column, flaw.code) for flaw in checked.warnings] == [
            ("Sheet9", None, "unknown_sheet"),
            ("qa", "作者", "unknown_column"),
            ("qa", "D", "unknown_column"),
        ]
        assert len(checked.examples) == 1

    def it_leaves_out_hidden_sheets_and_reads_hidden_rows(self):
        workbook = filled(HEADER, ["q", "a"], ["r", "b"])
        workbook.active.row_dimensions[3].hidden = True
        workbook.create_sheet("query").append(HEADER)
        workbook["query"].append(["x", "y"])
        workbook["query"].sheet_state = "veryHidden"
        checked = saved(workbook)
        assert len(checked.examples) == 2
        assert told(checked.warnings) == [(None, None, "hidden_sheet"), (3, None, "hidden_rows")]

    def it_takes_a_merged_value_for_every_row_it_covers(self):
        workbook = filled(HEADER, ["q", "a", "t1，t2", "良好"], ["r", "b"], ["s", "c"], ["t", "d"])
        workbook.active.merge_cells("C2:C4")
        checked = saved(workbook)
        assert [example.tags for example in checked.examples] == [("t1", "t2")] * 3 + [()]
        assert [flaw.code for flaw in checked.warnings] == ["merged_cells"]

    def it_takes_formulas_for_text_or_for_their_value(self):
        cells = (
            '<row r="1"><c r="A1" t="inlineStr"><is><t>user_input</t></is></c>'
            '<c r="B1" t="inlineStr"><is><t>agent_response</t></is></c></row>'
            '<row r="2"><c r="A2" t="str"><f>CONCAT("q",1)</f><v>q1</v></c>'
            '<c r="B2" t="inlineStr"><is><t>=HYPERLINK("http://x","y")</t></is></c></row>'
            '<row r="3"><c r="A3" t="e"><f>1/0</f><v>#DIV/0!</v></c><c r="B3" t="inlineStr"><is><t>b</t></is></c></row>'
        )
        head = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
        body = with_part(xlsx({"qa": [["x"]]}), "xl/worksheets/sheet1.xml", f"{head}{cells}</sheetData></worksheet>")
        checked = check(workbook_tables(read_tables(body), most_rows=10))
        [example] = checked.examples
        assert (example.user_input, example.agent_response) == ("q1", '=HYPERLINK("http://x","y")')
        assert told(checked.errors) == [(3, "user_input", "error_value")]

    def it_takes_no_more_rows_than_allowed(self):
        with pytest.raises(DocumentTooLarge):
            book({"qa": [HEADER, *([f"q{n}", "a"] for n in range(6))]}, most_rows=5)


class DescribeJson:
    @pytest.mark.parametrize(
        ("row", "column", "code"),
        [
            ({"user_input": 1, "agent_response": "a"}, "user_input", "wrong_type"),
            ({"user_input": "q", "agent_response": "a", "tags": [1]}, "tags", "wrong_type"),
            ({"user_input": "q", "agent_response": "a", "tags": {"a": 1}}, "tags", "wrong_type"),
            ({"user_input": "q", "agent_response": "a", "quality_grade": 1}, "quality_grade", "invalid_grade"),
            ({"user_input": "q", "agent_response": "a", "quality_grade": ["优秀"]}, "quality_grade", "invalid_grade"),
            ({"user_input": "q", "agent_response": "a", "问题": "r"}, "user_input", "repeated_column"),
            ({"user_input": "q", "agent_response": "a", "id": "x" * 49}, "id", "id_too_long"),
            ("q", None, "wrong_type"),
        ],
    )
    def it_refuses_rows_like_those_of_sheets(self, row, column, code):
        checked = check(json_tables({"qa_examples": [{"user_input": "q", "agent_response": "b"}, row]}, most_rows=10))
        assert told(checked.errors) == [(2, column, code)]
        assert (checked.errors[0].sheet, len(checked.examples)) == ("qa_examples", 1)

    def it_leaves_out_blank_rows_and_unknown_keys(self):
        rows = [
            None,
            {},
            {"user_input": "", "tags": [], "notes": "x"},
            {"user_input": "q", "agent_response": "a", "x": 1},
        ]
        checked = check(json_tables({"greeting": rows, "other": [], "qa": {}}, most_rows=10))
        assert checked.statistics[Category.GREETING].blank == 3
        assert [(flaw.sheet, flaw.code) for flaw in (*checked.warnings, *checked.errors)] == [
            ("other", "unknown_sheet"),
            ("greeting", "unknown_column"),
            ("qa", "wrong_type"),
        ]


class DescribeItsDocument:
    @settings(max_examples=30)
    @given(
        user_input=st.text("头晕a 。1.\n", min_size=1, max_size=300),
        agent_response=st.text("药b！ ，9x\n。", min_size=1, max_size=600),
    )
    def it_is_one_chunk_if_it_fits(self, user_input, agent_response):
        rows = [{"user_input": user_input, "agent_response": agent_response}]
        for example in check(json_tables({"qa": rows}, most_rows=1)).examples:
            upload = upload_of(example, book="b.xlsx")
            parsed = parse(upload.body, media_type=PLAIN)
            assert parsed.text == example.text
            if count_tokens(example.text) <= 512:
                assert [passage.text for passage in chunk(parsed, upload.chunking)] == [example.text]

    def it_keeps_both_parts_apart(self):
        [example] = qa(["q", "a b", "t", "良好"]).examples
        upload = upload_of(example, book="b.xlsx")
        assert upload.body == b"q a b"
        assert (upload.fields.type, upload.fields.tags, upload.fields.title) == ("qa", ("t",), None)
        assert dict(upload.fields.metadata) == {
            "user_input": "q",
            "agent_response": "a b",
            "quality_grade": "良好",
            "sheet": "qa",
            "row": 2,
            "book": "b.xlsx",
        }


class DescribeTheTemplate:
    def it_offers_the_grades_and_a_guide(self):
        workbook = openpyxl.load_workbook(io.BytesIO(template()))
        assert workbook.sheetnames == ["说明", "qa", "record", "query", "greeting"]
        for sheet in workbook.worksheets[1:]:
            assert [cell.value for cell in sheet[1]] == HEADER
            [choices] = sheet.data_validations.dataValidation
            assert (choices.formula1, "D2" in choices.sqref) == ('"优秀,良好,一般"', True)

    def it_can_be_imported_as_it_is(self):
        checked = check(workbook_tables(read_tables(template()), most_rows=10))
        assert [example.category for example in checked.examples] == list(Category)
        assert (checked.errors, checked.warnings) == ([], [])
