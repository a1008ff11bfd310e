"""Turn accepted documents into searchable ones: claim, parse, write aside, embed, show, clean up.

Every step may die anywhere or run twice: chunk ids repeat themselves, vectors are complete before the pointer moves,
and old generations go only after it has (`flows/upkeep`). Whoever finds the item next finishes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from pipeline.core.assembling import assemble
from pipeline.core.batching import backoff_s
from pipeline.core.parsing import parse
from pipeline.core.terms import Tokenizer
from pipeline.errors import EmbedderRefused, LeaseLost, Misconfigured, Rejected, Unavailable, VectorsMissing
from pipeline.flows.resources import Resources
from pipeline.records import Chunk, DocumentFields, Generation, JobId, Namespace, Scope, Stage, TenantId
from pipeline.stores.chunks import Chunks
from pipeline.stores.documents import Documents, Shown, Source
from pipeline.stores.engines import Conflict
from pipeline.stores.jobs import Claim, Ledger
from pipeline.stores.keyword import KeywordIndex
from pipeline.stores.queries import announce_job
from pipeline.stores.retired import Retired
from pipeline.stores.rows import slices
from pipeline.stores.work import UnitOfWork, unit_of_work

log = structlog.get_logger(__name__)

_TITLE_LENGTH = 1024
_CHUNKS_PER_LEASE = 1024  # embedded and stored before the lease is renewed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A claimed document that has become chunks."""

    claim: Claim
    fields: DocumentFields
    title: str | None
    chunks: Sequence[Chunk]


def ingest_batch(
    tenant_id: TenantId, job_id: JobId, use: Resources, *, ring: Callable[[TenantId, JobId], object]
) -> int:
    """Work on the due items of a job, as many as one batch takes; ring again if more are due. Gives how many.

    A document that is at fault ends as failed and harms no other. A dependency that is away puts the items back.
    """
    with unit_of_work(use.mysql) as work:
        claims = Ledger(work.connection, tenant_id).claim(
            job_id,
            limit=use.settings.ingest_batch_documents,
            max_bytes=use.settings.ingest_batch_bytes,
            lease_s=use.settings.ingest_lease_s,
        )
    if claims.more:
        ring(tenant_id, job_id)
    if claims.items:
        _work_on(tenant_id, claims.items, use)
    return len(claims.items)


def _work_on(tenant_id: TenantId, claims: Sequence[Claim], use: Resources) -> None:
    """Carry claims to their end together; where one of them spoils the batch, each goes its own way."""
    try:
        _carry_out(tenant_id, claims, use)
    except LeaseLost as error:
        if len(claims) > 1:
            _one_by_one(tenant_id, claims, use)
        else:
            log.warning("lease_lost", job_id=claims[0].job_id, ordinal=claims[0].ordinal, detail=str(error))
    except Conflict as error:
        _put_back(tenant_id, claims, error, use)
    except Unavailable as error:
        if len(claims) > 1 and isinstance(error, VectorsMissing):
            _one_by_one(tenant_id, claims, use)
        else:
            _put_back(tenant_id, claims, error, use)
    except Misconfigured as error:
        _put_back(tenant_id, claims, error, use)
    except Exception as error:
        if len(claims) > 1:
            _one_by_one(tenant_id, claims, use)
        else:
            log.exception("ingest_bug", job_id=claims[0].job_id, ordinal=claims[0].ordinal)
            _give_up_or_retry(tenant_id, claims[0], error, use)


def _one_by_one(tenant_id: TenantId, claims: Sequence[Claim], use: Resources) -> None:
    for claim in claims:
        _work_on(tenant_id, [claim], use)


def _carry_out(tenant_id: TenantId, claims: Sequence[Claim], use: Resources) -> None:
    prepared = _prepare(tenant_id, claims, use)
    if not prepared:
        return
    chunks = [chunk for item in prepared for chunk in item.chunks]
    _write_aside(tenant_id, prepared, chunks, use)
    embedded = _embed(tenant_id, prepared, use)
    if embedded:
        _show(tenant_id, embedded, use)


def _prepare(tenant_id: TenantId, claims: Sequence[Claim], use: Resources) -> list[_Prepared]:
    """Read and cut. What is at fault is parked here, alone."""
    with unit_of_work(use.mysql) as work:
        sources = Documents(work.connection, tenant_id).sources([claim.generation for claim in claims])
    tokenizers: dict[Namespace, Tokenizer] = {}
    prepared, refused, gone = [], [], []
    for claim in claims:
        source = sources.get(claim.generation)
        if source is None:
            gone.append(claim)
            continue
        scope = claim.generation.scope
        tokenizer = tokenizers.setdefault(scope.namespace, Tokenizer(scope))
        try:
            prepared.append(_cut(claim, source, tokenizer, use))
        except Rejected as error:
            refused.append((claim, error))
    _end(tenant_id, gone, refused, use)
    return prepared


def _cut(claim: Claim, source: Source, tokenizer: Tokenizer, use: Resources) -> _Prepared:
    parsed = parse(source.body, media_type=source.media_type, filename=source.source_uri)
    title = (source.fields.title or parsed.title or "")[:_TITLE_LENGTH] or None
    chunks = assemble(
        parsed,
        claim.generation,
        title=title,
        chunking=source.chunking,
        tokenizer=tokenizer,
        limit=use.settings.max_chunks_per_document,
    )
    return _Prepared(claim=claim, fields=source.fields, title=title, chunks=chunks)


def _end(tenant_id: TenantId, gone: Sequence[Claim], refused: Sequence[tuple[Claim, Rejected]], use: Resources) -> None:
    """Close items that need no further work: superseded ones, whose payload was dropped, and those at fault."""
    if not gone and not refused:
        return
    claims = [*gone, *(claim for claim, _ in refused)]
    with unit_of_work(use.mysql) as work:
        ledger = Ledger(work.connection, tenant_id)
        ledger.hold(claims)
        ledger.succeed(dict.fromkeys(gone, 0), outcome="superseded")
        for claim, error in refused:
            ledger.fail([claim], code=error.code, detail=str(error))
            Retired(work.connection, tenant_id).add([claim.generation])
            log.info("document_rejected", job_id=claim.job_id, ordinal=claim.ordinal, code=error.code)
        _close(tenant_id, claims, ledger, use, work.after_commit)


def _write_aside(tenant_id: TenantId, prepared: Sequence[_Prepared], chunks: Sequence[Chunk], use: Resources) -> None:
    claims = [item.claim for item in prepared]
    again = [claim.generation for claim in claims if claim.attempts > 1]
    with unit_of_work(use.mysql) as work:
        ledger = Ledger(work.connection, tenant_id)
        ledger.hold(claims)
        Chunks(work.connection, tenant_id).write(chunks, again=again)
        ledger.advance(claims, Stage.CHUNKED, lease_s=use.settings.ingest_lease_s)


def _embed(tenant_id: TenantId, prepared: Sequence[_Prepared], use: Resources) -> list[_Prepared]:
    """Give every chunk its vector, renewing the lease as it goes. Documents with a text that the model will never take
    are parked, and the others go on."""
    fields = {item.claim.generation: item.fields for item in prepared}
    claims = [item.claim for item in prepared]
    for some in slices([chunk for item in prepared for chunk in item.chunks], _CHUNKS_PER_LEASE):
        try:
            vectors = use.embedder.embed([chunk.embedding_text for chunk in some])
        except EmbedderRefused as error:
            guilty = {some[index].generation for index in error.indexes} or set(fields)
            _end(tenant_id, [], [(c, error) for c in claims if c.generation in guilty], use)
            return _embed(tenant_id, [item for item in prepared if item.claim.generation not in guilty], use)
        use.vectors(tenant_id).upsert(some, vectors, fields=fields, model=use.embedder.model)
        _advance(tenant_id, claims, Stage.CHUNKED, use)
    _advance(tenant_id, claims, Stage.EMBEDDED, use)
    return list(prepared)


def _advance(tenant_id: TenantId, claims: Sequence[Claim], stage: Stage, use: Resources) -> None:
    with unit_of_work(use.mysql) as work:
        ledger = Ledger(work.connection, tenant_id)
        ledger.hold(claims)
        ledger.advance(claims, stage, lease_s=use.settings.ingest_lease_s)


def _show(tenant_id: TenantId, prepared: Sequence[_Prepared], use: Resources) -> None:
    """Move the pointers. Vectors are complete before; what was shown before goes a while after, when no query that
    began earlier can need it any more."""
    by_generation = {item.claim.generation: item for item in prepared}
    counts = use.vectors(tenant_id).counts(list(by_generation))
    short = [g for g, item in by_generation.items() if counts[g] != len(item.chunks)]
    if short:
        raise VectorsMissing(f"{len(short)} of {len(by_generation)} documents have fewer vectors than chunks")
    claims = [item.claim for item in prepared]
    with unit_of_work(use.mysql) as work:
        ledger = Ledger(work.connection, tenant_id)
        ledger.hold(claims)
        before = _flip(tenant_id, by_generation, work, model=use.embedder.model)
        replaced = [_numbered(g, shown) for g, shown in before.items() if shown is not None and shown != g.number]
        vain = [g for g in by_generation if g not in before]
        retired = Retired(work.connection, tenant_id)
        retired.add(replaced, after_s=use.settings.retired_grace_s, replaced=True)
        retired.add(vain)
        for outcome, generations in _outcomes(before, vain).items():
            shown = {by_generation[g].claim: 0 if g in vain else len(by_generation[g].chunks) for g in generations}
            ledger.succeed(shown, outcome=outcome)
        _close(tenant_id, claims, ledger, use, work.after_commit)
    log.info("documents_shown", documents=len(before), chunks=sum(len(by_generation[g].chunks) for g in before))


def _outcomes(before: Mapping[Generation, int | None], vain: Sequence[Generation]) -> dict[str, list[Generation]]:
    return {
        "created": [g for g, shown in before.items() if shown is None],
        "replaced": [g for g, shown in before.items() if shown is not None],
        "superseded": list(vain),
    }


def _flip(
    tenant_id: TenantId, prepared: Mapping[Generation, _Prepared], work: UnitOfWork, *, model: str
) -> dict[Generation, int | None]:
    """Move the pointer of each document that may move, and keep the statistics exact. Gives what was shown before."""
    documents = Documents(work.connection, tenant_id)
    chunk_store = Chunks(work.connection, tenant_id)
    index = KeywordIndex(work.connection, tenant_id)
    before = documents.lock(list(prepared))
    moving = {g: shown for g, shown in before.items() if shown != g.number}
    shown = {g: Shown(chunk_count=len(prepared[g].chunks), title=prepared[g].title) for g in moving}
    documents.show(shown, model=model)
    for namespace in sorted({g.scope.namespace for g in moving}):
        mine = {g: shown for g, shown in moving.items() if g.scope.namespace == namespace}
        added = [chunk.terms for g in mine for chunk in prepared[g].chunks]
        removed = [
            terms
            for g, shown in mine.items()
            if shown is not None
            for terms in chunk_store.terms_of(_numbered(g, shown))
        ]
        index.count(namespace, added, removed)
    return before


def _put_back(tenant_id: TenantId, claims: Sequence[Claim], error: Exception, use: Resources) -> None:
    for claim in claims:
        _give_up_or_retry(tenant_id, claim, error, use)


def _give_up_or_retry(tenant_id: TenantId, claim: Claim, error: Exception, use: Resources) -> None:
    """Decide from the number of attempts; where even that cannot be written, the lease runs out and decides."""
    code = getattr(error, "code", "internal_error")
    detail = str(error) if hasattr(error, "code") else f"unexpected {type(error).__name__}"
    delay = max(backoff_s(claim.attempts), getattr(error, "retry_after_s", None) or 0.0)
    try:
        with unit_of_work(use.mysql) as work:
            ledger = Ledger(work.connection, tenant_id)
            ledger.hold([claim])
            if claim.attempts >= use.settings.ingest_max_attempts:
                ledger.fail([claim], code=code, detail=f"gave up after {claim.attempts} attempts: {detail}")
                Retired(work.connection, tenant_id).add([claim.generation])
                _close(tenant_id, [claim], ledger, use, work.after_commit)
            else:
                ledger.put_back([claim], delay_s=delay, code=code, detail=detail)
    except (Unavailable, LeaseLost) as second:
        log.warning("left_to_the_lease", job_id=claim.job_id, ordinal=claim.ordinal, code=second.code)
    log.info("item_put_back", job_id=claim.job_id, ordinal=claim.ordinal, code=code, attempts=claim.attempts)


def _close(
    tenant_id: TenantId,
    claims: Sequence[Claim],
    ledger: Ledger,
    use: Resources,
    after_commit: Callable[[Callable[[], None]], None],
) -> None:
    finished = ledger.close_if_done([claim.job_id for claim in claims])
    for job_id in finished:
        after_commit(lambda job_id=job_id: tell_waiters(tenant_id, job_id, use))  # type: ignore[misc]


def tell_waiters(tenant_id: TenantId, job_id: JobId, use: Resources) -> None:
    """Wake who waits for a job. Redis being away costs them a second, not the job."""
    try:
        announce_job(use.redis, tenant_id, job_id)
    except Unavailable as error:
        log.warning("job_end_not_announced", job_id=job_id, code=error.code)


def _numbered(generation: Generation, number: int) -> Generation:
    scope = Scope(tenant_id=generation.scope.tenant_id, namespace=generation.scope.namespace)
    return Generation(scope=scope, document_id=generation.document_id, number=number)
