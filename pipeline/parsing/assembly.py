"""The last step of every parser: join blocks of text into one text with sections."""

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.documents.clean_text import clean
from pipeline.errors import DocumentTooLarge
from pipeline.records import Encoding, Parsed, Section

_LONGEST_HEADING = 200  # characters of a heading that are kept in a heading path
_LONGEST_TITLE = 500  # characters
LONGEST_TEXT = 32 * 1024 * 1024  # characters of a document; a few megabytes of an archive may decompress to any number


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A paragraph, list item, table row or heading. ``level``: 1 to 6 for a heading. ``tight``: no blank line before.
    ``page``: from 1, where there are pages. ``mark``: such as ``rows 2-40``, last in its section's heading path."""

    text: str
    level: int | None = None
    tight: bool = False
    page: int | None = None
    mark: str | None = None


def assemble(blocks: Iterable[Block], *, title: str | None = None, encoding: Encoding | None = None) -> Parsed:
    """Clean the blocks and join them. A heading, a page or a mark opens a section, with a heading as its first line.
    Sections cover the text without gaps. Without ``title`` the first heading of level 1 is the title."""
    pieces: list[str] = []
    length = 0
    openings: list[tuple[int, tuple[str, ...], int | None]] = [(0, (), None)]
    mark: str | None = None
    open_headings: list[tuple[int, str]] = []
    first_heading: str | None = None
    for block in blocks:
        if length + len(block.text) > LONGEST_TEXT:
            raise DocumentTooLarge(f"the document holds more than {LONGEST_TEXT} characters")
        text = clean(block.text)
        if not text:
            continue
        if pieces:
            separator = "\n" if block.tight else "\n\n"
            pieces.append(separator)
            length += len(separator)
        if block.level is not None:
            heading = one_line(text)
            if block.level == 1 and first_heading is None:
                first_heading = heading
            open_headings = [entry for entry in open_headings if entry[0] < block.level]
            open_headings.append((block.level, heading[:_LONGEST_HEADING]))
        if block.level is not None or block.page != openings[-1][2] or block.mark != mark:
            mark = block.mark
            path = tuple(heading for _, heading in open_headings)
            openings.append((length, (*path, mark) if mark else path, block.page))
        pieces.append(text)
        length += len(text)
    ends = [start for start, _, _ in openings[1:]] + [length]
    sections = tuple(
        Section(start=start, end=end, heading_path=path, page=page)
        for (start, path, page), end in zip(openings, ends, strict=True)
        if end > start
    )
    title = one_line(clean(title or first_heading or ""))[:_LONGEST_TITLE]
    return Parsed(text="".join(pieces), sections=sections, title=title or None, encoding=encoding)


def one_line(text: str) -> str:
    """Return ``text`` with white space collapsed to single spaces."""
    return " ".join(text.split())
