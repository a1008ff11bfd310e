"""The example library: books of examples, what the server found in them, and what is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chordwise.errors import InvalidInput
from chordwise.records import Result, decode
from chordwise.resource import Resource, operation
from chordwise.retries import problem
from chordwise.transport import FilePart, Steps

_MEDIA_TYPES = {
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".json": "application/json",
}
_READING_S = 60.0  # a large book may wait for another one to be read


@dataclass(frozen=True, slots=True, kw_only=True)
class BookFlaw(Result):
    """Something wrong with a book, or left out of it. ``row`` counts as the spreadsheet does; None: all of the sheet."""

    sheet: str
    detail: str
    code: str = "unknown"
    row: int | None = None
    column: str | None = None
    cell: str | None = None

    def __str__(self) -> str:
        row = "" if self.row is None else f", row {self.row}"
        column = "" if self.column is None else f", column {self.column}"
        return f"sheet {self.sheet}{row}{column}: {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BookStatistics(Result):
    """Rows of a book: ``read`` is accepted, refused and duplicates together."""

    read: int = 0
    accepted: int = 0
    refused: int = 0
    duplicates: int = 0
    blank: int = 0
    grades: Mapping[str, int] = field(default_factory=dict)
    tags: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplesImport(Result):
    """What became of a book. Without ``job_id`` nothing was stored: it was a dry run, or ``refused_because`` says why.

    ``statistics`` has the keys total, qa, record, query and greeting; ``errors`` and ``warnings`` are the first of
    ``errors_total`` and ``warnings_total``.
    """

    job_id: str | None = None
    status: str = "unknown"
    total: int = 0
    statistics: Mapping[str, BookStatistics] = field(default_factory=dict)
    errors: tuple[BookFlaw, ...] = ()
    errors_total: int = 0
    warnings: tuple[BookFlaw, ...] = ()
    warnings_total: int = 0
    refused_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRow(Result):
    """A row of an import: one that cannot be found, or one to try."""

    document_id: str
    status: str | None = None
    code: str | None = None
    type: str | None = None
    user_input: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplesVerification(Result):
    """How many accepted rows of an import searches can find. ``missing`` are the first that they cannot."""

    job_id: str
    namespace: str = ""
    status: str = "unknown"
    rows: int = 0
    searchable: int = 0
    missing: tuple[ImportedRow, ...] = ()
    sample: tuple[ImportedRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredExamples(Result):
    """The stored examples of one category; ``lengths`` are characters."""

    examples: int = 0
    grades: Mapping[str, int] = field(default_factory=dict)
    tags: Mapping[str, int] = field(default_factory=dict)
    lengths: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleStatistics(Result):
    """The example library of a namespace. ``duplicates``: ``surplus`` and ``groups`` of document ids."""

    namespace: str
    total: StoredExamples = StoredExamples()
    categories: Mapping[str, StoredExamples] = field(default_factory=dict)
    duplicates: Mapping[str, Any] = field(default_factory=dict)


class ExampleOperations(Resource):
    """What ``Operations`` can do with the example library."""

    @operation
    def import_examples(
        self,
        book: str | Path,
        *,
        namespace: str,
        strict: bool = False,
        dry_run: bool = False,
        on_conflict: str | None = None,
        category: str | None = None,
    ) -> Steps[ExamplesImport]:
        """Send a book of examples, an ``.xlsx`` or ``.json`` file; see docs/example-library.md for what is in it.

        Its good rows become the documents of the job whose id is returned; rows that are not are among ``errors``. With
        ``strict``, and if no row is good, nothing is stored. ``dry_run`` only looks at the book. ``category`` (qa, record,
        query, greeting) takes only its sheets, so that each category of a book can have a namespace of its own.
        """
        path = Path(book)
        media_type = _MEDIA_TYPES.get(path.suffix.lower())
        if media_type is None:
            raise InvalidInput(f"{path.name} is no book of examples: it must be an .xlsx or .json file")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
        form = {"namespace": namespace, "strict": "true" if strict else "false"}
        chosen = {"on_conflict": on_conflict, "category": category}
        answer = yield from self._request(
            "POST",
            "/v1/examples",
            params={"dry_run": dry_run or None},
            files=(FilePart(name=path.name, content=content, media_type=media_type),),
            form=form | {name: value for name, value in chosen.items() if value},
            hold_s=_READING_S,
            safe=dry_run or on_conflict in (None, "replace"),
            expects=frozenset({422}),
        )
        said = answer.json()
        if answer.status == 422:
            if not isinstance(said, dict) or said.get("code") != "examples_refused":
                raise problem(answer)
            said = {**said, "status": "refused", "refused_because": said.get("detail")}
        return decode(ExamplesImport, said)

    @operation
    def examples_template(self) -> Steps[bytes]:
        """An Excel workbook to fill in with examples."""
        return (yield from self._request("GET", "/v1/examples/template.xlsx")).content

    @operation
    def example_statistics(self, *, namespace: str) -> Steps[ExampleStatistics]:
        """How many examples a namespace holds, by category, grade and tag; ProblemError with 404 if there is none."""
        return self._one(ExampleStatistics, "GET", "/v1/examples/statistics", params={"namespace": namespace})

    @operation
    def verify_examples(self, job_id: str, *, sample: int = 10) -> Steps[ExamplesVerification]:
        """Whether searches find every accepted row of an import; ``sample`` of those they find are named."""
        params = {"job_id": job_id, "sample": sample}
        return self._one(ExamplesVerification, "GET", "/v1/examples/verification", params=params)
