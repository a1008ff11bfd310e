"""Errors of the client. ``str(error)`` is always one sentence that can be shown to a user."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chordwise.api.jobs import Job


class ChordwiseError(Exception):
    """The base of all errors of this client.

    ``accepted`` holds the jobs that the server had accepted before a large ingestion was interrupted; they continue.
    """

    accepted: tuple[Job, ...] = ()


class NotConfigured(ChordwiseError):
    """The address or the key of the server is missing or malformed; nothing was sent."""


class InvalidInput(ChordwiseError):
    """The input cannot be sent: a missing file, a line that is not JSON."""


class ConnectionFailed(ChordwiseError):
    """No connection to the server, or it broke before an answer arrived, also after retries."""


class Timeout(ChordwiseError):
    """The answer, or the end of a job or query, did not arrive in time; the work itself continues."""


class UnexpectedAnswer(ChordwiseError):
    """The response is not one of Chordwise: often a proxy, or a wrong address."""


class QueryFailed(ChordwiseError):
    """The query ended without a result. ``status`` is failed, expired or cancelled."""

    def __init__(self, message: str, *, query_id: str, status: str) -> None:
        super().__init__(message)
        self.query_id = query_id
        self.status = status


class ProblemError(ChordwiseError):
    """The server refused the request (RFC 9457).

    ``code`` is stable and meant for programs, ``errors`` lists the invalid fields as ``{"pointer", "detail"}``.
    """

    def __init__(
        self,
        *,
        status: int,
        code: str,
        detail: str,
        title: str = "",
        request_id: str | None = None,
        errors: Sequence[Mapping[str, Any]] = (),
        retry_after_s: float | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.detail = detail
        self.title = title
        self.request_id = request_id
        self.errors = tuple(errors)
        self.retry_after_s = retry_after_s
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        text = (self.detail or self.title or "the server refused the request").rstrip(". 。")
        if self.errors:
            text += _first_field(text, self.errors)
        facts = [f"{self.status} {self.code}"]
        if self.retry_after_s is not None:
            facts.append(f"try again in {self.retry_after_s:g} s")
        if self.request_id:
            facts.append(f"request {self.request_id}")
        return f"{text} ({', '.join(facts)})"


@contextmanager
def file_errors(path: object, participle: str) -> Iterator[None]:
    """Raise InvalidInput for an OSError: ``path`` cannot be ``read`` or ``written``."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"{path} cannot be {participle}: {error.strerror}") from error


class MissingExtra(ChordwiseError, ImportError):
    """A package that this part of the client needs is not installed; the message has the command that installs it."""


def missing(extra: str, error: ModuleNotFoundError) -> MissingExtra:
    """Return the MissingExtra to raise for a failed import of a package of ``extra``."""
    from importlib.metadata import PackageNotFoundError, requires  # read from the disk, for this sentence only

    try:
        lines = requires("chordwise-client") or []
    except PackageNotFoundError:  # run from a folder on the path
        lines = []
    marked = (line.partition(";") for line in lines if re.search(rf"extra == .{extra}.$", line))
    packages = " ".join(f"'{requirement.strip()}'" for requirement, _, _ in marked) or error.name
    return MissingExtra(
        f"chordwise.{extra} needs the package {error.name}: pip install {packages}"
        f" (the extra {extra} of chordwise-client)",
        name=error.name,
    )


def _first_field(sentence: str, errors: Sequence[Mapping[str, Any]]) -> str:
    """Return the suffix for ``sentence``: the missing parts of the first error, and the number of further errors."""
    first = errors[0]
    pointer, detail = str(first.get("pointer", "")), str(first.get("detail", "")).rstrip(". 。")
    missing = [part for part in (pointer, detail) if part and part.casefold() not in sentence.casefold()]
    more = f" and {len(errors) - 1} more" if len(errors) > 1 and not sentence.endswith(" more") else ""
    return (f": {' '.join(missing)}" if missing else "") + more
