"""The example library: import of books, verification, statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from chordwise.contract import example
from chordwise.errors import InvalidInput, file_errors
from chordwise.records import Result, decode
from chordwise.resource import Resource, given, operation
from chordwise.retries import problem
from chordwise.transport import Steps

_MEDIA_TYPES = {
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".json": "application/json",
}
_READING_S = 60.0  # a large book may wait until another one has been parsed


BookFlaw = example.BookFlaw
BookStatistics = example.BookStatistics


class ExamplesImport(Result):
    """The outcome of an import. Without ``job_id`` nothing was stored: a dry run, or see ``refused_because``.

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


ExamplesVerification = example.ExamplesVerification
ExampleStatistics = example.ExampleStatistics


class ExampleOperations(Resource):
    """Operations on the example library."""

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
        """Send a book of examples, an ``.xlsx`` or ``.json`` file; docs/example-library.md describes its sheets.

        Valid rows become the documents of the job whose id is returned; invalid rows are in ``errors``. With
        ``strict`` and an invalid row, or without a valid row, nothing is stored. ``dry_run`` only checks the book.
        ``category`` (qa, record, query, greeting) takes only its sheets, so that each category of a book can have a
        namespace of its own.
        """
        path = Path(book)
        media_type = _MEDIA_TYPES.get(path.suffix.lower())
        if media_type is None:
            raise InvalidInput(f"{path.name} is not a book of examples: it must be an .xlsx or .json file")
        with file_errors(path, "read"):
            content = path.read_bytes()
        chosen = given(on_conflict=on_conflict or None, category=category or None)
        answer = yield from self._request(
            "POST",
            "/v1/examples",
            params={"dry_run": dry_run or None},
            files=((path.name, content, media_type),),
            form={"namespace": namespace, "strict": "true" if strict else "false", **chosen},
            hold_s=_READING_S,
            safe=dry_run or on_conflict in (None, "replace"),
            expects=frozenset({422}),
        )
        body = answer.json()
        if answer.status == 422:
            if not isinstance(body, dict) or body.get("code") != "examples_refused":
                raise problem(answer)
            body = {**body, "status": "refused", "refused_because": body.get("detail")}
        return decode(ExamplesImport, body)

    @operation
    def examples_template(self) -> Steps[bytes]:
        """Return an Excel workbook to fill in with examples."""
        return self._bytes("/v1/examples/template.xlsx")

    @operation
    def example_statistics(self, *, namespace: str) -> Steps[ExampleStatistics]:
        """Count the examples of a namespace by category, grade and tag. ProblemError with status 404 if there are none."""
        return self._one(ExampleStatistics, "GET", "/v1/examples/statistics", params={"namespace": namespace})

    @operation
    def verify_examples(self, job_id: str, *, sample: int = 10) -> Steps[ExamplesVerification]:
        """Check that searches find every accepted row of an import; ``sample`` of the found rows are returned."""
        params = {"job_id": job_id, "sample": sample}
        return self._one(ExamplesVerification, "GET", "/v1/examples/verification", params=params)
