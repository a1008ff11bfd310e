"""Files as browsers, office programs and old tools write them: `files` holds some that Chromium and LibreOffice printed."""

import io
import zipfile
from pathlib import Path

import pytest

from pipeline.documents.clean_text import clean
from pipeline.documents.cut_document import cut_document
from pipeline.parsing.assembly import usable_title
from pipeline.parsing.formats import CSV, DOCX, HTML, MARKDOWN, ODS, ODT, PDF, XLS, parse
from pipeline.parsing.sniffing import media_type_shown
from pipeline.records import Chunking
from tests.support.corpora.formats import docx, paragraph, pdf

FILES = Path(__file__).parent / "files"


def _read(name: str, media_type: str = PDF) -> str:
    return parse((FILES / name).read_bytes(), media_type=media_type).text


def _lines(body: str, media_type: str) -> list[str]:
    return parse(body.encode(), media_type=media_type).text.split("\n")


class DescribePrintedPages:
    def it_joins_words_at_the_hyphens_of_a_browser(self):
        text = _read("browser-hyphens.pdf")
        assert "Telekommunikationsanlagen und Wärmepumpenheizungen" in text
        assert all(word in text for word in ("2021-2022", "COVID-19", "XR-4500"))

    def it_writes_raised_digits_within_a_line_of_chinese_as_powers(self):
        text = _read("browser-powers.pdf")
        assert "建筑面积为1250m^2，功率约10^6瓦，浓度10^-3，" in text

    def it_writes_raised_digits_before_a_sign_as_powers(self):
        assert "3,2·10^(−4) gilt bei 20 m^3/h und 1,5 kg/m^2;" in _read("browser-units.pdf")

    def it_reads_a_long_text_between_two_short_values_as_a_row(self):
        text = _read("browser-records.pdf")
        assert "VK-000 | Dichtung spröde, bei der nächsten Wartung tauschen | 1/2025\nVK-001 | " in text

    def it_reads_three_columns_one_after_the_other(self):
        text = _read("browser-columns.pdf")
        assert "Meldung G: Die Stadt sperrt im Mai die Straße am Fluss, weil dort Rohre erneuert werden" in text

    def it_keeps_the_first_lines_of_letters_to_many(self):
        text = _read("browser-letters.pdf")
        assert "Kapiteltext 4: Satz 0" in text
        assert "Firma Velten" not in text

    def it_names_the_columns_of_a_sheet_whose_numbers_stand_at_the_right(self):
        text = _read("office-sheet.pdf")
        assert "区域 | 计划 | 完成 | 计划 | 完成\n华北 | 100 | 96 | 120 | 131" in text

    def it_repeats_the_header_of_a_table_over_pages_whose_rows_hold_units(self):
        cut = cut_document(
            parse((FILES / "office-long-table.pdf").read_bytes(), media_type=PDF),
            title=None,
            chunking=Chunking(),
            tokenizer=None,
            most=100,
        )
        texts = [passage.text for passage in cut.passages]
        assert len(texts) > 5
        assert all(text.startswith("工位 | 标准工时 | 说明\n") for text in texts)
        assert "GW-48 | 0 分钟 | 每班开始之前先点检一次再开机" in "\n".join(texts)  # broken over two pages

    def it_reads_boxes_beside_each_other_one_after_the_other(self):
        text = _read("browser-boxes.pdf")
        first = "Sie zahlen neun Euro im Monat und erhalten zehn Gigabyte Speicher für alle Geräte."
        second = "Sie zahlen neunzehn Euro im Monat und erhalten hundert Gigabyte Speicher und Hilfe."
        assert text.index("Basis") < text.index(first) < text.index("Plus") < text.index(second)

    def it_keeps_the_mark_of_a_list_in_the_line_of_its_text(self):
        assert "(a) 全体员工\n\n(b) 实习生" in _read("office-list.pdf")


class DescribeCode:
    def it_keeps_lines_and_indentation_in_a_printed_page(self):
        text = _read("browser-code.pdf")
        assert "def go(x):\n    if x > 2:\n        return [i for i in x]\n    return None\n" in text
        assert 'http://127.0.0.1/v1\n{\n  "ok": true,\n  "items": [\n    1\n  ]\n}\n\nDone.' in text

    def it_is_no_letter_that_was_typed(self):
        lines = ["Dear Ms Adler,", "we deliver the pump on Monday and the", "two valves, as agreed, on Tuesday."]
        typed = pdf("\n".join(lines)).replace(b"/Helvetica", b"/Courier  ")
        assert parse(typed, media_type=PDF).text.endswith(
            "the pump on Monday and the two valves, as agreed, on Tuesday."
        )

    def it_is_known_by_its_font_in_an_opendocument_text(self):
        assert "server {\n    listen 80;\n    location / {\n        root /srv;\n    }\n}" in _read(
            "office-code.odt", ODT
        )

    @pytest.mark.parametrize(
        "lines",
        [
            ["def go(x):", "    if x:", "        return 1", "    return 2"],
            ["服务:", "server:", "  port: 80", "  paths:", "    - /a"],
            ["SELECT name,", "       total", "FROM sales", "WHERE total > 5;"],
        ],
    )
    def it_keeps_its_indentation_in_a_word_document_of_any_font(self, lines: list[str]):
        before, after = "A sentence before it.", "　　后面是正文。"
        written = [line.replace(" ", "\u0020") for line in lines]
        body = "".join(
            paragraph(each).replace("<w:t>", '<w:t xml:space="preserve">') for each in (before, *written, after)
        )
        text = parse(docx(body), media_type=DOCX).text
        kept = lines if lines[0] != "服务:" else lines[1:]
        assert "\n".join(kept) in text
        assert (text.split("\n")[0], text.split("\n")[-1].strip()) == (before, "后面是正文。")

    @pytest.mark.parametrize("prose", [["  Dear Ms Adler,", "  we deliver on Monday.", "  Yours, Kim"]])
    def it_is_no_letter_with_indented_lines(self, prose: list[str]):
        body = "".join(paragraph(each).replace("<w:t>", '<w:t xml:space="preserve">') for each in prose)
        assert parse(docx(body), media_type=DOCX).text == "\n\n".join(line.strip() for line in prose)

    def it_stands_beside_the_numbers_of_its_lines(self):
        page = (
            "<table><tr><td class=gutter><pre>1\n2</pre></td>"
            "<td class=code><pre><b>def</b> f():\n    return 1\n</pre></td></tr></table>"
        )
        assert _lines(page, HTML) == ["def f():", "    return 1"]


class DescribePages:
    @pytest.mark.parametrize("mark", ['id="cookie-banner"', 'class="box cookie-consent"', 'id="onetrust-banner-sdk"'])
    def it_leaves_out_questions_for_consent(self, mark: str):
        page = f"<main><p>The bus leaves at 23:40.</p></main><div {mark}><p>We use cookies.</p></div>"
        assert _lines(page, HTML) == ["The bus leaves at 23:40."]

    def it_keeps_a_page_on_cookies(self):
        assert _lines('<p class="cookie-recipe">饼干的做法 and cookies.</p>', HTML) == ["饼干的做法 and cookies."]

    def it_writes_lowered_text_that_cannot_be_misread(self):
        page = "<p>log<sub>2</sub>8, a<sub>n+1</sub>, CO<sub>2</sub>, 对数log<sub>10</sub>100</p>"
        assert _lines(page, HTML) == ["log_2 8, a_(n+1), CO2, 对数log_10 100"]

    def it_divides_lines_that_a_style_makes(self):
        lines = '<span style="display:block">10</span><span style="color:red;display: block">25</span>'
        page = f"<table><tr><th>Zone<th>Time</tr><tr><td>A<td>{lines}</table>"
        assert "1025" not in parse(page.encode(), media_type=HTML).text


class DescribeRowsWithoutNames:
    @pytest.mark.parametrize("unit", ["kg", "公斤"])
    def it_takes_no_row_of_values_for_names(self, unit: str):
        body = f"B-101,10 {unit},2024-03-01\nB-102,12 {unit},2024-03-02\nB-103,9 {unit},2024-03-05\n"
        assert _lines(body, CSV)[0] == f"B-101 | 10 {unit} | 2024-03-01"


class DescribeFormsOverTables:
    @pytest.mark.parametrize(
        ("rows", "lines"),
        [
            (
                ["部门,研发部,姓名,王敏", "日期,2024-05-01,编号,BX-117", "序号,项目,金额,票据", "1,交通,120,3张"],
                ["部门: 研发部 | 姓名: 王敏", "日期: 2024-05-01 | 编号: BX-117", "项目: 交通"],
            ),
            (
                ["Name,Kim Berg,Department,Sales", "Manager,Ann Lee,Room,B2"],
                ["Name: Kim Berg | Department: Sales", "Manager: Ann Lee | Room: B2"],
            ),
        ],
    )
    def it_reads_pairs_of_names_and_values(self, rows: list[str], lines: list[str]):
        assert set(lines) <= set(_lines("\n".join(rows), CSV))

    @pytest.mark.parametrize(
        "row", ["Kim,Oslo,Sales,Clerk\nAnn,Kiel,Stock,Driver", "王敏,上海,销售,职员\n李工,苏州,仓库,司机"]
    )
    def it_takes_no_row_of_names_for_pairs(self, row: str):
        head = "姓名,城市,部门,职务" if "王敏" in row else "Name,City,Department,Position"
        assert f"{head.split(',')[1]}: {row.split(',')[1]}" in _lines(f"{head}\n{row}", CSV)


class DescribeDocumentsInOneFileOfXml:
    @pytest.mark.parametrize("named", [None, "text/plain", XLS])
    def it_reads_a_workbook_of_excel_2003(self, named: str | None):
        body = _workbook_2003()
        shown = media_type_shown(body, named) or named
        parsed = parse(body, media_type=str(shown))
        assert parsed.text == "价格\n\n名称: 水泵\n数量: 13.5%\n日期: 2024-05-01"
        assert parsed.encoding is not None
        assert "1 sheets" in str(parsed.encoding.pages_warning)

    def it_reads_a_workbook_of_opendocument(self):
        cells = [
            f"<table:table-cell><text:p>{each}</text:p></table:table-cell>" for each in ("Part", "Torque", "PX-1", "30")
        ]
        rows = "".join(f"<table:table-row>{''.join(row)}</table:table-row>" for row in (cells[:2], cells[2:]))
        body = _flat("spreadsheet", f"<table:table table:name='S'>{rows}</table:table>")
        assert media_type_shown(body, "text/plain") == ODS
        assert parse(body, media_type=ODS).text == "S\n\nPart: PX-1\nTorque: 30"

    def it_reads_the_titles_of_a_chart_in_a_workbook(self):
        chart = "<draw:object><chart:title><text:p>Umsatz 销量</text:p></chart:title><text:p>X9</text:p></draw:object>"
        row = "<table:table-row><table:table-cell><text:p>A</text:p></table:table-cell></table:table-row>"
        shapes = f"<table:shapes><draw:frame>{chart}</draw:frame></table:shapes>"
        body = _flat("spreadsheet", f"<table:table table:name='S'>{shapes}{row}</table:table>")
        assert parse(body, media_type=ODS).text == "S\n\nA\n\nUmsatz 销量"

    def it_reads_a_text_with_a_formula_and_the_title_of_a_chart(self):
        fraction = "<m:math xmlns:m='m'><m:mfrac><m:mn>12</m:mn><m:mn>50</m:mn></m:mfrac></m:math>"
        title = "<text:p>X9</text:p><chart:title><text:p>销量</text:p></chart:title>"
        chart = f"<office:document><office:body>{title}</office:body></office:document>"
        objects = "".join(f"<draw:object draw:a='1'>{each}</draw:object>" for each in (fraction, chart))
        body = _flat("text", f"<text:h text:outline-level='1'>Wartung</text:h><text:p>Verhältnis {objects}</text:p>")
        text = parse(body, media_type=ODT).text
        assert text.startswith("Wartung\n\nVerhältnis (12)/(50)")
        assert "销量" in text
        assert "1250" not in text
        assert "X9" not in text


def _flat(kind: str, content: str) -> bytes:
    names = "".join(f" xmlns:{each}='urn:{each}'" for each in ("office", "text", "table", "draw", "chart"))
    head = (
        f"<?xml version='1.0'?>\n<office:document{names} office:mimetype=\"application/vnd.oasis.opendocument.{kind}\">"
    )
    return f"{head}<office:body><office:{kind}>{content}</office:{kind}></office:body></office:document>".encode()


def _workbook_2003() -> bytes:
    def sheet(name: str, *rows: str, options: str = "") -> str:
        return f"<Worksheet ss:Name='{name}'><Table>{''.join(rows)}</Table>{options}</Worksheet>"

    def row(*cells: tuple[str, str, str]) -> str:
        written = (f"<Cell{style}><Data ss:Type='{kind}'>{value}</Data></Cell>" for style, kind, value in cells)
        return f"<Row>{''.join(written)}</Row>"

    names = row(*(("", "String", name) for name in ("名称", "数量", "日期")))
    values = ("", "String", "水泵"), (" ss:StyleID='p'", "Number", "0.135")
    values = row(*values, (" ss:StyleID='d'", "DateTime", "2024-05-01T00:00:00.000"))
    hidden = "<WorksheetOptions><Visible>SheetHidden</Visible></WorksheetOptions>"
    formats = "".join(
        f"<Style ss:ID='{style}'><NumberFormat ss:Format='{code}'/></Style>"
        for style, code in (("p", "0.0%"), ("d", "Short Date"))
    )
    name = "urn:schemas-microsoft-com:office:spreadsheet"
    sheets = sheet("价格", names, values) + sheet("X", row(("", "String", "X9")), options=hidden)
    head = "<?xml version='1.0'?><?mso-application progid='Excel.Sheet'?>"
    return f"{head}\n<Workbook xmlns='{name}' xmlns:ss='{name}'><Styles>{formats}</Styles>{sheets}</Workbook>".encode()


class DescribeSlightlyOddFiles:
    @pytest.mark.parametrize("mark", ["<hr>", "<br/>", "</p><p>"])
    def it_divides_what_a_cell_of_markdown_divides(self, mark: str):
        assert _lines(f"| A | B |\n|---|---|\n| 一{mark}二 | 10{mark}25 |\n", MARKDOWN) == ["A | B", "一 二 | 10 25"]

    def it_reads_digits_that_a_program_wrote_as_a_text_for_excel(self):
        assert _lines('编号,金额\n="00123",12\n', CSV) == ["编号: 00123", "金额: 12"]

    @pytest.mark.parametrize("text", ["Kunde\tOrt\nAbel\tHof\n", "姓名,城市\n刘,兰州\n"])
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
    def it_reads_a_text_of_columns_that_is_named_as_a_workbook(self, text: str, encoding: str):
        body = text.encode(encoding)
        shown = media_type_shown(body, XLS)
        assert shown == CSV
        first, second = text.split("\n")[0].replace("\t", ",").split(",")
        assert f"{first}: " in parse(body, media_type=shown).text
        assert f"{second}: " in parse(body, media_type=shown).text

    def it_leaves_a_damaged_workbook_to_its_parser(self):
        assert media_type_shown(b"\xd0\xcf\x11\xe0,,\x00", XLS) is None

    def it_reads_an_archive_whose_names_have_backslashes(self):
        given, written = zipfile.ZipFile(io.BytesIO(docx(paragraph("Text of an old tool.")))), io.BytesIO()
        with zipfile.ZipFile(written, "w") as archive:
            for name in given.namelist():
                archive.writestr(name.replace("/", "\\"), given.read(name))
        assert parse(written.getvalue(), media_type=DOCX).text == "Text of an old tool."

    def it_drops_the_dots_before_the_number_of_a_page(self):
        assert "...." not in parse(docx(paragraph("Betrieb ............... 12")), media_type=DOCX).text

    @pytest.mark.parametrize("title", ["Dokument1", "文档2", "Documento 3", "工作簿1", "Mappe1"])
    def it_takes_no_title_that_a_program_gave(self, title: str):
        assert usable_title(title) is None

    @pytest.mark.parametrize("title", ["Book of hours", "Documentation", "Präsentation der Zahlen"])
    def it_takes_a_title_that_begins_like_one(self, title: str):
        assert usable_title(title) == title

    def it_writes_radicals_of_the_supplement_as_characters(self):
        assert clean("⼈⼯智能⼊⻔，⻓期⻚码") == "人工智能入门，长期页码"
