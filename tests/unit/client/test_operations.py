"""The operations when requests fail: driven by hand, with a clock that only pauses move."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from chordwise import ConnectionFailed, InvalidInput, ProblemError, QueryFailed, Timeout, UnexpectedAnswer
from chordwise.api.ingestion import with_urls
from chordwise.operations import Operations
from chordwise.retries import RetryPolicy, exchange, policy_of
from chordwise.transport import Answer, Call, NoAnswer

REFUSED = NoAnswer(reason="refused", sent=False, timed_out=False, cause=OSError())
BROKEN = NoAnswer(reason="broken", sent=True, timed_out=False, cause=OSError())
TOO_LATE = NoAnswer(reason="timed out", sent=True, timed_out=True, cause=OSError())
SAFE = Call(method="GET", path="/x")
UNSAFE = Call(method="POST", path="/x", safe=False)
NAMED = Call(method="POST", path="/x", headers={"Idempotency-Key": "1"})
POLICY = RetryPolicy(retries=3, jitter=lambda: 1.0)


def said(status: int = 200, body: Any = None, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    kind = "application/problem+json" if status >= 400 else "application/json"
    return Answer(status=status, headers={"content-type": kind, **named}, content=json.dumps(body or {}).encode())


class Drive:
    """Runs steps against outcomes given in advance, and remembers the calls and the pauses."""

    def __init__(self, *outcomes: Any, seconds_per_call: float = 0.0) -> None:
        self.outcomes = list(outcomes)
        self.calls: list[Call] = []
        self.pauses: list[float] = []
        self.now = 1000.0
        self.seconds_per_call = seconds_per_call

    def clock(self) -> float:
        return self.now

    def run(self, steps: Any) -> Any:
        outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return end.value
            if isinstance(step, float):
                self.pauses.append(step)
                self.now += step
                outcome = None
            else:
                self.calls.append(step)
                self.now += self.seconds_per_call
                outcome = self.outcomes.pop(0)

    def operations(self) -> Operations:
        return Operations(POLICY, timeout_s=30.0, clock=self.clock)


class DescribeExchange:
    @pytest.mark.parametrize(
        ("call", "outcome", "repeated"),
        [
            (SAFE, said(503), True),
            (SAFE, said(502), True),
            (SAFE, said(504), True),
            (SAFE, said(429), True),
            (SAFE, REFUSED, True),
            (SAFE, BROKEN, True),
            (SAFE, TOO_LATE, False),
            (SAFE, said(500), False),
            (SAFE, said(404), False),
            (UNSAFE, said(503), False),
            (UNSAFE, BROKEN, False),
            (UNSAFE, said(429), True),  # refused before anything happened
            (UNSAFE, REFUSED, True),
        ],
    )
    def it_repeats_only_what_cannot_do_harm(self, call, outcome, repeated):
        drive = Drive(outcome, said(200, {"fine": True}))
        steps = exchange(call, POLICY, clock=drive.clock)
        if repeated:
            assert drive.run(steps).json() == {"fine": True}
        else:
            with pytest.raises((ProblemError, ConnectionFailed, Timeout)):
                drive.run(steps)
        assert len(drive.calls) == (2 if repeated else 1)

    def it_backs_off_and_gives_up(self):
        drive = Drive(*[REFUSED] * 4)
        with pytest.raises(ConnectionFailed, match="cannot be reached"):
            drive.run(exchange(SAFE, POLICY, clock=drive.clock))
        assert drive.pauses == [0.2, 0.4, 0.8]

    @pytest.mark.parametrize(("asked", "pause"), [("2", 2.2), ("0", 0.2), ("60", 60.2), ("soon", 0.2)])
    def it_does_as_retry_after_asks(self, asked, pause):
        drive = Drive(said(429, retry_after=asked), said())
        drive.run(exchange(SAFE, POLICY, clock=drive.clock))
        assert drive.pauses == [pytest.approx(pause)]

    def it_does_not_wait_for_a_server_that_asks_for_more_than_a_minute(self):
        drive = Drive(said(429, {"detail": "slow down", "code": "rate_limited"}, retry_after="61"))
        with pytest.raises(ProblemError, match=r"slow down \(429 rate_limited, try again in 61 s\)"):
            drive.run(exchange(SAFE, POLICY, clock=drive.clock))
        assert drive.pauses == []

    def it_waits_for_the_answer_of_its_own_broken_attempt(self):
        at_work = [said(409, {"code": "idempotency_key_in_use"}, retry_after="5")] * 9
        drive = Drive(BROKEN, *at_work, said(200, {"fine": True}))
        assert drive.run(exchange(NAMED, POLICY, clock=drive.clock)).json() == {"fine": True}
        assert drive.now > 1000 + 45

    @pytest.mark.parametrize(
        ("call", "conflict", "policy"),
        [
            (NAMED, said(409), POLICY),
            (SAFE, said(409, retry_after="1"), POLICY),
            (NAMED, said(409, retry_after="1"), RetryPolicy(retries=0)),
        ],
    )
    def it_takes_any_other_conflict_for_an_answer(self, call, conflict, policy):
        drive = Drive(conflict)
        with pytest.raises(ProblemError):
            drive.run(exchange(call, policy, clock=drive.clock))
        assert drive.pauses == []

    def it_reads_retry_after_as_a_date(self):
        drive = Drive(said(503, retry_after="Thu, 01 Jan 1970 00:00:00 GMT"), said())
        drive.run(exchange(SAFE, POLICY, clock=drive.clock))
        assert drive.pauses == [0.2]

    def it_starts_nothing_after_the_deadline(self):
        drive = Drive(*[said(503, {"detail": "down", "code": "unavailable"})] * 9)
        with pytest.raises(ProblemError, match="down"):
            drive.run(exchange(SAFE, POLICY, deadline=drive.now + 0.5, clock=drive.clock))
        assert drive.pauses == [0.2]

    @pytest.mark.parametrize("down", [REFUSED, said(503), said(502)])
    def it_is_patient_with_a_server_that_restarts(self, down):
        drive = Drive(*[down] * 9, said(200, {"fine": True}))
        policy = policy_of(None, 30.0)
        assert drive.run(exchange(SAFE, policy, deadline=drive.now + 20, clock=drive.clock)).json() == {"fine": True}
        assert max(drive.pauses) <= 2.0  # so that its return is noticed soon
        assert drive.now > 1000 + 5

    @pytest.mark.parametrize("policy", [policy_of(None, 5.0), policy_of(4, 5.0)])
    def it_gives_up_at_the_timeout_or_after_the_given_retries(self, policy):
        drive = Drive(*[REFUSED] * 30)
        with pytest.raises(ConnectionFailed):
            drive.run(exchange(SAFE, policy, clock=drive.clock))
        assert drive.now <= 1000 + 5 + 2
        assert len(drive.calls) == 5 or policy.patience_s

    @pytest.mark.parametrize("outcome", [BROKEN, said(504), said(429)])
    def it_is_not_patient_with_a_server_that_is_there(self, outcome):
        drive = Drive(*[outcome] * 30)
        with pytest.raises((ProblemError, ConnectionFailed)):
            drive.run(exchange(SAFE, policy_of(None, 30.0), clock=drive.clock))
        assert len(drive.calls) == 5

    def it_tells_a_problem_in_one_sentence(self):
        body = {
            "title": "Invalid",
            "detail": "The request is not valid.",
            "code": "validation_failed",
            "request_id": "r1",
            "errors": [{"pointer": "/top_k", "detail": "must be positive"}, {"pointer": "/x", "detail": "?"}],
        }
        with pytest.raises(ProblemError) as caught:
            Drive(said(422, body)).run(exchange(SAFE, POLICY))
        error = caught.value
        expected = "The request is not valid: /top_k must be positive and 1 more (422 validation_failed, request r1)"
        assert str(error) == expected
        assert (error.status, error.code, error.request_id, len(error.errors)) == (422, "validation_failed", "r1", 2)

    def it_recognises_an_answer_that_is_not_from_chordwise(self):
        page = Answer(status=404, headers={"content-type": "text/html"}, content=b"<h1>nginx</h1>")
        with pytest.raises(ProblemError, match="is not one of Chordwise"):
            Drive(page).run(exchange(SAFE, POLICY))


def job(status: str, **more: Any) -> Answer:
    return said(200, {"job_id": "j", "status": status, "total": 2, **more})


class DescribeWait:
    def it_asks_the_server_to_hold_the_answer(self):
        drive = Drive(job("queued"), job("running"), job("succeeded", succeeded=2), seconds_per_call=9.0)
        done = drive.run(drive.operations()._wait("j", timeout=None, on_progress=None))
        assert (done.status, done.succeeded) == ("succeeded", 2)
        assert [dict(call.params).get("wait") for call in drive.calls] == [None, "10", "10"]
        assert drive.pauses == []

    def it_does_not_spin_when_the_server_answers_at_once(self):
        drive = Drive(job("running"), job("running"), job("failed"))
        drive.run(drive.operations()._wait("j", timeout=None, on_progress=None))
        assert drive.pauses == [0.25]

    def it_gives_up_in_time_and_says_what_was_last_known(self):
        drive = Drive(*[job("running")] * 9, seconds_per_call=2.0)
        with pytest.raises(Timeout, match="job j is still running"):
            drive.run(drive.operations()._wait("j", timeout=5, on_progress=None))
        assert [dict(call.params).get("wait") for call in drive.calls] == [None, "3", "1"]

    def it_outlives_a_restart_of_the_server(self):
        drive = Drive(job("running"), *[REFUSED] * 8, job("succeeded"))
        assert drive.run(drive.operations()._wait("j", timeout=None, on_progress=None)).done

    def it_tells_of_progress(self):
        drive = Drive(job("running"), job("running", succeeded=1), job("succeeded", succeeded=2), seconds_per_call=1.0)
        seen: list[int] = []
        drive.run(drive.operations()._wait("j", timeout=None, on_progress=lambda state: seen.append(state.succeeded)))
        assert seen == [1, 2]


class DescribeQuery:
    QUEUED = said(202, {"query_id": "q", "status": "queued"})
    DONE = said(200, {"query_id": "q", "status": "succeeded", "chunks": []})

    def it_is_answered_in_one_exchange(self):
        drive = Drive(self.DONE)
        assert drive.run(drive.operations().query("?", namespace="kb")).chunks == ()
        assert drive.calls[0].headers["Prefer"] == "wait=10"

    def it_follows_a_202_to_the_result(self):
        drive = Drive(self.QUEUED, said(200, {"query_id": "q", "status": "running"}), self.DONE, seconds_per_call=1.0)
        drive.run(drive.operations().query("?", namespace="kb", timeout=5))
        assert [call.path for call in drive.calls] == ["/v1/queries", "/v1/queries/q", "/v1/queries/q"]
        assert [dict(call.params).get("wait") for call in drive.calls] == [None, "4", "3"]

    @pytest.mark.parametrize("status", ["failed", "expired", "cancelled"])
    def it_raises_a_query_that_ends_without_result(self, status):
        answer = said(200, {"query_id": "q", "status": status, "error": {"detail": "why"}})
        with pytest.raises(QueryFailed, match=f"query q {status}: why"):
            Drive(answer).run(Drive().operations().query("?", namespace="kb"))

    def it_gives_up_in_time(self):
        drive = Drive(*[self.QUEUED] * 9, seconds_per_call=1.0)
        with pytest.raises(Timeout, match="query q is still queued"):
            drive.run(drive.operations().query("?", namespace="kb", timeout=2.5))

    def it_notices_an_answer_that_is_none(self):
        drive = Drive(said(200, {"hello": "world"}))
        with pytest.raises(UnexpectedAnswer, match="no status"):
            drive.run(drive.operations().query("?", namespace="kb"))


class DescribeIngest:
    def it_leaves_the_accepted_jobs_with_the_error_that_stopped_it(self):
        drive = Drive(
            said(202, {"job_id": "j1", "total": 1000}), said(413, {"detail": "too large", "code": "too_large"})
        )
        documents: Iterable[dict[str, str]] = ({"text": str(number)} for number in range(1001))
        with pytest.raises(ProblemError, match="too large") as caught:
            drive.run(drive.operations().ingest(documents, namespace="kb"))
        assert [job.job_id for job in caught.value.accepted] == ["j1"]

    def it_lets_the_server_fetch_what_is_at_an_address(self):
        drive = Drive(said(503), said(202, {"job_id": "j1", "total": 3}))
        things = ["https://a.example/x", {"document_id": "d", "text": "t"}]
        steps = drive.operations().ingest(things, url="http://b.example/", namespace="kb", priority="bulk")
        done = drive.run(steps)
        assert json.loads(drive.calls[-1].content) == {
            "namespace": "kb",
            "priority": "bulk",
            "documents": [
                {"source": {"uri": "https://a.example/x"}},
                {"document_id": "d", "text": "t"},
                {"source": {"uri": "http://b.example/"}},
            ],
        }
        assert drive.calls[0].safe  # they are named by their addresses, so twice is as once
        assert done.job_ids == ("j1",)

    @pytest.mark.parametrize("url", ["ftp://a.example/", "a.example", ["https://a.example", "file:///etc/passwd"]])
    def it_takes_nothing_else_for_an_address(self, url):
        with pytest.raises(InvalidInput):
            with_urls([], url)

    def it_reads_quotas(self):
        drive = Drive(said(200, {"documents": {"limit": None, "used": 3}, "queued": {"limit": 5, "used": 0}}))
        found = drive.run(drive.operations().quotas())
        assert (found.documents.limit, found.documents.used, found.queued.limit) == (None, 3, 5)

    def it_sends_each_request_with_a_key_of_its_own(self):
        accepted: Callable[[str], Answer] = lambda name: said(202, {"job_id": name})  # noqa: E731 - a one-line table
        drive = Drive(accepted("j1"), said(503), accepted("j2"))
        documents = [{"document_id": str(number), "text": "t"} for number in range(1001)]
        done = drive.run(drive.operations().ingest(documents, namespace="kb"))
        first, failed, again = (call.headers["Idempotency-Key"] for call in drive.calls)
        assert first != failed == again
        assert done.job_ids == ("j1", "j2")


class DescribeLists:
    def it_follows_cursors_up_to_the_limit(self):
        def page(names: str, cursor: str | None) -> Answer:
            return said(200, {"data": [{"job_id": name} for name in names], "next_cursor": cursor})

        drive = Drive(page("ab", "c1"), page("cd", "c2"))
        found = drive.run(drive.operations().jobs(limit=3))
        assert [job.job_id for job in found] == ["a", "b", "c"]
        assert drive.calls[1].params == (("limit", "1"), ("cursor", "c1"))

    def it_escapes_ids_in_paths(self):
        drive = Drive(said(204))
        drive.run(drive.operations().delete_document("a/b ?字", namespace="kb"))
        assert drive.calls[0].path == "/v1/documents/a%2Fb%20%3F%E5%AD%97"
