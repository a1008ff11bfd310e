"""When to send a request again, and when to give up and say why."""

from __future__ import annotations

import email.utils
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from chordwise.errors import ChordwiseError, ConnectionFailed, ProblemError, Timeout
from chordwise.transport import Answer, Call, Outcome, Pause, Steps

_FOREIGN = "something answered with HTTP status {}, but not as Chordwise does; is the address right?"
_TRY_LATER = frozenset({502, 503, 504})
_KEY = "Idempotency-Key"
_WHILE_AT_WORK = 10  # a server asks for at most 5 s each time, and lets go of a key that nobody holds after 30 s
_GRACE_S = 2.0  # an answer that the server held until the deadline is still on its way then


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How patient to be. Times in seconds.

    A refused connection and 429 mean that nothing happened, so any call is repeated. After 502, 503, 504 or a broken
    connection the server may have acted, so only calls that may run twice are. A 409 with Retry-After, for a call with an
    Idempotency-Key, means that an earlier attempt is still at work: asked again, the server gives that one's answer. Once
    an answer did not come in time, the caller's time is used up and nothing is repeated.
    """

    retries: int = 4
    first_s: float = 0.2
    longest_s: float = 10.0
    longest_asked_s: float = 60.0  # a server that asks for more (Retry-After) is not waited for
    jitter: Callable[[], float] = random.random

    def delay_s(self, call: Call, outcome: Outcome, attempt: int) -> float | None:
        """How long to wait before sending again; None to take the outcome as it is. ``attempt`` counts from 1."""
        retries = max(self.retries, _WHILE_AT_WORK) if self.retries and _is_at_work(call, outcome) else self.retries
        if attempt > retries or not _worth_repeating(call, outcome):
            return None
        backoff = min(self.longest_s, self.first_s * 2.0 ** (attempt - 1)) * (0.5 + self.jitter() / 2)
        asked = retry_after_s(outcome) if isinstance(outcome, Answer) else None
        if asked is None:
            return backoff
        return asked + self.first_s * self.jitter() if asked <= self.longest_asked_s else None


PATIENT = RetryPolicy(retries=10)  # about a minute: a restarting server must not end the waiting for a job


def exchange(
    call: Call, policy: RetryPolicy, *, deadline: float = float("inf"), clock: Callable[[], float] = time.monotonic
) -> Steps[Answer]:
    """Send ``call``, again if need be, but start nothing after ``deadline``, nor wait longer than a moment beyond it.

    Raises ProblemError, ConnectionFailed or Timeout.
    """
    attempt = 1
    while True:
        left_s = deadline - clock()
        outcome = yield call if math.isinf(left_s) else replace(call, limit_s=max(0.0, left_s) + _GRACE_S)
        assert outcome is not None
        delay_s = policy.delay_s(call, outcome, attempt)
        if delay_s is None or clock() + delay_s > deadline:
            return _settled(call, outcome)
        yield Pause(seconds=delay_s)
        attempt += 1


def _worth_repeating(call: Call, outcome: Outcome) -> bool:
    if isinstance(outcome, Answer):
        if outcome.status in call.expects:
            return False
        refused = outcome.status == 429 or _is_at_work(call, outcome)
        return refused or (call.safe and outcome.status in _TRY_LATER)
    return not outcome.sent or (call.safe and not outcome.timed_out)


def _is_at_work(call: Call, outcome: Outcome) -> bool:
    """Whether the server says that it has the same request in hands, by its Idempotency-Key."""
    if not isinstance(outcome, Answer) or outcome.status != 409:
        return False
    return _KEY in call.headers and retry_after_s(outcome) is not None


def _settled(call: Call, outcome: Outcome) -> Answer:
    if not isinstance(outcome, Answer):
        kind: type[ChordwiseError] = Timeout if outcome.timed_out and outcome.sent else ConnectionFailed
        what = "no answer came in time" if kind is Timeout else "the server cannot be reached"
        raise kind(f"{what} ({call.method} {call.path} at {outcome.reason})") from outcome.cause
    if outcome.status < 300 or outcome.status in call.expects:
        return outcome
    raise problem(outcome)


def problem(answer: Answer) -> ProblemError:
    """The refusal in an answer, also when it came from a proxy that knows nothing of problem+json."""
    body: object = None
    if "json" in answer.headers.get("content-type", ""):
        body = answer.json()
    said = body if isinstance(body, dict) else {}
    errors = said.get("errors")
    return ProblemError(
        status=answer.status,
        code=str(said.get("code") or "http_error"),
        title=str(said.get("title") or ""),
        detail=str(said.get("detail") or said.get("title") or _FOREIGN.format(answer.status)),
        request_id=said.get("request_id") or answer.headers.get("x-request-id"),
        errors=[entry for entry in errors if isinstance(entry, dict)] if isinstance(errors, list) else [],
        retry_after_s=retry_after_s(answer),
    )


def retry_after_s(answer: Answer) -> float | None:
    """The Retry-After header in seconds from now, given as a number or as a date; None if absent or unreadable."""
    value = answer.headers.get("retry-after", "").strip()
    if not value:
        return None
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None
