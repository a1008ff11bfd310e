"""Tables of separated values to text: each row a paragraph of `header: value` lines."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pipeline.errors import DocumentTooLarge
from pipeline.parsing.assembly import assemble
from pipeline.parsing.encodings import DecodedText, read_text
from pipeline.parsing.table_headers import Cells
from pipeline.parsing.tables import sheet_blocks
from pipeline.records import Parsed

_DELIMITERS = ",;\t|"
_SAMPLE, _SAMPLE_ROWS = 64 * 1024, 20  # characters and rows in which the delimiter is looked for
_LEAST_TABLE = 3  # rows and columns of a table between more lines of text
_LONGEST_CELL = 256 * 1024  # characters; a longer one means an unclosed quote
MOST_CELLS = 1_000_000
_MOST_STRAYS = 100  # rows with a stray quote, after which quotes are characters, so that reading stays linear
_TEXT_OF_DIGITS = re.compile(r'="[^"]*"')  # as programs write 00123 for Excel
_OTHER_COMMA = re.compile(r",(?!\d)|(?<!\d),")  # than those of decimals
_CLOSE_COMMA = re.compile(r",(?! )")  # unlike those between words
_QUOTED_ROW, _SPACED_DELIMITER = re.compile(r'"(?:[^"]|"")*+"\s*+'), re.compile(r"[,;|] ")
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)  # as Excel writes it


def parse_csv(body: bytes, charset: str | None) -> Parsed:
    """Parse rows separated by comma, semicolon, tab or bar: the one that a first line `sep=;` names, else whichever
    makes the first rows most even. A row whose quotes do not close is read as it stands, with a warning."""
    decoded = read_text(body, declared=charset)
    decoded = replace(decoded, text=_without_quotes_around_rows(decoded.text.lstrip("\ufeff")))
    if named := _SEPARATOR_LINE.match(decoded.text):
        return _parsed(replace(decoded, text=decoded.text[named.end() :]), named[1])
    return _parsed(decoded, _delimiter(decoded.text))


def parse_tsv(body: bytes, charset: str | None) -> Parsed:
    """Parse rows of tab-separated values."""
    return _parsed(read_text(body, declared=charset), "\t")


def _without_quotes_around_rows(text: str) -> str:
    """Return a text of which each row was quoted as a whole, and those within doubled, as the rows were."""
    rows = text.rstrip().splitlines() if text.startswith('"') else []
    if len(rows) < _LEAST_TABLE or not all(map(_QUOTED_ROW.fullmatch, rows)):
        return text
    inner = [row.strip()[1:-1].replace('""', '"') for row in rows]
    lengths = {delimiter: {len(row) for row in csv.reader(inner, delimiter=delimiter)} for delimiter in _DELIMITERS}
    are_even = any(len(each) == 1 and each.pop() > 1 for each in lengths.values())
    return "\n".join(inner) if are_even and not _SPACED_DELIMITER.search(inner[0]) else text


def _parsed(decoded: DecodedText, delimiter: str) -> Parsed:
    warnings: list[str] = []
    rows = _numbered(_rows(decoded.text, delimiter, warnings, quote=_quote(decoded.text, delimiter)))
    return assemble(sheet_blocks(rows), encoding=decoded.encoding, warnings=warnings)


def _numbered(rows: Iterator[list[str]]) -> Iterator[tuple[int, Cells]]:
    """Yield the number, from 1, and the filled cells of each row. Raises DocumentTooLarge."""
    seen = 0
    for number, row in enumerate(rows, start=1):
        seen += len(row)
        if seen > MOST_CELLS:
            raise DocumentTooLarge(f"the table holds more than {MOST_CELLS} cells")
        yield number, {column: cell for column, cell in enumerate(row) if cell}


def _quote(text: str, delimiter: str) -> str:
    """Return the quotation mark of a file: a single one if it encloses a delimiter and there are no double ones."""
    end = re.escape(delimiter)
    enclosed = rf"(?:^|{end})'[^'\n]*+(?:''[^'\n]*+)*+'(?=[{end}\r\n]|\Z)"
    if '"' in text or not any(
        delimiter in match[0][1:] for match in re.finditer(enclosed, text[:_SAMPLE], re.MULTILINE)
    ):
        return '"'
    return "'"


def _rows(text: str, delimiter: str, warnings: list[str], *, quote: str) -> Iterator[list[str]]:
    """Yield the rows. A row whose quotes are escaped by backslashes is read so; of any other row with a quote that is
    never closed or has text after it, the first line is read as it stands, with one warning for all."""
    csv.field_size_limit(_LONGEST_CELL)
    lines = io.StringIO(text, newline="").readlines()
    position, strays = 0, 0
    while position < len(lines):
        read = 0
        try:
            reader = _reader(lines, position, delimiter, quote if strays < _MOST_STRAYS else None)
            for row in reader:
                yield _stripped(row)
                read = reader.line_num
            return
        except csv.Error:
            position += read
        if '\\"' in lines[position] and (escaped := _escaped_row(lines, position, delimiter)) is not None:
            row, taken = escaped
        else:
            row, taken = next(_reader(lines, position, delimiter, None)), 1
            strays += 1
            if strays == 1:
                warnings.append(f"a quote in line {position + 1} is never closed or has text after it")
        yield [cell.strip('"') for cell in _stripped(row)]
        position += taken


def _reader(
    lines: Sequence[str], position: int, delimiter: str, quote: str | None, *, escape: str | None = None
) -> Any:
    rest = (lines[index] for index in range(position, len(lines)))
    if quote is None:
        return csv.reader(rest, delimiter=delimiter, quoting=csv.QUOTE_NONE, skipinitialspace=True)
    return csv.reader(rest, delimiter=delimiter, quotechar=quote, strict=True, skipinitialspace=True, escapechar=escape)


def _escaped_row(lines: Sequence[str], position: int, delimiter: str) -> tuple[list[str], int] | None:
    """Return the row that begins here, read with backslashes before its quotes, and its number of lines, or None."""
    reader = _reader(lines, position, delimiter, '"', escape="\\")
    try:
        return next(reader), reader.line_num
    except csv.Error:
        return None


def _stripped(row: Sequence[str]) -> list[str]:
    return [cell[2:-1] if _TEXT_OF_DIGITS.fullmatch(cell) else cell for cell in map(str.strip, row)]


def _delimiter(text: str) -> str:
    """Return the delimiter that gives most of the first rows the same number of cells, above one; then most cells."""

    def evenness(delimiter: str) -> tuple[float, int]:
        sample = "\n".join(text[:_SAMPLE].splitlines()[:_SAMPLE_ROWS])
        reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, quotechar=_quote(sample, delimiter))
        widths = [len(row) for row in reader if row]
        if not widths:
            return (0.0, 0)
        usual = max(set(widths), key=lambda width: (widths.count(width), width))
        if usual == 1:  # lines around a table, or no delimiter
            usual = max(set(widths), key=lambda width: (widths.count(width) * (width >= _LEAST_TABLE), width))
            if widths.count(usual) < _LEAST_TABLE:
                usual = 1
        return (widths.count(usual) / len(widths) if usual > 1 else 0.0, usual)

    csv.field_size_limit(_LONGEST_CELL)
    sample = text[:_SAMPLE]
    best = max(_DELIMITERS.replace(",", ""), key=evenness)
    share, cells = evenness(best)
    is_decimal = share == 1 and not _OTHER_COMMA.search(sample)
    is_of_text = share > 0.5 and cells >= _LEAST_TABLE and not _CLOSE_COMMA.search(sample)
    return best if is_decimal or is_of_text else max(best, ",", key=evenness)
