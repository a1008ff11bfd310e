"""A judged collection in a folder: documents, queries, and relevance judgements."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chordwise.api.files import read_documents, read_lines
from chordwise.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedQuery:
    """A question and the grade of each judged document."""

    query_id: str
    text: str
    grades: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """A folder with ``queries.jsonl`` and ``qrels.tsv``, each of which may be gzipped, and ``corpus.jsonl`` unless the
    documents are on the server already."""

    name: str
    corpus: Path | None
    queries: tuple[JudgedQuery, ...]

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield every document with text, in the server's format; a title alone serves as text. Raises InvalidInput."""
        if self.corpus is None:
            raise InvalidInput(
                f"{self.name} has no corpus.jsonl or corpus.jsonl.gz, and the namespace has no documents"
            )
        for document in read_documents(self.corpus):
            if not is_empty(document):
                text = document.get("text")
                blank = not (isinstance(text, str) and text.strip())
                yield {**document, "text": document["title"]} if blank else document

    def count(self) -> tuple[int, int]:
        """Count the documents with text, and the empty ones, which are left out. Raises InvalidInput."""
        if self.corpus is None:
            return 0, 0
        empty = [is_empty(document) for document in read_documents(self.corpus)]
        return len(empty) - sum(empty), sum(empty)


def is_empty(document: Mapping[str, Any]) -> bool:
    """Return whether there is neither text nor title to index."""
    return not any(isinstance(value := document.get(name), str) and value.strip() for name in ("text", "title"))


def has_training(folder: Path) -> bool:
    """Return whether the folder has ``queries_train.jsonl`` and ``qrels_train.tsv``, gzipped or not, for tuning."""
    return all(_find(folder, name) for name in ("queries_train.jsonl", "qrels_train.tsv"))


def read_collection(folder: Path, *, training: bool = False) -> Collection:
    """Read the questions and judgements, or those for ``training``. Questions without a relevant document are left out.
    Raises InvalidInput, naming the file and line."""
    part = "_train" if training else ""
    queries, qrels = (_existing(folder, name) for name in (f"queries{part}.jsonl", f"qrels{part}.tsv"))
    grades = _grades(qrels)
    entries = (_query(queries, number, line) for number, line in read_lines(queries))
    judged = tuple(
        JudgedQuery(query_id=query_id, text=text, grades=grades[query_id])
        for query_id, text in entries
        if any(grade > 0 for grade in grades.get(query_id, {}).values())
    )
    if not judged:
        raise InvalidInput(f"{folder} has no query with a relevant document")
    return Collection(name=folder.resolve().name, corpus=_find(folder, "corpus.jsonl"), queries=judged)


def _find(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _existing(folder: Path, name: str) -> Path:
    path = _find(folder, name)
    if path is None:
        raise InvalidInput(f"{folder} has no {name} or {name}.gz")
    return path


def _grades(path: Path) -> dict[str, dict[str, int]]:
    """Read query, document and grade, tab separated, without header."""
    grades: dict[str, dict[str, int]] = {}
    for number, line in read_lines(path):
        try:
            query_id, document_id, grade = line.split("\t")
            grades.setdefault(query_id, {})[document_id] = int(grade)
        except ValueError:
            raise InvalidInput(f"{path}:{number} is not query, document and grade, separated by tabs") from None
    return grades


def _query(path: Path, number: int, line: str) -> tuple[str, str]:
    try:
        entry = json.loads(line)
        return str(entry["query_id"]), str(entry["text"])
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(f"{path}:{number} is not a JSON object with query_id and text") from None
