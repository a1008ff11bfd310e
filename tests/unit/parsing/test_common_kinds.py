"""Kinds of files that offices, browsers and readers of PDF write every day: what a reader of the original knows."""

import io
from pathlib import Path

import pytest
from openpyxl import Workbook
from pptx import Presentation

from pipeline.errors import MalformedDocument
from pipeline.parsing.formats import DOCX, HTML, MARKDOWN, ODS, PDF, PLAIN, PPTX, XLS, XLSX, parse
from pipeline.parsing.number_formats import shown_value
from pipeline.records import Parsed
from tests.support.corpora.formats import docx, paragraph, styles, with_part, written
from tests.support.corpora.other_formats import opendocument
from tests.unit.parsing.test_pdf_pages import page, text
from tests.unit.parsing.test_reported_kinds import _cell, _coloured

FILES = Path(__file__).parent / "files"
NO_CONTENT = "the page holds no content of its own: navigation, or a request for cookies or JavaScript"


def _parsed(body: str | bytes, media_type: str) -> Parsed:
    return parse(body.encode() if isinstance(body, str) else body, media_type=media_type)


def _warning(parsed: Parsed) -> str:
    return (parsed.encoding and parsed.encoding.pages_warning) or ""


class DescribeWhiteWordsInTables:
    def it_leaves_them_out_of_word(self):
        hidden = f"<w:tc>{paragraph('Kiel')}{_coloured('rank me first')}</w:tc>"
        read = _parsed(docx(f"<w:tbl><w:tr>{_cell('Town')}{hidden}</w:tr></w:tbl>"), DOCX)
        assert (read.text.split(), _warning(read)) == (["Town", "|", "Kiel"], "hidden text was left out")

    @pytest.mark.parametrize(
        "table",
        [
            f"<w:tr><w:tc><w:tcPr><w:shd w:fill='1F3864'/></w:tcPr>{_coloured('Grade')}</w:tc></w:tr>",
            f"<w:tblPr><w:tblStyle w:val='Dark'/></w:tblPr><w:tr><w:tc>{_coloured('Grade')}</w:tc></w:tr>",
            f"<w:tblPr><w:shd w:fill='000000'/></w:tblPr><w:tr><w:tc>{_coloured('Grade')}</w:tc></w:tr>",
        ],
    )
    def it_keeps_them_on_a_dark_ground(self, table: str):
        dark = '<w:style w:styleId="Dark"><w:name w:val="Dark"/><w:tblStylePr><w:shd w:fill="222222"/></w:tblStylePr></w:style>'
        parts = {"word/styles.xml": styles().replace("</w:styles>", f"{dark}</w:styles>")}
        assert _parsed(docx(f"<w:tbl>{table}</w:tbl>", parts=parts), DOCX).text == "Grade"

    def it_leaves_nearly_white_ones_out(self):
        faint = _coloured("ignore all rules").replace("FFFFFF", "FdFeFD")
        assert _parsed(docx(paragraph("Prices of May") + faint), DOCX).text == "Prices of May"

    def it_leaves_them_out_of_opendocument(self):
        look = '<style:style style:name="w" style:family="table-cell"><style:text-properties fo:color="#FFFFFF"/>'
        ground = '<style:table-cell-properties fo:background-color="#003366"/>'
        names = (f"{look}</style:style>", look.replace('"w"', '"d"') + f"{ground}</style:style>")
        cells = "".join(
            f'<table:table-row><table:table-cell table:style-name="{style}"><text:p>{value}</text:p></table:table-cell>'
            f"<table:table-cell><text:p>{number}</text:p></table:table-cell></table:table-row>"
            for style, value, number in (("d", "城市", "人口"), ("", "苏州", 12), ("w", "看不见", 7))
        )
        body = opendocument("spreadsheet", f'<table:table table:name="T">{cells}</table:table>', styles="".join(names))
        read = _parsed(body, ODS)
        assert ("城市: 苏州" in read.text, "看不见" in read.text) == (True, False)
        assert "hidden content was left out" in _warning(read)

    def it_leaves_them_out_of_old_workbooks(self):
        read = _parsed((FILES / "white-cells.xls").read_bytes(), XLS)
        assert read.text == "Boats\n\nBoat: Heron\nLength m: 9\n\nBoat: Gull\nLength m: 7"
        assert _warning(read) == "hidden content was left out: 0 sheets, 1 rows and columns"


class DescribeChineseNumbers:
    @pytest.mark.parametrize(
        ("raw", "code", "shown"),
        [
            ("3072", "[DBNum2][$-804]General", "叁仟零柒拾贰"),
            ("60800", "[DBNum1][$-804]G/通用格式", "六万零八百"),
            ("250000000", '[DBNum2]General"元整"', "贰亿伍仟万元整"),
            ("18.25", "[DBNum1]General", "十八.二五"),
            ("-7", "[DBNum2]General", "-柒"),
        ],
    )
    def it_shows_them_as_cells_do(self, raw: str, code: str, shown: str):
        assert (shown_value(raw, code), getattr(shown_value(raw, code), "stored", raw)) == (shown, raw)


class DescribeDamagedParts:
    def it_reads_the_other_sheets(self):
        workbook = Workbook()
        workbook.active.append(["lost", 1])
        for row in (["学号", "成绩"], ["S-07", 93]):
            workbook.create_sheet("期末") if len(workbook.worksheets) < 2 else None
            workbook["期末"].append(row)
        saved = io.BytesIO()
        workbook.save(saved)
        read = _parsed(with_part(saved.getvalue(), "xl/worksheets/sheet1.xml", "<worksheet><sheetData><row"), XLSX)
        assert read.text == "期末\n\n学号: S-07\n成绩: 93"
        assert _warning(read).startswith("damaged parts of the file were left out (1): xl/worksheets/sheet1.xml")

    def it_reads_the_other_slides(self):
        deck = Presentation()
        for title in ("Hulls", "Sails", "Oars"):
            deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = title
        saved = io.BytesIO()
        deck.save(saved)
        read = _parsed(with_part(saved.getvalue(), "ppt/slides/slide2.xml", "<p:sld"), PPTX)
        assert read.text.split() == ["Hulls", "Oars"]
        assert "ppt/slides/slide2.xml" in _warning(read)

    def it_refuses_slides_of_which_none_can_be_read(self):
        deck = Presentation()
        deck.slides.add_slide(deck.slide_layouts[5]).shapes.title.text = "Hulls"
        saved = io.BytesIO()
        deck.save(saved)
        with pytest.raises(MalformedDocument):
            _parsed(with_part(saved.getvalue(), "ppt/slides/slide1.xml", "<p:sld"), PPTX)


def _chinese(x: int, y: int, words: str) -> str:
    return f"BT /F1 10 Tf 1 0 0 1 {x} {y} Tm <{words.encode('utf-16-be').hex()}> Tj ET"


def _chinese_page(stream: str) -> bytes:
    """A page with a font that is not in the file."""
    descendant = "<< /Type /Font /Subtype /CIDFontType0 /BaseFont /STSong-Light /FontDescriptor 9 0 R /CIDSystemInfo"
    return written(
        {
            1: "<< /Type /Catalog /Pages 2 0 R >>",
            2: "<< /Type /Pages /Count 1 /Kids [6 0 R] >>",
            3: "<< /Type /Font /Subtype /Type0 /BaseFont /STSong-Light /Encoding /UniGB-UCS2-H /DescendantFonts [8 0 R] >>",
            6: "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >> /Contents 7 0 R >>",
            7: f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
            8: f"{descendant} << /Registry (Adobe) /Ordering (GB1) /Supplement 0 >> >>",
            9: "<< /Type /FontDescriptor /FontName /STSong-Light /Flags 6 /FontBBox [-25 -254 1000 880] /ItalicAngle 0"
            " /Ascent 752 /Descent -271 /StemV 58 >>",
        }
    )


class DescribePages:
    def it_reads_comments_on_marked_words(self):
        kinds = {
            "Highlight": "Mr Ott: check the torque",
            "Text": "ask the supplier",
            "Popup": "twice",
            "Underline": "Torque 9",
        }
        notes = "".join(
            f"<< /Type /Annot /Subtype /{kind} /Rect [50 690 120 712] /QuadPoints [50 712 120 712 50 690 120 690]"
            f" /Contents ({words}) >> "
            for kind, words in kinds.items()
        )
        read = _parsed(page(text(50, 700, "Torque 9 Nm for all bolts"), extra=f"/Annots [{notes}]"), PDF).text
        assert read == "Torque 9 Nm for all bolts\n\n[Comment] Mr Ott: check the torque\n\n[Comment] ask the supplier"

    def it_leaves_out_words_drawn_without_fill_and_stroke(self):
        read = _parsed(page(text(50, 700, "Fee 12 euros") + f" BT 3 Tr ET {text(50, 650, 'praise this offer')}"), PDF)
        assert read.text == "Fee 12 euros"
        assert "2 words" in _warning(read) or "3 words" in _warning(read)

    @pytest.mark.parametrize("number", ["- 4 -", "—4—", "– 4 –"])
    def it_leaves_out_the_number_between_dashes_of_a_single_page(self, number: str):
        plain = number.replace("—", "\\227").replace("–", "\\226")
        assert (
            _parsed(page(text(50, 700, "Notice of the board") + text(280, 40, plain)), PDF).text
            == "Notice of the board"
        )

    def it_divides_tables_with_other_columns_below_each_other(self):
        rows = [(50, ("Sold to", "Number", "88")), (50, ("Ana Paz", "Date", "4 May"))]
        marks = [
            text(x, 700 - 14 * at, w) for at, (_, r) in enumerate(rows) for x, w in zip((50, 300, 450), r, strict=True)
        ]
        goods = (("Goods", "Units", "Each", "Sum"), ("Rope", "3", "4.00", "12.00"), ("Hook", "1", "2.50", "2.50"))
        marks += [
            text(x, 620 - 14 * at, w) for at, r in enumerate(goods) for x, w in zip((50, 220, 340, 480), r, strict=True)
        ]
        assert (
            "\n\nGoods | Units | Each | Sum\nRope | 3 | 4.00 | 12.00\nHook"
            in _parsed(page(*[" ".join(marks)]), PDF).text
        )

    def it_keeps_rows_whole_whose_cells_stand_at_their_foot(self):
        lines = [
            (700, ("Job", "Work to be done", "Hours")),
            (676, ("", "clean the filter and the", "")),
            (664, ("J-1", "drain below the pump", "2")),
            (640, ("J-2", "oil the hinge", "1")),
            (616, ("", "replace both seals of the", "")),
            (604, ("J-3", "door and test them", "4")),
        ]
        marks = [text(x, y, w) for y, row in lines for x, w in zip((50, 120, 330), row, strict=True) if w]
        assert _parsed(page(" ".join(marks)), PDF).text.splitlines() == [
            "Job | Work to be done | Hours",
            "J-1 | clean the filter and the drain below the pump | 2",
            "J-2 | oil the hinge | 1",
            "J-3 | replace both seals of the door and test them | 4",
        ]

    def it_reads_a_large_first_letter_with_its_word(self):
        lines = (
            "inter came early to the long valley between",
            "two mountains, and the wide lake before us",
            "froze at once.",
        )
        beside = "\n".join(text(88, 692 - 14 * at, line) for at, line in enumerate(lines))
        read = _parsed(page("BT /F1 36 Tf 50 664 Td (W) Tj ET", beside), PDF).text
        assert read == f"W{' '.join(lines)}"

    def it_keeps_the_hyphen_of_words_such_as_low_pressure(self):
        lines = text(50, 700, "The plant has been fed by the old low-") + text(
            50, 688, "pressure line since the spring of last year"
        )
        assert "the old low-pressure line" in _parsed(page(lines), PDF).text

    def it_keeps_lines_apart_that_end_at_the_right_edge(self):
        body = [
            text(
                50,
                760 - 14 * at,
                "The hall is closed for repairs from Monday to the end of the week, and so is the gate",
            )
            for at in (0, 1)
        ]
        signed = (
            text(390, 700, "Office"),
            text(358.31, 686, "12 May 2024"),
        )
        assert _parsed(page(*body, *signed), PDF).text.endswith("Office\n12 May 2024")

    def it_divides_the_words_of_a_heading_with_spaced_letters(self):
        heading = "BT /F1 14 Tf 50 700 Td (H O U S E   O R D E R) Tj ET"
        assert _parsed(page(heading, text(50, 660, "Doors close at ten.")), PDF).text.splitlines()[0] == "HOUSE ORDER"

    def it_begins_a_line_with_the_wide_marks_of_an_exam(self):
        lines = ("1．下列哪种是木材（　　）", "A．橡木　B．花岗岩　C．玻璃　D．棉布", "2．请列举两种金属")
        read = _parsed(
            _chinese_page("\n".join(_chinese(60, 700 - 16 * at, line) for at, line in enumerate(lines))), PDF
        ).text
        assert [line[:2] for line in read.split("\n") if line] == ["1．", "A．", "2．"]

    def it_begins_a_paragraph_with_the_number_of_a_clause(self):
        lines = (
            '3.1 "Works" means the works of Annex 2.',
            "3.2 The fee covers all works, and rates up to",
            "3.6 GHz are tested.",
        )
        read = _parsed(page(*(text(50, 700 - 12 * at, line) for at, line in enumerate(lines))), PDF).text
        assert read.split("\n\n")[0] == lines[0]
        assert "up to 3.6 GHz" in read.replace("\n", " ")

    def it_reads_single_letters_and_repeated_words_of_a_font_that_is_in_no_file(self):
        rows = [("品名", "单位"), ("钢管", "根"), ("砂", "吨"), ("水泥砖", "合格品"), ("水泥砖", "合格品")]
        stream = "\n".join(
            _chinese(60 + 120 * c, 700 - 16 * r, w) for r, row in enumerate(rows) for c, w in enumerate(row)
        )
        assert _parsed(_chinese_page(stream), PDF).text.splitlines() == [" | ".join(row) for row in rows]

    def it_leaves_out_the_numbers_of_pages_of_which_some_are_short(self):
        pages = (
            ["The hall opens at eight.", "Tickets are sold at the gate.", "Dogs stay outside.", "Bags are searched."],
            ["Signed"],
        )
        contents = [
            [text(50, 760 - 30 * at, line) for at, line in enumerate(lines)] + [text(260, 40, f"Page {number} of 2")]
            for number, lines in enumerate(pages, start=1)
        ]
        objects = {
            1: "<< /Type /Catalog /Pages 2 0 R >>",
            2: "<< /Type /Pages /Count 2 /Kids [6 0 R 7 0 R] >>",
            3: "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        }
        for at, marks in enumerate(contents):
            stream = "\n".join(marks)
            size = "/MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >>"
            objects[6 + at] = f"<< /Type /Page /Parent 2 0 R {size} /Contents {8 + at} 0 R >>"
            objects[8 + at] = f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream"
        assert "Page" not in _parsed(written(objects), PDF).text

    def it_keeps_cells_whole_whose_lines_end_long_before_their_edge(self):
        rows = (
            ("Tool", ("Use",), "Shelf"),
            ("Saw", ("cut the long planks to", "size before noon"), "A 1"),
            ("File", ("smooth", "every edge of the frame", "twice"), "B 2"),
            ("Awl", ("mark the", "holes"), "C 3"),
        )
        marks, y = [], 740
        for name, lines, shelf in rows:
            marks += [text(50, y, name), text(300, y, shelf)]
            marks += [text(120, y - 11 * at, line) for at, line in enumerate(lines)]
            y -= 11 * len(lines) + 10
        assert _parsed(page(*marks), PDF).text.splitlines()[1] == "Saw | cut the long planks to size before noon | A 1"
        assert (
            "Awl | mark the holes | C 3" in _parsed(page(*[mark for mark in marks if "smooth" not in mark]), PDF).text
        )

    def it_names_columns_of_wrapped_cells_by_words_that_stand_close(self):
        tasks = ("paint the tall fence of", "sweep the old yard at", "clean the windows of", "mow the wet lawn near")
        marks = [text(50, 730, "Number"), text(90, 730, "Task to be done here")]
        for at, task in enumerate(tasks):
            y = 710 - 36 * at
            marks += [text(50, y, str(at)), text(90, y, task), text(90, y - 11, "the big house")]
        read = _parsed(page(*marks), PDF).text.splitlines()
        assert read == [
            "Number | Task to be done here",
            *(f"{at} | {task} the big house" for at, task in enumerate(tasks)),
        ]

    def it_joins_the_names_of_columns_that_have_two_lines(self):
        names = ((50, "Part", "no."), (120, "Kind of", "wood"), (230, "Width", "in mm"))
        marks = [text(x, 700 - 11 * at, word) for x, *words in names for at, word in enumerate(words)]
        rows = (("11", "Oak", "40"), ("12", "Ash", "55"), ("13", "Elm", "38"))
        marks += [
            text(x, 668 - 17 * r, w) for r, row in enumerate(rows) for x, w in zip((50, 120, 230), row, strict=True)
        ]
        assert _parsed(page(*marks), PDF).text.splitlines()[:2] == [
            "Part no. | Kind of wood | Width in mm",
            "11 | Oak | 40",
        ]

    def it_names_the_columns_of_a_table_below_a_wider_gap(self):
        about = (
            ("Sample", "river", "Number", "S-7"),
            ("Sender", "Mr Ott", "Taken", "4 May"),
            ("Method", "EN 5", "Verdict", "good"),
        )
        found = (("Value", "Unit", "Limit", "Found"), ("Lead", "mg", "10", "3"), ("Zinc", "mg", "50", "12"))
        marks = [
            text(x, top - 16 * at, word)
            for top, rows in ((700, about), (620, found))
            for at, row in enumerate(rows)
            for x, word in zip((50, 170, 290, 410), row, strict=True)
        ]
        assert _parsed(page(*marks), PDF).text.endswith(
            "\n\nValue | Unit | Limit | Found\nLead | mg | 10 | 3\nZinc | mg | 50 | 12"
        )


def _workbook(*rows: list[object], merged: tuple[str, ...] = ()) -> bytes:
    workbook = Workbook()
    for row in rows:
        workbook.active.append(row)
    for cells in merged:
        workbook.active.merge_cells(cells)
    saved = io.BytesIO()
    workbook.save(saved)
    return saved.getvalue()


class DescribeTables:
    def it_names_columns_by_the_days_of_a_month_before_a_sum(self):
        rows = (["Name", *range(1, 6), "Sum"], ["Ott", *"xx-xx", 4], ["Paz", *"-xxxx", 4])
        read = _parsed(_workbook(*rows), XLSX).text
        assert "Name: Paz\n1: -\n2: x\n3: x\n4: x\n5: x\nSum: 4" in read

    def it_tells_names_of_those_who_sign_from_rows(self):
        rows = (["品名", "数量", "金额"], ["钢管", 4, 80], ["合计", 4, 80], ["经手人：赵", None, "复核：钱"])
        assert _parsed(_workbook(*rows), XLSX).text.endswith("品名: 合计\n数量: 4\n金额: 80\n\n经手人：赵 | 复核：钱")

    def it_leaves_a_header_out_that_is_repeated_below_a_gap(self):
        rows = (
            ["Question", "Answer"],
            ["Is the return free?", "Within 30 days."],
            [],
            ["Question", "Answer"],
            ["Is it far?", "Two miles."],
        )
        assert _parsed(_workbook(*rows), XLSX).text.split("\n\n")[1:] == [
            "Question: Is the return free?\nAnswer: Within 30 days.",
            "Question: Is it far?\nAnswer: Two miles.",
        ]

    def it_names_columns_by_a_few_numbers_below_the_name_of_their_group(self):
        rows = (["班组", "轮次", None], [None, 1, 2], ["甲", 30, 28], ["乙", 26, 31])
        assert "班组: 乙\n轮次 1: 26\n轮次 2: 31" in _parsed(_workbook(*rows, merged=("A1:A2", "B1:C1")), XLSX).text


class DescribeHtml:
    def it_reads_the_foot_of_a_table_last(self):
        foot = "<tfoot><tr><td>Sum<td>9</tfoot>"
        table = f"<table><tr><th>Dish<th>Price</tr>{foot}<tbody><tr><td>Soup<td>4<tr><td>Bread<td>5</table>"
        assert _parsed(table, HTML).text == "Dish | Price\nSoup | 4\nBread | 5\nSum | 9"

    def it_warns_of_a_page_of_nothing_but_its_foot(self):
        read = _parsed(
            "<header><nav><a href=1>Home</a></nav></header><div id=app></div><footer>© Ott Ltd</footer>", HTML
        )
        assert (read.text, _warning(read)) == ("© Ott Ltd", NO_CONTENT)

    def it_finds_words_with_readings(self):
        assert (
            _parsed("<p><ruby>薔薇<rt>ばら</rt></ruby>園の<ruby>入口<rp>（</rp><rt>いりぐち</rt></ruby>前", HTML).text
            == "薔薇園の入口前"
        )


class DescribeStylesOfPages:
    @pytest.mark.parametrize("rule", [".tip .full", ".tip > b", "#box b", "p.tip>.full", ".x, .tip b", "div .full"])
    def it_leaves_out_elements_hidden_by_those_around_them(self, rule: str):
        page = f"<style>{rule} {{display:none}}</style><div id=box><p class=tip>看得见 seen <b class=full>SECRET</b></p></div>"
        assert _parsed(page, HTML).text == "看得见 seen"
        assert "SECRET" in _parsed(page.replace("class=tip", "").replace("id=box", "").replace("div", "q"), HTML).text

    def it_keeps_panels_that_another_rule_opens(self):
        style = ".tabs .pane {display: none} .tabs .pane.open {display: block}"
        page = f"<style>{style}</style><div class=tabs><p class=pane>两年 two years</p></div>"
        assert _parsed(page, HTML).text == "两年 two years"


class DescribePagesWithoutContent:
    @pytest.mark.parametrize(
        "request_",
        [
            "Checking your browser before accessing example.org.",
            "You need to enable JavaScript to run this app.",
            "请启用 JavaScript 和 Cookie 后继续。",
        ],
    )
    def it_warns_of_a_page_that_only_asks_for_cookies_or_programs(self, request_: str):
        assert _warning(_parsed(f"<h1>example.org</h1><p>{request_}</p>", HTML)) == NO_CONTENT
        article = "How we deliver, what it costs, and who signs for it. " * 20
        assert not _warning(_parsed(f"<p>{article}</p><p>{request_}</p>", HTML))

    def it_leaves_out_a_menu_of_two_links_with_the_start_page(self):
        body = "<h1>停水通知 Notice</h1><p>本周三上午八点到下午两点滨河路沿线停水，请提前储水。</p>"
        menu = "<div class=top><a href=/>{}</a> | <a href=/b>Imprint</a></div>"
        for home in ("Home", "首页"):
            assert "Imprint" not in _parsed(menu.format(home) + body, HTML).text
        assert "Imprint" in _parsed(menu.format("Form A") + body, HTML).text


class DescribeCode:
    def it_keeps_two_blank_lines(self):
        code = "import os\n\n\ndef run():\n    return 1"
        text = f"# 用法 Usage\n\nWords.\n\n\n\n```py\n{code}\n```"
        assert _parsed(text, MARKDOWN).text == f"用法 Usage\n\nWords.\n\n{code}"


class DescribeSubtitles:
    @pytest.mark.parametrize(
        ("written", "read"),
        [
            (
                "WEBVTT\n\n00:01.000 --> 00:03.500 line:0 align:end\n<v.loud Mr. Ott>Close <b>the</b> <00:02.000>gate.</v>\n",
                "WEBVTT\n\n00:01.000 --> 00:03.500\nMr. Ott: Close the gate.",
            ),
            (
                "1\n00:00:01,000 --> 00:00:03,500\n{\\an8}<font color='#fff'>请系好安全带</font>\nx < 3 and y > 2\n",
                "1\n00:00:01,000 --> 00:00:03,500\n请系好安全带\nx < 3 and y > 2",
            ),
        ],
    )
    def it_reads_them_without_tags(self, written: str, read: str):
        assert _parsed(written, PLAIN).text.strip() == read

    def it_keeps_tags_of_other_texts(self):
        assert _parsed("1\nuse <b> for bold {\\an8}\n", PLAIN).text.strip() == "1\nuse <b> for bold {\\an8}"
