"""PowerPoint presentations to text."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile

import pytest
from pptx import Presentation
from pptx.oxml import parse_xml
from pptx.oxml.ns import nsdecls
from pptx.util import Inches

from pipeline.errors import EmptyDocument, EncryptedDocument, MalformedDocument, UnsupportedMediaType
from pipeline.parsing.formats import PPTX, media_type_of, parse
from pipeline.parsing.sniffing import media_type_of_fetched
from tests.support.corpora import formats
from tests.support.corpora.scans import page, picture


def _saved(presentation) -> bytes:
    file = io.BytesIO()
    presentation.save(file)
    return file.getvalue()


def _slide(presentation, title: str):
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = title
    return slide


def _box(shapes, left: float, top: float, text: str):
    box = shapes.add_textbox(Inches(left), Inches(top), Inches(3), Inches(1))
    box.text_frame.text = text
    return box


def _texts(parsed) -> list[str]:
    return [parsed.text[section.start : section.end].strip() for section in parsed.sections]


class DescribeSlides:
    def it_reads_title_body_table_and_notes_with_slide_numbers_as_pages(self):
        presentation = Presentation()
        slide = _slide(presentation, "Pumps")
        body = _box(slide.shapes, 1, 2, "Service")
        paragraph = body.text_frame.add_paragraph()
        paragraph.text, paragraph.level = "every 500 hours", 1
        table = slide.shapes.add_table(2, 2, Inches(1), Inches(5), Inches(6), Inches(1)).table
        for row, cells in enumerate((("Part", "Price"), ("Seal", "3.20"))):
            for column, cell in enumerate(cells):
                table.cell(row, column).text = cell
        slide.notes_slide.notes_text_frame.text = "Mention Rotterdam."
        _slide(presentation, "密封圈")
        parsed = parse(_saved(presentation), media_type=PPTX, filename="deck.pptx")
        assert _texts(parsed) == [
            "Pumps\n\nService\n- every 500 hours\n\nPart | Price\nSeal | 3.20",
            "Mention Rotterdam.",
            "密封圈",
        ]
        assert [(section.heading_path, section.page) for section in parsed.sections] == [
            (("Pumps",), 1),
            (("Pumps", "notes"), 1),
            (("密封圈",), 2),
        ]
        assert parsed.title == "Pumps"

    def it_reads_from_top_to_bottom_and_left_to_right_whatever_the_order_of_drawing(self):
        presentation = Presentation()
        slide = _slide(presentation, "Order")
        for left, top, text in ((5, 4, "four"), (5, 2.02, "two"), (1, 4, "three"), (1, 2, "one")):
            _box(slide.shapes, left, top, text)
        group = slide.shapes.add_group_shape()
        _box(group.shapes, 1, 6, "in a group")
        assert parse(_saved(presentation), media_type=PPTX).text.split() == [
            *("Order", "one", "two", "three", "four", "in", "a", "group"),
        ]

    @pytest.mark.parametrize(
        ("kind", "numbers"),
        [
            ('type="arabicPeriod"', ["1. ", "1. ", "2. ", "2. "]),
            ('type="arabicParenBoth" startAt="4"', ["(4) ", "(4) ", "(5) ", "(5) "]),
            ('type="alphaUcParenR"', ["A) ", "A) ", "B) ", "B) "]),
            ('type="ea1ChsPlain"', ["一 ", "一 ", "二 ", "二 "]),
        ],
    )
    def it_numbers_the_paragraphs_of_a_list(self, kind: str, numbers: list[str]):
        presentation = Presentation()
        _box(_slide(presentation, "步骤").shapes, 1, 1, "Open\nthe lid\nthe tap\nClose")
        for paragraph, level in zip(presentation.slides[0].shapes[-1].text_frame.paragraphs, (0, 1, 1, 0), strict=True):
            paragraph.level = level
            paragraph._p.get_or_add_pPr().append(parse_xml(f"<a:buAutoNum {nsdecls('a')} {kind}/>"))
        written = [
            f"{number}{text}" for number, text in zip(numbers, ("Open", "the lid", "the tap", "Close"), strict=True)
        ]
        assert _texts(parse(_saved(presentation), media_type=PPTX))[0].endswith("\n".join(written))

    @pytest.mark.parametrize(("baseline", "text"), [("30000", "10^6 Pa"), ("-25000", "10_6 Pa"), ("0", "106 Pa")])
    def it_marks_raised_and_lowered_digits(self, baseline: str, text: str):
        presentation = Presentation()
        slide = _slide(presentation, "压力")
        _box(slide.shapes, 1, 1, "10")
        paragraph = slide.shapes[-1].text_frame.paragraphs[0]
        paragraph.add_run().text, paragraph.add_run().text = "6", " Pa"
        paragraph.runs[1].font._element.set("baseline", baseline)
        assert text in parse(_saved(presentation), media_type=PPTX).text

    def it_leaves_hidden_slides_out_and_keeps_the_numbers(self):
        presentation = Presentation()
        for title in ("First", "Secret", "Third"):
            _slide(presentation, title)
        presentation.slides[1].element.set("show", "0")
        _box(presentation.slides[0].shapes, 1, 2, "Secret")._element.nvSpPr.cNvPr.set("hidden", "1")
        parsed = parse(_saved(presentation), media_type=PPTX)
        assert [section.page for section in parsed.sections] == [1, 3]
        assert "Secret" not in parsed.text

    def it_warns_of_slides_that_hold_only_pictures(self):
        presentation = Presentation()
        _slide(presentation, "Words")
        blank = presentation.slides.add_slide(presentation.slide_layouts[6])
        blank.shapes.add_picture(io.BytesIO(picture(page(["drawn"]))), 0, 0)
        parsed = parse(_saved(presentation), media_type=PPTX)
        assert parsed.encoding.pages_warning.startswith("1 of 2 slides holds only pictures (2)")

    def it_refuses_slides_of_pictures_alone(self):
        presentation = Presentation()
        blank = presentation.slides.add_slide(presentation.slide_layouts[6])
        blank.shapes.add_picture(io.BytesIO(picture(page(["drawn"]))), 0, 0)
        with pytest.raises(EmptyDocument, match="save the slides as PDF"):
            parse(_saved(presentation), media_type=PPTX)

    def it_refuses_a_presentation_with_a_password(self):
        locked = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512) + "EncryptedPackage".encode("utf-16-le")
        with pytest.raises(EncryptedDocument):
            parse(locked, media_type=PPTX)

    @pytest.mark.parametrize("part", ["ppt/presentation.xml", "ppt/slides/slide1.xml", "[Content_Types].xml"])
    def it_refuses_a_damaged_part(self, part):
        presentation = Presentation()
        _slide(presentation, "Pumps")
        with pytest.raises(MalformedDocument):
            parse(formats.with_part(_saved(presentation), part, "<broken"), media_type=PPTX)

    def it_expands_no_entities(self):
        presentation = Presentation()
        _slide(presentation, "Pumps")
        with zipfile.ZipFile(io.BytesIO(_saved(presentation))) as archive:
            slide = archive.read("ppt/slides/slide1.xml").decode()
        bomb = slide.replace("?>", '?><!DOCTYPE x [<!ENTITY a "haha">]>', 1).replace("Pumps", "Pumps &a;")
        try:
            text = parse(formats.with_part(_saved(presentation), "ppt/slides/slide1.xml", bomb), media_type=PPTX).text
        except MalformedDocument:
            return
        assert "haha" not in text

    @pytest.mark.parametrize("body", [b"PK\x03\x04 nothing", formats.docx()])
    def it_refuses_another_file(self, body):
        with pytest.raises(MalformedDocument):
            parse(body, media_type=PPTX)

    def it_is_known_by_its_suffix_and_by_its_bytes(self):
        assert media_type_of("a.PPTX", None) == PPTX
        assert media_type_of_fetched(_saved(Presentation()), declared="application/zip", uri="https://a/b") == PPTX

    def it_names_the_extra_where_it_is_missing(self):
        code = (
            "import sys; sys.modules['pptx'] = None\n"
            "from pipeline.parsing.formats import media_type_of\n"
            "try: media_type_of('a.pptx', None)\n"
            "except Exception as error: print(error)\n"
        )
        # A finder that answers None for a module that is not installed.
        code = code.replace("sys.modules['pptx'] = None", "import importlib.util as u; u.find_spec = lambda name: None")
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert "pip install 'chordwise[slides]'" in told

    def it_says_how_to_send_older_slides(self):
        with pytest.raises(UnsupportedMediaType, match=r"save slides as \.pptx or \.pdf"):
            media_type_of("a.ppt", None)
