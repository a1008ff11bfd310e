"""Re-uploads: what is kept, what can be gone back to, and who wins."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.administration.delete_documents import delete_document
from pipeline.administration.drop_replaced import drop_retired
from pipeline.database.engines import Conflict
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import GenerationNotKept, QuotaExceeded
from pipeline.ingestion.accept import AcceptedJob
from tests.support.corpora.uploading import A, again, back, expire, items, states
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import sharing
from tests.support.stacks.corner import Corner
from tests.support.stacks.one_job import ingest_batch
from tests.support.stacks.racing import side_by_side

pytestmark = pytest.mark.own_databases


class DescribePolicies:
    @pytest.mark.parametrize(("policy", "outcome"), [("skip", "skipped"), ("error", "refused")])
    def it_holds_when_two_bring_the_same_new_document_at_once(self, corner, policy, outcome):
        tickets = side_by_side(
            corner.use.mysql,
            [
                lambda body=body: corner.accept(upload("a", body), upload(body, body), on_conflict=policy)
                for body in ("one", "two")
            ],
            looking="SELECT document_id, latest_generation, published_generation,",
        )
        assert states(corner) == {1: "pending"}
        for ticket in tickets:
            corner.work(ticket)
        found = {body: items(corner, ticket)[0].outcome for body, ticket in zip(("one", "two"), tickets, strict=True)}
        assert sorted(found.values()) == sorted(["created", outcome])
        [taken] = [body for body, came in found.items() if came == "created"]
        assert corner.shown() == {"a": [taken], "one": ["one"], "two": ["two"]}
        corner.assert_clean()

    def it_takes_the_last_of_several_with_one_id(self, corner):
        ticket = corner.accept(upload("a", "one"), upload("b", "other"), upload("a", "two"), upload("a", "three"))
        corner.work(ticket)
        assert corner.shown() == {"a": ["three"], "b": ["other"]}
        found = items(corner, ticket)
        assert [each.outcome for each in found] == ["superseded", "created", "superseded", "created"]
        assert found[0].detail == "the same document_id stands later in this request, as number 3 counted from 0"
        assert corner.job(ticket).status == "succeeded"


@pytest.mark.thorough
class DescribeKeptGenerations:
    def it_keeps_the_upload_before_and_nothing_that_searches_pay_for(self, corner):
        for body in ("one", "two", "three"):
            corner.ingest(upload("a", body))
        corner.assert_clean()  # no chunk and no vector but those shown
        assert states(corner) == {3: "shown", 2: "previous"}
        assert corner.rows("payloads") == corner.rows("generations") == 2

    def it_lets_it_go_when_its_time_is_up(self, corner):
        corner.ingest(upload("a", "one"))
        corner.ingest(upload("a", "two"))
        expire(corner)
        assert states(corner) == {2: "shown"}
        assert corner.rows("payloads") == corner.rows("generations") == 1
        with pytest.raises(GenerationNotKept):
            back(corner)

    def it_keeps_nothing_if_the_installation_says_so(self, corner, use):
        careless = sharing(use, previous_generation_kept_s=0.0)
        corner.ingest(upload("a", "one"))
        again(corner, careless, upload("a", "two"))
        assert states(corner) == {2: "shown", 1: "retired"}
        corner.assert_clean()
        assert states(corner) == {2: "shown"}
        assert corner.rows("payloads") == 1

    def it_goes_with_its_document(self, corner):
        corner.ingest(upload("a", "one"))
        corner.ingest(upload("a", "two"))
        corner.assert_clean()
        delete_document(corner.tenant, corner.namespace, A, corner.use)
        drop_retired(corner.tenant, corner.use)
        assert [corner.rows(table) for table in ("payloads", "generations", "kept_generations", "chunks")] == [0] * 4

    def it_lets_go_of_what_failed_before(self, corner):
        corner.ingest(upload("a", "one"))
        corner.ingest(upload("a", "  "))
        drop_retired(corner.tenant, corner.use)
        assert states(corner) == {2: "failed", 1: "shown"}
        corner.ingest(upload("a", "three"))
        corner.assert_clean()
        assert states(corner) == {3: "shown", 1: "previous"}


class DescribeRollback:
    def it_gives_way_to_a_later_upload_and_overtakes_an_earlier_one(self, corner):
        corner.ingest(upload("a", "one"))
        corner.ingest(upload("a", "two"))
        earlier, rolled, later = corner.accept(upload("a", "x")), back(corner), corner.accept(upload("a", "y"))
        for ticket in (rolled, earlier):
            corner.work(ticket)
            assert corner.shown() == {"a": ["one"]}
        corner.work(later)
        assert corner.shown() == {"a": ["y"]}
        corner.assert_clean()

    @pytest.mark.thorough
    def it_counts_against_the_queue(self, corner, use):
        corner.ingest(upload("a", "one"))
        corner.ingest(upload("a", "two"))
        corner.execute("UPDATE tenants SET quota_documents = 1 WHERE tenant_id = :tenant")
        corner.work(back(corner))
        corner.execute("UPDATE tenants SET quota_documents = NULL, quota_chunks = 1 WHERE tenant_id = :tenant")
        with pytest.raises(QuotaExceeded):
            back(corner)


class DescribeUploadsAtOnce:
    ROUNDS = 4

    @pytest.mark.thorough
    def it_shows_the_one_that_was_accepted_last_whole(self, corner, use):
        """Four workers and a reader, and in each round three uploads at once of different lengths, some of them of what
        is shown already."""
        chance = random.Random(7)
        corner.ingest(upload("a", self._body("start", 3)))
        accepted: list[tuple[int, str]] = []
        stop = threading.Event()
        mixed: list[list[str]] = []
        broken: list[BaseException] = []

        def guarded(target: Any) -> Any:
            def run(*arguments: Any) -> None:
                try:
                    target(*arguments)
                except BaseException as error:
                    broken.append(error)

            return run

        def send(label: str, length: int) -> None:
            ticket = corner.accept(upload("a", self._body(label, length)))
            number = corner.execute(
                "SELECT generation FROM job_items WHERE tenant_id = :tenant AND job_id = :job", job=ticket.job_id
            )[0][0]
            accepted.append((number, label))
            open_jobs.append(ticket)

        def work_on() -> None:
            while not stop.wait(0.01):
                for ticket in open_jobs:
                    with suppress(Conflict):  # the task is run again
                        ingest_batch(corner.tenant, ticket.job_id, use, notify=lambda *_: None)

        def read() -> None:
            while not stop.wait(0.005):
                found = corner.shown().get("a", [])
                labels = {word for chunk in found for word in chunk.split() if word.startswith("label-")}
                if len(labels) != 1:
                    mixed.append(sorted(labels))

        open_jobs: list[AcceptedJob] = []
        helpers = [threading.Thread(target=guarded(work_on)) for _ in range(4)]
        helpers.append(threading.Thread(target=guarded(read)))
        for each in helpers:
            each.start()
        try:
            for number in range(self.ROUNDS):
                same = accepted and chance.random() < 0.5
                labels = [f"{number}-{n}" for n in range(3)]
                if same:
                    labels[chance.randrange(3)] = max(accepted)[1]
                threads = [threading.Thread(target=guarded(send), args=(label, len(label) % 3 + 2)) for label in labels]
                for each in threads:
                    each.start()
                for each in threads:
                    each.join()
                self._settle(corner, open_jobs)
                last = max(accepted)[1]
                assert {word for chunk in corner.shown()["a"] for word in chunk.split() if "label" in word} == {
                    f"label-{last}"
                }
                open_jobs.clear()
        finally:
            stop.set()
            for each in helpers:
                each.join()
        assert (mixed, broken) == ([], [])
        corner.assert_clean()

    @staticmethod
    def _body(label: str, length: int) -> str:
        return "\n\n".join(f"label-{label} paragraph {n}. " * 60 for n in range(length))

    @staticmethod
    def _settle(corner: Corner, tickets: list[AcceptedJob]) -> None:
        """Until the workers are done; what was put back is due again at once."""
        ends = time.monotonic() + 30
        while not all(corner.job(ticket).finished_at for ticket in tickets) and time.monotonic() < ends:
            with suppress(Conflict), unit_of_work(corner.use.mysql) as work:
                work.connection.execute(
                    text(
                        "UPDATE job_items SET next_attempt_at = '2000-01-01' WHERE tenant_id = :tenant"
                        " AND state = 'queued' AND next_attempt_at > NOW(6)"
                    ),
                    {"tenant": corner.tenant},
                )
            time.sleep(0.02)
        for ticket in tickets:
            job = corner.job(ticket)
            assert (job.status, job.failed) == ("succeeded", 0)
