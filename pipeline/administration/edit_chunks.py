"""Edit single published chunks: their text, whether searches see them, whether they exist.

The model is called first; then one transaction locks the documents and writes vectors and rows. A crash
leaves the old text with, at worst, the new text's vector, which the reconciler repairs.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import orjson
import structlog

from chordwise.contract.chunk import ChunkResult
from pipeline.chunking.tokens import count_tokens
from pipeline.database.unit_of_work import UnitOfWork, retry_conflicts, unit_of_work
from pipeline.documents.chunk_edit_store import ChunkEdits
from pipeline.documents.clean_text import clean
from pipeline.documents.cut_document import bound_of, rebuild_edited, repeats
from pipeline.documents.document_store import Documents
from pipeline.documents.document_views import OwnedChunk
from pipeline.documents.generation_store import Retired
from pipeline.documents.parent_store import Parents, children_of, follow_children, rewrite_parent
from pipeline.errors import EmbedderRefused
from pipeline.ingestion.make_vectors import embed_everywhere, write_everywhere
from pipeline.jobs.computation import Computation, Done
from pipeline.outages import tolerate_outage
from pipeline.records import Chunk, ChunkId, DocumentId, Generation, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.namespace_store import Namespaces
from pipeline.tenants.usage import Purpose

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """The edit of one chunk; None leaves a field as it is. ``etag``: the state in which the edit applies."""

    chunk_id: ChunkId
    text: str | None = None
    enabled: bool | None = None
    etag: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """One edit that would change something. ``chunk`` is the chunk as it will be."""

    before: OwnedChunk
    chunk: Chunk
    enabled: bool

    @property
    def needs_vector(self) -> bool:
        return self.enabled and (not self.before.enabled or self.chunk.content_hash != self.before.content_hash)

    @property
    def is_reworded(self) -> bool:
        return self.chunk.passage.text != self.before.passage.text


def edit_body(computation: Computation, use: Resources) -> Done:
    """Carry out edits. The body is a JSON list of `Edit`, and the answer a JSON list of `ChunkResult`."""
    edits = [Edit(**{**edit, "chunk_id": ChunkId(edit["chunk_id"])}) for edit in orjson.loads(computation.body)]
    return Done(body=orjson.dumps(edit_chunks(computation.tenant_id, edits, use)))


def edit_chunks(tenant_id: TenantId, edits: Sequence[Edit], use: Resources) -> list[ChunkResult]:
    """Carry out each edit or say why not, in order and independently; ids must not repeat. Switching a parent switches
    its children; its text may change and is not searched. Raises EmbedderUnavailable or StoreUnavailable if nothing
    could be done."""
    with unit_of_work(use.mysql) as work:
        chunks = ChunkEdits(work.connection, tenant_id).named([edit.chunk_id for edit in edits])
        children = children_of(tenant_id, list(chunks.values()), work)
    results: dict[ChunkId, ChunkResult] = {}
    plans: list[_Plan] = []
    for sent in edits:
        edit = sent if sent.text is None else replace(sent, text=clean(sent.text))
        before = chunks.get(edit.chunk_id)
        if before is None:
            results[edit.chunk_id] = _not_published(edit.chunk_id)
        elif edit.etag is not None and edit.etag != before.etag:
            results[edit.chunk_id] = _outdated(before)
        elif (fault := _fault(edit, before)) is not None:
            results[edit.chunk_id] = fault
        elif not before.searched:
            results[edit.chunk_id] = _edit_parent(tenant_id, edit, before, children[edit.chunk_id], use)
        elif (plan := _plan(edit, before)) is None:
            results[edit.chunk_id] = _done(before, "unchanged")
        else:
            plans.append(plan)
    if plans:
        results |= _carry_out(tenant_id, plans, use)
    return [results[edit.chunk_id] for edit in edits]


def delete_chunks(tenant_id: TenantId, chunk_ids: Sequence[ChunkId], use: Resources) -> list[ChunkResult]:
    """Delete exactly these chunks; a parent goes with its children, a document with its last chunk."""
    if not chunk_ids:
        return []
    with unit_of_work(use.mysql) as work:
        edits = ChunkEdits(work.connection, tenant_id)
        chunks = edits.named(chunk_ids)
        children = children_of(tenant_id, list(chunks.values()), work)
        below = edits.named([child for ids in children.values() for child in ids])
    results = _remove(tenant_id, [chunk for chunk in (chunks | below).values() if chunk.searched], use)
    for parent_id, ids in children.items():
        failure = next((results[child] for child in ids if results[child].status != "deleted"), None)
        results[parent_id] = replace(failure or ChunkResult(chunk_id=parent_id, status="deleted"), chunk_id=parent_id)
    return [results.get(chunk_id) or _not_published(chunk_id) for chunk_id in chunk_ids]


def _edit_parent(
    tenant_id: TenantId, edit: Edit, before: OwnedChunk, children: Sequence[ChunkId], use: Resources
) -> ChunkResult:
    """Edit a parent: its own text, and the visibility of its children."""
    switched = edit_chunks(tenant_id, [Edit(chunk_id=child, enabled=edit.enabled) for child in children], use)
    by_status = {result.status: result for result in reversed(switched)}  # the first of each
    if "failed" in by_status:
        return replace(by_status["failed"], chunk_id=before.chunk_id)
    if edit.text is None or edit.text == before.passage.text:
        return _done(before, "updated" if "updated" in by_status else "unchanged")
    text = edit.text

    def write(work: UnitOfWork) -> dict[ChunkId, ChunkResult]:
        after = rewrite_parent(tenant_id, before, text, work)
        is_ours = after is not None and after.version == before.version + 1 and after.passage.text == text
        return {before.chunk_id: _done(after, "updated") if after and is_ours else _overtaken(before, after)}

    return _transact(use, write)[before.chunk_id]


def _fault(edit: Edit, before: OwnedChunk) -> ChunkResult | None:
    """Return why the text is refused, if it is. A text no longer than the present one is never too long."""
    if edit.text is None:
        return None
    if not edit.text:
        return _failed(edit.chunk_id, "empty_chunk", "the text holds nothing but white space and invisible characters")
    bound, tokens = bound_of(before.chunking, is_parent=not before.searched), count_tokens(edit.text)
    if bound is None or tokens <= max(bound[1], before.passage.token_count):
        return None
    option, most = bound
    kind = "chunk" if before.searched else "parent"
    detail = (
        f"the text has {tokens} tokens, and a {kind} of document {before.generation.document_id} at most {most}:"
        f" {option} of its chunking ({before.chunking.strategy}, see chunking of the document); shorten the text,"
        f" or upload the document again with a larger {option}"
    )
    return _failed(before.chunk_id, "chunk_too_long", detail)


def _plan(edit: Edit, before: OwnedChunk) -> _Plan | None:
    enabled = before.enabled if edit.enabled is None else edit.enabled
    text = before.passage.text if edit.text is None else edit.text
    if enabled == before.enabled and text == before.passage.text:
        return None
    chunk = rebuild_edited(
        generation=before.generation,
        ordinal=before.ordinal,
        passage=before.passage,
        text=text,
        title=before.fields.title,
        strategy=before.chunking.strategy,
    )
    return _Plan(before=before, chunk=chunk, enabled=enabled)


def _carry_out(tenant_id: TenantId, plans: Sequence[_Plan], use: Resources) -> dict[ChunkId, ChunkResult]:
    embedded = [plan for plan in plans if plan.needs_vector]
    texts = [plan.chunk.embedding_text for plan in embedded]
    try:
        vectors = embed_everywhere(texts, use, tenant_id=tenant_id, purpose=Purpose.EDIT) if texts else {}
    except EmbedderRefused as error:
        reasons = error.reasons or dict.fromkeys(range(len(embedded)), str(error))
        guilty = {embedded[index].before.chunk_id: reason for index, reason in reasons.items()}
        refused = {chunk_id: _failed(chunk_id, error.code, reason) for chunk_id, reason in guilty.items()}
        others = [plan for plan in plans if plan.before.chunk_id not in guilty]
        return refused | (_carry_out(tenant_id, others, use) if others else {})
    row_of = {plan.before.chunk_id: row for row, plan in enumerate(embedded)}

    def write(work: UnitOfWork) -> dict[ChunkId, ChunkResult]:
        stored = lock_chunks(tenant_id, [plan.before for plan in plans], work)
        results, applied = {}, []
        for plan in plans:
            current = stored.get(plan.before.chunk_id)
            if current is None or current.version != plan.before.version:
                results[plan.before.chunk_id] = _overtaken(plan.before, current)
            else:
                applied.append(replace(plan, before=current))  # the sweeper may have renewed its terms meanwhile
        if with_vector := [plan for plan in applied if plan.needs_vector]:
            rows = [row_of[plan.before.chunk_id] for plan in with_vector]
            write_everywhere(
                tenant_id,
                work.connection,
                [plan.chunk for plan in with_vector],
                {space: matrix[rows] for space, matrix in vectors.items()},
                {plan.before.generation: plan.before.fields for plan in with_vector},
                use,
            )
        _write_rows(tenant_id, applied, work)
        _audit("chunk_edit", tenant_id, [plan.before for plan in applied], work)
        edits = ChunkEdits(work.connection, tenant_id)
        for generation in sorted({plan.before.generation for plan in applied}, key=_lock_order):
            edits.forget_recipe(generation)
        reworded = [plan for plan in applied if plan.is_reworded]
        follow_children(tenant_id, [(plan.before, plan.chunk.passage.text) for plan in reworded], work)
        hidden = [plan.before.chunk_id for plan in applied if not plan.enabled]
        touched = {plan.before.generation for plan in applied if plan.needs_vector or not plan.enabled}
        work.after_commit(lambda: _settle_vectors(tenant_id, hidden, touched, use))
        after = edits.named([plan.before.chunk_id for plan in applied])
        repeated = {plan.before.chunk_id: _repeated_in(plan.before, plan.chunk, edits) for plan in reworded}
        return results | {
            chunk_id: replace(_done(chunk, "updated"), repeated_in=repeated.get(chunk_id, ()))
            for chunk_id, chunk in after.items()
        }

    return _transact(use, write)


def _repeated_in(before: OwnedChunk, chunk: Chunk, edits: ChunkEdits) -> tuple[ChunkId, ...]:
    """Return the chunks beside a reworded one that still hold words that the edit removed."""
    beside = edits.overlapping(before)
    return tuple(other for other, passage in beside if repeats(passage, before.passage, chunk.passage.text))


def _write_rows(tenant_id: TenantId, plans: Sequence[_Plan], work: UnitOfWork) -> None:
    edits = ChunkEdits(work.connection, tenant_id)
    added: defaultdict[Namespace, list[int]] = defaultdict(list)
    removed: defaultdict[Namespace, list[int]] = defaultdict(list)
    documents: defaultdict[Namespace, list[DocumentId]] = defaultdict(list)
    for plan in plans:
        namespace = plan.before.generation.scope.namespace
        documents[namespace].append(plan.before.generation.document_id)
        if plan.chunk.content_hash != plan.before.content_hash or plan.is_reworded:
            edits.rewrite(plan.chunk)
        if plan.before.enabled:
            removed[namespace].append(len(plan.before.terms))
        if plan.enabled:
            added[namespace].append(len(plan.chunk.terms if plan.is_reworded else plan.before.terms))
    for enabled in (False, True):
        switched = [p.before.chunk_id for p in plans if p.enabled is enabled and p.before.enabled is not enabled]
        edits.switch(switched, enabled=enabled)
    for namespace in sorted(added.keys() | removed.keys()):
        Namespaces(work.connection, tenant_id).revise(
            namespace, documents[namespace], added=added[namespace], removed=removed[namespace]
        )


def _remove(tenant_id: TenantId, wanted: Sequence[OwnedChunk], use: Resources) -> dict[ChunkId, ChunkResult]:
    if not wanted:
        return {}

    def write(work: UnitOfWork) -> dict[ChunkId, ChunkResult]:
        stored = lock_chunks(tenant_id, wanted, work)
        by_generation: defaultdict[Generation, list[OwnedChunk]] = defaultdict(list)
        for chunk in stored.values():
            by_generation[chunk.generation].append(chunk)
        for generation in sorted(by_generation, key=_lock_order):
            _remove_from(tenant_id, generation, by_generation[generation], work)
        _audit("chunk_delete", tenant_id, list(stored.values()), work)
        work.after_commit(lambda: _settle_vectors(tenant_id, list(stored), set(by_generation), use))
        missing = {chunk.chunk_id: _overtaken(chunk, None) for chunk in wanted if chunk.chunk_id not in stored}
        return missing | {chunk_id: ChunkResult(chunk_id=chunk_id, status="deleted") for chunk_id in stored}

    return _transact(use, write)


def _remove_from(tenant_id: TenantId, generation: Generation, chunks: Sequence[OwnedChunk], work: UnitOfWork) -> None:
    namespace = generation.scope.namespace
    edits = ChunkEdits(work.connection, tenant_id)
    remaining = edits.remove(generation, [chunk.ordinal for chunk in chunks])
    follow_children(tenant_id, [(chunk, "") for chunk in chunks], work)
    Parents(work.connection, tenant_id).remove_childless(generation)
    removed = [len(chunk.terms) for chunk in chunks if chunk.enabled]
    Namespaces(work.connection, tenant_id).revise(namespace, [generation.document_id], removed=removed)
    if remaining:
        return
    if any(chunk.latest > generation.number for chunk in chunks):  # a newer upload was not named: it stays
        edits.unpublish(generation)
        retired = [generation]
    else:
        deleted = Documents(work.connection, tenant_id).delete(namespace, [generation.document_id])
        retired = [hidden for _, gone in deleted.values() for hidden in gone]
    Retired(work.connection, tenant_id).add(retired)


def _audit(action: str, tenant_id: TenantId, chunks: Sequence[OwnedChunk], work: UnitOfWork) -> None:
    if chunks:
        namespaces = sorted({chunk.generation.scope.namespace for chunk in chunks})
        ids = [chunk.chunk_id for chunk in chunks]
        Audit(work.connection, tenant_id).wrote(action, namespaces=namespaces, ids=ids)


def lock_chunks(tenant_id: TenantId, chunks: Sequence[OwnedChunk], work: UnitOfWork) -> dict[ChunkId, OwnedChunk]:
    """Lock the documents of these chunks, and return the present state of those chunks that are still published."""
    edits = ChunkEdits(work.connection, tenant_id)
    documents: defaultdict[Namespace, set[DocumentId]] = defaultdict(set)
    for chunk in chunks:
        documents[chunk.generation.scope.namespace].add(chunk.generation.document_id)
    for namespace in sorted(documents):
        edits.lock(namespace, list(documents[namespace]))
    return edits.named([chunk.chunk_id for chunk in chunks])


@retry_conflicts()
def _transact(use: Resources, write: Callable[[UnitOfWork], dict[ChunkId, ChunkResult]]) -> dict[ChunkId, ChunkResult]:
    with unit_of_work(use.mysql) as work:
        return write(work)


def _settle_vectors(
    tenant_id: TenantId, chunk_ids: Sequence[ChunkId], generations: Collection[Generation], use: Resources
) -> None:
    """Drop the vectors of these hidden chunks and refresh their documents'; without PostgreSQL the reconciler does it."""
    with tolerate_outage(log.warning, "vectors_left_to_the_reconciler", tenant_id=tenant_id, vectors=len(chunk_ids)):
        use.vectors(tenant_id).forget(chunk_ids)
        use.document_vectors(tenant_id).refresh(list(generations))


def _lock_order(generation: Generation) -> tuple[str, str, int]:
    return generation.scope.namespace, generation.document_id, generation.number


def _done(chunk: OwnedChunk, status: Literal["updated", "unchanged", "deleted"]) -> ChunkResult:
    pending = chunk.latest > chunk.generation.number
    return ChunkResult(chunk_id=chunk.chunk_id, status=status, etag=chunk.etag, replacement_pending=pending)


def _failed(chunk_id: ChunkId, code: str, detail: str) -> ChunkResult:
    return ChunkResult(chunk_id=chunk_id, status="failed", code=code, detail=detail)


def _not_published(chunk_id: ChunkId) -> ChunkResult:
    """Return the failure of a chunk that is not published or another tenant's."""
    return _failed(chunk_id, "chunk_not_found", "there is no such chunk in what is published")


def _outdated(chunk: OwnedChunk) -> ChunkResult:
    detail = "the chunk is not the one the etag stands for; read it again"
    return ChunkResult(
        chunk_id=chunk.chunk_id, status="failed", etag=chunk.etag, code="precondition_failed", detail=detail
    )


def _overtaken(before: OwnedChunk, current: OwnedChunk | None) -> ChunkResult:
    """Return the failure of an edit that lost against a concurrent change."""
    if current is None:
        detail = "the document was replaced or deleted meanwhile; nothing was changed"
        return _failed(before.chunk_id, "document_replaced", detail)
    return _failed(before.chunk_id, "chunk_changed", "the chunk was changed by someone else at the same moment")
