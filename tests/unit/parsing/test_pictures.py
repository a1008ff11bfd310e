"""Text of pictures, read by a real tesseract in the real parser process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher

import pytest
from PIL import Image

from pipeline.errors import DocumentTooLarge, EmptyDocument, MalformedDocument, ParserTimeout, UnsupportedMediaType
from pipeline.parsing.formats import JPEG, PDF, PNG, TIFF, media_type_of, parse
from pipeline.parsing.recognition import Recognition, unread
from pipeline.sandbox.parser import Parser
from tests.support.corpora import formats
from tests.support.corpora.scans import CHINESE, ENGLISH, chinese_font, huge_png, page, picture, scan
from tests.support.servers.tools_for_tests import tesseract

pytestmark = pytest.mark.skipif(tesseract() is None, reason="no tesseract with English and Chinese data")
_CHINESE_FONT = pytest.mark.skipif(chinese_font() is None, reason="no font with Chinese characters")
READING = Recognition(languages="chi_sim+eng", program=str(tesseract()), most_pages=3, page_s=30)


@pytest.fixture(scope="module")
def parser() -> Iterator[Parser]:
    made = Parser(memory_bytes=2**30, timeout_s=10, by_the_clock=30, recognition=READING)
    yield made
    made.close()


def _with(**other: object) -> Parser:
    return Parser(memory_bytes=2**30, timeout_s=10, by_the_clock=30, recognition=replace(READING, **other))


class DescribePictures:
    @pytest.mark.parametrize(
        ("kind", "media_type"),
        [
            ("PNG", PNG),
            pytest.param("JPEG", JPEG, marks=pytest.mark.thorough),
            pytest.param("TIFF", TIFF, marks=pytest.mark.thorough),
        ],
    )
    def it_reads_english(self, parser, kind, media_type):
        parsed = parser.parse(picture(page(ENGLISH), kind), media_type=media_type, filename="note.x")
        assert all(line in parsed.text for line in ENGLISH)
        assert (parsed.title, parsed.sections[0].page) == ("note", 1)

    @_CHINESE_FONT
    def it_reads_chinese_without_spaces_between_characters(self, parser):
        text = parser.parse(picture(page(CHINESE)), media_type=PNG).text
        assert " " not in text
        assert (
            SequenceMatcher(None, text.replace("\n", ""), "".join(CHINESE)).ratio() > 0.85
        )  # a character may be wrong

    @pytest.mark.thorough
    def it_turns_a_photograph_upright(self, parser):
        exif = Image.Exif()
        exif[0x0112] = 6  # the camera was held upright: turn by 90 degrees
        body = picture(page(ENGLISH).rotate(90, expand=True), "JPEG", exif=exif)
        assert ENGLISH[1] in parser.parse(body, media_type=JPEG).text

    @pytest.mark.thorough
    def it_takes_what_is_transparent_for_white(self, parser):
        grey = page(ENGLISH)
        image = Image.merge("LA", (Image.new("L", grey.size, 0), grey.point(lambda value: 255 - value)))
        assert ENGLISH[1] in parser.parse(picture(image), media_type=PNG).text

    @pytest.mark.thorough
    def it_reads_every_page_of_a_tiff(self, parser):
        body = picture(page(ENGLISH[:1]), "TIFF", page(ENGLISH[1:]), compression="tiff_lzw")
        parsed = parser.parse(body, media_type=TIFF)
        assert [section.page for section in parsed.sections] == [1, 2]

    @pytest.mark.thorough
    def it_takes_the_marks_of_noise_for_no_text(self, parser):
        with pytest.raises(EmptyDocument, match="holds no text"):
            parser.parse(picture(Image.effect_noise((600, 600), 200)), media_type=PNG)

    @pytest.mark.parametrize(
        ("body", "error", "reason"),
        [
            (picture(page(ENGLISH))[:4000], MalformedDocument, "cut off or damaged"),
            (b"\x89PNG\r\n\x1a\n", MalformedDocument, "no PNG, JPEG or TIFF picture but a PNG image|cut off"),
            (b"/etc/passwd\n", MalformedDocument, "no PNG, JPEG or TIFF picture but something else"),
            (huge_png(60_000, 60_000), DocumentTooLarge, "60000 x 60000 pixels; at most 100 million"),
            (picture(page([]), "TIFF", page([]), page([]), page([])), DocumentTooLarge, "at most 3 are recognised"),
        ],
        ids=["cut off", "a signature only", "another file", "a bomb", "too many pages"],
    )
    def it_refuses(self, parser, body, error, reason):
        with pytest.raises(error, match=reason):
            parser.parse(body, media_type=PNG)

    @pytest.mark.thorough
    def it_ends_a_page_that_takes_too_long(self):
        slow = _with(page_s=1)
        dense = page(["0123456789 every word of this long line is another one " * 2] * 40, size=(4000, 3600))
        with pytest.raises((EmptyDocument, ParserTimeout), match=r"more than 1 s \(CHORDWISE_OCR_PAGE_TIMEOUT_S\)"):
            slow.parse(picture(dense), media_type=PNG)
        slow.close()


class DescribePagesOfPictures:
    def it_reads_them_where_they_stand(self, parser):
        parsed = parser.parse(scan(page(ENGLISH[:1]), page(ENGLISH[1:])), media_type=PDF)
        assert [parsed.text[section.start : section.end].strip() for section in parsed.sections] == list(ENGLISH)
        assert [section.page for section in parsed.sections] == [1, 2]
        assert parsed.encoding is None

    @pytest.mark.thorough
    def it_refuses_too_many_at_once(self, parser):
        with pytest.raises(DocumentTooLarge, match=r"4 of 4 pages .*at most 3 .*CHORDWISE_OCR_MAX_PAGES"):
            parser.parse(scan(*[page(ENGLISH)] * 4), media_type=PDF)

    @pytest.mark.parametrize(
        ("change", "remedy"),
        [
            ({"program": None}, "install tesseract-ocr"),
            ({"program": "/bin/false"}, "no data for chi_sim, eng"),
            ({"languages": "eng+chi_tra"}, "no data for chi_tra; install tesseract-ocr-chi-tra"),
        ],
    )
    def it_gives_the_remedy_when_they_cannot_be_read(self, change, remedy):
        parser = _with(**change)
        with pytest.raises(EmptyDocument, match=remedy):
            parser.parse(scan(page(ENGLISH)), media_type=PDF)
        parser.close()


class DescribeWithoutRecognition:
    """Off by default: told, not silent."""

    def it_names_the_pages_of_a_scan(self):
        with pytest.raises(EmptyDocument, match=r"2 of 2 pages hold only pictures \(1-2\): .*CHORDWISE_OCR_LANGUAGES"):
            parse(scan(page(ENGLISH), page(ENGLISH)), media_type=PDF)

    def it_warns_of_a_page_beside_others(self):
        parsed = parse(formats.pdf_with_picture("A page of text."), media_type=PDF)
        assert parsed.text == "A page of text."
        assert parsed.encoding.pages_warning.startswith("1 of 3 pages holds only pictures (2): install")

    @pytest.mark.parametrize("name", ["a.png", "a.JPG", "a.tiff"])
    def it_refuses_a_picture_with_the_remedy(self, name):
        with pytest.raises(UnsupportedMediaType, match=r"to read pictures, install tesseract-ocr .*CHORDWISE_OCR_LANG"):
            media_type_of(name, "image/png")


@pytest.mark.parametrize(
    ("numbers", "runs"),
    [([1], "1"), ([3, 1, 2], "1-3"), ([1, 3, 5, 7, 9, 11], "1, 3, 5, 7, 9, …"), ([1, 2, 9], "1-2, 9")],
)
def it_writes_page_numbers_as_runs(numbers, runs):
    assert f"({runs})" in unread(numbers, 12, "why")
