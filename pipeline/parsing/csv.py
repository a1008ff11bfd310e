"""Tables of separated values to text: each row a paragraph of `header: value` lines."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice, takewhile

from pipeline.errors import DocumentTooLarge, MalformedDocument
from pipeline.parsing.assembly import Block, assemble, one_line
from pipeline.parsing.encodings import DecodedText, read_text
from pipeline.records import Parsed

_DELIMITERS = ",;\t|"
_SAMPLE_ROWS = 20
_LONGEST_CELL = 256 * 1024  # characters; a longer one means an unclosed quote
MOST_CELLS = 1_000_000
_MARKED_TOGETHER = 1300  # characters of rows; about the size of a usual chunk
_MOST_TITLE_ROWS = 10  # above a header
_NUMBER = re.compile(r"[-+]?[\d.,\s]+%?$")


def parse_csv(body: bytes, charset: str | None) -> Parsed:
    """Parse rows separated by comma, semicolon, tab or bar, whichever makes the first rows most even. Raises
    MalformedDocument with the line for an unclosed quote, or one followed by text."""
    decoded = read_text(body, declared=charset)
    return _parsed(decoded, _delimiter(decoded.text))


def parse_tsv(body: bytes, charset: str | None) -> Parsed:
    """Parse rows of tab-separated values."""
    return _parsed(read_text(body, declared=charset), "\t")


def table_blocks(rows: Iterator[Sequence[str]]) -> Iterator[Block]:
    """Return rows as blocks of `header: value` lines, or of values between bars without a header; empty rows are left
    out.

    Rows of one cell above the first of several are titles and text. The next row is the header if its cells are full,
    distinct and not numbers. Rows that fit a chunk are marked by number, from 1, empty ones counted.
    """
    together: list[tuple[int, str]] = []
    size = 0
    for number, line in _texts(rows):
        if together and size + len(line) > _MARKED_TOGETHER:
            yield from _marked(together)
            together, size = [], 0
        together.append((number, line))
        size += len(line)
    yield from _marked(together)


def _marked(rows: Sequence[tuple[int, str]]) -> Iterator[Block]:
    if rows:
        first, last = rows[0][0], rows[-1][0]
        mark = f"row {first}" if first == last else f"rows {first}-{last}"
        yield from (Block(text=text, mark=mark) for _, text in rows)


def _texts(rows: Iterator[Sequence[str]]) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each non-empty row."""
    filled = ((number, row) for number, row in enumerate(rows, start=1) if any(row))
    beginning = list(islice(filled, _MOST_TITLE_ROWS + 1))
    titles = list(takewhile(lambda entry: _is_lonely(entry[1]), beginning))
    if len(titles) < len(beginning):  # otherwise it is a table of one column, or not a table
        beginning = beginning[len(titles) :]
        yield from ((number, one_line("".join(row))) for number, row in titles)
    if not beginning:
        return
    table = chain(beginning, filled)
    first = next(table)
    following = list(islice(table, 1))
    header = [one_line(cell) for cell in first[1]]
    while header and not header[-1]:
        header.pop()
    if not following or not _is_header(header):
        header = []
        following.insert(0, first)
    seen = 0
    for number, row in chain(following, table):
        seen += len(row)
        if seen > MOST_CELLS:
            raise DocumentTooLarge(f"the table holds more than {MOST_CELLS} cells")
        if header:
            named = zip(header + [""] * (len(row) - len(header)), row, strict=False)
            lines = (f"{name}: {one_line(cell)}" if name else one_line(cell) for name, cell in named if cell.strip())
            yield number, "\n".join(lines)
        else:
            yield number, " | ".join(one_line(cell) for cell in row if cell.strip())


def _is_lonely(row: Sequence[str]) -> bool:
    """Return whether only one cell is filled, as in a title above a table."""
    return sum(1 for cell in row if cell.strip()) == 1


def _is_header(cells: Sequence[str]) -> bool:
    return bool(cells) and all(cells) and len(set(cells)) == len(cells) and not any(map(_NUMBER.match, cells))


def _parsed(decoded: DecodedText, delimiter: str) -> Parsed:
    return assemble(table_blocks(_rows(decoded.text, delimiter)), encoding=decoded.encoding)


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    csv.field_size_limit(_LONGEST_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            raise MalformedDocument(
                f"in the row that begins in line {line}, a quote is never closed or has text after it"
            ) from None
        yield [cell.strip() for cell in row]


def _delimiter(text: str) -> str:
    """Return the delimiter that gives most of the first rows the same number of cells, above one; then most cells."""

    def evenness(delimiter: str) -> tuple[float, int]:
        sample = "\n".join(text[: 64 * 1024].splitlines()[:_SAMPLE_ROWS])
        widths = [len(row) for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter) if row]
        if not widths:
            return (0.0, 0)
        usual = max(set(widths), key=lambda width: (widths.count(width), width))
        return (widths.count(usual) / len(widths) if usual > 1 else 0.0, usual)

    csv.field_size_limit(_LONGEST_CELL)
    return max(_DELIMITERS, key=evenness)
