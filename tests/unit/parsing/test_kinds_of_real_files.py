"""Kinds of documents that real files of other programs showed: what a reader of the original knows."""

import io
from zipfile import ZipFile

import pytest
from pptx import Presentation
from pptx.dml.color import RGBColor
from pptx.oxml import parse_xml
from pptx.util import Inches, Pt

from pipeline.documents.cut_document import cut_document
from pipeline.errors import MalformedDocument
from pipeline.parsing.formats import CSV, DOCX, EML, HTML, MARKDOWN, ODT, PDF, PLAIN, PPTX, RTF, XLSB, XLSX, parse
from pipeline.parsing.sniffing import media_type_shown
from pipeline.records import Chunking, Parsed
from tests.support.corpora.formats import docx, written
from tests.support.corpora.other_formats import opendocument, xlsb
from tests.support.corpora.scans import page, picture
from tests.unit.parsing.test_pdf_pages import text

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def _read(body: str | bytes, media_type: str, filename: str | None = None) -> Parsed:
    return parse(body.encode() if isinstance(body, str) else body, media_type=media_type, filename=filename)


def _warning(parsed: Parsed) -> str:
    return (parsed.encoding and parsed.encoding.pages_warning) or ""


def _word(body: str, styles: str = "") -> Parsed:
    return _read(docx(body, parts={"word/styles.xml": f'<w:styles xmlns:w="{_WORD}">{styles}</w:styles>'}), DOCX)


def _p(text: str, style: str = "", look: str = "") -> str:
    own = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{own}<w:r><w:rPr>{look}</w:rPr><w:t>{text}</w:t></w:r></w:p>"


def _right_to_left(lines: list[str], letters: str) -> bytes:
    """A page of lines whose glyphs are drawn from left to right, in a font that names them; ``|`` stands for two letters in
    one glyph, the second and the third of ``letters``."""
    codes = {letter: 65 + at for at, letter in enumerate(letters)} | {"|": 123}
    names = [f"<{code:02X}> <{ord(letter):04X}>" for letter, code in codes.items() if letter != "|"]
    names.append(f"<7B> <{ord(letters[1]):04X}{ord(letters[2]):04X}>")
    to_unicode = (
        "/CIDInit /ProcSet findresource begin 1 begincmap 1 begincodespacerange <00> <FF> endcodespacerange"
        f" {len(names)} beginbfchar {' '.join(names)} endbfchar endcmap"
    )
    drawn = "".join(
        f"BT /F1 12 Tf 1 0 0 1 {545 - 7.2 * len(line)} {780 - 16 * at} Tm"
        f" ({''.join(chr(codes.get(letter, ord(letter))) for letter in reversed(line))}) Tj ET "
        for at, line in enumerate(lines)
    )
    font = "/Type /Font /Subtype /Type1 /BaseFont /Courier /Encoding /WinAnsiEncoding /ToUnicode 6 0 R"
    page = "/Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >> /Contents 5 0 R"
    return written(
        {
            1: "<< /Type /Catalog /Pages 2 0 R >>",
            2: "<< /Type /Pages /Count 1 /Kids [4 0 R] >>",
            3: f"<< {font} >>",
            4: f"<< {page} >>",
            5: f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
            6: f"<< /Length {len(to_unicode)} >>\nstream\n{to_unicode}\nendstream",
        }
    )


class DescribePagesFromRightToLeft:
    @pytest.mark.parametrize("letters", ["بلاموتفق", "אבגדהוזח"], ids=["Arabic", "Hebrew"])
    def it_reads_words_columns_and_numbers_in_their_order(self, letters: str):
        first, second = letters[3] + letters[4] + letters[0], letters[5] + letters[6]
        lines = [f"{first} {second} {letters[7]}|{letters[3]} 2024 {first}", f"{second} {first} {letters[4] * 6}"]
        found = _read(_right_to_left([line.replace("2024", "4202") for line in lines], letters), PDF).text
        ligature = letters[7] + letters[1] + letters[2] + letters[3]
        assert " ".join(found.split()) == f"{first} {second} {ligature} 2024 {first} {lines[1]}"


def _pages(*streams: str) -> bytes:
    pages = {
        number: "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >>"
        f" /Contents {number + 1} 0 R >>"
        for number in range(10, 10 + 2 * len(streams), 2)
    }
    contents = {
        number + 1: f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream"
        for number, stream in zip(pages, streams, strict=True)
    }
    kids = " ".join(f"{number} 0 R" for number in pages)
    tree = {1: "<< /Type /Catalog /Pages 2 0 R >>", 2: f"<< /Type /Pages /Count {len(streams)} /Kids [{kids}] >>"}
    return written({**tree, 3: "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>", **pages, **contents})


class DescribePages:
    def it_keeps_a_large_title_that_running_heads_repeat(self):
        lines = "".join(text(60, 700 - 14 * at, f"Line {chr(97 + at)} of a page with words enough.") for at in range(9))
        pages = [
            text(60, 800, "Pumps in winter", size=10 if number else 20)
            + lines.replace("Line", f"Line {'abcd'[number]}")
            for number in range(4)
        ]
        parsed = _read(_pages(*pages), PDF)
        assert parsed.text.count("Pumps in winter") == 1
        assert parsed.title == "Pumps in winter"

    def it_keeps_a_caption_apart_from_the_sentence_that_goes_on_below_it(self):
        rest = "".join(
            text(60, 660 - 12 * at, "goes on with a line of the paragraph that began above.") for at in range(9)
        )
        caption = text(150, 700, "Fig. 1 - The dimensions of our example")
        parsed = _read(_pages(caption + rest), PDF)
        assert "Fig. 1 - The dimensions of our example\n\ngoes on" in parsed.text


class DescribeWordsThatNobodySees:
    @pytest.mark.parametrize(
        "hiding",
        [
            "<style>.a{position:absolute;left:-9999px}</style><p class=a>SECRET</p>",
            "<style>.a{font-size:0}</style><p class=a>SECRET</p>",
            "<style>.a{opacity:0}</style><p class=a>SECRET</p>",
            "<style>.a{color:#fff}</style><p class=a>SECRET</p>",
            '<p style="color: white">SECRET</p>',
            '<p style="transform:scale(0)">SECRET</p>',
            '<p style="font-size:0px">SECRET</p>',
        ],
    )
    def it_leaves_them_out_of_a_page_of_html(self, hiding: str):
        parsed = _read(f"<body><p>价格 9 元</p>{hiding}<p>End</p></body>", HTML)
        assert parsed.text == "价格 9 元\n\nEnd"
        assert _warning(parsed) == "1 elements that the page does not show were left out"

    @pytest.mark.parametrize(
        "shown",
        [
            '<td style="font-size:0px;padding:9px"><div style="font-size:13px">Shown 显示</div></td>',  # MJML writes so
            "<style>.a{font-size:0}.b{font-size:9px}</style><div class=a><div class=b>Shown 显示</div></div>",
            "<style>.a{opacity:0;transition:all 1s}</style><p class=a>Shown 显示</p>",
            "<style>.a{opacity:0}.a.on{opacity:1}</style><p class=a>Shown 显示</p>",
            '<body style="background:#123"><p style="color:#fff">Shown 显示</p></body>',
            "<style>.a{color:#fff;background:#06c}</style><a class=a>Shown 显示</a>",
            '<iframe srcdoc="&lt;p&gt;Shown 显示&lt;/p&gt;&lt;p hidden&gt;SECRET&lt;/p&gt;"></iframe>',
        ],
    )
    def it_reads_what_others_show(self, shown: str):
        assert _read(shown, HTML).text == "Shown 显示"

    def it_reads_the_article_that_a_program_shows_once_the_page_is_loaded(self):
        article = "第一步断电，第二步放水。" * 30
        style = "visibility: hidden; opacity: 0;"
        shown = _read(f'<h1>保养</h1><div style="{style}"><p>{article}</p></div>', HTML)
        assert article in shown.text
        assert not _warning(shown)
        hidden = _read(f'<h1>保养</h1><p>{article}</p><div style="{style}">{"SECRET " * 9}</div>', HTML)
        assert "SECRET" not in hidden.text

    def it_leaves_white_and_hidden_styles_of_word_out_unless_others_switch_them_off(self):
        base = '<w:style w:default="1" w:styleId="N"><w:rPr><w:vanish/></w:rPr></w:style>'
        shown = '<w:style w:styleId="S"><w:basedOn w:val="N"/><w:rPr><w:vanish w:val="0"/></w:rPr></w:style>'
        white = '<w:style w:styleId="W"><w:rPr><w:vanish w:val="0"/><w:color w:val="FFFFFF"/></w:rPr></w:style>'
        parsed = _word(_p("可见 shown", "S") + _p("SECRET", "W"), base + shown + white)
        assert parsed.text == "可见 shown"
        assert _warning(parsed) == "hidden text was left out"

    def it_leaves_them_out_of_opendocument_and_rich_text(self):
        white = '<style:style style:name="W"><style:text-properties fo:color="#ffffff"/></style:style>'
        content = '<text:p>可见</text:p><text:p text:style-name="W">SECRET</text:p>'
        colours = r"{\colortbl;\red255\green255\blue255;}"
        for parsed in (
            _read(opendocument("text", content, styles=white), ODT),
            _read(rf"{{\rtf1\ansi{colours}\u21487?\u35265?\par{{\cf1 SECRET}}\par{{\fs1 SECRET}}\par}}", RTF),
        ):
            assert parsed.text == "可见"
            assert _warning(parsed) == "hidden text was left out"

    def it_leaves_them_out_of_slides(self):
        presentation = Presentation()
        slide = presentation.slides.add_slide(presentation.slide_layouts[6])
        for at, words in enumerate(("可见 shown", "SECRET", "SECRET")):
            run = slide.shapes.add_textbox(0, Inches(at), Inches(3), Inches(1)).text_frame.paragraphs[0].add_run()
            run.text = words
            if at == 1:
                run.font.color.rgb = RGBColor(255, 255, 255)
            elif at == 2:
                run.font.size = Pt(1)
        parsed = _read(_saved(presentation), PPTX)
        assert parsed.text == "可见 shown"
        assert _warning(parsed) == "hidden text was left out"

    def it_leaves_them_out_of_binary_workbooks(self):
        rows = [["名称", "Price"], ["Pump", (940, 1)], ["Valve", (66, 2)]]
        parsed = _read(xlsb({"S": rows}, formats=["0", "0"], white=True), XLSB)
        assert parsed.text == "S\n\n名称: Pump\nPrice: 940\n\n名称: Valve"


def _saved(presentation) -> bytes:
    file = io.BytesIO()
    presentation.save(file)
    return file.getvalue()


class DescribeAlternativeTexts:
    @pytest.mark.parametrize(
        ("alternative", "expected"),
        [
            ("Sales rise from 3 to 8", "Sales rise from 3 to 8"),
            ("水泵剖面图", "水泵剖面图"),
            ("A map&#10;&#10;Description automatically generated", "A map"),
            ("IMG_0042.png", ""),
            (r"C:\pictures\a", ""),
            ("Picture 3", ""),
        ],
    )
    def it_reads_those_of_word_html_and_opendocument(self, alternative: str, expected: str):
        properties = f'<wp:docPr xmlns:wp="urn:wp" id="1" name="Picture 3" descr="{alternative}"/>'
        drawing = f"<w:p><w:r><w:drawing>{properties}</w:drawing></w:r></w:p>"
        frame = f"<text:p><draw:frame><draw:image/><svg:desc>{alternative}</svg:desc></draw:frame></text:p>"
        expected = f"Start\n\n{expected}".strip()
        assert _word(_p("Start") + drawing).text == expected
        assert _read(opendocument("text", f"<text:p>Start</text:p>{frame}"), ODT).text == expected
        assert _read(f'<p>Start</p><p><img alt="{alternative}"></p>', HTML).text == expected

    def it_reads_those_of_slides(self):
        presentation = Presentation()
        slide = presentation.slides.add_slide(presentation.slide_layouts[5])
        slide.shapes.title.text = "市场"
        shape = slide.shapes.add_picture(io.BytesIO(picture(page("x"))), 0, Inches(2))
        shape._element.nvPicPr.cNvPr.set("descr", "Sales rise from 3 to 8")
        assert _read(_saved(presentation), PPTX).text == "市场\n\nSales rise from 3 to 8"


class DescribeSlides:
    def it_reads_a_slide_with_ink_and_leaves_its_date_and_number_out(self):
        presentation = Presentation()
        slide = presentation.slides.add_slide(presentation.slide_layouts[5])
        slide.shapes.title.text = "计划 Plan"
        office = "http://schemas.openxmlformats.org"
        names = " ".join(
            f'xmlns:{name}="{office}/{kind}/2006/{what}"'
            for name, kind, what in (
                ("p", "presentationml", "main"),
                ("a", "drawingml", "main"),
                ("mc", "markup-compatibility", ""),
            )
        ).replace('2006/"', '2006"')
        ink = f"<mc:AlternateContent {names}><mc:Choice><p:contentPart/></mc:Choice></mc:AlternateContent>"
        number = (
            f'<p:sp {names}><p:nvSpPr><p:cNvPr id="9" name="n"/><p:cNvSpPr/><p:nvPr><p:ph type="sldNum"/></p:nvPr></p:nvSpPr>'
            "<p:spPr/><p:txBody><a:bodyPr/><a:p><a:r><a:t>17</a:t></a:r></a:p></p:txBody></p:sp>"
        )
        for each in (ink, number):
            slide.shapes._spTree.append(parse_xml(each))
        assert _read(_saved(presentation), PPTX).text == "计划 Plan"


_ROWS = [
    (f"ZX-{number:03}", number + 10, number + 40, "每季度检查 check it and log the result") for number in range(99)
]
_TWO_ROWS = (
    "<tr><td>Part</td><td colspan=2>扭矩</td><td>Note</td></tr><tr><td></td><td>Least</td><td>Most</td><td></td></tr>"
)
_GROUPS = "<tr><td></td><td colspan=3>扭矩</td></tr><tr><td></td><td>Least</td><td>Most</td><td>Note</td></tr>"
_UNITS = (
    "<tr><th>Part</th><th>Least</th><th>Most</th><th>扭矩</th></tr><tr><td></td><td>Nm</td><td>Nm</td><td></td></tr>"
)


class DescribeHeadersOfTwoRows:
    @pytest.mark.parametrize(
        ("page", "media_type", "names"),
        [
            (_TWO_ROWS, HTML, ("扭矩", "Least", "Most")),
            (_GROUPS, HTML, ("扭矩", "Least", "Most")),
            (_UNITS, HTML, ("扭矩", "Nm")),
            ("| Part | 扭矩 | | Note |\n|--|--|--|--|\n| | Least | Most | |\n", MARKDOWN, ("扭矩", "Least", "Most")),
        ],
    )
    def it_repeats_both_above_later_parts(self, page: str, media_type: str, names: tuple[str, ...]):
        cells = [[str(cell) for cell in row] for row in _ROWS]
        if media_type == HTML:
            page = f"<table>{page}{''.join(f'<tr><td>{row}' for row in map('<td>'.join, cells))}</table>"
        else:
            page += "\n".join(f"| {' | '.join(row)} |" for row in cells)
        cut = cut_document(_read(page, media_type), title=None, chunking=Chunking(), tokenizer=None, most=99)
        assert len(cut.passages) > 2
        assert all(name in passage.text for passage in cut.passages for name in names)

    def it_names_columns_of_a_survey_by_questions_and_options(self):
        rows = "ID,满意吗 Satisfied?,使用 Which?,,Anything else?\n,Response,Phone,网店,Open\n"
        rows += "1,yes,Phone,,none\n2,no,,网店,late\n"
        assert _read(rows, CSV).text.endswith(
            "ID: 2\n满意吗 Satisfied? Response: no\n使用 Which? 网店: 网店\nAnything else? Open: late"
        )


_ORG = """#+TITLE: 手册
* Care
:PROPERTIES:
:ID: 7
:END:
** 换油 :tag:
Every *500* hours.

| Part | Price |
|------+-------|
| Seal | 4 |
"""
_TEX = r"""\documentclass{a}
\title{手册}
\begin{document}
\maketitle % nobody sees it
\section{Care}
\subsection{换油}\label{x}
Every \textbf{500} hours.

\begin{tabular}{ll}
Part & Price \\
\hline
Seal & 4 \\
\end{tabular}
\end{document}
"""
_RST = (
    "====\n手册\n====\n\nCare\n----\n\n换油\n~~~~\n\nEvery **500** hours.\n\n| Part | Price |\n|--|--|\n| Seal | 4 |\n"
)


_ADOC = """= 手册
Author Name <a@example.org>
:toc:

== Care
// nobody sees it
=== 换油

Every *500* hours.

[cols="1,1",options="header"]
|===
|Part |Price

|Seal
|4
|===
"""
_GRID = "+------+-------+\n| Part | Price |\n+======+=======+\n| Seal | 4     |\n+------+-------+\n"
_RULED = "====  =====\nPart  Price\n====  =====\nSeal  4\n====  =====\n"
_COMMAS = '.. csv-table::\n   :header: "Part", "Price"\n\n   "Seal", 4\n'
_SIGNS = ".. csv-table::\n   :delim: ;\n\n   Part; Price\n   Seal; 4\n"
_LISTED = ".. list-table::\n   :header-rows: 1\n\n   * - Part\n     - Price\n   * - Seal\n     - 4\n"


class DescribeLightMarkup:
    @pytest.mark.parametrize(
        ("name", "body"),
        [("a.org", _ORG), ("a.tex", _TEX), ("a.rst", _RST), ("a.adoc", _ADOC)],
        ids=["org", "tex", "rst", "adoc"],
    )
    def it_reads_headings_words_and_tables(self, name: str, body: str):
        parsed = _read(body, PLAIN, name)
        assert parsed.title == "手册"
        assert parsed.text.removeprefix("手册\n\n") == "Care\n\n换油\n\nEvery 500 hours.\n\nPart | Price\nSeal | 4"
        assert parsed.sections[-1].heading_path[-2:] == ("Care", "换油")

    @pytest.mark.parametrize(
        ("name", "body"),
        [
            *(("a.rst", table) for table in (_GRID, _RULED, _LISTED, _COMMAS, _SIGNS)),
            ("a.tex", r"\begin{tabular}{lr}\hline Part & Price \\ \hline Seal & 4 \\\end{tabular}"),
        ],
    )
    def it_reads_each_form_of_a_table(self, name: str, body: str):
        assert _read(body, PLAIN, name).text == "Part | Price\nSeal | 4"

    @pytest.mark.parametrize(
        ("name", "body"),
        [
            ("a.rst", ".. code-block:: sh\n   :linenos:\n\n   if a:\n       run  -x\n\n#. 断电\n#. wait\n"),
            (
                "a.tex",
                "\\begin{verbatim}\nif a:\n    run  -x\n\\end{verbatim}\n"
                "\\begin{enumerate}\\item 断电\n\\item wait\\end{enumerate}",
            ),
            ("a.adoc", "[source,sh]\n----\nif a:\n    run  -x\n----\n\n. 断电\n. link:https://example.org[wait]\n"),
        ],
        ids=["rst", "tex", "adoc"],
    )
    def it_keeps_code_and_counts_items(self, name: str, body: str):
        assert _read(body, PLAIN, name).text == "if a:\n    run  -x\n\n1. 断电\n2. wait"

    def it_takes_no_last_line_of_code_for_a_heading(self):
        body = "用法 Use\n========\n\n.. code-block:: sh\n\n   make clean\n\n   make all\n\nText.\n"
        assert _read(body, PLAIN, "a.rst").text == "用法 Use\n\nmake clean\n\nmake all\n\nText."

    @pytest.mark.parametrize(
        ("name", "body"),
        [
            ("a.rst", '.. csv-table:: 价格 Prices\n   :widths: 1, 2\n\n   Part, Price\n   "Seal, red", 4\n'),
            ("a.rst", _LISTED.replace("::", ":: 价格 Prices").replace("Seal", "Seal, red")),
            ("a.org", "#+CAPTION: 价格 Prices\n| Part | Price |\n|-----+---|\n| Seal, red | 4 |\n|-----+---|\n"),
        ],
        ids=["csv-table", "list-table", "org"],
    )
    def it_reads_the_caption_above_a_table(self, name: str, body: str):
        assert _read(body, PLAIN, name).text == "价格 Prices\n\nPart | Price\nSeal, red | 4"

    def it_reads_names_that_stand_for_words_and_leaves_out_comments(self):
        body = "Use |泵| 2 | 3, see [1]_.\n\n.. |泵| replace:: pump P-7\n\n.. nobody sees it\n   nor this\n\n.. [1] A note.\n"
        assert _read(body, PLAIN, "a.rst").text == "Use pump P-7 2 | 3, see [1].\n\n[1] A note."

    def it_names_the_pictures_of_restructuredtext(self):
        assert _read(".. image:: a.png\n   :width: 9\n   :alt: 泵站 plan\n", PLAIN, "a.rst").text == "泵站 plan"

    def it_leaves_other_texts_as_they_are(self):
        assert _read("* no heading\n", PLAIN, "a.txt").text == "* no heading"


class DescribePartsThatSeveralPagesShare:
    def it_reads_a_note_after_the_sentence_that_goes_on_on_the_next_page(self):
        begins = "".join(
            text(60, 760 - 15 * at, f"The board met and heard a report on dam {at},", size=11) for at in range(9)
        )
        note = text(60, 100, "2 Report of the district, number 88.", size=8)
        goes_on = text(60, 760, "which was inspected in the winter. The next report is due.", size=11)
        parsed = _read(_pages(begins + note, goes_on), PDF)
        assert parsed.text.endswith(
            "on dam 8,\n\nwhich was inspected in the winter. The next report is due.\n\n2 Report of the district, number 88."
        )
        assert [section.page for section in parsed.sections] == [1, 2, 1]

    def it_reads_the_text_of_a_layout_once(self):
        presentation = Presentation()
        for words in ("第一页", "Second"):
            slide = presentation.slides.add_slide(presentation.slide_layouts[5])
            slide.shapes.title.text = words
        box = presentation.slides[0].shapes.add_textbox(0, Inches(6), Inches(3), Inches(1))
        box.text_frame.text = "Valid until 30 June 有效"
        presentation.slide_layouts[5].shapes._spTree.append(box._element)
        body = io.BytesIO()
        presentation.save(body)
        assert _read(body.getvalue(), PPTX).text == "第一页\n\nValid until 30 June 有效\n\nSecond"

    def it_reads_the_title_of_a_chart_on_a_sheet_of_its_own(self):
        kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
        words = "<c:title><a:p><a:r><a:t>冬季 winter</a:t></a:r></a:p></c:title>"
        names = "http://schemas.openxmlformats.org/package/2006/relationships"
        sheets = [("worksheet", "rows"), ("chartsheet", "chart")]
        listed = "".join(f'<sheet name="{part}" sheetId="{at}" r:id="r{at}"/>' for at, (_, part) in enumerate(sheets))

        def links(*targets: tuple[str, str]) -> str:
            links = (
                f'<Relationship Id="r{at}" Type="{kind}/{name}" Target="/xl/{part}.xml"/>'
                for at, (name, part) in enumerate(targets)
            )
            return f'<Relationships xmlns="{names}">{"".join(links)}</Relationships>'

        parts = {
            "_rels/.rels": links(("officeDocument", "workbook")),
            "xl/workbook.xml": f'<workbook xmlns:r="{kind}"><sheets>{listed}</sheets></workbook>',
            "xl/_rels/workbook.xml.rels": links(*sheets),
            "xl/rows.xml": "<worksheet><sheetData/></worksheet>",
            "xl/chart.xml": "<chartsheet/>",
            "xl/_rels/chart.xml.rels": links(("drawing", "drawing")),
            "xl/drawing.xml": "<wsDr/>",
            "xl/_rels/drawing.xml.rels": links(("chart", "drawn")),
            "xl/drawn.xml": f'<c:chart xmlns:c="c" xmlns:a="a">{words}</c:chart>',
        }
        body = io.BytesIO()
        with ZipFile(body, "w") as archive:
            for name, content in parts.items():
                archive.writestr(name, content)
        assert _read(body.getvalue(), XLSX).text == "chart\n\n冬季 winter"

    def it_says_that_a_page_of_links_is_nothing_but_navigation(self):
        links = "".join(f"<li><a href={at}>第{at}页 page</a></li>" for at in range(6))
        warning = "the page holds no content of its own: navigation, or a request for cookies or JavaScript"
        assert _warning(_read(f"<ul>{links}</ul><footer><a href=a>Imprint</a></footer>", HTML)) == warning
        assert not _warning(_read(f"<ul>{links}</ul><p>Words of its own.</p>", HTML))

    def it_reads_elements_named_after_paragraphs_as_such(self):
        page = "<ne-h1>值班</ne-h1><table><tr><td><ne-p>调度</ne-p><ne-p>duty</ne-p></td><td>6101</td></tr></table>"
        parsed = _read(page, HTML)
        assert parsed.title == "值班"
        assert "调度; duty | 6101" in parsed.text


class DescribeFilesThatOthersRefuse:
    def it_reads_a_pdf_file_that_ends_within_its_trailer(self):
        body = _pages(text(60, 760, "Words of a file that is cut off."))
        trailer = body.rindex(b"trailer")
        assert _read(body[: trailer + 10], PDF).text == "Words of a file that is cut off."

    def it_refuses_a_pdf_file_whose_letters_a_program_could_only_number(self):
        with pytest.raises(MalformedDocument, match="letters without meaning"):
            _read(_pages(text(60, 760, r"\(cid:31\)\(cid:44\) " * 30)), PDF)

    def it_reads_word_documents_with_control_characters(self):
        assert _word(_p("Before\x0b and after 之后")).text == "Before and after 之后"

    def it_reads_formulas_of_scripts(self):
        page = r'<p>面积 <script type="math/tex">\frac{a}{b^2}</script> holds.</p>'
        assert _read(page, HTML).text == r"面积 $\frac{a}{b^2}$ holds."

    def it_takes_a_page_that_a_wiki_saved_for_word_as_a_page(self):
        head = b"Date: Mon, 4 Mar 2024 10:00:00 +0000\nMessage-ID: <1@a>\nSubject: Exported\nMIME-Version: 1.0\n"
        assert (
            media_type_shown(head + b"Content-Type: multipart/related; boundary=b\n", None)
            == "application/x-mimearchive"
        )
        assert media_type_shown(b"To: a@example.org\n" + head, None) == EML
