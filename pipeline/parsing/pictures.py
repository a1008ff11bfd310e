"""Picture files to text: scans and photographs, recognised page by page."""

import io
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from PIL import Image, ImageOps, UnidentifiedImageError

from pipeline.errors import DocumentTooLarge, MalformedDocument
from pipeline.parsing.assembly import Block, assemble
from pipeline.parsing.containers import what_it_is
from pipeline.parsing.recognition import MOST_PIXELS, PageReader, UnreadPages, refusal, unread
from pipeline.records import Parsed

_FORMATS = ("PNG", "JPEG", "TIFF")  # Pillow reads dozens more, some through other programs
_MOST_DECODED = 100_000_000  # pixels of a file's page: a square metre at 250 dots per inch; decoded in 300 MB
_WHITE = 255


def parse_picture(body: bytes, reader: PageReader) -> Parsed:
    """Return the text of every page (a TIFF file may have several). Raises MalformedDocument, DocumentTooLarge for too
    many pages or pixels, EmptyDocument if nothing can be recognised here."""
    with _opened(body) as image:
        pages = getattr(image, "n_frames", 1)
        try:
            reader.check(pages)
            return assemble(_blocks(image, pages, reader))
        except UnreadPages as error:
            raise refusal(unread(range(1, pages + 1), pages, error.remedy), is_limit=error.is_limit) from None


def _blocks(image: Image.Image, pages: int, reader: PageReader) -> Iterator[Block]:
    for number in range(1, pages + 1):
        image.seek(number - 1)
        grey = _grey(image)
        text = reader.read(grey.tobytes(), width=grey.width, height=grey.height)
        for paragraph in text.split("\n\n"):
            yield Block(text=paragraph, page=number)


@contextmanager
def _opened(body: bytes) -> Iterator[Image.Image]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about damaged metadata, and about sizes, which are checked here
            Image.MAX_IMAGE_PIXELS = None
            with Image.open(io.BytesIO(body), formats=_FORMATS) as image:
                yield image
    except UnidentifiedImageError:
        raise MalformedDocument(f"the file is no PNG, JPEG or TIFF picture but {what_it_is(body)}") from None
    except (OSError, EOFError, SyntaxError, ValueError, KeyError, IndexError, TypeError, struct.error) as error:
        raise MalformedDocument(f"the picture is cut off or damaged ({type(error).__name__})") from None


def _grey(image: Image.Image) -> Image.Image:
    """Return a page in grey on white, the right way up, and not larger than tesseract needs."""
    if image.width * image.height > _MOST_DECODED:
        size = f"{image.width} x {image.height} pixels"
        raise DocumentTooLarge(f"the picture has {size}; at most {_MOST_DECODED // 10**6} million are read")
    page = ImageOps.exif_transpose(image)
    if page.has_transparency_data:
        page = page.convert("RGBA")
        white = Image.new("RGBA", page.size, (_WHITE,) * 4)
        page = Image.alpha_composite(white, page)
    elif page.mode.startswith("I"):  # 16 bits of grey, which a conversion would cut off at 255
        page = page.convert("I").point(lambda value: value * (1 / 256))
    page = page.convert("L")
    if page.width * page.height > MOST_PIXELS:
        shrunk = (MOST_PIXELS / (page.width * page.height)) ** 0.5
        page.thumbnail((page.width * shrunk, page.height * shrunk))
    return page
