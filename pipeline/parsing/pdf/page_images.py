"""Pages of PDF files as images."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pipeline.errors import MalformedDocument

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WIDEST: Final = 2000  # pixels
_MOST_PIXELS: Final = 8_000_000  # of an image; a taller page becomes narrower than asked for
_COMPRESSION: Final = 4  # of zlib: half the time of the usual level for some more bytes
_FILTER_UP: Final = 2  # each row as its difference from the one above, by which white space nearly vanishes


@dataclass(frozen=True, slots=True, kw_only=True)
class PageImage:
    """An image of one page in PNG, with the number of pages of its file."""

    pages: int
    width: int
    height: int
    png: bytes


def render_page(body: bytes, page: int, *, width: int) -> PageImage | None:
    """Return ``page``, from 1, about ``width`` pixels wide, or None. Raises EncryptedDocument, MalformedDocument."""
    import pypdfium2  # not at the top: workers import this module, and only parser processes render

    from pipeline.parsing.pdf.pages import open_pdf

    document = open_pdf(body)
    try:
        if not 1 <= page <= len(document):
            return None
        try:
            pixels = _pixels(document[page - 1], min(width, WIDEST))
        except pypdfium2.PdfiumError:
            raise MalformedDocument(f"page {page} of the PDF file is damaged") from None
        height, actual_width, _ = pixels.shape
        return PageImage(pages=len(document), width=actual_width, height=height, png=_png(pixels))
    finally:
        document.close()


def _pixels(page: Any, width: int) -> NDArray[np.uint8]:
    """Return the rows of a page, each pixel as red, green and blue."""
    import numpy as np

    page_width, page_height = page.get_size()
    if page_width <= 0 or page_height <= 0:
        raise MalformedDocument("the page has no extent")
    scale = min(width / page_width, (_MOST_PIXELS / (page_width * page_height)) ** 0.5)
    bitmap = page.render(scale=scale, rev_byteorder=True, prefer_bgrx=False)
    return np.ascontiguousarray(bitmap.to_numpy()[:, :, :3])


def _png(pixels: NDArray[np.uint8]) -> bytes:
    import numpy as np

    height, width, _ = pixels.shape
    rows = pixels.reshape(height, -1)
    filtered = np.empty((height, rows.shape[1] + 1), dtype=np.uint8)
    filtered[:, 0] = _FILTER_UP
    filtered[0, 1:] = rows[0]
    filtered[1:, 1:] = rows[1:] - rows[:-1]
    header = struct.pack("!IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits a channel, red, green and blue
    data = zlib.compress(filtered.tobytes(), _COMPRESSION)
    return b"\x89PNG\r\n\x1a\n" + _part(b"IHDR", header) + _part(b"IDAT", data) + _part(b"IEND", b"")


def _part(name: bytes, data: bytes) -> bytes:
    return struct.pack("!I", len(data)) + name + data + struct.pack("!I", zlib.crc32(name + data))
