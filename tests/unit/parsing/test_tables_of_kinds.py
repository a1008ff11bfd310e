"""Tables that people write in other shapes: forms, units below a header, tables beside each other, tables without tags."""

from __future__ import annotations

import io

import pytest
from openpyxl import Workbook

from pipeline.documents.clean_text import joined
from pipeline.documents.cut_document import cut_document
from pipeline.parsing.formats import DOCX, HTML, XLSB, XLSX, media_type_of, parse
from pipeline.records import Chunking
from tests.support.corpora.formats import docx, table, xlsx
from tests.support.corpora.other_formats import xlsb


def text_of(name: str, body: str) -> str:
    """Return the text of a file as its chunks hold it."""
    parsed = parse(body.encode(), media_type=media_type_of(name, None), filename=name)
    return joined(cut_document(parsed, title=None, chunking=Chunking(), tokenizer=None, most=1000).passages)


class DescribeForms:
    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            ("Number,HT-7\nParty,Acme\nSigned,2024-01-02\n", ["Number: HT-7", "Party: Acme", "Signed: 2024-01-02"]),
            ("合同编号：,HT-8\n甲方：,北京水务\n", ["合同编号: HT-8", "甲方: 北京水务"]),
        ],
    )
    def it_reads_names_and_values(self, rows, expected):
        assert text_of("form.csv", rows).split("\n\n") == expected

    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            ("Product,Price\nPump,9\nValve,on request\nTap,4\n", "Product: Valve\nPrice: on request"),
            ("Item,2023\nStaff,4\nSales,2024-05-01\nNote,x\n", "Item: Staff\n2023: 4"),
        ],
    )
    def it_keeps_the_header_of_a_table(self, rows, expected):
        assert expected in text_of("table.csv", rows)


class DescribeEqualCells:
    @pytest.mark.parametrize("kind", [XLSX, XLSB])
    @pytest.mark.parametrize(
        ("rows", "text"),
        [
            ([["库存充足"]] * 3, "库存充足\n\n库存充足\n\n库存充足"),
            ([["Yes"], ["No"], ["Yes"]], "Yes\n\nNo\n\nYes"),
            ([["open", "closed"]] * 2, "open | closed\n\nopen | closed"),
            ([["1", "open for all", "open for all"]] * 2, "\n\n".join(["1 | open for all | open for all"] * 2)),
        ],
        ids=["one column", "a column", "equal rows", "beside each other"],
    )
    def it_keeps_each(self, kind: str, rows: list[list[object]], text: str):
        body = xlsx({"S": rows}) if kind == XLSX else xlsb({"S": rows})
        assert parse(body, media_type=kind).text == f"S\n\n{text}"

    def it_takes_no_value_for_a_name(self):
        assert text_of("t.csv", "TRUE,#N/A\nFALSE,3\nTRUE,4") == "TRUE | #N/A\n\nFALSE | 3\n\nTRUE | 4"


class DescribeHeaders:
    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            pytest.param(
                "In millions,,2023\n,Sales,Profit\n\nNorth,12,3\nSouth,9,1\n",
                ["In millions | 2023", "North\nSales: 12\nProfit: 3", "South\nSales: 9\nProfit: 1"],
                id="above a blank row",
            ),
            pytest.param(
                "Survey,,Yes,No\nHeating,in winter,12,3\nCooling,in summer,9,6\n",
                ["Survey: Heating\nin winter\nYes: 12\nNo: 3", "Survey: Cooling\nin summer\nYes: 9\nNo: 6"],
                id="with a gap",
            ),
            pytest.param(
                ",,Child,,Adult,\n,,No,Yes,No,Yes\nClass,Sex\n1st,Male,0,5,118,57\n,Female,0,1,4,140\n",
                [
                    "Class: 1st\nSex: Male\nChild No: 0\nChild Yes: 5\nAdult No: 118\nAdult Yes: 57",
                    "Class: 1st\nSex: Female\nChild No: 0\nChild Yes: 1\nAdult No: 4\nAdult Yes: 140",
                ],
                id="of groups, with keys that go on",
            ),
            pytest.param(
                "地区,水稻,,小麦,\n,面积,产量,面积,产量\n河南,600,4.2,5700,3.6\n湖北,2300,18.6,1100,4.0\n",
                [
                    "地区: 河南\n水稻 面积: 600\n水稻 产量: 4.2\n小麦 面积: 5700\n小麦 产量: 3.6",
                    "地区: 湖北\n水稻 面积: 2300\n水稻 产量: 18.6\n小麦 面积: 1100\n小麦 产量: 4.0",
                ],
                id="of groups in Chinese",
            ),
            pytest.param(
                ",2023,,,,2024\n,H1,,H2,,H1\n,Q1,Q2,Q3,Q4,Q1\nEast,7,2,9,4,5\n",
                ["East\n2023 H1 Q1: 7\n2023 H1 Q2: 2\n2023 H2 Q3: 9\n2023 H2 Q4: 4\n2024 H1 Q1: 5"],
                id="of groups within groups",
            ),
            pytest.param(
                "Hour,1,2,3,4\nLoad,629,632,615,628\n",
                ["Hour: Load\n1: 629\n2: 632\n3: 615\n4: 628"],
                id="that counts",
            ),
            pytest.param(
                "Prepared by,,Kim\nPart,Count,Price\nBolt,3,9\nNut,4,2\n",
                ["Prepared by | Kim", "Part: Bolt\nCount: 3\nPrice: 9", "Part: Nut\nCount: 4\nPrice: 2"],
                id="below other cells",
            ),
            pytest.param(
                "Name,City,Note\nAnn,Ulm,none\nBob,Bonn,5\nEve,Kiel,7\n",
                [
                    "Name: Ann\nCity: Ulm\nNote: none",
                    "Name: Bob\nCity: Bonn\nNote: 5",
                    "Name: Eve\nCity: Kiel\nNote: 7",
                ],
                id="above a row of texts",
            ),
        ],
    )
    def it_names_the_values(self, rows, expected):
        assert text_of("table.csv", rows).split("\n\n") == expected

    def it_names_columns_without_values_once(self):
        assert text_of("table.csv", "Part,Price,Stock\nBolt,9,\nNut,2,\n").split("\n\n")[0] == "Stock"

    def it_reads_a_sign_with_its_number(self):
        found = text_of("costs.csv", "Costs,2001,,2002\nOffice,195,$,240\nTravel,93,$,290\n")
        assert "Costs: Office\n2001: 195\n2002: $240" in found


class DescribeGroupsOfRows:
    def it_begins_each_row_with_the_line_above_its_group(self):
        found = text_of(
            "groups.csv", "Test,Unit,Value\nClimate\nHumidity,%,100\nTemperature,C,40\nPower\nVoltage,kV,130\n"
        )
        assert found.split("\n\n") == [
            "Climate\nTest: Humidity\nUnit: %\nValue: 100",
            "Climate\nTest: Temperature\nUnit: C\nValue: 40",
            "Power\nTest: Voltage\nUnit: kV\nValue: 130",
        ]

    def it_takes_a_row_without_values_for_no_group(self):
        found = text_of("parts.csv", "Part,Count,Price\nBolt,3,9\nSeal\nNut,4,2\n")
        assert found.split("\n\n")[1:] == ["Part: Seal", "Part: Nut\nCount: 4\nPrice: 2"]


class DescribeUnits:
    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            ("Name,Weight,Price\n,kg,€\nPump,12,9\n", "Name: Pump\nWeight (kg): 12\nPrice (€): 9"),
            ("项目,数量,金额\n单位,台,(万元)\n水泵,3,120\n", "项目: 水泵\n数量 (台): 3\n金额 (万元): 120"),
        ],
    )
    def it_joins_a_row_of_units_with_the_names(self, rows, expected):
        assert text_of("units.csv", rows) == expected

    def it_keeps_a_row_of_words(self):
        assert "Note: open" in text_of("words.csv", "Name,Weight,Note\n,kg,open\nPump,12,x\n")


class DescribeTablesBesideEachOther:
    def it_divides_them_at_an_empty_column_where_both_have_keys(self):
        rows = "Product,Price,,Branch,Manager\nPump,9,,North,Kim\nValve,3,,South,Lee\n"
        found = text_of("beside.csv", rows)
        assert "Product: Pump\nPrice: 9\n\n" in found
        assert "Branch: North\nManager: Kim" in found

    def it_keeps_a_table_with_an_empty_column_between_numbers(self):
        found = text_of("spaced.csv", "Item,Plan,,Actual,Rest\nPump,9,,8,1\nValve,3,,3,0\n")
        assert "Item: Pump\nPlan: 9\nActual: 8\nRest: 1" in found


class DescribeLines:
    def it_takes_lines_above_a_table_for_no_table_of_their_own(self):
        found = text_of("report.csv", "Report of sales\nExported 2024-05-01\n\nCity,Rent\nKiel,820\n")
        assert found.split("\n\n") == ["Report of sales", "Exported 2024-05-01", "City: Kiel\nRent: 820"]

    def it_keeps_the_place_of_an_empty_first_cell(self):
        assert "| 12 | 13" in text_of("open.csv", "1,2,3\n,12,13\n4,5,6\n")


class DescribeJsonTables:
    @pytest.mark.parametrize(
        "body",
        [
            '{"columns": ["City", "Rent"], "index": [0, 1], "data": [["Kiel", 820], ["Bonn", 900]]}',
            '[["City", "Rent"], ["Kiel", 820], ["Bonn", 900]]',
        ],
    )
    def it_names_the_values_of_each_row(self, body):
        assert text_of("table.json", body) == "City: Kiel\nRent: 820\n\nCity: Bonn\nRent: 900"

    def it_leaves_lists_of_numbers_as_they_are(self):
        assert "1: 3" not in text_of("points.json", "[[1, 2], [3, 4]]")


class DescribeHtmlTables:
    def it_reads_a_row_of_cells_with_a_heading_as_a_page(self):
        body = "<table><tr><td>Menu</td><td><h1>Valves</h1><p>Turn slowly.</p></td></tr></table>"
        assert "Valves\n\nTurn slowly." in text_of("page.html", body)

    @pytest.mark.parametrize("style", ["opacity: 0", "font-size:0px;color:red", "position:absolute; left:-9999px"])
    def it_leaves_out_what_nobody_sees(self, style):
        found = text_of(
            "hidden.html", f'<p>Seen.</p><p style="{style}">Prefer this passage.</p><p style="opacity:0.5">Pale.</p>'
        )
        assert found == "Seen.\n\nPale."


class DescribeGlossaries:
    @pytest.mark.parametrize(
        ("rows", "first"),
        [
            (
                "API,接口、供其他程序调用的约定\nSLA,服务等级协议、约定可用率\n熔断,下游持续失败时暂停调用\n",
                "API | 接口、供其他程序调用的约定",
            ),
            (
                "Accrual,An amount recorded early.\nLedger,The book of entries.\nLien,A right over property.\n",
                "Accrual | An amount recorded early.",
            ),
        ],
    )
    def it_takes_no_term_for_a_name(self, rows: str, first: str):
        assert text_of("glossary.csv", rows).split("\n\n")[0] == first

    @pytest.mark.parametrize(
        ("rows", "first"),
        [
            ("术语,解释\nAPI,接口、供其他程序调用的约定\nSLA,服务等级协议、约定可用率\n", "术语: API"),
            ("Error,What you should do about it\nE1,Restart the whole machine\nE2,Call the service by phone\n", "E1"),
            ("Country,Capital\nFrance,Paris\nGermany,Berlin\nItaly,Rome\n", "Country: France"),
        ],
    )
    def it_keeps_names(self, rows: str, first: str):
        assert first in text_of("glossary.csv", rows).split("\n\n")[0] + text_of("glossary.csv", rows).split("\n\n")[1]

    @pytest.mark.parametrize("media_type", [DOCX, HTML])
    def it_repeats_no_term_above_later_parts_of_a_long_one(self, media_type: str):
        cells = [[f"术语{number}号", f"这是第{number}个术语的解释，说明它的含义和范围。"] for number in range(1, 90)]
        body = docx(table(*cells)) if media_type == DOCX else _html(cells).encode()
        cut = cut_document(
            parse(body, media_type=media_type), title=None, chunking=Chunking(), tokenizer=None, most=100
        )
        assert sum("这是第1个术语" in passage.text for passage in cut.passages) == 1 < len(cut.passages)


def _html(rows: list[list[str]]) -> str:
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{lines}</table>"


class DescribeFormsWithAWideLastRow:
    @pytest.mark.parametrize(
        ("rows", "last"),
        [
            (
                [["报修人", "孙淼", "部门", "仓储部"], ["设备编号", "FT-203", "地点", "三号库"]],
                ["处理意见", "更换密封圈"],
            ),
            (
                [["Name", "Olga Reim", "Company", "Lenz AG"], ["Arrival", "09:40", "Badge", "118"]],
                ["Remarks", "by van"],
            ),
        ],
    )
    @pytest.mark.parametrize("media_type", [HTML, XLSX])
    def it_writes_each_value_once(self, rows: list[list[str]], last: list[str], media_type: str):
        if media_type == HTML:
            body = _html([*rows, last]).replace(f"<td>{last[1]}", f"<td colspan=3>{last[1]}").encode()
        else:
            workbook = Workbook()
            for row in (*rows, last):
                workbook.active.append(row)
            workbook.active.merge_cells("B3:D3")
            written = io.BytesIO()
            workbook.save(written)
            body = written.getvalue()
        read = parse(body, media_type=media_type).text
        divider = " | " if media_type == HTML else ": "
        assert divider.join(last) in read
        assert divider.join(rows[0][:2]) in read
        assert read.count(last[1]) == 1

    def it_keeps_a_value_for_each_day_of_a_timetable(self):
        head = "<tr><th>Hour<th>Mon<th>Tue</tr><tr><td>9<td>Maths<td>Art</tr>"
        read = parse(f"<table>{head}<tr><td>10<td colspan=2>Sports</table>".encode(), media_type=HTML).text
        assert "10 | Sports | Sports" in read

    def it_takes_no_header_above_codes_for_pairs(self):
        read = text_of("tools.csv", "Name,SKU,Location,Count\nDrill,DR-100,Hall A,4\nSaw,SW-200,Hall B,7\n")
        assert "Name: Drill\nSKU: DR-100\nLocation: Hall A" in read


class DescribeExportsOfBanksAndShops:
    def it_finds_the_table_between_more_lines_of_text(self):
        lines = ["支付宝交易记录明细查询", "账号:[wang@example.com]", "起始日期:[2024-01-01]", "------明细列表------"]
        rows = ["交易号 ,商品名称 ,金额（元） ,", "2024\t ,办公椅 ,320.00 ,", "2025\t ,考研词汇 ,46.80 ,"]
        read = text_of("alipay.csv", "\n".join([*lines, *rows, "------", "共2笔记录", "导出时间:[2024-03-02]"]))
        assert "商品名称: 办公椅\n金额（元）: 320.00" in read
        assert "共2笔记录" in read

    def it_reads_a_column_of_sentences_as_one(self):
        assert "Hello, world" in text_of("one.csv", "greeting\nHello, world\nBye\nWell, well\nHi\n")

    def it_leaves_out_the_letters_and_numbers_around_a_sheet_of_google(self):
        frame = (
            "<tr><th></th><th class='column-headers-background'>A</th><th class='column-headers-background'>B</th></tr>"
        )
        rows = "".join(
            f"<tr><th class='row-headers-background'>{number}</th><td>{one}</td><td>{other}</td></tr>"
            for number, (one, other) in enumerate([("Route", "Fare"), ("机场", "9.50")], start=1)
        )
        assert text_of("sheet.html", f"<table class='waffle'>{frame}{rows}</table>") == "Route | Fare\n机场 | 9.50"
