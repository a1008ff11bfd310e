"""Further kinds of documents as people have them, each with a small file: what a reader of the original knows."""

import io
import zipfile

import pytest

from pipeline.parsing.encodings import read_text
from pipeline.parsing.formats import CSV, DOCX, HTML, JSON, PDF, PLAIN, RTF, parse
from pipeline.records import Parsed
from tests.support.corpora.formats import archive, docx, paragraph
from tests.unit.parsing.test_pdf_pages import page, text

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def _parsed(body: str | bytes, media_type: str) -> Parsed:
    return parse(body.encode() if isinstance(body, str) else body, media_type=media_type)


def _warning(parsed: Parsed) -> str:
    return (parsed.encoding and (parsed.encoding.pages_warning or parsed.encoding.warning)) or ""


def _run(written: str, look: str = "") -> str:
    return f'<w:r><w:rPr>{look}</w:rPr><w:t xml:space="preserve">{written}</w:t></w:r>'


def _listed(written: str, *, depth: int = 0, number: str = "1") -> str:
    place = f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{number}"/></w:numPr>'
    return f"<w:p><w:pPr>{place}</w:pPr>{_run(written)}</w:p>"


def _level(depth: int, kind: str, written: str, more: str = "") -> str:
    return f'<w:lvl w:ilvl="{depth}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/>{more}<w:lvlText w:val="{written}"/></w:lvl>'


def _abstract(levels: str, *, number: int = 0) -> str:
    return f'<w:abstractNum w:abstractNumId="{number}">{levels}</w:abstractNum>'


_NUM = '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'


def _with_numbers(body: str, numbering: str) -> str:
    return _parsed(
        docx(body, parts={"word/numbering.xml": f'<w:numbering xmlns:w="{_WORD}">{numbering}</w:numbering>'}), DOCX
    ).text


class DescribePages:
    def it_reads_a_table_whose_columns_stand_close_to_each_other(self):
        rows = [
            ("Model", "Params", "Accuracy"),
            ("Base", "110M", "81.2"),
            ("Large", "340M", "84.6"),
            ("小", "4M", "70.1"),
        ]
        cells = [
            text(x, 700 - 18 * y, word)
            for y, row in enumerate(rows[:3])
            for x, word in zip((245, 284, 331), row, strict=True)
        ]
        last = [text(x, 646, word) for x, word in zip((245, 284, 331), ("Tiny", "4M", "70.1"), strict=True)]
        read = _parsed(page(text(56, 730, "Table 1: Accuracy"), *cells, *last), PDF).text
        assert (
            read
            == "Table 1: Accuracy\n\nModel | Params | Accuracy\nBase | 110M | 81.2\nLarge | 340M | 84.6\nTiny | 4M | 70.1"
        )

    def it_reads_narrow_columns_of_values_beside_a_long_name(self):
        rows = [("Method", "Train", "Dev", "Size"), ("Rules", "61.2", "58.0", "none"), ("Tree", "70.4", "63.9", "2 M")]
        rows.append(("Ours (small)", "71.0", "66.2", "5 M"))
        marks = [
            text(x, 700 - 18 * y, word)
            for y, row in enumerate(rows)
            for x, word in zip((50, 122, 155, 186), row, strict=True)
        ]
        assert _parsed(page(*marks), PDF).text == "\n".join(map(" | ".join, rows))

    def it_joins_letters_of_cells_that_were_drawn_one_by_one(self):
        names = [text(50, 700, "Gulasch"), text(50, 680, "Brot"), text(50, 660, "Tee")]
        widths = {"1": 5.56, "3": 5.56, "5": 5.56, ",": 2.78, "0": 5.56}
        prices = []
        for y, price in ((700, "13,50"), (680, "3,50"), (660, "1,50")):
            x = 300.0
            for letter in price:
                prices.append(text(x, y, letter))
                x += widths[letter]
        assert _parsed(page(*names, *prices), PDF).text == "Gulasch | 13,50\nBrot | 3,50\nTee | 1,50"

    def it_takes_no_line_that_runs_up_the_margin_for_the_title(self):
        lines = [text(60, 700 - 14 * at, "The survey of the farms covers line", str(at)) for at in range(8)]
        marks = (text(60, 760, "Water Use", size=15), text(25, 300, "arXiv:2405.01234v1", size=20, turned=True), *lines)
        assert _parsed(page(*marks), PDF).title == "Water Use"

    def it_reads_columns_of_short_paragraphs_below_a_heading_of_one_of_them(self):
        def column(x: float, y: float, name: str) -> list[str]:
            marks = []
            for at in range(5):
                for line in (
                    f"Paragraph {name} {at} says that the sand of",
                    f"the hill {at} runs through the glass in a",
                    "minute.",
                ):
                    marks.append(text(x, y, line, size=9))
                    y -= 11
                y -= 9
            return marks

        right = column(320, 718, "right")
        marks = [
            text(180, 770, "On the Flow of Sand", size=18),
            text(60, 706, "1 Introduction", size=13),
            *column(60, 684, "left"),
            *right,
        ]
        read = " ".join(_parsed(page(*marks), PDF).text.split())
        assert (
            "the hill 4 runs through the glass in a minute. Paragraph right 0 says that the sand of the hill 0" in read
        )
        assert read.index("1 Introduction") < read.index("Paragraph left 0")


class DescribeTables:
    @pytest.mark.parametrize("scale", [("0%", "5%", "10%"), ("2.5", "10", "40")])
    def it_names_columns_by_a_scale_beside_an_empty_corner(self, scale: tuple[str, ...]):
        read = _parsed(f",{','.join(scale)}\nRetail,10,7,30\n批发,40,50,6\n", CSV).text
        assert f"批发\n{scale[0]}: 40\n{scale[1]}: 50\n{scale[2]}: 6" in read

    @pytest.mark.parametrize(
        ("rows", "read"),
        [
            ("姓名,张三\n电话,13800001111\n地址,青年路4号\n", "姓名: 张三\n\n电话: 13800001111\n\n地址: 青年路4号"),
            ("Name,Ann Holm\nPhone,0731 55\nCity,Ulm\n", "Name: Ann Holm\n\nPhone: 0731 55\n\nCity: Ulm"),
            ("Capacity,40 m3\nColour,red\n", "Capacity: 40 m3\n\nColour: red"),
            ("客户,地区\n甲公司,华东\n乙公司,华北\n", "客户: 甲公司\n地区: 华东\n\n客户: 乙公司\n地区: 华北"),
            ("Customer,Region\nNord company,East\nSüd company,West\n", "Customer: Nord company\nRegion: East"),
            ("Product,1st half\nPump,12\nLid,4\n", "Product: Pump\n1st half: 12\n\nProduct: Lid\n1st half: 4"),
        ],
    )
    def it_tells_a_form_of_two_columns_from_a_table(self, rows: str, read: str):
        assert _parsed(rows, CSV).text.startswith(read)

    def it_keeps_the_notes_of_cells_below_their_table(self):
        note = f'<w:footnotes xmlns:w="{_WORD}"><w:footnote w:id="3">{paragraph("Prices of 2023.")}</w:footnote></w:footnotes>'
        call = f'<w:p>{_run("Price")}<w:r><w:footnoteReference w:id="3"/></w:r></w:p>'
        cells = f"<w:tr><w:tc>{paragraph('Part')}</w:tc><w:tc>{call}</w:tc></w:tr>"
        cells += f"<w:tr><w:tc>{paragraph('盖')}</w:tc><w:tc>{paragraph('8')}</w:tc></w:tr>"
        body = docx(f"<w:tbl>{cells}</w:tbl>" + paragraph("Two years."), parts={"word/footnotes.xml": note})
        assert _parsed(body, DOCX).text == "Part | Price[3]\n盖 | 8\n\n[3] Prices of 2023.\n\nTwo years."


class DescribeNumbersOfWord:
    def it_writes_chinese_marks_without_a_space(self):
        levels = _level(0, "chineseCounting", "（%1）") + _level(1, "decimal", "第%2条")
        assert (
            _with_numbers(_listed("询价") + _listed("采购", depth=1), _abstract(levels) + _NUM)
            == "（一）询价\n  第1条 采购"
        )

    @pytest.mark.parametrize(("written", "read"), [("%1.", "1.总则"), ("第%1章", "第1章总则"), ("%1", "1 总则")])
    def it_joins_a_number_that_nothing_follows(self, written: str, read: str):
        level = _level(0, "decimal", written, '<w:suff w:val="nothing"/>')
        assert _with_numbers(_listed("总则"), _abstract(level) + _NUM) == read

    def it_follows_a_list_to_the_style_that_numbers_it(self):
        linked = _abstract('<w:numStyleLink w:val="Klauseln"/>')
        own = _abstract(f'<w:styleLink w:val="Klauseln"/>{_level(0, "decimal", "§ %1")}', number=1)
        lists = _NUM + '<w:num w:numId="2"><w:abstractNumId w:val="1"/></w:num>'
        assert _with_numbers(_listed("Miete") + _listed("Kaution"), linked + own + lists) == "§ 1 Miete\n§ 2 Kaution"

    def it_counts_as_a_list_describes_its_own_level(self):
        abstract = _abstract(_level(0, "decimal", "%1."))
        override = f'<w:lvlOverride w:ilvl="0">{_level(0, "upperRoman", "%1)")}</w:lvlOverride>'
        lists = _NUM.replace("</w:num>", f"{override}</w:num>")
        assert _with_numbers(_listed("eins") + _listed("zwei"), abstract + lists) == "I) eins\nII) zwei"


class DescribeRaisedText:
    def it_reads_character_styles_that_raise(self):
        style = '<w:style w:styleId="Hoch"><w:rPr><w:vertAlign w:val="superscript"/></w:rPr></w:style>'
        sheet = f'<w:styles xmlns:w="{_WORD}">{style}</w:styles>'
        power = _run("6", '<w:rStyle w:val="Hoch"/>')
        body = docx(f"<w:p>{_run('10')}{power}{_run(' 个细胞')}</w:p>", parts={"word/styles.xml": sheet})
        assert _parsed(body, DOCX).text == "10^6 个细胞"

    def it_reads_classes_that_raise(self):
        style = "<style>.hoch{vertical-align:super;font-size:70%} b.tief{vertical-align:sub}</style>"
        read = _parsed(f'{style}<p>10<span class="hoch">6</span> Zellen, log<b class="tief">2</b>8</p>', HTML).text
        assert read == "10^6 Zellen, log_2 8"

    def it_reads_digits_that_rich_text_moves_up(self):
        assert _parsed(rb"{\rtf1\ansi Ratio 4{\fs14\up6 3} and H{\dn4 2}O\par}", RTF).text == "Ratio 4^3 and H2O"

    def it_reads_isotopes_and_limits_of_formulas(self):
        def r(letters: str) -> str:
            return f"<m:r><m:t>{letters}</m:t></m:r>"

        isotope = f"<m:sPre><m:sub>{r('6')}</m:sub><m:sup>{r('14')}</m:sup><m:e>{r('C')}</m:e></m:sPre>"
        limit = f"<m:limLow><m:e>{r('lim')}</m:e><m:lim>{r('n')}</m:lim></m:limLow>"
        body = f'<w:p xmlns:m="m"><m:oMath>{isotope}</m:oMath></w:p><w:p xmlns:m="m"><m:oMath>{limit}</m:oMath></w:p>'
        assert _parsed(docx(body), DOCX).text == "_6^14 C\n\nlim_n"

    @pytest.mark.parametrize(
        ("field", "read"), [(r"EQ \f(3,20)", "(3)/(20)"), (r"eq \r(3;8)", "root(3, 8)"), ("PAGEREF _x", "")]
    )
    def it_reads_the_formulas_of_old_fields(self, field: str, read: str):
        marks = [f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "end")]
        inner = f"<w:r><w:instrText> {field[:5]}</w:instrText></w:r><w:r><w:instrText>{field[5:]} </w:instrText></w:r>"
        assert _parsed(docx(f"<w:p>{_run('占比')}{marks[0]}{inner}{marks[1]}</w:p>"), DOCX).text == f"占比{read}"


class DescribeForms:
    @pytest.mark.parametrize(("chosen", "read"), [('<w:result w:val="1"/>', "Komfort"), ("", "Basis")])
    def it_reads_the_choice_of_an_old_form(self, chosen: str, read: str):
        entries = '<w:listEntry w:val="Basis"/><w:listEntry w:val="Komfort"/>'
        field = f"<w:ffData><w:ddList>{chosen}{entries}</w:ddList></w:ffData>"
        body = f'<w:p>{_run("Tarif: ")}<w:r><w:fldChar w:fldCharType="begin">{field}</w:fldChar></w:r></w:p>'
        assert _parsed(docx(body), DOCX).text == f"Tarif: {read}"


class DescribeHiddenText:
    def it_follows_rules_for_a_class_of_one_element(self):
        style = "<style>p.no, div#x{display:none!important} p.panel{display:none} .panel.open{display:block}</style>"
        body = '<p>Seen.</p><p class="no">Gone</p><div id="x">Gone</div><div class="no">也可见</div><p class="panel">Panel</p>'
        assert _parsed(style + body, HTML).text == "Seen.\n\n也可见\n\nPanel"

    def it_leaves_out_the_colours_of_terminals(self):
        assert _parsed("\x1b[1;31m错误\x1b[0m valve [7m] stuck", PLAIN).text == "错误 valve [7m] stuck"


class DescribeSlightlyWrongFiles:
    @pytest.mark.parametrize(
        ("body", "read", "line"),
        [
            ('{"a": "eins"}\n{"a": "二"}\n{"a": "cut', "a: eins\n\na: 二", 3),
            ('{"a": "eins"}\n}\n', "a: eins", 2),
        ],
    )
    def it_leaves_out_lines_that_are_not_json(self, body: str, read: str, line: int):
        parsed = _parsed(body, JSON)
        assert parsed.text == read
        assert _warning(parsed) == f"1 lines are not JSON and were left out, the first in line {line}"

    @pytest.mark.parametrize(
        "body", ["Die Brücke über den Fluss ist für LKW gesperrt.", "桥梁已经关闭，请绕行。" * 2], ids=["de", "zh"]
    )
    def it_reads_utf8_with_damaged_places(self, body: str):
        found = read_text(body.encode() + b"\xff\xfe\x80" + body.encode())
        assert found.text == f"{body}\ufffd\ufffd\ufffd{body}"
        assert found.encoding.warning == "3 places of the text cannot be decoded as utf-8"

    def it_reads_a_text_with_a_single_nul(self):
        parsed = _parsed(b"Name,Ort\nEva\0,Bonn\nUwe,Trier\n", CSV)
        assert parsed.text == "Name: Eva\nOrt: Bonn\n\nName: Uwe\nOrt: Trier"
        assert _warning(parsed) == "NUL bytes in the text were left out"

    def it_takes_a_page_with_two_nuls_for_no_utf16(self):
        assert _parsed(b"<html><body><p>The qu\0ay is shut.</p>\0</body></html>", HTML).text == "The qu ay is shut."

    def it_tells_of_question_marks_in_place_of_characters(self):
        assert "may have been lost" in _warning(_parsed("Name,Ort\n????,????\n?????,??\n", CSV))
        assert _warning(_parsed("Really?? Who knows what the answer to such a question is.", PLAIN)) == ""

    @pytest.mark.parametrize(
        ("body", "codec"), [("Příliš žluťoučký kůň úpěl.", "cp852"), ("Насос проверен.", "mac-cyrillic")]
    )
    def it_reads_older_encodings_of_central_and_eastern_europe(self, body: str, codec: str):
        assert read_text(body.encode(codec)).text == body

    def it_refuses_a_part_that_unpacks_to_too_much(self):
        pad = " " * (129 * 1024 * 1024)
        body = archive(
            {"word/document.xml": f'<w:document xmlns:w="{_WORD}"><w:body>{pad}</w:body></w:document>'.encode()}
        )
        with pytest.raises(Exception, match="unpacks to more than 128 MiB"):
            _parsed(body, DOCX)


class DescribeTitles:
    @pytest.mark.parametrize("title", ["新建 Microsoft Word 文档", "Doc1", "标题", "页面 1", "Unknown Title"])
    def it_takes_none_that_a_program_wrote(self, title: str):
        core = f'<c xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></c>'
        body = io.BytesIO(docx(paragraph("采购管理办法", "Heading1") + paragraph("自发布之日起施行。")))
        with zipfile.ZipFile(body, "a") as opened:
            opened.writestr("docProps/core.xml", core)
        assert _parsed(body.getvalue(), DOCX).title == "采购管理办法"
