"""Computations as a worker carries them out: once, as the caller, with every error on its way back to the caller."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import fakeredis
import pytest

from api_gateway.http.problems import from_error
from chordwise.contract.tenant import AuditActor
from pipeline import errors
from pipeline.administration.compute import carry_out
from pipeline.database.engines import Conflict
from pipeline.errors import DocumentTooLarge, EmptyDocument, PipelineError, QuotaExceeded, StoreUnavailable
from pipeline.jobs.computation import (
    LARGEST_ANSWER,
    Computation,
    ComputationId,
    ComputationKind,
    Done,
    Failed,
    StepResult,
    error_as_json,
    error_from_json,
)
from pipeline.jobs.computation_store import Computations
from pipeline.records import TenantId

pytestmark = pytest.mark.usefixtures("quiet")

ACME, OTHER = TenantId("acme"), TenantId("other")
ONE = ComputationId("0b1c9a52-0000-4000-8000-000000000001")


def no_mysql() -> Any:
    raise AssertionError("a small body needs no MySQL")


class Desk:
    """A store, a worker with scripted behaviour, and the messages sent."""

    def __init__(self, redis: fakeredis.FakeRedis) -> None:
        self.redis = redis
        self.computations = Computations(redis, no_mysql, ACME)
        self.sent: list[int] = []

    def open(self, kind: ComputationKind = ComputationKind.PREVIEW, **fields: Any) -> Computation:
        found = Computation(tenant_id=ACME, computation_id=ONE, kind=kind, asked={"a": "é茶"}, **fields)
        self.computations.open(found, begin_s=5)
        return found

    def deliver(self, performer: Callable[[Computation], StepResult], step: int = 0, **options: Any) -> None:
        use: Any = SimpleNamespace(computations=lambda tenant_id: Computations(self.redis, no_mysql, tenant_id))
        carry_out(
            options.pop("tenant_id", ACME),
            ONE,
            step,
            ComputationKind.PREVIEW,
            use,
            dict.fromkeys(ComputationKind, performer),
            send_next=lambda computation: self.sent.append(computation.step + 1),
            **options,
        )

    @property
    def outcome(self) -> Done | Failed | None:
        found = self.computations.progress(ONE)
        assert found is not None
        return found.outcome


@pytest.fixture
def desk(redis: fakeredis.FakeRedis) -> Desk:
    return Desk(redis)


def done(text: str) -> Callable[[Computation], Done]:
    return lambda _: Done(body=text.encode(), about={"job_id": text})


def failing(error: Exception) -> Callable[[Computation], Done]:
    def perform(_: Computation) -> Done:
        raise error

    return perform


class DescribeACarriedOutComputation:
    def it_gets_what_was_asked_and_gives_its_answer(self, desk):
        asked = desk.open(body=b"\x00text", request_id="r1", actor=AuditActor(key_id="k", scopes=("write",)))
        seen: list[Computation] = []
        desk.deliver(lambda computation: seen.append(computation) or Done(body=b"{}", about={"job_id": "j"}))
        assert seen == [asked]
        assert desk.outcome == Done(body=b"{}", about={"job_id": "j"})

    def it_says_how_far_it_is(self, desk):
        desk.open()
        assert (desk.computations.progress(ONE).begun, desk.outcome) == (False, None)
        desk.deliver(lambda _: {"page": 1})
        found = desk.computations.progress(ONE)
        assert (found.step, found.begun, found.outcome) == (1, False, None)

    def it_goes_on_where_the_step_before_ended(self, desk):
        desk.open(ComputationKind.VERIFY)
        for step in range(3):
            desk.deliver(lambda found: {"page": (found.state or {"page": 0})["page"] + 1}, step)
        seen: list[Any] = []
        desk.deliver(lambda found: seen.append(found.state) or Done(body=b""), 3)
        assert (seen, desk.sent) == ([{"page": 3}], [1, 2, 3])

    @pytest.mark.parametrize("name", sorted({"outcome", "answer"}))
    def it_keeps_nothing_of_the_request_once_it_is_answered(self, desk, redis, name):
        desk.open(body=b"somebody's text")
        desk.deliver(done("x"))
        kept = redis.hgetall(f"acme:computation:{ONE}")
        assert name.encode() in kept
        assert b"somebody" not in b"".join(kept.values())

    def it_expires(self, desk, redis):
        key = f"acme:computation:{ONE}"
        desk.open()
        waiting = redis.ttl(key)
        desk.deliver(done("x"))
        assert (0 < waiting < 200, 0 < redis.ttl(key) <= 60) == (True, True)


class DescribeAMessageThatComesTwice:
    def it_does_nothing_after_the_end(self, desk):
        desk.open()
        desk.deliver(done("first"))
        desk.deliver(done("second"))
        assert desk.outcome == Done(body=b"first", about={"job_id": "first"})

    def it_does_nothing_while_the_step_is_under_way(self, desk):
        desk.open()
        again: list[str] = []

        def perform(_: Computation) -> Done:
            desk.deliver(lambda _: again.append("twice") or Done(body=b"twice"))
            return Done(body=b"once")

        desk.deliver(perform)
        assert (again, desk.outcome) == ([], Done(body=b"once"))

    def it_does_nothing_at_a_later_step(self, desk):
        desk.open(ComputationKind.VERIFY)
        desk.deliver(lambda _: {"page": 1})
        desk.deliver(lambda _: {"page": 9})
        assert (desk.computations.progress(ONE).step, desk.sent) == (1, [1])

    def it_does_nothing_when_nobody_waits_any_more(self, desk, redis):
        asked = desk.open()
        desk.computations.drop(asked)
        desk.deliver(failing(AssertionError("it was begun")))
        assert redis.keys("acme:*") == []

    def it_brings_nothing_back_that_was_dropped_meanwhile(self, desk, redis):
        asked = desk.open()
        desk.deliver(lambda _: desk.computations.drop(asked) or Done(body=b"late"))
        assert redis.keys("acme:*") == []

    def it_does_nothing_for_another_tenant(self, desk):
        desk.open()
        desk.deliver(failing(AssertionError("it was begun")), tenant_id=OTHER)
        assert desk.outcome is None


class DescribeAnErrorOfAComputation:
    @pytest.mark.parametrize(
        "error",
        [
            EmptyDocument("the document has no text to index"),
            DocumentTooLarge("文档太大"),
            StoreUnavailable("MySQL: OperationalError 2003", retry_after_s=3),
            Conflict("MySQL: two transactions stood in each other's way"),
            QuotaExceeded("no more", quota={"name": "documents", "limit": 1, "used": 1}),
            QuotaExceeded(
                "later", code="too_many_queued", retry_after_s=7, quota={"name": "queued", "limit": 5, "used": 9}
            ),
            errors.MigrationRefused("not now", code="migration_open"),
        ],
        ids=lambda error: error.code,
    )
    def it_is_told_to_the_caller_as_if_it_had_been_raised_in_the_gateway(self, desk, error):
        desk.open()
        desk.deliver(failing(error))
        failed = desk.outcome
        assert isinstance(failed, Failed)
        here, there = from_error(error), from_error(failed.error)
        for name in ("status", "code", "detail", "title", "headers", "extensions"):
            assert getattr(there, name) == getattr(here, name)

    @pytest.mark.parametrize(
        "kind", [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, PipelineError)]
    )
    def it_keeps_its_class_and_its_code(self, kind):
        sent = kind("why")
        found = error_from_json(error_as_json(sent))
        assert (type(found), found.code, found.public) == (kind, sent.code, sent.public)

    def it_is_raised_in_the_worker_and_told_without_words_if_it_is_a_defect(self, desk):
        desk.open()
        with pytest.raises(ZeroDivisionError):
            desk.deliver(failing(ZeroDivisionError("somebody's text")))
        assert desk.outcome == Failed(error=None)

    def it_names_a_step_that_the_worker_had_to_stop(self, desk):
        desk.open()
        desk.deliver(failing(TimeoutError()), interrupts=(TimeoutError,))
        failed = desk.outcome
        assert isinstance(failed, Failed)
        assert (failed.error.code, from_error(failed.error).status) == ("computation_timeout", 503)

    def it_names_an_answer_that_is_too_large(self, desk):
        desk.open()
        desk.deliver(lambda _: Done(body=bytes(LARGEST_ANSWER + 1)))
        failed = desk.outcome
        assert isinstance(failed, Failed)
        assert failed.error.code == "document_too_large"

    def it_ends_the_computation_if_the_next_step_cannot_be_sent(self, redis):
        desk = Desk(redis)
        desk.open(ComputationKind.VERIFY)
        use: Any = SimpleNamespace(computations=lambda _: desk.computations)

        def refuse(_: Computation) -> None:
            raise StoreUnavailable("the broker took nothing")

        performers = dict.fromkeys(ComputationKind, lambda _: {})
        carry_out(ACME, ONE, 0, ComputationKind.VERIFY, use, performers, send_next=refuse)
        failed = desk.outcome
        assert isinstance(failed, Failed)
        assert failed.error.code == "store_unavailable"
