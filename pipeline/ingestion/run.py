"""Make accepted documents searchable: claim, fetch, prepare, write, embed, publish.

Every step may fail anywhere or run twice: chunk ids repeat, vectors are complete before the pointer moves, and old
generations are dropped only afterwards (`administration/drop_replaced`).
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import structlog

from pipeline.database.unit_of_work import UnitOfWork, retry_conflicts, unit_of_work
from pipeline.documents.chunk_store import Chunks
from pipeline.documents.document_store import Documents
from pipeline.documents.generation_store import Generations, RetainedGenerations, Retired
from pipeline.documents.reader_store import DocumentReaders
from pipeline.errors import (
    EmbedderRefused,
    LeaseLost,
    Misconfigured,
    PipelineError,
    RateLimited,
    TenantGone,
    Unavailable,
    VectorsMissing,
)
from pipeline.ingestion.claimed_items import Lease, close_jobs, end, give_up_or_retry, wake_postponed
from pipeline.ingestion.fetch import start_fetches
from pipeline.ingestion.make_vectors import fill_standby, require_vectors, vectors_of
from pipeline.ingestion.prepare import (
    CHUNKS_PER_SHARE,
    PreparedDocument,
    drop_leftovers,
    leave_unfinished,
    prepare,
    write_unpublished,
)
from pipeline.ingestion.yield_turn import Notify, Turn, is_left_alone
from pipeline.jobs.ledger_store import WORKER_LOST, Claims, ItemClaim, Ledger
from pipeline.jobs.turn_store import Turns, WaitingJob, turns, waiting_for_each_other
from pipeline.models.local_embedder import LocalEncoder
from pipeline.models.ports import Embedder, Matrix, PaidEmbedder
from pipeline.outages import tolerate_outage
from pipeline.records import Chunk, Generation, IngestQueue, JobId, Stage, TenantId
from pipeline.resources import Resources
from pipeline.semantic.document_vector_store import Means
from pipeline.tenants.namespace_store import Namespaces
from pipeline.tenants.usage import Purpose, UsageCounts

_SUSPECTED_FROM = 3  # attempt at which documents are tried alone if a dependency fails for their batch
_DOWN_AFTER = 2  # documents in a row for which a dependency fails

log = structlog.get_logger(__name__)
_BATCH_BYTES = 4 * 1024 * 1024  # of text that a worker loads at once
MOST_RUNS = 2  # of sources, of one tenant, under way at a time
_SLICE_DIVISOR = 2  # of queries, so that the workers end a batch together
_BATCH_DIVISOR = 4  # while others wait: smaller batches, so that no tenant waits long for its turn


def ingest_next(use: Resources, *, notify: Notify, queue: IngestQueue = IngestQueue.INGEST) -> int:
    """Work on one batch of the next tenant in a queue, and return the number of its documents.

    A notification permits one batch of any tenant. The worker notifies again after the batch if more work is due."""
    batch = take_next(use, queue=queue)
    if batch is None and queue is IngestQueue.INGEST and is_left_alone(IngestQueue.LONG, use):
        queue = IngestQueue.LONG
        batch = take_next(use, queue=queue)
    if batch is None:
        return 0
    turn = ingest_claims(batch.tenant_id, batch.claims, use, notify=notify, queue=queue)
    if batch.successor:
        notify(batch.successor.tenant_id, batch.successor.job_id, queue)
    elif turn.has_put_back:
        notify(batch.tenant_id, batch.claims[0].job_id, queue)
    return len(batch.claims)


def ingest_claims(
    tenant_id: TenantId,
    claims: Sequence[ItemClaim],
    use: Resources,
    *,
    notify: Notify,
    queue: IngestQueue = IngestQueue.INGEST,
) -> Turn:
    """Work on a claimed batch until its turn ends. A faulty document fails alone. While a dependency is away, items go back.

    Documents that ended every one of their workers are given up. Threads fetch documents without bytes and queue them again."""
    turn = Turn(tenant_id, use, notify, queue)
    lost = [claim for claim in claims if claim.attempts > use.settings.ingest_max_attempts]
    for claim in lost:  # each of their workers died, so none wrote an error
        give_up_or_retry(tenant_id, claim, PipelineError("its worker ended without a result", code=WORKER_LOST), use)
    if ready := start_fetches(tenant_id, [claim for claim in claims if claim not in lost], use, notify=notify):
        _work_on(tenant_id, ready, use, turn)
    return turn


def _ingest(lease: Lease, use: Resources, turn: Turn) -> None:
    """Make the documents of a batch searchable, in these steps. Each step returns the documents that go on."""
    prepared: Sequence[PreparedDocument] = prepare(lease, use, turn)
    prepared = write_unpublished(lease, prepared, turn)
    if not prepared:
        return
    use.notifications.progressed(lease.tenant_id, lease.job_id)
    drop_leftovers(lease, prepared, use)
    embedded = embed(lease, prepared, use, turn)
    if embedded:
        use.notifications.progressed(lease.tenant_id, lease.job_id)
        publish(lease, embedded, use)
        turn.has_put_back |= wake_postponed(lease.tenant_id, [item.claim for item in embedded], use)


def _work_on(
    tenant_id: TenantId,
    claims: Sequence[ItemClaim],
    use: Resources,
    turn: Turn,
    *,
    waiting: Sequence[ItemClaim] = (),
) -> bool:
    """Work on claims as one batch; if one of them makes it fail, on each alone. Return whether a dependency failed.
    ``waiting``: claims that are renewed meanwhile."""
    lease = Lease(use.mysql, tenant_id, claims, lease_s=use.settings.ingest_lease_s, waiting=waiting)
    try:
        _ingest(lease, use, turn)
    except LeaseLost as error:
        held = _still_held(tenant_id, claims, use)
        log.warning("lease_lost", job_id=claims[0].job_id, lost=len(claims) - len(held), detail=str(error))
        if 0 < len(held) < len(claims):
            _work_on(tenant_id, [replace(claim, again=True) for claim in held], use, turn, waiting=waiting)
    except TenantGone as error:  # its items go with it
        log.info("batch_dropped", job_id=claims[0].job_id, items=len(claims), code=error.code)
    except (Unavailable, Misconfigured) as error:
        if len(claims) > 1 and (isinstance(error, VectorsMissing) or _may_be_one_document(claims, error)):
            _one_by_one(tenant_id, claims, use, turn)
        else:
            for claim in claims:
                give_up_or_retry(tenant_id, claim, error, use)
            return True
    except Exception as error:
        if len(claims) > 1:
            _one_by_one(tenant_id, claims, use, turn)
        else:
            log.exception("ingest_bug", job_id=claims[0].job_id, ordinal=claims[0].ordinal)
            give_up_or_retry(tenant_id, claims[0], error, use)
    return False


def _may_be_one_document(claims: Sequence[ItemClaim], error: Unavailable | Misconfigured) -> bool:
    """Return whether one document may be what a dependency fails on, such as a text that ends the embedding service."""
    return not isinstance(error, RateLimited) and any(claim.attempts >= _SUSPECTED_FROM for claim in claims)


def _still_held(tenant_id: TenantId, claims: Sequence[ItemClaim], use: Resources) -> list[ItemClaim]:
    """Return the claims that were neither cancelled nor taken over; none without MySQL: their leases decide."""
    with tolerate_outage(log.warning, "left_to_the_lease", job_id=claims[0].job_id), unit_of_work(use.mysql) as work:
        return Ledger(work.connection, tenant_id).still_held(claims)
    return []


def _one_by_one(tenant_id: TenantId, claims: Sequence[ItemClaim], use: Resources, turn: Turn) -> None:
    """Work on each claim alone, as long as the turn lasts. After two failures of a dependency in a row it is down: put
    the rest back untried."""
    failures = 0
    for position, claim in enumerate(claims):
        rest = claims[position:]
        if failures == _DOWN_AFTER:
            for untried in rest:
                error = Unavailable("a dependency failed for other documents of this batch")
                give_up_or_retry(tenant_id, untried, error, use)
            return
        if position and turn.is_over():
            turn.leave(rest=rest)
            return
        failed = _work_on(tenant_id, [replace(claim, again=True)], use, turn, waiting=rest[1:])
        failures = failures + 1 if failed else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBatch:
    """A batch, and the job to notify workers of when it has ended; None if nothing else was due."""

    tenant_id: TenantId
    claims: tuple[ItemClaim, ...]
    successor: WaitingJob | None


def take_next(use: Resources, *, queue: IngestQueue = IngestQueue.INGEST) -> TakenBatch | None:
    """Claim a batch of the least recently served tenant, or return None. Binds the work's ids to later log lines."""
    with unit_of_work(use.mysql) as work:
        waiting = turns(work.connection, queue)
    divisor = _BATCH_DIVISOR if waiting_for_each_other(waiting) else 1
    full: set[TenantId] = set()
    for position, job in enumerate(waiting):
        if job.tenant_id in full:
            continue
        claims = take(job.tenant_id, job.job_id, use, divisor=divisor, queue=queue)
        if claims is None:
            full.add(job.tenant_id)
        elif claims.items:
            structlog.contextvars.bind_contextvars(
                tenant_id=job.tenant_id, job_id=job.job_id, request_id=job.request_id
            )
            successor = next(iter(waiting[position + 1 :]), job if claims.more else None)
            return TakenBatch(tenant_id=job.tenant_id, claims=claims.items, successor=successor)
    return None


def take(
    tenant_id: TenantId, job_id: JobId, use: Resources, *, divisor: int = 1, queue: IngestQueue = IngestQueue.INGEST
) -> Claims | None:
    """Claim a batch of one job, its size divided by ``divisor``; a single document in the queue `long`. Return None if the
    tenant has reached its limit of batches or has been erased."""
    limits = use.settings
    with suppress(TenantGone), unit_of_work(use.mysql) as work:
        round_robin = Turns(work.connection, tenant_id)
        most = MOST_RUNS if queue is IngestQueue.SOURCE else limits.ingest_tenant_batches
        if most and round_robin.batches_in_flight(queue) >= most:
            return None
        divisor *= _SLICE_DIVISOR if queue is IngestQueue.BATCH else 1
        claims = Ledger(work.connection, tenant_id).claim(
            job_id,
            limit=1 if queue is IngestQueue.LONG else max(1, limits.ingest_batch_documents // divisor),
            max_bytes=max(1, _BATCH_BYTES // divisor),
            lease_s=limits.ingest_lease_s,
            fetch_limit=-(-use.fetches.room(tenant_id) // divisor),
            queue=queue,
        )
        if claims.items:
            round_robin.served(job_id, queue)
        return claims
    return None


def embed(lease: Lease, prepared: Sequence[PreparedDocument], use: Resources, turn: Turn) -> list[PreparedDocument]:
    """Give every chunk a vector, renewing the lease. The model computes those that were neither imported nor stored before.

    A document with a text that the model refuses fails. Once the turn is over, documents without all vectors leave the batch.
    """
    tenant_id = lease.tenant_id
    documents = {item.claim.generation: item for item in prepared}
    fields = {generation: item.fields for generation, item in documents.items()}
    chunks = [chunk for item in prepared for chunk in item.searchable]
    reused_chunks: Counter[Generation] = Counter()
    embedder = use.embedder  # read once: another model may be active a moment later
    means = Means()
    for start in range(0, len(chunks), CHUNKS_PER_SHARE):
        piece = chunks[start : start + CHUNKS_PER_SHARE]
        try:
            vectors, reused = _embed_or_reuse(lease, embedder, use, piece, documents)
        except EmbedderRefused as error:
            refusals = _refusals(error, piece)
            at_fault = refusals.keys() or set(fields)
            refused = [claim for claim in lease.claims if claim.generation in at_fault]
            end(lease, [], [(claim, refusals.get(claim.generation, error)) for claim in refused], use)
            rest = [item for item in prepared if item.claim.generation not in at_fault]
            return embed(lease, rest, use, turn)
        use.vectors(tenant_id).upsert(piece, vectors, fields=fields, model=embedder.model)
        means.add(piece, vectors)
        reused_chunks.update(chunk.generation for chunk in reused)
        if remaining := chunks[start + CHUNKS_PER_SHARE :]:
            lease.renew()
            if turn.is_over():
                prepared = leave_unfinished(lease, turn, prepared, remaining)
                break
    fields = {item.claim.generation: item.fields for item in prepared}
    chunks = [chunk for chunk in chunks if chunk.generation in fields]
    computed = [vector for vector in means.vectors() if vector.generation in fields]
    use.document_vectors(tenant_id).write(computed, model=embedder.model)
    fill_standby(tenant_id, chunks, fields, use, after_each=lease.renew)
    lease.reach(Stage.EMBEDDED, lease.claims)
    lease.renew()
    return [replace(item, reused=reused_chunks[item.claim.generation]) for item in prepared]


def _refusals(error: EmbedderRefused, chunks: Sequence[Chunk]) -> dict[Generation, EmbedderRefused]:
    """Return by document a refusal that names its first refused chunk, counted from 1."""
    refused: defaultdict[Generation, list[tuple[int, str]]] = defaultdict(list)
    for index, reason in error.reasons.items():
        refused[chunks[index].generation].append((chunks[index].ordinal + 1, reason))
    refusals = {}
    for generation, by_chunk in refused.items():
        number, reason = min(by_chunk)
        refusals[generation] = EmbedderRefused(f"chunk {number} has no vector: {reason}")
    return refusals


def _vectors(lease: Lease, embedder: Embedder, use: Resources, chunks: Sequence[Chunk]) -> Matrix:
    """Return the vectors of these chunks, renewing the lease while a model is slow or busy."""
    tenant_id, job_id = lease.tenant_id, lease.job_id
    texts = [chunk.embedding_text for chunk in chunks]
    ask = partial(vectors_of, tenant_id, texts, use, purpose=Purpose.INGEST, embedder=embedder, job_id=job_id)
    is_slow = isinstance(embedder, PaidEmbedder | LocalEncoder)
    vectors = lease.renew_during(lambda stop: ask(stop=stop)) if is_slow else ask()
    if isinstance(embedder, PaidEmbedder):
        return vectors
    counts = UsageCounts(requests=1, texts=len(texts), tokens=sum(chunk.passage.token_count for chunk in chunks))
    use.usage_book.note(tenant_id, Purpose.INGEST, embedder.model, counts, job_id=job_id)
    use.usage_book.write()
    return vectors


def _embed_or_reuse(
    lease: Lease,
    embedder: Embedder,
    use: Resources,
    chunks: Sequence[Chunk],
    documents: Mapping[Generation, PreparedDocument],
) -> tuple[Matrix, list[Chunk]]:
    """Return a vector per chunk, and the chunks whose vector is reused.

    A chunk of a replacement reuses the vector of the same text, document and model; one statement reads them all. Imported
    vectors are taken as they are. The keys of ``reasons`` in EmbedderRefused are positions in ``chunks``."""
    imported = {generation: item.imported_vectors(embedder) for generation, item in documents.items()}
    known = {c.chunk_id: imported[c.generation][c.ordinal] for c in chunks if c.ordinal in imported[c.generation]}
    candidates = [c for c in chunks if documents[c.generation].replaces and c.chunk_id not in known]
    stored = use.vectors(lease.tenant_id).of_texts(candidates, model=embedder.model) if candidates else {}
    known |= stored
    if not known:
        return _vectors(lease, embedder, use, chunks), []
    new = [position for position, chunk in enumerate(chunks) if chunk.chunk_id not in known]
    vectors = np.empty((len(chunks), len(next(iter(known.values())))), dtype=np.float32)
    if new:
        try:
            vectors[new] = _vectors(lease, embedder, use, [chunks[position] for position in new])
        except EmbedderRefused as error:
            reasons = {new[index]: reason for index, reason in error.reasons.items()}
            raise EmbedderRefused(str(error), reasons=reasons) from error
    for position, chunk in enumerate(chunks):
        if chunk.chunk_id in known:
            vectors[position] = known[chunk.chunk_id]
    return vectors, [chunk for chunk in chunks if chunk.chunk_id in stored]


@retry_conflicts()
def publish(lease: Lease, prepared: Sequence[PreparedDocument], use: Resources) -> None:
    """Publish documents whose vectors are complete; old generations are dropped later. Raises VectorsMissing, LeaseLost."""
    tenant_id = lease.tenant_id
    by_generation = {item.claim.generation: item for item in prepared}
    vectors = use.vectors(tenant_id)
    counts = vectors.counts(list(by_generation))
    complete = vectors.complete({g: len(item.searchable) for g, item in by_generation.items()}, counts)
    claims = [item.claim for item in prepared]
    with lease.held(claims) as (work, ledger):
        space = require_vectors(tenant_id, work.connection, complete, by_generation, use)
        before = _flip(tenant_id, by_generation, work, model=space.model)
        for generation, readers in DocumentReaders(work.connection, tenant_id).of(list(before)).items():
            if readers != by_generation[generation].fields.readers:  # changed since its vectors were written
                vectors.set_readers(generation.scope.namespace, [generation.document_id], readers)
        replaced = [replace(g, number=shown) for g, shown in before.items() if shown is not None and shown != g.number]
        superseded = [g for g in by_generation if g not in before]
        retired = Retired(work.connection, tenant_id)
        retired.add(replaced, after_s=use.settings.retired_grace_s, replaced=True)
        retired.add(superseded)
        if later := [g for g in before if g.number > 1]:
            kept_s = use.settings.previous_generation_kept_s
            RetainedGenerations(work.connection, tenant_id).keep(replaced, for_s=kept_s)
            retired.add(Generations(work.connection, tenant_id).outdated(later))
        created = [by_generation[g] for g, shown in before.items() if shown is None]
        updated = [by_generation[g] for g, shown in before.items() if shown is not None]
        for outcome, items in {"created": created, "replaced": updated}.items():
            chunks = {item.claim: item.chunk_count for item in items}
            ledger.succeed(chunks, outcome=outcome, reused={item.claim: item.reused for item in items})
        ledger.succeed({by_generation[g].claim: 0 for g in superseded}, outcome="superseded")
        close_jobs(tenant_id, [claim.job_id for claim in claims], ledger, use, work)
    if use.local_indexes is not None:
        use.local_indexes.wake()
    shown_chunks = sum(by_generation[g].chunk_count for g in before)
    use.meter.count("chordwise_documents_shown", len(before))
    use.meter.count("chordwise_chunks_shown", shown_chunks)
    log.info("documents_shown", documents=len(before), chunks=shown_chunks)


def _flip(
    tenant_id: TenantId, prepared: Mapping[Generation, PreparedDocument], work: UnitOfWork, *, model: str
) -> dict[Generation, int | None]:
    """Move the pointers of the documents and revise their namespaces. Return the number that each one showed before."""
    documents = Documents(work.connection, tenant_id)
    chunk_store = Chunks(work.connection, tenant_id)
    namespaces = Namespaces(work.connection, tenant_id)
    before = documents.lock(list(prepared))
    moving = {g: shown for g, shown in before.items() if shown != g.number}
    documents.show({g: prepared[g] for g in moving}, model=model)
    for namespace in sorted({g.scope.namespace for g in moving}):
        mine = {g: shown for g, shown in moving.items() if g.scope.namespace == namespace}
        added = [len(chunk.terms) for g in mine for chunk in prepared[g].searchable]
        removed = chunk_store.lengths_of([replace(g, number=shown) for g, shown in mine.items() if shown is not None])
        namespaces.revise(namespace, [g.document_id for g in mine], added=added, removed=removed)
    return before
