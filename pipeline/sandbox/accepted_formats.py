"""The formats of an installation beside the built-in ones: of installed parsers and, if they are read, pictures."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

from pipeline.parsing import read_pictures
from pipeline.parsing.recognition import PageReader, Recognition, UnreadPages
from pipeline.sandbox.installed_parsers import register_installed_parsers
from pipeline.settings import Settings


def accept_formats(settings: Settings) -> None:
    """Accept the media types of installed parsers and, if they are read, of pictures."""
    register_installed_parsers()
    recognition = recognition_of(settings)
    if recognition is not None:
        read_pictures(PageReader(recognition=recognition))


def recognition_of(settings: Settings) -> Recognition | None:
    """Return how pictures are read; None if they are not."""
    if not settings.ocr_languages:
        return None
    return Recognition(
        languages=settings.ocr_languages,
        program=shutil.which(settings.ocr_tesseract),
        most_pages=settings.ocr_max_pages,
        page_s=settings.ocr_page_timeout_s,
    )


def recognition_flaw(settings: Settings) -> str | None:
    """Return the reason why this host does not read pictures although it should; None if all is well."""
    recognition = recognition_of(settings)
    if recognition is None:
        return None
    try:
        PageReader(recognition=recognition).check(1)
    except UnreadPages as error:
        return error.remedy
    return None if find_spec("PIL") else "picture files are not read without Pillow; install 'chordwise[ocr]'"
