"""Steering jobs and dead letters: the part of the operations that changes what is under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from chordwise.decoding import decode
from chordwise.errors import InvalidInput, UnexpectedAnswer
from chordwise.letters import DeadLetter
from chordwise.results import Job
from chordwise.retries import RetryPolicy, exchange
from chordwise.transport import Answer, Call, Steps, encode

_STEERED = frozenset({"cancel", "retry", "pause", "resume"})


class ControlOperations:
    """What ``Operations`` can do to jobs and dead letters. Every call may be sent twice."""

    _policy: RetryPolicy
    _clock: Callable[[], float]

    def steer(self, job_id: str, what: str) -> Steps[Job]:
        """Cancel, retry, pause or resume a job; gives it as it is afterwards."""
        if what not in _STEERED:
            raise InvalidInput(f"a job can be {', '.join(sorted(_STEERED))}, not {what}")
        answer = yield from self._call("POST", f"/v1/jobs/{_segment(job_id)}/{what}")
        return decode(Job, answer.json())

    def dead_letters(self, *, limit: int | None, **chosen: str | None) -> Steps[list[DeadLetter]]:
        """Dead letters that fit every filter given, the latest first."""
        found: list[DeadLetter] = []
        cursor: str | None = None
        while limit is None or len(found) < limit:
            size = 100 if limit is None else min(100, limit - len(found))
            asked = {**chosen, "limit": str(size), "cursor": cursor}
            params = tuple((name, value) for name, value in asked.items() if value is not None)
            page = (yield from self._call("GET", "/v1/dead-letters", params=params)).json()
            if not isinstance(page, dict) or not isinstance(page.get("data"), list):
                raise UnexpectedAnswer("/v1/dead-letters does not answer with a list")
            found += [decode(DeadLetter, entry) for entry in page["data"]]
            cursor = page.get("next_cursor")
            if not cursor:
                break
        return found

    def dead_letter(self, letter_id: str) -> Steps[DeadLetter]:
        """One dead letter."""
        answer = yield from self._call("GET", f"/v1/dead-letters/{_segment(letter_id)}")
        return decode(DeadLetter, answer.json())

    def replay_dead_letter(self, letter_id: str) -> Steps[int]:
        """Queue one dead letter again."""
        return _replayed((yield from self._call("POST", f"/v1/dead-letters/{_segment(letter_id)}/replay")))

    def replay_dead_letters(self, *, everything: bool, **chosen: str | None) -> Steps[int]:
        """Queue again what fits every filter given, or everything."""
        body: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
        if everything == bool(body):
            raise InvalidInput("name which dead letters to replay, or say that it is all of them")
        content = encode({"all": True} if everything else body)
        return _replayed((yield from self._call("POST", "/v1/dead-letters/replay", content=content)))

    def drop_dead_letter(self, letter_id: str) -> Steps[None]:
        """Give one dead letter up."""
        yield from self._call("DELETE", f"/v1/dead-letters/{_segment(letter_id)}")

    def _call(
        self, method: str, path: str, *, params: tuple[tuple[str, str], ...] = (), content: bytes | None = None
    ) -> Steps[Answer]:
        call = Call(method=method, path=path, params=params, content=content)
        return exchange(call, self._policy, clock=self._clock)


def _replayed(answer: Answer) -> int:
    said = answer.json()
    if not isinstance(said, dict) or not isinstance(said.get("replayed"), int):
        raise UnexpectedAnswer("the answer does not say how many were replayed")
    return int(said["replayed"])


def _segment(identifier: str) -> str:
    return quote(identifier, safe="", errors="surrogatepass")
