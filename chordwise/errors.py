"""What a call can end with instead of a result. ``str(error)`` is always one sentence fit to be shown to a user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chordwise.api.jobs import Job


class ChordwiseError(Exception):
    """Anything this client raises on purpose.

    ``accepted`` holds the jobs that the server had already taken when a large ingestion was interrupted; they run on.
    """

    accepted: tuple[Job, ...] = ()


class NotConfigured(ChordwiseError):
    """The address or the key of the server is missing or malformed; nothing was sent."""


class InvalidInput(ChordwiseError):
    """What was handed to the client cannot be sent: a file that is not there, a line that is not JSON."""


class ConnectionFailed(ChordwiseError):
    """No connection to the server, or it broke before an answer arrived, also after retries."""


class Timeout(ChordwiseError):
    """The answer, or the end of a job or query, did not come in the time given; the work itself goes on."""


class UnexpectedAnswer(ChordwiseError):
    """Something answered, but not as Chordwise does: often a proxy, or a wrong address."""


class QueryFailed(ChordwiseError):
    """The query ended without a result. ``status`` is failed, expired or cancelled."""

    def __init__(self, message: str, *, query_id: str, status: str) -> None:
        super().__init__(message)
        self.query_id = query_id
        self.status = status


class ProblemError(ChordwiseError):
    """The server refused the request (RFC 9457).

    ``code`` is stable and meant for programs, ``errors`` names the fields at fault as ``{"pointer", "detail"}``.
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
            text += _place(text, self.errors)
        facts = [f"{self.status} {self.code}"]
        if self.retry_after_s is not None:
            facts.append(f"try again in {self.retry_after_s:g} s")
        if self.request_id:
            facts.append(f"request {self.request_id}")
        return f"{text} ({', '.join(facts)})"


def _place(sentence: str, errors: Sequence[Mapping[str, Any]]) -> str:
    """Return what ``sentence`` leaves out of the first error, and how many others there are, to be appended to it."""
    first = errors[0]
    pointer, detail = str(first.get("pointer", "")), str(first.get("detail", "")).rstrip(". 。")
    missing = [part for part in (pointer, detail) if part and part.casefold() not in sentence.casefold()]
    is_counted = sentence.endswith(" more")
    more = f" and {len(errors) - 1} more" if len(errors) > 1 and not is_counted else ""
    return (f": {' '.join(missing)}" if missing else "") + more
