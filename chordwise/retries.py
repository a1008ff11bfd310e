"""Retries of requests, and the errors after the last attempt."""

from __future__ import annotations

import email.utils
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from chordwise.errors import ChordwiseError, ConnectionFailed, ProblemError, Timeout
from chordwise.transport import Answer, Call, Outcome, Steps

_FOREIGN = "the response with HTTP status {} is not one of Chordwise; check the address"
_TRY_LATER = frozenset({502, 503, 504})
_DOWN = frozenset({502, 503})  # from a gateway that starts or stops, or from the proxy in front of it
_KEY = "Idempotency-Key"
_RETRIES_AT_WORK = 10  # retries: Retry-After is at most 5 s, and the server releases an orphaned key after 30 s
_GRACE_S = 2.0  # for an answer that the server held until the deadline
_LOOKS_EVERY_S = 2.0  # at most, while a server is down: its restart is noticed soon
_RETRIES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When and how often a request is repeated. Times in seconds.

    After a refused connection or 429 the server did nothing, so any call is repeated. After 502, 503, 504 or a broken
    connection the server may have acted, so only ``safe`` calls are repeated. A 409 with Retry-After, for a call with an
    Idempotency-Key, means that an earlier attempt is still running: repeated, the call gets that attempt's answer. After
    a read timeout nothing is repeated, because the caller's time is used up.

    A server that refuses connections or answers 502 or 503 is being restarted: with ``patience_s`` it is tried again until
    the call's deadline, or for so many seconds if there is none, whatever ``retries``.
    """

    retries: int = _RETRIES
    patience_s: float = 0.0
    first_s: float = 0.2
    longest_s: float = 10.0
    longest_asked_s: float = 60.0  # with a longer Retry-After the call fails at once
    jitter: Callable[[], float] = random.random

    def delay_s(self, call: Call, outcome: Outcome, attempt: int, *, patient: bool = False) -> float | None:
        """Return the delay before the next attempt, or None to accept the outcome. ``attempt`` counts from 1. ``patient``:
        try again however often while the server is down."""
        retries = max(self.retries, _RETRIES_AT_WORK) if self.retries and _is_at_work(call, outcome) else self.retries
        patient = patient and _is_down(outcome)
        if (attempt > retries and not patient) or not _is_repeatable(call, outcome):
            return None
        longest_s = _LOOKS_EVERY_S if patient else self.longest_s
        backoff = min(longest_s, self.first_s * 2.0 ** min(attempt - 1, 30)) * (0.5 + self.jitter() / 2)
        requested_s = retry_after_s(outcome) if isinstance(outcome, Answer) else None
        if requested_s is None:
            return backoff
        return requested_s + self.first_s * self.jitter() if requested_s <= self.longest_asked_s else None


def policy_of(retries: int | None, timeout_s: float) -> RetryPolicy:
    """Return the policy of a client: a given number of retries is a limit, otherwise patience lasts for the timeout."""
    return RetryPolicy(patience_s=timeout_s) if retries is None else RetryPolicy(retries=retries)


PATIENT = RetryPolicy(retries=10)  # about a minute, so that waiting for a job survives a restart of the server


def exchange(
    call: Call, policy: RetryPolicy, *, deadline: float = float("inf"), clock: Callable[[], float] = time.monotonic
) -> Steps[Answer]:
    """Send ``call`` with retries, but start none after ``deadline`` and end at most two seconds after it.

    Raises ProblemError, ConnectionFailed or Timeout.
    """
    attempt = 1
    patient_until = clock() + policy.patience_s if math.isinf(deadline) else deadline
    while True:
        remaining_s = deadline - clock()
        outcome = yield call if math.isinf(remaining_s) else replace(call, limit_s=max(0.0, remaining_s) + _GRACE_S)
        assert outcome is not None
        patient = policy.patience_s > 0 and clock() < patient_until
        delay_s = policy.delay_s(call, outcome, attempt, patient=patient)
        if delay_s is None or clock() + delay_s > deadline:
            return _answer_or_raise(call, outcome)
        yield delay_s
        attempt += 1


def _is_repeatable(call: Call, outcome: Outcome) -> bool:
    if isinstance(outcome, Answer):
        if outcome.status in call.expects:
            return False
        refused = outcome.status == 429 or _is_at_work(call, outcome)
        return refused or (call.safe and outcome.status in _TRY_LATER)
    return not outcome.sent or (call.safe and not outcome.timed_out)


def _is_down(outcome: Outcome) -> bool:
    return outcome.status in _DOWN if isinstance(outcome, Answer) else not outcome.sent


def _is_at_work(call: Call, outcome: Outcome) -> bool:
    """Return whether the server is still working on a request with the same Idempotency-Key."""
    if not isinstance(outcome, Answer) or outcome.status != 409:
        return False
    return _KEY in call.headers and retry_after_s(outcome) is not None


def _answer_or_raise(call: Call, outcome: Outcome) -> Answer:
    if not isinstance(outcome, Answer):
        kind: type[ChordwiseError] = Timeout if outcome.timed_out and outcome.sent else ConnectionFailed
        reason = "no answer came in time" if kind is Timeout else "the server cannot be reached"
        raise kind(f"{reason} ({call.method} {call.path} at {outcome.reason})") from outcome.cause
    if outcome.status < 300 or outcome.status in call.expects:
        return outcome
    raise problem(outcome)


def problem(answer: Answer) -> ProblemError:
    """Return the error of an answer, also if it came from a proxy without problem+json."""
    body = answer.json() if "json" in answer.headers.get("content-type", "") else None
    fields = body if isinstance(body, dict) else {}
    errors = fields.get("errors")
    return ProblemError(
        status=answer.status,
        code=str(fields.get("code") or "http_error"),
        title=str(fields.get("title") or ""),
        detail=str(fields.get("detail") or fields.get("title") or _FOREIGN.format(answer.status)),
        request_id=fields.get("request_id") or answer.headers.get("x-request-id"),
        errors=[entry for entry in errors if isinstance(entry, dict)] if isinstance(errors, list) else [],
        retry_after_s=retry_after_s(answer),
    )


def retry_after_s(answer: Answer) -> float | None:
    """Return the Retry-After header in seconds from now, from a number or a date; None if absent or malformed."""
    value = answer.headers.get("retry-after", "").strip()
    if not value:
        return None
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None
