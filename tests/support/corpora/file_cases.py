"""Small files as people have them, and the text that a reader of the original expects in the chunks.

Each entry of `tests/spec/files/expected.json` names a file, its kind and its expectations; `CHECKS` says what each one means.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.documents.clean_text import joined
from pipeline.documents.cut_document import cut_document
from pipeline.errors import Rejected
from pipeline.keyword.terms import analyze, query_terms
from pipeline.parsing.formats import media_type_of, parse
from pipeline.records import Chunking, Passage

FILES = Path(__file__).resolve().parents[2] / "spec" / "files"
CASES = json.loads((FILES / "expected.json").read_text("utf-8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A file as it is indexed. ``error``: the code of a refusal."""

    original: bytes
    passages: Sequence[Passage] = ()
    title: str | None = None
    warning: str | None = None
    error: str | None = None

    @property
    def text(self) -> str:
        return joined(self.passages)

    @property
    def lines(self) -> list[str]:
        return [line for passage in self.passages for line in passage.text.split("\n")]

    @property
    def paragraphs(self) -> list[str]:
        """Return the paragraphs; of rows between bars, each with the row that names its columns."""
        found = []
        for passage in self.passages:
            for paragraph in re.split(r"\n\s*\n", passage.text):
                first, *rows = paragraph.split("\n")
                found += [paragraph] if "|" not in first else [f"{first}\n{row}" for row in rows] or [first]
        return found

    def columns(self, names: Sequence[str]) -> list[set[int]]:
        """Return the columns of the first row that holds all names, for each name."""
        for line in self.lines:
            cells = [cell.strip() for cell in line.split("|")]
            if all(name in cells for name in names):
                return [{index for index, cell in enumerate(cells) if cell == name} for name in names]
        return []


def read(path: Path, *, text: str | None = None) -> Read:
    """Read a file as it is indexed, or ``text``, the Markdown that another program makes of it."""
    body = path.read_bytes()
    name = path.name if text is None else f"{path.name}.md"
    try:
        parsed = parse(body if text is None else text.encode(), media_type=media_type_of(name, None), filename=name)
        cut = cut_document(parsed, title=None, chunking=Chunking(), tokenizer=None, most=10_000)
    except Rejected as error:
        return Read(original=body, error=error.code)
    encoding = parsed.encoding
    warnings = [encoding.warning, encoding.pages_warning] if encoding else []
    warning = "; ".join(filter(None, warnings)) or None
    return Read(original=body, passages=cut.passages, title=cut.title, warning=warning)


def _flat(text: str) -> str:
    return " ".join(text.split())


def _any(texts: Iterable[str], parts: Sequence[str]) -> bool:
    return any(all(part in text for part in parts) for text in texts)


def _with_headings(passage: Passage) -> str:
    return "\n".join((*passage.heading_path, passage.text))


def _same_columns(read: Read, rows: Sequence[Sequence[str]]) -> bool:
    first, second = map(read.columns, rows)
    return bool(first) and bool(second) and all(one & other for one, other in zip(first, second, strict=True))


def _each_has(read: Read, first: str, second: str) -> bool:
    holding = [passage.text for passage in read.passages if first in passage.text]
    return bool(holding) and all(second in text for text in holding)


def _is_found(read: Read, words: Sequence[str]) -> bool:
    wanted = set(query_terms(words[0]))
    return any(wanted & set(analyze(passage.text)) for passage in read.passages)


CHECKS: dict[str, Callable[[Read, Any], bool]] = {
    "has": lambda read, texts: all(text in read.text for text in texts),
    "lacks": lambda read, texts: not any(text in read.text for text in texts),
    "once": lambda read, texts: all(read.text.count(text) == 1 for text in texts),
    "flow": lambda read, texts: all(text in _flat(read.text) for text in texts),
    "anyof": lambda read, lists: all(any(text in read.text for text in texts) for texts in lists),
    "together": lambda read, lists: all(_any(map(_with_headings, read.passages), parts) for parts in lists),
    "line": lambda read, lists: all(_any(read.lines, parts) for parts in lists),
    "notline": lambda read, lists: not any(_any(read.lines, parts) for parts in lists),
    "block": lambda read, lists: all(_any(read.paragraphs, parts) for parts in lists),
    "each": lambda read, pair: _each_has(read, *pair),
    "samecols": _same_columns,
    "notpath": lambda read, pair: (
        not any(pair[0] in passage.text and pair[1] in passage.heading_path for passage in read.passages)
    ),
    "title": lambda read, title: read.title == title,
    "title_not": lambda read, title: read.title != title,
    "allchars": lambda read, _: "".join(read.text.split()) == "".join(read.original.decode().split()),
    "query": _is_found,
    "error": lambda read, code: read.error == code,
    "warn": lambda read, word: word in (read.warning or ""),
    "warn_or_error": lambda read, _: bool(read.warning or read.error),
}


def wrong_in(found: Read, case: dict[str, Any]) -> list[str]:
    """Return the expectations of a case that do not hold."""
    return [name for name, expected in case["expect"].items() if not CHECKS[name](found, expected)]
