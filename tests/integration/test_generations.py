"""Re-uploads: what is left alone, what is reused, what is kept, and who wins."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import event, text

from pipeline.errors import GenerationNotKept, PreconditionFailed, QuotaExceeded
from pipeline.flows.chunk_edit import Edit, delete_chunks, edit_chunks
from pipeline.flows.edit import delete_document
from pipeline.flows.ingest import ingest_batch
from pipeline.flows.intake import Ticket
from pipeline.flows.resources import Resources
from pipeline.flows.rollback import roll_back
from pipeline.flows.upkeep import drop_retired, release_kept
from pipeline.records import Chunking, DocumentFields, DocumentId, Upload
from pipeline.stores.chunk_edits import ChunkEdits
from pipeline.stores.engines import Conflict
from pipeline.stores.generations import Generations, History
from pipeline.stores.job_views import ItemView, JobViews
from pipeline.stores.work import unit_of_work
from tests.integration.test_ingest_flow import Corner, _upload, embedding_with
from tests.support.openai_clients import embedder_on
from tests.support.openai_server import OpenAIServer

A = DocumentId("a")


@pytest.fixture(scope="module")
def use(use_alone: Resources) -> Resources:
    return use_alone


@pytest.fixture
def corner(use, tenant, namespace) -> Corner:
    return Corner(use, tenant, namespace)


class CountingEmbedder:
    """The real embedder, which remembers what it was asked for."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.model = real.model
        self.texts: list[str] = []

    def embed(self, texts: Any, **options: Any) -> Any:
        self.texts += texts
        return self._real.embed(texts, **options)

    def close(self) -> None:
        self._real.close()


class CountingParser:
    """The real parser, which counts its documents."""

    def __init__(self, real: Any) -> None:
        self._real, self.parsed = real, 0

    def parse(self, *arguments: Any, **options: Any) -> Any:
        self.parsed += 1
        return self._real.parse(*arguments, **options)

    def close(self) -> None:
        self._real.close()


@pytest.fixture
def counting(use) -> Resources:
    other = Resources(use.settings)
    other.__dict__.update(
        mysql=use.mysql,
        postgres=use.postgres,
        redis=use.redis,
        embedder=CountingEmbedder(use.embedder),
        parser=CountingParser(use.parser),
    )
    return other


def items(corner: Corner, ticket: Ticket) -> list[ItemView]:
    with unit_of_work(corner.use.mysql) as work:
        return JobViews(work.connection, corner.tenant).items(ticket.job_id, status=None, after=-1, limit=100)


def history(corner: Corner, document_id: DocumentId = A) -> History | None:
    with unit_of_work(corner.use.mysql) as work:
        return Generations(work.connection, corner.tenant).history(corner.namespace, document_id)


def states(corner: Corner) -> dict[int, str]:
    found = history(corner)
    return {} if found is None else {each.number: each.state for each in found.generations}


def back(corner: Corner, **options: Any) -> Ticket:
    options = {"request_id": "r", "ring": lambda ticket: None, **options}
    ticket = roll_back(corner.tenant, corner.namespace, A, corner.use, **options)
    assert ticket is not None
    return ticket


def expire(corner: Corner) -> None:
    """Let the time be up for everything that is kept or retired."""
    with unit_of_work(corner.use.mysql) as work:
        for table, column in (("kept_generations", "kept_until"), ("retired_generations", "due_at")):
            work.connection.execute(
                text(f"UPDATE {table} SET {column} = '2000-01-01' WHERE tenant_id = :tenant"), {"tenant": corner.tenant}
            )
    release_kept(corner.tenant, corner.use)
    drop_retired(corner.tenant, corner.use)


def again(corner: Corner, use: Resources, *uploads: Upload) -> dict[str, int]:
    ticket = corner.accept(*uploads)
    corner.work(ticket, use)
    return corner.job(ticket).outcomes


def paragraphs(count: int, *, changed: int | None = None) -> str:
    words = [f"Paragraph {n} is about subject {n * 37 % 101} and says so at length. " * 5 for n in range(count)]
    if changed is not None:
        words[changed] = "This paragraph was written anew and says something else entirely. " * 5
    return "\n\n".join(words)


class DescribeAnUnchangedUpload:
    def it_is_neither_parsed_nor_embedded_and_leaves_everything_as_it_was(self, corner, counting):
        one = _upload("a", "text " * 500, title="T", tags=("x",), metadata={"k": [1, True, None]}, author="me")
        corner.ingest(one)
        before = history(corner)
        ticket = corner.accept(one)
        corner.work(ticket, counting)
        assert (counting.embedder.texts, counting.parser.parsed) == ([], 0)
        [item] = items(corner, ticket)
        shown = len(corner.shown()["a"])
        assert (item.status, item.outcome, item.chunks, item.reused) == ("succeeded", "unchanged", shown, shown)
        assert corner.job(ticket).outcomes == {"unchanged": 1}
        assert history(corner).generations == before.generations
        assert corner.rows("payloads") == corner.rows("generations") == 1
        corner.assert_clean()

    def it_is_so_without_a_title_of_its_own_too(self, corner, counting):
        one = Upload(document_id=A, fields=DocumentFields(), body=b"# Found title\n\nText.", media_type="text/markdown")
        corner.ingest(one)
        assert again(corner, counting, one) == {"unchanged": 1}

    @pytest.mark.parametrize(
        "change",
        [
            {"fields": DocumentFields(title="other")},
            {"fields": DocumentFields(author="other")},
            {"fields": DocumentFields(tags=("y",))},
            {"fields": DocumentFields(metadata={"k": 1})},
            {"body": b"other"},
            {"chunking": Chunking(max_tokens=100)},
            {"media_type": "text/markdown"},
            {"source_uri": "file:elsewhere"},
        ],
        ids=lambda change: "-".join(change),
    )
    def it_is_not_what_differs_in_anything(self, corner, counting, change):
        same = {"document_id": A, "fields": DocumentFields(), "body": b"text", "media_type": "text/plain"}
        corner.ingest(Upload(**same))
        assert again(corner, counting, Upload(**{**same, **change})) == {"replaced": 1}
        corner.assert_clean()

    def it_is_made_anew_after_an_edit_by_hand(self, corner, counting):
        corner.ingest(_upload("a", paragraphs(20), title="T"))
        with unit_of_work(corner.use.mysql) as work:
            chunk = ChunkEdits(work.connection, corner.tenant).page(
                corner.namespace, document_id=A, enabled=None, order_by="document_id", after=None, limit=1
            )[0]
        for edit in (Edit(chunk_id=chunk.chunk_id, text="by hand"), Edit(chunk_id=chunk.chunk_id, enabled=False)):
            edit_chunks(corner.tenant, [edit], corner.use)
        original = corner.shown()["a"]
        assert again(corner, counting, _upload("a", paragraphs(20), title="T")) == {"replaced": 1}
        assert len(counting.embedder.texts) == 1  # the chunk that was edited, whose vector was of another text
        assert "by hand" not in corner.shown()["a"]
        assert len(corner.shown()["a"]) == len(original)
        corner.assert_clean()

    def it_brings_back_what_was_deleted_by_hand(self, corner, counting):
        corner.ingest(_upload("a", paragraphs(20)))
        with unit_of_work(corner.use.mysql) as work:
            found = ChunkEdits(work.connection, corner.tenant).page(
                corner.namespace, document_id=A, enabled=None, order_by="document_id", after=None, limit=99
            )
        delete_chunks(corner.tenant, [found[0].chunk_id], corner.use)
        assert again(corner, counting, _upload("a", paragraphs(20))) == {"replaced": 1}
        assert len(corner.shown()["a"]) == len(found)

    @pytest.mark.parametrize("store", ["mysql", "postgres"])
    def it_mends_what_was_lost_of_it(self, corner, counting, store):
        corner.ingest(_upload("a", "text"))
        table = {"mysql": "chunks", "postgres": "chunk_embeddings"}[store]
        with getattr(corner.use, store).begin() as connection:
            connection.execute(text(f"DELETE FROM {table} WHERE tenant_id = :tenant"), {"tenant": corner.tenant})
        assert again(corner, counting, _upload("a", "text")) == {"replaced": 1}
        assert corner.shown() == {"a": ["text"]}

    def it_is_made_anew_for_another_model(self, corner, counting):
        corner.ingest(_upload("a", "text"))
        other = Resources(
            counting.settings.model_copy(update={"embedding_provider": "openai", "embedding_model": "another"})
        )
        other.__dict__.update({name: counting.__dict__[name] for name in ("mysql", "postgres", "redis", "embedder")})
        other.embedder.model = "another"
        other.spaces.use_embedder(other.spaces.base, other.embedder)
        assert again(corner, other, _upload("a", "text")) == {"replaced": 1}
        assert len(counting.embedder.texts) == 1

    def it_wins_over_an_earlier_upload_that_is_still_under_way(self, corner):
        corner.ingest(_upload("a", "old"))
        other, same = corner.accept(_upload("a", "new")), corner.accept(_upload("a", "old"))
        corner.work(same)
        corner.work(other)
        assert corner.shown() == {"a": ["old"]}
        assert [corner.job(each).outcomes for each in (other, same)] == [{"superseded": 1}, {"unchanged": 1}]
        corner.assert_clean()
        assert corner.rows("payloads") == corner.rows("generations") == 1

    def it_does_not_undo_a_deletion(self, corner):
        corner.ingest(_upload("a", "old"))
        ticket = corner.accept(_upload("a", "old"))
        delete_document(corner.tenant, corner.namespace, A, corner.use)
        corner.work(ticket)
        assert (corner.shown(), corner.job(ticket).outcomes) == ({}, {"superseded": 1})
        assert corner.ingest(_upload("a", "old")).outcomes == {"created": 1}
        corner.assert_clean()

    def it_does_not_keep_its_document_from_being_deleted_with_its_last_chunk(self, corner):
        for _ in range(2):
            corner.ingest(_upload("a", "text"))
        with unit_of_work(corner.use.mysql) as work:
            [chunk] = ChunkEdits(work.connection, corner.tenant).page(
                corner.namespace, document_id=A, enabled=None, order_by="document_id", after=None, limit=9
            )
        assert edit_chunks(corner.tenant, [Edit(chunk_id=chunk.chunk_id)], corner.use)[0].replacement_pending is False
        delete_chunks(corner.tenant, [chunk.chunk_id], corner.use)
        assert history(corner) is None
        drop_retired(corner.tenant, corner.use)
        assert corner.rows("payloads") == corner.rows("generations") == 0

    def it_asks_nothing_more_of_the_databases_for_a_first_upload(self, corner, counting):
        ticket = corner.accept(*(_upload(f"d{n}", f"text {n}") for n in range(5)))
        seen: list[str] = []

        def note(*arguments: Any) -> None:
            seen.append(arguments[2])

        for engine in (counting.mysql, counting.postgres):
            event.listen(engine, "before_cursor_execute", note)
        try:
            corner.work(ticket, counting)
        finally:
            for engine in (counting.mysql, counting.postgres):
                event.remove(engine, "before_cursor_execute", note)
        assert not [each for each in seen if "settled_generation AS" in each or "kept_generations" in each]
        assert not [each for each in seen if "halfvec_send" in each]


class DescribeReuse:
    def it_embeds_only_what_an_edit_has_changed(self, corner, counting):
        before = _upload("a", paragraphs(200), title="T")
        corner.work(corner.accept(before), counting)
        assert len(counting.embedder.texts) == len(corner.shown()["a"]) > 20
        counting.embedder.texts.clear()
        ticket = corner.accept(_upload("a", paragraphs(200, changed=100), title="T"))
        corner.work(ticket, counting)
        assert 1 <= len(counting.embedder.texts) <= 3
        [item] = items(corner, ticket)
        assert (item.outcome, item.reused) == ("replaced", item.chunks - len(counting.embedder.texts))
        assert corner.job(ticket).reused == item.reused
        corner.assert_clean()

    def it_asks_a_model_service_for_no_more_than_that(self, corner, use):
        dimension = use.settings.embedding_dim
        with OpenAIServer(dimension=dimension) as server, embedder_on(server, dimension=dimension) as embedder:
            served = Resources(
                use.settings.model_copy(update={"embedding_provider": "openai", "embedding_model": embedder.model})
            )
            served.__dict__.update(mysql=use.mysql, postgres=use.postgres, redis=use.redis, embedder=embedder)
            served.spaces.use_embedder(served.spaces.base, embedder)
            again(corner, served, _upload("a", paragraphs(200)))
            asked = sum(len(body["input"]) for body in server.seen("embeddings"))
            assert asked == len(corner.shown()["a"])
            again(corner, served, _upload("a", paragraphs(200, changed=77)))
            assert 1 <= sum(len(body["input"]) for body in server.seen("embeddings")) - asked <= 3
            served_before = len(server.seen("embeddings"))
            assert again(corner, served, _upload("a", paragraphs(200, changed=77))) == {"unchanged": 1}
            assert len(server.seen("embeddings")) == served_before

    def it_gives_each_chunk_the_vector_of_its_own_text(self, corner, counting):
        corner.ingest(_upload("a", paragraphs(60)))
        again(corner, counting, _upload("a", "A new first line.\n\n" + paragraphs(60, changed=30)))
        with unit_of_work(corner.use.mysql) as work:
            found = ChunkEdits(work.connection, corner.tenant).page(
                corner.namespace, document_id=A, enabled=None, order_by="document_id", after=None, limit=200
            )
        ids = [chunk.chunk_id for chunk in found]
        for chunk in found:
            vector = corner.use.embedder.embed([chunk.passage.text])[0]
            scores = corner.use.vectors(corner.tenant).scores(vector, ids)
            assert scores[chunk.chunk_id] == pytest.approx(1.0, abs=0.001)

    def it_embeds_nothing_when_only_fields_have_changed(self, corner, counting):
        corner.ingest(_upload("a", paragraphs(50), tags=("old",)))
        assert again(corner, counting, _upload("a", paragraphs(50), tags=("new",), author="me")) == {"replaced": 1}
        assert counting.embedder.texts == []
        with corner.use.postgres.connect() as connection:
            rows = connection.execute(
                text("SELECT DISTINCT author, tags FROM chunk_embeddings WHERE tenant_id = :tenant AND generation = 2"),
                {"tenant": corner.tenant},
            ).all()
        assert [tuple(row) for row in rows] == [("me", ["new"])]

    def it_does_not_reuse_across_documents_or_tenants(self, corner, counting):
        corner.ingest(_upload("a", "the same text"), _upload("b", "something else"))
        again(corner, counting, _upload("b", "the same text"))
        assert counting.embedder.texts == ["the same text"]

    def it_parks_the_right_document_when_the_model_refuses_one_of_the_new_texts(self, corner, use):
        corner.ingest(_upload("a", paragraphs(20)), _upload("b", paragraphs(20)))
        ticket = corner.accept(
            _upload("a", paragraphs(20) + "\n\n" + "Fine words. " * 50),
            _upload("b", paragraphs(20) + "\n\n" + "A forbidden word. " * 50),
        )
        corner.work(ticket, embedding_with(use, refused="forbidden"))
        assert [error.document_id for error in corner.job(ticket).errors] == ["b"]
        assert corner.job(ticket).outcomes == {"replaced": 1}


class DescribePolicies:
    def it_says_what_it_did(self, corner):
        corner.ingest(_upload("a", "old"))
        for policy, outcome, code in (
            ("skip", "skipped", None),
            ("error", "refused", "document_exists"),
            ("replace", "replaced", None),
        ):
            ticket = corner.accept(_upload("a", "new"), _upload(f"with-{policy}", "x"), on_conflict=policy)
            corner.work(ticket)
            first, second = items(corner, ticket)
            assert (first.outcome, first.code, second.outcome) == (outcome, code, "created")
            assert corner.job(ticket).outcomes == {outcome: 1, "created": 1}

    def it_takes_the_last_of_several_with_one_id(self, corner):
        ticket = corner.accept(_upload("a", "one"), _upload("b", "other"), _upload("a", "two"), _upload("a", "three"))
        corner.work(ticket)
        assert corner.shown() == {"a": ["three"], "b": ["other"]}
        found = items(corner, ticket)
        assert [each.outcome for each in found] == ["superseded", "created", "superseded", "created"]
        assert found[0].detail == "the same document_id stands later in this request, as number 3 counted from 0"
        assert corner.job(ticket).status == "succeeded"


class DescribeKeptGenerations:
    def it_keeps_the_upload_before_and_nothing_that_searches_pay_for(self, corner):
        for body in ("one", "two", "three"):
            corner.ingest(_upload("a", body))
        corner.assert_clean()  # no chunk and no vector but those shown
        assert states(corner) == {3: "shown", 2: "previous"}
        assert corner.rows("payloads") == corner.rows("generations") == 2

    def it_lets_it_go_when_its_time_is_up(self, corner):
        corner.ingest(_upload("a", "one"))
        corner.ingest(_upload("a", "two"))
        expire(corner)
        assert states(corner) == {2: "shown"}
        assert corner.rows("payloads") == corner.rows("generations") == 1
        with pytest.raises(GenerationNotKept):
            back(corner)

    def it_keeps_nothing_if_the_installation_says_so(self, corner, use):
        careless = Resources(use.settings.model_copy(update={"previous_generation_kept_s": 0.0}))
        careless.__dict__.update(mysql=use.mysql, postgres=use.postgres, redis=use.redis, embedder=use.embedder)
        corner.ingest(_upload("a", "one"))
        again(corner, careless, _upload("a", "two"))
        assert states(corner) == {2: "shown", 1: "retired"}
        corner.assert_clean()
        assert states(corner) == {2: "shown"}
        assert corner.rows("payloads") == 1

    def it_goes_with_its_document(self, corner):
        corner.ingest(_upload("a", "one"))
        corner.ingest(_upload("a", "two"))
        corner.assert_clean()
        delete_document(corner.tenant, corner.namespace, A, corner.use)
        drop_retired(corner.tenant, corner.use)
        assert [corner.rows(table) for table in ("payloads", "generations", "kept_generations", "chunks")] == [0] * 4

    def it_lets_go_of_what_failed_before(self, corner):
        corner.ingest(_upload("a", "one"))
        corner.ingest(_upload("a", "  "))
        drop_retired(corner.tenant, corner.use)
        assert states(corner) == {2: "failed", 1: "shown"}
        corner.ingest(_upload("a", "three"))
        corner.assert_clean()
        assert states(corner) == {3: "shown", 1: "previous"}


class DescribeRollback:
    def it_shows_the_upload_before_and_can_be_undone(self, corner):
        corner.ingest(_upload("a", "one", title="T", tags=("x",), metadata={"k": "v"}))
        corner.ingest(_upload("a", "two"))
        corner.assert_clean()
        ticket = back(corner)
        assert states(corner) == {3: "pending", 2: "shown", 1: "previous"}
        assert corner.shown() == {"a": ["two"]}
        corner.work(ticket)
        assert (corner.shown(), corner.job(ticket).outcomes) == ({"a": ["one"]}, {"replaced": 1})
        assert (history(corner).generations[0].title, states(corner)) == (
            "T",
            {3: "shown", 2: "previous", 1: "retired"},
        )
        corner.assert_clean()
        assert states(corner) == {3: "shown", 2: "previous"}
        corner.work(back(corner, to=2))
        assert corner.shown() == {"a": ["two"]}
        corner.assert_clean()

    def it_is_refused_where_there_is_nothing_to_go_back_to(self, corner):
        corner.ingest(_upload("a", "one"))
        for to, why in ((None, "no earlier"), (1, "is what is shown"), (7, "is not kept")):
            with pytest.raises(GenerationNotKept, match=why):
                back(corner, to=to)
        assert states(corner) == {1: "shown"}
        assert (
            roll_back(corner.tenant, corner.namespace, DocumentId("no"), corner.use, request_id="r", ring=print) is None
        )

    def it_is_refused_to_who_has_not_seen_the_latest_upload(self, corner):
        corner.ingest(_upload("a", "one"))
        corner.ingest(_upload("a", "two"))
        etag = history(corner).etag
        corner.accept(_upload("a", "three"))
        with pytest.raises(PreconditionFailed):
            back(corner, etag=etag)
        back(corner, etag=history(corner).etag)

    def it_gives_way_to_a_later_upload_and_overtakes_an_earlier_one(self, corner):
        corner.ingest(_upload("a", "one"))
        corner.ingest(_upload("a", "two"))
        earlier, rolled, later = corner.accept(_upload("a", "x")), back(corner), corner.accept(_upload("a", "y"))
        for ticket in (rolled, earlier):
            corner.work(ticket)
            assert corner.shown() == {"a": ["one"]}
        corner.work(later)
        assert corner.shown() == {"a": ["y"]}
        corner.assert_clean()

    def it_counts_against_the_queue(self, corner, use):
        corner.ingest(_upload("a", "one"))
        corner.ingest(_upload("a", "two"))
        with unit_of_work(use.mysql) as work:
            work.connection.execute(
                text("UPDATE tenants SET quota_documents = 1 WHERE tenant_id = :tenant"), {"tenant": corner.tenant}
            )
        corner.work(back(corner))
        with unit_of_work(use.mysql) as work:
            work.connection.execute(
                text("UPDATE tenants SET quota_documents = NULL, quota_chunks = 1 WHERE tenant_id = :tenant"),
                {"tenant": corner.tenant},
            )
        with pytest.raises(QuotaExceeded):
            back(corner)


class DescribeUploadsAtOnce:
    ROUNDS = 24

    def it_shows_the_one_that_was_accepted_last_whole(self, corner, use):
        """Four workers and a reader, and in each round three uploads at once of different lengths, some of them of what
        is shown already."""
        chance = random.Random(7)
        corner.ingest(_upload("a", self._body("start", 3)))
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

        def upload(label: str, length: int) -> None:
            ticket = corner.accept(_upload("a", self._body(label, length)))
            with unit_of_work(use.mysql) as work:
                number = work.connection.execute(
                    text("SELECT generation FROM job_items WHERE tenant_id = :tenant AND job_id = :job"),
                    {"tenant": corner.tenant, "job": ticket.job_id},
                ).scalar_one()
            accepted.append((number, label))
            open_jobs.append(ticket)

        def work_on() -> None:
            while not stop.wait(0.002):
                for ticket in open_jobs:
                    with suppress(Conflict):  # the task is run again
                        ingest_batch(corner.tenant, ticket.job_id, use, ring=lambda *_: None)

        def read() -> None:
            while not stop.wait(0.001):
                found = corner.shown().get("a", [])
                labels = {word for chunk in found for word in chunk.split() if word.startswith("label-")}
                if len(labels) != 1:
                    mixed.append(sorted(labels))

        open_jobs: list[Ticket] = []
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
                threads = [
                    threading.Thread(target=guarded(upload), args=(label, len(label) % 3 + 2)) for label in labels
                ]
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
    def _settle(corner: Corner, tickets: list[Ticket]) -> None:
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
