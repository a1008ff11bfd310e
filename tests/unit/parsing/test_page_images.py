"""Pages of PDF files as PNG images."""

from __future__ import annotations

import struct
import zlib

import pytest

from pipeline.errors import EncryptedDocument, MalformedDocument
from pipeline.parsing.pdf.page_images import WIDEST, render_page
from tests.support.corpora.formats import pdf
from tests.support.corpora.hostile import HOSTILE


def rows(png: bytes) -> list[bytes]:
    """The rows of pixels in an image of this module, whose every row is the difference from the one above."""
    width, height = struct.unpack("!II", png[16:24])
    length = png.index(b"IDAT")
    data = zlib.decompress(png[length + 4 : length + 4 + struct.unpack("!I", png[length - 4 : length])[0]])
    line, found = bytes(width * 3), []
    for row in range(height):
        start = row * (width * 3 + 1) + 1
        line = bytes(
            (above + change) % 256 for above, change in zip(line, data[start : start + width * 3], strict=True)
        )
        found.append(line)
    return found


class DescribeAPageImage:
    def it_is_as_wide_as_asked_and_shows_the_text(self):
        image = render_page(pdf("Hello", "World"), 2, width=300)
        assert image is not None
        assert (image.pages, image.width) == (2, 300)
        pixels = rows(image.png)
        assert len(pixels) == image.height
        shades = {pixel for row in pixels for pixel in row}
        assert min(shades) < 100 < max(shades) == 255  # dark on white

    def it_is_bounded(self):
        image = render_page(pdf("Hello"), 1, width=10 * WIDEST)
        assert image is not None
        assert image.width <= WIDEST
        assert image.width * image.height <= 8_100_000

    @pytest.mark.parametrize("page", [0, 3])
    def it_is_none_beyond_the_pages(self, page):
        assert render_page(pdf("Hello", "World"), page, width=100) is None

    def it_is_refused_for_what_is_no_pdf(self):
        with pytest.raises(MalformedDocument):
            render_page(b"no PDF", 1, width=100)

    def it_is_refused_for_a_locked_file(self):
        [locked] = [each for each in HOSTILE if each.code == "encrypted_document" and each.name.endswith(".pdf")]
        with pytest.raises(EncryptedDocument):
            render_page(locked.make(), 1, width=100)
