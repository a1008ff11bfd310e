"""Answer the queries of batches, a slice at a time, behind the queries that callers wait for.

A slice is claimed as documents are, under a lease and with fencing tokens, so that a killed worker's queries are taken again
and each is answered once. Every query is answered by the functions that answer a single one.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

import structlog

from chordwise.contract.tenant import AuditEntry
from pipeline.answer.result import Answer
from pipeline.channels.channel import Channel
from pipeline.channels.semantic_channel import SemanticChannel
from pipeline.database.rows import slices
from pipeline.database.unit_of_work import UnitOfWork, retry_conflicts, unit_of_work
from pipeline.deadline import Deadline
from pipeline.errors import PipelineError, TenantGone, Unavailable
from pipeline.ingestion.claimed_items import Lease, close_jobs, retry_delay_s
from pipeline.ingestion.run import take_next
from pipeline.ingestion.yield_turn import Notify
from pipeline.jobs.batch_view_store import repeated
from pipeline.jobs.ledger_store import WORKER_LOST, ItemClaim, Ledger
from pipeline.jobs.question_store import Questions
from pipeline.outages import tolerate_outage
from pipeline.query.compression import compressed, decompressed
from pipeline.query.places import WorkKind, lane_pool
from pipeline.query.query_store import read_query
from pipeline.query.request import Query, missing_namespaces
from pipeline.ranking.fusion import Fused
from pipeline.records import ChannelName, FailureReason, IngestQueue, ItemState, JobId, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.answer_query import answer_unstored, ask_unstored, with_journal
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.ask_at_once import recall_at_once, score_at_once
from pipeline.retrieval.ask_channels import settled
from pipeline.retrieval.compose import first_order, render
from pipeline.retrieval.load_text import read_at_once
from pipeline.retrieval.record_search import search_row
from pipeline.retrieval.record_trace import keep_trace
from pipeline.retrieval.reuse_answer import filtered_by_readers
from pipeline.retrieval.understand import understand_at_once
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.namespace_store import Namespaces
from pipeline.threads import start_call

log = structlog.get_logger(__name__)

_WRITTEN_TOGETHER: Final = 32  # answers in a transaction
_WRITTEN_AFTER_S: Final = 2.0  # at the latest, so that callers see progress
_ASKED_TOGETHER: Final = 16  # queries; a process keeps the words and rows of 32 at hand
_LONGEST_EMBEDDING_S: Final = 5.0  # then each query asks for its own, as after a failure
_LOOK_EVERY_S: Final = 0.01  # for queries that callers wait for; a look is a round trip
_LOOK_AGAIN_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 0.5  # before each step of a query, so that a batch moves on however many others ask
_MOST_BYTES: Final = 512 * 1024**2  # of the answers of one batch, compressed


def answer_next(use: Resources, channels: Mapping[ChannelName, Channel], ledger: Resources, *, notify: Notify) -> int:
    """Answer a slice of the next tenant's queries, then notify if more are due: this worker and one more. Return how
    many. ``ledger``: resources for transactions."""
    batch = take_next(ledger, queue=IngestQueue.BATCH)
    if batch is None:
        return 0
    answer_claims(batch.tenant_id, batch.claims, use, channels, ledger)
    if batch.successor:
        for _ in range(2):
            notify(batch.successor.tenant_id, batch.successor.job_id, IngestQueue.BATCH)
    return len(batch.claims)


def answer_claims(
    tenant_id: TenantId,
    claims: Sequence[ItemClaim],
    use: Resources,
    channels: Mapping[ChannelName, Channel],
    ledger: Resources,
) -> None:
    """Answer claimed queries of one job. Claims that are lost meanwhile are left to others, all of them without MySQL."""
    with suppress(TenantGone):  # its queries go with it
        _Slice(tenant_id, claims, use, channels, ledger).answer()


class _Slice:
    """Claimed queries of one job."""

    def __init__(
        self,
        tenant_id: TenantId,
        claims: Sequence[ItemClaim],
        use: Resources,
        channels: Mapping[ChannelName, Channel],
        ledger: Resources,
    ) -> None:
        self._tenant_id, self._job_id = tenant_id, claims[0].job_id
        self._use, self._channels, self._ledger = use, channels, ledger
        self._lease = Lease(ledger.mysql, tenant_id, claims, lease_s=ledger.settings.ingest_lease_s)
        self._pools, self._next_look = pools_of_queries(use), Deadline.after(0.0)
        self._begin()

    def _begin(self) -> None:
        """Begin a transaction's worth of outcomes: answers with their audit, None for one that repeats another; failures;
        and those not ended after all, with the seconds until the next attempt and whether this one counts."""
        self._answers: dict[ItemClaim, tuple[bytes, AuditEntry] | None] = {}
        self._failed: dict[ItemClaim, tuple[str, str, FailureReason]] = {}
        self._later: dict[ItemClaim, tuple[float, str, str, bool]] = {}
        self._due = Deadline.after(_WRITTEN_AFTER_S)

    @property
    def _ended(self) -> list[ItemClaim]:
        return [*self._answers, *self._failed, *self._later]

    def answer(self) -> None:
        """Answer the queries in order, those that repeat another one last. Without MySQL the lease decides."""
        with unit_of_work(self._ledger.mysql) as work:  # an answer may stand where the query of a lost claim was
            claims = Ledger(work.connection, self._tenant_id).still_held(self._lease.claims)
            questions = Questions(work.connection, self._tenant_id)
            bodies = questions.of(self._job_id, [claim.ordinal for claim in claims])
            size = questions.bytes_of(self._job_id)
        self._lease.release([claim for claim in self._lease.claims if claim not in claims])
        asked: dict[ItemClaim, Query] = {}
        repeats: dict[ItemClaim, int] = {}
        for claim in claims:
            body = bodies.get(claim.ordinal)
            if claim.attempts > self._ledger.settings.ingest_max_attempts:
                self._fail(claim, WORKER_LOST, "its worker ended without a result", FailureReason.GAVE_UP)
            elif body is None:
                self._fail(claim, "query_expired", "the query is no longer stored: send it again")
            elif size > _MOST_BYTES:
                detail = f"the answers of the batch take over {_MOST_BYTES // 2**20} MiB: ask for fewer chunks (top_k)"
                self._fail(claim, "too_many_answers", f"{detail}, or in several batches")
            elif (earlier := repeated(body)) is not None:
                repeats[claim] = earlier
            else:
                asked[claim] = read_query(decompressed(body))
        embedding = start_call(self._embed, list(asked.values()))
        settled(embedding, Deadline.after(_LONGEST_EMBEDDING_S), bug="batch_embedding_bug", job_id=self._job_id)
        for some in slices(list(asked.items()), _ASKED_TOGETHER):
            self._answer_some(dict(some))
        self._write()
        self._repeat(repeats)
        self._write()

    def _answer_some(self, some: Mapping[ItemClaim, Query]) -> None:
        """Answer some of the queries together, one step after the other, giving way before each query's part of a step. The
        time of a query does not run while others have their turn."""
        queries: dict[ItemClaim, Query] = {}
        for claim, query in self._prepared(some).items():
            with self._blaming(claim, query):
                queries[claim] = understand_at_once(query, self._use)
        began = time.time()
        known = recall_at_once(list(queries.values()), self._use, self._channels, self._give_way)
        asked: dict[ItemClaim, tuple[Arrived, float]] = {}
        for claim, query in queries.items():
            self._give_way()
            results = known.get(query.query_id, {})
            idle_s = time.time() - began - sum(elapsed_ms for _, elapsed_ms in results.values()) / 1000
            until = began + idle_s + query.plan.deadline_ms / 1000
            with self._blaming(claim, query):
                query = replace(query, created_at=began, deadline_at=until)
                arrived = ask_unstored(query, self._use, self._channels, results)
                asked[claim] = replace(arrived, idle_s=idle_s), time.time()
        every = [arrived for arrived, _ in asked.values()]
        scored = score_at_once(every, self._use, self._channels, self._give_way)
        ordered: dict[ItemClaim, tuple[Arrived, float]] = {}
        fused: dict[ItemClaim, list[Fused]] = {}
        for claim, arrived in self._in_turn(asked):
            with self._blaming(claim, arrived.query):
                arrived = with_journal(replace(arrived, scored=scored.get(arrived.query.query_id, {})), self._use)
                fused[claim] = first_order(arrived, self._use, self._channels)
                ordered[claim] = arrived, time.time()
        texts = read_at_once([(arrived, fused[claim]) for claim, (arrived, _) in ordered.items()], self._use)
        for claim, arrived in self._in_turn(ordered):
            with self._blaming(claim, arrived.query):
                arrived = replace(arrived, texts=texts.get(arrived.query.query_id, {}))
                self._answer_one(claim, arrived, fused[claim])
            if len(self._ended) >= _WRITTEN_TOGETHER or self._due.has_passed:
                self._write()
            elif self._lease.is_due:
                self._lease.renew_rest()

    def _in_turn(self, waiting: Mapping[ItemClaim, tuple[Arrived, float]]) -> Iterator[tuple[ItemClaim, Arrived]]:
        """Yield the results of queries that are neither cancelled nor taken over. Their time stood still since the given
        moments."""
        for claim, (arrived, since) in waiting.items():
            if claim in self._lease.claims:
                self._give_way()
                idle_s = time.time() - since
                query = replace(arrived.query, deadline_at=arrived.query.deadline_at + idle_s)
                yield claim, replace(arrived, query=query, idle_s=arrived.idle_s + idle_s)

    @contextmanager
    def _blaming(self, claim: ItemClaim, query: Query) -> Iterator[None]:
        """Fail the query, and no other one, for an error in the block."""
        try:
            yield
        except PipelineError as error:
            self._fail(claim, error.code, error.public, FailureReason.GAVE_UP)
        except Exception as error:
            log.exception("batch_bug", query_id=query.query_id, ordinal=claim.ordinal)
            self._fail(claim, "internal_error", f"unexpected {type(error).__name__}", FailureReason.BUG)

    def _give_way(self) -> None:
        if self._next_look.has_passed:
            give_way(self._use, self._pools)
            self._next_look = Deadline.after(_LOOK_EVERY_S)

    def _prepared(self, asked: Mapping[ItemClaim, Query]) -> dict[ItemClaim, Query]:
        """Return the queries with the revisions of their namespaces and the embedding space of now, as the gateway sends them;
        those whose namespaces do not exist fail."""
        names = {name for query in asked.values() for name in (*query.namespaces, *query.namespaces_depended_on)}
        with unit_of_work(self._ledger.mysql) as work:
            revisions = Namespaces(work.connection, self._tenant_id).revisions(sorted(names))
        space = None
        with suppress(Unavailable):  # then each part uses the active space as it knows it
            space = self._use.spaces.live().active.number
        ready: dict[ItemClaim, Query] = {}
        for claim, query in asked.items():
            optional = query.plan.retrieve.optional_namespaces
            missing, needed = missing_namespaces(query.namespaces, revisions.keys(), optional=optional)
            if needed:
                self._fail(claim, "namespace_not_found", f"There is no namespace {needed[0]}.")
                continue
            stamps = {name: revisions[name].stamp for name in query.namespaces_depended_on if name in revisions}
            existing = tuple(name for name in query.namespaces if name not in missing)
            query = replace(
                query, namespaces=existing, missing_namespaces=missing, stamps=stamps, embedding_space=space
            )
            ready[claim] = filtered_by_readers(query, [revisions[name] for name in stamps])
        return ready

    def _embed(self, queries: Sequence[Query]) -> None:
        """Have the model embed the texts in one call. If that fails, each query asks for its own, and its answer reports it."""
        semantic = self._channels.get(ChannelName.SEMANTIC)
        those = [query for query in queries if ChannelName.SEMANTIC in query.channels]
        if isinstance(semantic, SemanticChannel) and len(those) > 1:
            with tolerate_outage(log.warning, "batch_not_embedded", queries=len(those), also=(PipelineError,)):
                semantic.prepare(those[0], [query.query_text for query in those])

    def _answer_one(self, claim: ItemClaim, arrived: Arrived, fused: Sequence[Fused]) -> None:
        answer = answer_unstored(arrived, self._use, self._channels, fused)
        keep_trace(arrived, answer, self._use)
        if answer.error is not None:
            self._try_later(claim, answer)
        else:
            self._answers[claim] = compressed(render(answer)), search_row(arrived.query, answer, self._use)

    def _try_later(self, claim: ItemClaim, answer: Answer) -> None:
        """Put a query back that no channel could answer; after as many attempts as a document has, it fails."""
        assert answer.error is not None
        code, detail = answer.error.code, answer.error.detail
        if claim.attempts >= self._ledger.settings.ingest_max_attempts:
            self._fail(claim, code, f"gave up after {claim.attempts} attempts: {detail}", FailureReason.GAVE_UP)
        else:
            self._later[claim] = retry_delay_s(claim.attempts, asked_s=None), code, detail, True

    def _repeat(self, repeats: Mapping[ItemClaim, int]) -> None:
        """End queries as the earlier ones ended that they repeat; put those back whose earlier one has not ended."""
        if not repeats:
            return
        with unit_of_work(self._ledger.mysql) as work:
            states = Questions(work.connection, self._tenant_id).states(self._job_id, set(repeats.values()))
        for claim, earlier in repeats.items():
            row = states[earlier]
            match row.state:
                case ItemState.SUCCEEDED:
                    self._answers[claim] = None
                case ItemState.FAILED:
                    self._fail(claim, row.code, row.detail, FailureReason.GAVE_UP)
                case _:
                    self._later[claim] = 1.0, "query_repeated", "an equal query is being answered", False

    def _fail(self, claim: ItemClaim, code: str, detail: str, reason: FailureReason = FailureReason.REJECTED) -> None:
        self._failed[claim] = code, detail, reason

    @retry_conflicts()
    def _write(self) -> None:
        """Write the outcomes of claims that are still held, with their audit, and end the job after its last query."""
        if ended := self._ended:
            with unit_of_work(self._ledger.mysql) as work:
                self._write_held(Ledger(work.connection, self._tenant_id), self._job_id, work)
            self._lease.release(ended)
        self._begin()

    def _write_held(self, ledger: Ledger, job_id: JobId, work: UnitOfWork) -> None:
        held = set(ledger.still_held(self._ended))
        answers = {claim: made for claim, made in self._answers.items() if claim in held}
        if made := {claim: made for claim, made in answers.items() if made is not None}:
            questions = Questions(work.connection, self._tenant_id)
            questions.put(job_id, {claim.ordinal: body for claim, (body, _) in made.items()})
            questions.note_sizes(job_id, [claim.ordinal for claim in made])
            Audit(work.connection, self._tenant_id).add([row for _, row in made.values()])
        ledger.succeed(dict.fromkeys(answers, 0), outcome="answered")
        for claim, (code, detail, reason) in self._failed.items():
            if claim in held:
                ledger.fail([claim], code=code, detail=detail, reason=reason)
        for claim, (delay_s, code, detail, counted) in self._later.items():
            if claim in held:
                ledger.put_back([claim], delay_s=delay_s, code=code, detail=detail, counted=counted)
        close_jobs(self._tenant_id, [job_id], ledger, self._ledger, work)


def pools_of_queries(use: Resources) -> tuple[str, ...]:
    """Return the pools in which single queries have places, those of every gateway's lane as well."""
    pools: tuple[str, ...] = (WorkKind.QUERY, WorkKind.MODEL)
    with suppress(Unavailable):
        signs = [state.sign for state in use.heartbeats.processes() if not state.is_silent]
        pools += tuple(lane_pool(sign.process_id) for sign in signs if "gateway" in sign.serves)
    return pools


def give_way(use: Resources, pools: Sequence[str], *, sleep: Callable[[float], object] = time.sleep) -> None:
    """Wait until no query of any tenant has a place in these pools, for half a second at most."""
    deadline = Deadline.after(_LONGEST_PAUSE_S)
    with suppress(Unavailable):
        while not deadline.has_passed and any(use.places.held(pools).values()):
            sleep(_LOOK_AGAIN_S)
