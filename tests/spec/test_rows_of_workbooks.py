"""A question for each table of ten workbooks, in shapes that statistics offices, companies and schools publish: the
first three hits of the keyword channel hold the row that answers it, readable alone."""

from __future__ import annotations

import datetime
import functools
import io
from collections.abc import Sequence

import pytest
from openpyxl import Workbook
from openpyxl.styles import Font

from pipeline.documents.cut_document import cut_document
from pipeline.parsing.formats import XLSX, parse
from pipeline.records import Chunking, Passage
from tests.support.corpora.small_collection import index, scores

Rows = Sequence[Sequence[object]]

_ZONES = ("North", "East", "South", "West", "Centre")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun")
_PROVINCES = ("山西", "湖南", "四川", "河南", "湖北", "江西")
_MAJORS = ("汉语言文学", "工程造价", "应用化学", "交通工程", "数学与应用数学", "小学教育")


def _segments(year: int, factor: int) -> list[list[object]]:
    names = ["", "Sales", "Trading operating profit", "", "of which restructuring costs"]
    rows = [[zone, factor * (n + 2), factor * (n + 1), None, -n] for n, zone in enumerate(_ZONES)]
    return [["In millions of CHF", None, None, None, f"January–June {year}"], names, [], *rows, []]


def _yield_of(crop: str, base: float) -> list[list[object]]:
    return [[f"{crop}"], *([province, base + n, (base + n) / 7] for n, province in enumerate(_PROVINCES))]


WORKBOOKS: dict[str, dict[str, Rows]] = {
    "half-year": {
        "Segments": [
            ["3. Analyses by segment"],
            [],
            ["Revenue and results"],
            [],
            *_segments(2023, 311),
            *_segments(2022, 207),
        ],
        "Notes": [["(a)", "Inter-segment sales are not significant."], ["(b)", "Before restructuring costs."]],
    },
    "index": {
        "Index": [
            ["Financial performance"],
            ["Topic", "Period", None, "Page"],
            ["Cash flow", "FY 22", "FY 23", 5],
            ["Quarterly revenue", "Nine quarters", None, 1],
            [],
            ["Operational metrics"],
            ["Topic", "Period", None, "Page"],
            ["Mobile churn", "Nine quarters", None, 11],
            ["TV customers", "Nine quarters", None, 9],
        ],
    },
    "voyage": {
        "Sheet1": [
            [None, None, "Child", None, "Adult"],
            [None, None, "Lost", "Saved", "Lost", "Saved"],
            ["Class", "Sex"],
            *(
                [c if s == "Men" else None, s, n, n + 3, n + 40, n + 61]
                for n, (c, s) in enumerate((c, s) for c in ("First", "Second", "Steerage") for s in ("Men", "Women"))
            ),
        ],
    },
    "election": {
        "Precincts": [
            [None, "Governor", None, "Treasurer"],
            [None, "Rep.", "Dem.", "Rep."],
            ["Precinct", "D. Kempe", "R. Hunt", "R. Crane"],
            [],
            ["ADA COUNTY"],
            *([n, 111 + n, 57 + n, 22 + n] for n in range(1, 9)),
            [],
            ["BOISE COUNTY"],
            *([n, 311 + n, 157 + n, 122 + n] for n in range(1, 9)),
        ],
    },
    "plan": {
        "Sheet1": [
            ["喀什大学2026年普通本科招生专业与计划"],
            ["学院", "专业名称", *_PROVINCES],
            *(
                [f"{major[:2]}学院", major, *(3 * n + k for k in range(len(_PROVINCES)))]
                for n, major in enumerate(_MAJORS)
            ),
        ],
    },
    "harvest": {
        "产量": [
            ["表3 主要农作物产量"],
            ["单位：万吨"],
            ["地区", "产量", "人均产量"],
            *_yield_of("水稻", 400),
            *_yield_of("小麦", 900),
        ],
    },
    "datasheet": {
        "Page 1": [
            ["Item", "Requirement", "Unit", "Value"],
            ["Environment"],
            ["1", "Humidity", "%", "100"],
            ["2", "Ambient temperature", "°C", "40"],
            ["Power system"],
            ["3", "Rated voltage", "kV", "130"],
            ["4", "Rated frequency", "Hz", "50"],
            ["5", "Phases", None, "3"],
        ],
    },
    "load": {
        "Preschedule": [
            [datetime.date(2002, 1, 25)],
            [None, *range(1, 13)],
            *(
                [name, *(base + hour for hour in range(12))]
                for name, base in (("Load", 629), ("Purchases", 50), ("Palo Verde", 75))
            ),
        ],
    },
    "budget": {
        "Expense": [
            ["West Office"],
            ["2002 Direct Expense Plan"],
            [None, 2001, 2001, 2002],
            [None, "Forecast", "Plan", "Plan"],
            *(
                [name, 87 * n, 99 * n, 110 * n]
                for n, name in enumerate(("Salaries", "Payroll taxes", "Travel", "Consulting"), 1)
            ),
        ],
    },
    "prices": {
        "Price list": [
            ["Price list 2024"],
            ["Part no.", "Name", "Price", "Margin", "Valid from"],
            *(
                [f"PX-{n:03}", f"Valve size {n}", 4.5 * n, 0.2 + n / 700, datetime.date(2024, 1 + n % 12, 1)]
                for n in range(1, 60)
            ),
        ],
        "Opening hours": [["Branch", "Mon–Fri", "Sat"], ["Kiel", "9–18", "9–13"], ["Bonn", "8–17", "closed"]],
    },
}

QUESTIONS = [
    ("trading operating profit of East in January–June 2023", ["East", "Sales: 933", "Trading operating profit: 622"]),
    ("On which page is mobile churn?", ["Topic: Mobile churn", "Page: 11"]),
    ("On which page of financial performance is cash flow?", ["Topic: Cash flow", "Page: 5"]),
    ("How many adult women of the second class were saved?", ["Class: Second", "Sex: Women", "Adult Saved: 64"]),
    ("Votes for Kempe in precinct 4 of Boise County", ["BOISE COUNTY", "Precinct: 4", "Governor Rep. D. Kempe: 315"]),
    ("喀什大学 工程造价 在河南的招生计划", ["专业名称: 工程造价", "河南: 6"]),
    ("湖北小麦的人均产量", ["小麦", "地区: 湖北", "产量: 904"]),
    ("What is the rated frequency of the power system?", ["Power system", "Requirement: Rated frequency", "Value: 50"]),
    ("Palo Verde preschedule", ["Palo Verde", "7: 81"]),
    ("Payroll taxes plan 2002", ["Payroll taxes", "2002 Plan: 220"]),
    ("What does PX-047 cost?", ["Part no.: PX-047", "Price: 211.50", "Margin: 26.7%", "Valid from: 2024年12月1日"]),
    ("Opening hours of the branch in Bonn on Sat", ["Branch: Bonn", "Sat: closed"]),
]


def _saved(sheets: dict[str, Rows]) -> bytes:
    workbook = Workbook()
    workbook.remove(workbook.active)
    for name, rows in sheets.items():
        sheet = workbook.create_sheet(name)
        for number, row in enumerate(rows, start=1):
            for column, value in enumerate(row, start=1):
                if value is not None and value != "":
                    sheet.cell(number, column, value)
            if len(row) == 1:
                sheet.cell(number, 1).font = Font(bold=True)
            if name == "Price list" and len(row) == 5:
                formats = (None, None, "0.00", "0.0%", 'yyyy"年"m"月"d"日"')
                for column, code in enumerate(formats, start=1):
                    if code:
                        sheet.cell(number, column).number_format = code
    out = io.BytesIO()
    workbook.save(out)
    return out.getvalue()


@functools.cache
def passages() -> list[tuple[Passage, str | None]]:
    """Return the passages of all workbooks with their titles."""
    found: list[tuple[Passage, str | None]] = []
    for name, sheets in WORKBOOKS.items():
        parsed = parse(_saved(sheets), media_type=XLSX, filename=f"{name}.xlsx")
        cut = cut_document(parsed, title=None, chunking=Chunking(), tokenizer=None, most=1000)
        found += [(passage, cut.title) for passage in cut.passages]
    return found


class DescribeRowsOfWorkbooks:
    @pytest.mark.parametrize(("question", "row"), QUESTIONS)
    def it_finds_the_row_among_the_first_three(self, question: str, row: Sequence[str]):
        found, _ = scores(question, [index(passage, title) for passage, title in passages()])
        best = sorted(range(len(found)), key=lambda place: -found[place])[:3]
        rows = [text for place in best for text in passages()[place][0].text.split("\n\n")]
        assert any(all(part in text.split("\n") for part in row) for text in rows), rows

    def it_shows_the_values_behind_those_of_a_sheet(self):
        [priced] = [passage for passage, _ in passages() if "PX-047" in passage.text]
        assert priced.segment is not None
        assert priced.segment.attributes["26.7%"] == "0.267142857143"
        assert priced.segment.attributes["2024年12月1日"] == "2024-12-01"
        assert sum(len(shown) + len(behind) for shown, behind in priced.segment.attributes.items()) <= 1000

    def it_leaves_no_passage_of_a_heading_alone(self):
        assert all(len(passage.text.split("\n\n")) > 1 or "\n" in passage.text for passage, _ in passages())
