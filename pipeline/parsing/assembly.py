"""The last step of every parser: join blocks of text into one text with sections."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pipeline.documents.clean_text import clean, clean_code
from pipeline.errors import DocumentTooLarge
from pipeline.records import Encoding, Lead, Parsed, Section, StoredValues

_LONGEST_HEADING = 200  # characters of a heading that are kept in a heading path
_LONGEST_TITLE = 500  # characters
LONGEST_TEXT = 32 * 1024 * 1024  # characters of a document; a few megabytes of an archive may decompress to any number


@dataclass(slots=True, kw_only=True)  # not frozen: a parser makes one for each paragraph, at four times the cost
class Block:
    """A paragraph, list item, table row or heading. ``level``: 1 to 6 for a heading. ``tight``: no blank line before.
    ``page``: from 1, where there are pages. ``mark``: such as ``rows 2-40``, last in its section's heading path.
    ``lead``: so many characters at the beginning are repeated above later parts of a long block, such as the header of
    a table. ``is_code``: indentation of the first line stays. ``outside``: it stands under no heading, as a note.
    ``stored``: shown values with those behind them, as ``23.5%`` and ``0.23491``."""

    text: str
    level: int | None = None
    tight: bool = False
    page: int | None = None
    mark: str | None = None
    lead: int = 0
    is_code: bool = False
    outside: bool = False
    stored: tuple[tuple[str, str], ...] = ()


def assemble(
    blocks: Iterable[Block], *, title: str | None = None, encoding: Encoding | None = None, warnings: Sequence[str] = ()
) -> Parsed:
    """Clean the blocks and join them. A heading, a page or a mark opens a section, with a heading as its first line.
    Sections cover the text without gaps. Without ``title`` the first heading of level 1 is the title. ``warnings``:
    sentences on what was not read; read after the last block, so that a parser may add to them."""
    pieces: list[str] = []
    length = 0
    openings: list[tuple[int, tuple[str, ...], int | None]] = [(0, (), None)]
    mark: str | None = None
    open_headings: list[tuple[int, str]] = []
    first_heading: str | None = None
    heads: str | None = None  # the mark of the heading above
    leads: list[Lead] = []
    stored: list[StoredValues] = []
    for block in blocks:
        if length + len(block.text) > LONGEST_TEXT:
            raise DocumentTooLarge(f"the document holds more than {LONGEST_TEXT} characters")
        text = clean_code(block.text) if block.is_code else clean(block.text)
        if not text:
            continue
        if pieces:
            separator = "\n" if block.tight else "\n\n"
            pieces.append(separator)
            length += len(separator)
        if block.level is not None:
            heading = one_line(text)
            if block.level == 1 and first_heading is None and not _CONTENTS.fullmatch(heading):
                first_heading = heading
            open_headings = [entry for entry in open_headings if entry[0] < block.level]
            open_headings.append((block.level, heading[:_LONGEST_HEADING]))
        elif block.outside:
            open_headings = []
        path_before = openings[-1][1]
        if (
            block.level is not None
            or (block.outside and path_before)
            or block.page != openings[-1][2]
            or block.mark != mark
        ):
            mark = block.mark
            path = tuple(heading for _, heading in open_headings)
            if heads is not None and heads == mark:  # a heading below another one, of the same rows
                length_before, _, _ = openings.pop()
            else:
                length_before = length
            openings.append((length_before, (*path, mark) if mark else path, block.page))
        heads = mark if block.level is not None else None
        pieces.append(text)
        if block.lead and text.startswith(lead := clean(block.text[: block.lead])) and len(lead) < len(text):
            leads.append(Lead(start=length, lead_end=length + len(lead), end=length + len(text)))
        if block.stored:
            stored.append(StoredValues(start=length, end=length + len(text), values=block.stored))
        length += len(text)
    ends = [start for start, _, _ in openings[1:]] + [length]
    sections = tuple(
        Section(start=start, end=end, heading_path=path, page=page)
        for (start, path, page), end in zip(openings, ends, strict=True)
        if end > start
    )
    title = one_line(clean(title or first_heading or ""))[:_LONGEST_TITLE]
    if warnings:
        encoding = replace(encoding or Encoding(), pages_warning="; ".join(warnings))
    return Parsed(
        text="".join(pieces),
        sections=sections,
        title=title or None,
        encoding=encoding,
        leads=tuple(leads),
        stored=tuple(stored),
    )


WHITE = re.compile("(?:f[0-9a-f]){3}", re.IGNORECASE)  # as far as readers can tell, on white
MONOSPACE = re.compile(
    r"\b(?:courier|consolas|menlo|monaco|lucida console|source code|fira code|cascadia|mono(?:space)?\b)", re.I
)
LONGEST_CODE = 120  # characters of a line; a longer one in a font of equal widths is prose

_INDENTED = re.compile(r"(?: {2}|\t)[ \t]*+[!-~]")
_OF_CODE = re.compile(
    r"^[ \t]*+(?:[})\]]++[,;]?$|</?[A-Za-z]|//|#|--|(?:def|class|if|elif|else|for|while|with|try|except|finally|return|import"
    r"|from|function|var|let|const|public|private|static|void|SELECT|FROM|WHERE|INSERT|UPDATE|CREATE|END|BEGIN)\b"
    r"|[\w.\"'-]++ ?[=:](?:\s|$)|[^。！？]{1,100}[{;:(]$|- \w|[\w.]++\()"
)
_LEAST_OF_CODE = 3  # lines


def code_runs(paragraphs: Sequence[str]) -> list[range]:
    """Return the runs of paragraphs that are code by their indentation, where no font tells: at least three short lines
    that look like a program or settings, or are indented, and one of each below the other."""
    runs, begin = list[range](), 0
    for index in range(len(paragraphs) + 1):
        lines = paragraphs[index].rstrip().split("\n") if index < len(paragraphs) else [""]
        if all(len(line) <= LONGEST_CODE and (_OF_CODE.match(line) or _INDENTED.match(line)) for line in lines):
            continue
        run, begin = range(begin, index), index + 1
        lines = "\n".join(paragraphs[at] for at in run).split("\n") if run else []
        depths = [len(line) - len(line.lstrip()) for line in lines]
        deeper = [at for at in range(1, len(lines)) if depths[at] > depths[at - 1]]
        if len(lines) >= _LEAST_OF_CODE and any(_OF_CODE.match(lines[at - 1]) for at in deeper):
            runs.append(run)
    return runs


_NO_WORDS = re.compile(r"[\W\d_]*(?:(?:page|seite|of|von|第|页|頁|共)[\W\d_]*)*$", re.IGNORECASE)


def with_furniture(blocks: list[Block], furniture: Iterable[Block]) -> list[Block]:
    """Return blocks followed by those of headers and footers that hold words, each text once, under no heading."""
    texts, added = {one_line(block.text) for block in blocks}, list[Block]()
    for block in furniture:
        text = one_line(block.text)
        if text not in texts and not _NO_WORDS.match(text):
            texts.add(text)
            added.append(replace(block, level=None, tight=False, outside=True))
    return [*blocks, *added]


def one_line(*texts: str) -> str:
    """Return the texts in one line, with white space collapsed to single spaces."""
    return " ".join(" ".join(texts).split())


_CONTENTS = re.compile(
    r"(?:table of )?contents|目\s*[录錄次]|inhalt(?:sverzeichnis)?|sommaire|abstract|摘\s*要", re.IGNORECASE
)
_PROGRAM_TITLES = re.compile(
    r"untitled|unknown title$|\(?anonymous\)?$|paper title|microsoft (?:word|excel|powerpoint)|normal(?:\.dotm?)?$"
    r"|无标题|未命名|标题$|新建"
    r"|(?:powerpoint |word )?(?:presentation|document)$"
    r"|(?:slide|diapositiv[ae]|folie|幻灯片|演示文稿|文档|工作簿|页面|do[ck]umento?)\s*\d*$"
    r"|arxiv:\S+|(?:book|doc|mappe|pr[eä]sentation)\d+$"
    r"|(?:doi:?\s*)?10\.\d{4,9}/\S+$|.*\.(?:docx?|xlsx?|pptx?|tex|dvi|indd|qxd|pages|pdf|rtf|odt|wps|exe|html?)$",
    re.IGNORECASE,
)


def usable_title(title: str | None) -> str | None:
    """Return the title of a file's properties, or None if a program wrote it: a file's name, a DOI, `Untitled`."""
    title = one_line(title or "")
    has_letters = any(map(str.isalnum, title))  # not only marks of characters that a program lost
    return title if has_letters and not _PROGRAM_TITLES.match(title) else None
