"""Pages as pictures: text drawn with a font, as a scanner or a camera would deliver it; and presentations."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from compose.localstack.places import LOCAL

_FONTS = ("truetype/wqy/wqy-zenhei.ttc", "truetype/dejavu/DejaVuSans.ttf")
_PIXELS = 42  # of a line: 10 points at 300 dots per inch
ENGLISH = ("The cooling pump must be serviced every 500 hours.", "Order spare parts in Rotterdam.")
CHINESE = ("压力下降时请更换密封圈。", "备件请在鹿特丹订购。")


def chinese_font() -> Path | None:
    """A font with Chinese characters: the machine's, or the one unpacked for the tests of the console."""
    folders = (Path("/usr/share/fonts"), LOCAL / "browser/usr/share/fonts")
    return next((folder / _FONTS[0] for folder in folders if (folder / _FONTS[0]).is_file()), None)


def page(lines: Sequence[str], *, size: tuple[int, int] = (1800, 1000)) -> Image.Image:
    """A white page with lines of text."""
    image = Image.new("L", size, 255)
    font: Any = ImageFont.truetype(str(chinese_font()), _PIXELS) if chinese_font() else ImageFont.load_default(_PIXELS)
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((120, 120 + number * _PIXELS * 2), line, fill=0, font=font)
    return image


def picture(image: Image.Image, format: str = "PNG", *more: Image.Image, **options: Any) -> bytes:
    """A picture as a file; ``more``: further pages, for PDF and TIFF."""
    if more:
        options.update(save_all=True, append_images=[other.copy() for other in more])
    file = io.BytesIO()
    image.copy().save(file, format, **options)
    return file.getvalue()


def scan(*pages: Image.Image) -> bytes:
    """A PDF file whose pages are only pictures, of 200 dots per inch."""
    return picture(pages[0], "PDF", *pages[1:], resolution=200)


def huge_png(width: int, height: int) -> bytes:
    """A PNG file of a few hundred bytes that claims to have so many pixels."""
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(bytes(1000)))]
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    ]
    return (
        b"\x89PNG\r\n\x1a\n"
        + b"".join(chunks)
        + struct.pack(">I", 0)
        + b"IEND"
        + struct.pack(">I", zlib.crc32(b"IEND"))
    )
