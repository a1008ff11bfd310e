"""The formats of an installation beside the built-in ones: of installed parsers and, if they are read, pictures."""

from __future__ import annotations

import functools
import shutil
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pipeline.parsing.formats import Format, read_pictures, register
from pipeline.parsing.recognition import PageReader, Recognition, UnreadPages

if TYPE_CHECKING:  # the parser process starts without settings
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
        program=shutil.which("tesseract"),
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


GROUP = "chordwise.parsers"


@functools.cache
def register_installed_parsers() -> tuple[str, ...]:
    """Register every `Format` of the entry point group, once per process; return their media types. One that fails to
    load or takes another's place is logged and left out."""
    media_types = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            plugin = entry.load()
            if not isinstance(plugin, Format):
                raise TypeError(f"a {type(plugin).__name__} is no Format")
            register(plugin)
        except Exception as error:  # noqa: BLE001 - whatever a stranger's module raises when it is loaded
            import structlog  # here, because the parser process logs nothing and starts without it

            log = structlog.get_logger(__name__)
            log.error("parser_not_registered", plugin=entry.name, error=type(error).__name__, detail=str(error))
        else:
            media_types.append(plugin.media_type)
    return tuple(media_types)
