"""Edit single published chunks: their text, whether searches see them, whether they exist.

The model is called first; then one transaction locks the documents and writes vectors, rows and statistics. A crash
leaves the old text with, at worst, the new text's vector, which the reconciler repairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import orjson
import structlog

from pipeline.administration.apply_edits import (
    Edit,
    Edited,
    changed,
    done,
    empty,
    failed,
    not_found,
    overtaken,
    too_long,
)
from pipeline.administration.edit_parents import children_of, follow_children, rewrite_parent
from pipeline.chunking.tokens import count_tokens
from pipeline.database.unit_of_work import UnitOfWork, retry_conflicts, unit_of_work
from pipeline.documents.chunk_edit_store import ChunkEdits
from pipeline.documents.clean_text import clean
from pipeline.documents.document_store import Documents
from pipeline.documents.document_views import OwnedChunk
from pipeline.documents.edited_chunk import bound_of, rebuild_edited, repeats
from pipeline.documents.parent_store import Parents
from pipeline.documents.retention_store import Retired
from pipeline.errors import EmbedderRefused, Unavailable
from pipeline.ingestion.standby import embed_everywhere, write_everywhere
from pipeline.jobs.computation import Computation, Done
from pipeline.keyword.statistics_store import Statistics
from pipeline.records import Chunk, ChunkId, DocumentId, Generation, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.usage import Purpose

__all__ = ["Edit", "Edited", "delete_chunks", "edit_body", "edit_chunks"]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """One edit that would change something. ``chunk`` is the chunk as it will be."""

    before: OwnedChunk
    chunk: Chunk
    enabled: bool

    @property
    def needs_vector(self) -> bool:
        return self.enabled and (not self.before.enabled or self.chunk.content_hash != self.before.content_hash)


def edit_body(computation: Computation, use: Resources) -> Done:
    """Carry out edits. The body is a JSON list of `Edit`, and the answer a JSON list of `Edited`."""
    edits = [Edit(**{**edit, "chunk_id": ChunkId(edit["chunk_id"])}) for edit in orjson.loads(computation.body)]
    return Done(body=orjson.dumps(edit_chunks(computation.tenant_id, edits, use)))


def edit_chunks(tenant_id: TenantId, edits: Sequence[Edit], use: Resources) -> list[Edited]:
    """Carry out each edit or say why not, in order and independently; ids must not repeat. Switching a parent switches
    its children; its text may change and is not searched. Raises EmbedderUnavailable or StoreUnavailable if nothing
    could be done."""
    with unit_of_work(use.mysql) as work:
        chunks = ChunkEdits(work.connection, tenant_id).named([edit.chunk_id for edit in edits])
        children = children_of(tenant_id, list(chunks.values()), work)
    results: dict[ChunkId, Edited] = {}
    plans: list[_Plan] = []
    for sent in edits:
        edit = sent if sent.text is None else replace(sent, text=clean(sent.text))
        before = chunks.get(edit.chunk_id)
        if before is None:
            results[edit.chunk_id] = not_found(edit.chunk_id)
        elif edit.etag is not None and edit.etag != before.etag:
            results[edit.chunk_id] = changed(before)
        elif (fault := _fault(edit, before)) is not None:
            results[edit.chunk_id] = fault
        elif not before.searched:
            results[edit.chunk_id] = _edit_parent(tenant_id, edit, before, children[edit.chunk_id], use)
        elif (plan := _plan(edit, before)) is None:
            results[edit.chunk_id] = done(before, "unchanged")
        else:
            plans.append(plan)
    if plans:
        results |= _carry_out(tenant_id, plans, use)
    return [results[edit.chunk_id] for edit in edits]


def delete_chunks(tenant_id: TenantId, chunk_ids: Sequence[ChunkId], use: Resources) -> list[Edited]:
    """Delete exactly these chunks; a parent goes with its children, a document with its last chunk."""
    if not chunk_ids:
        return []
    with unit_of_work(use.mysql) as work:
        edits = ChunkEdits(work.connection, tenant_id)
        chunks = edits.named(chunk_ids)
        children = children_of(tenant_id, list(chunks.values()), work)
        below = edits.named([child for some in children.values() for child in some])
    gone = _remove(tenant_id, [chunk for chunk in (chunks | below).values() if chunk.searched], use)
    for parent_id, ids in children.items():
        left = next((gone[child] for child in ids if gone[child].status != "deleted"), None)
        gone[parent_id] = replace(left or Edited(chunk_id=parent_id, status="deleted"), chunk_id=parent_id)
    return [gone.get(chunk_id) or not_found(chunk_id) for chunk_id in chunk_ids]


def _edit_parent(
    tenant_id: TenantId, edit: Edit, before: OwnedChunk, children: Sequence[ChunkId], use: Resources
) -> Edited:
    """Edit a parent: its own text, and the visibility of its children."""
    switched = edit_chunks(tenant_id, [Edit(chunk_id=child, enabled=edit.enabled) for child in children], use)
    stuck = next((result for result in switched if result.status == "failed"), None)
    if stuck is not None:
        return replace(stuck, chunk_id=before.chunk_id)
    if edit.text is None or edit.text == before.passage.text:
        return done(before, "updated" if any(result.status == "updated" for result in switched) else "unchanged")
    text = edit.text

    def write(work: UnitOfWork) -> dict[ChunkId, Edited]:
        after = rewrite_parent(tenant_id, before, text, work)
        is_ours = after is not None and after.version == before.version + 1 and after.passage.text == text
        return {before.chunk_id: done(after, "updated") if after and is_ours else overtaken(before, after)}

    return _transact(use, write)[before.chunk_id]


def _fault(edit: Edit, before: OwnedChunk) -> Edited | None:
    """Return why the text is refused, if it is. A text no longer than the present one is never too long."""
    if edit.text is None:
        return None
    if not edit.text:
        return empty(edit.chunk_id)
    bound, tokens = bound_of(before.chunking, is_parent=not before.searched), count_tokens(edit.text)
    return (
        None
        if bound is None or tokens <= max(bound.tokens, before.passage.token_count)
        else too_long(before, tokens, bound)
    )


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


def _carry_out(tenant_id: TenantId, plans: Sequence[_Plan], use: Resources) -> dict[ChunkId, Edited]:
    embedded = [plan for plan in plans if plan.needs_vector]
    try:
        vectors = (
            embed_everywhere(
                [plan.chunk.embedding_text for plan in embedded], use, tenant_id=tenant_id, purpose=Purpose.EDIT
            )
            if embedded
            else {}
        )
    except EmbedderRefused as error:
        guilty = {embedded[index].before.chunk_id for index in error.indexes} or {p.before.chunk_id for p in embedded}
        refused = {chunk_id: failed(chunk_id, error.code, str(error)) for chunk_id in guilty}
        others = [plan for plan in plans if plan.before.chunk_id not in guilty]
        return refused | (_carry_out(tenant_id, others, use) if others else {})
    row_of = {plan.before.chunk_id: row for row, plan in enumerate(embedded)}

    def write(work: UnitOfWork) -> dict[ChunkId, Edited]:
        now_there = _locked(tenant_id, [plan.before for plan in plans], work)
        results, standing = {}, []
        for plan in plans:
            current = now_there.get(plan.before.chunk_id)
            if current is None or current.version != plan.before.version:
                results[plan.before.chunk_id] = overtaken(plan.before, current)
            else:
                standing.append(plan)
        if with_vector := [plan for plan in standing if plan.needs_vector]:
            rows = [row_of[plan.before.chunk_id] for plan in with_vector]
            write_everywhere(
                tenant_id,
                work.connection,
                [plan.chunk for plan in with_vector],
                {space: matrix[rows] for space, matrix in vectors.items()},
                {plan.before.generation: plan.before.fields for plan in with_vector},
                use,
            )
        _write_rows(tenant_id, standing, work)
        _note("chunk_edit", tenant_id, [plan.before for plan in standing], work)
        for generation in sorted({plan.before.generation for plan in standing}, key=_place):
            ChunkEdits(work.connection, tenant_id).forget_recipe(generation)
        reworded = [plan for plan in standing if plan.chunk.passage.text != plan.before.passage.text]
        follow_children(tenant_id, [(plan.before, plan.chunk.passage.text) for plan in reworded], work)
        hidden = [plan.before.chunk_id for plan in standing if not plan.enabled]
        touched = {plan.before.generation for plan in standing if plan.needs_vector or not plan.enabled}
        work.after_commit(lambda: _settle_vectors(tenant_id, hidden, touched, use))
        edits = ChunkEdits(work.connection, tenant_id)
        after = edits.named([plan.before.chunk_id for plan in standing])
        repeated = {plan.before.chunk_id: _repeated_in(plan.before, plan.chunk, edits) for plan in reworded}
        return results | {
            chunk_id: replace(done(chunk, "updated"), repeated_in=repeated.get(chunk_id, ()))
            for chunk_id, chunk in after.items()
        }

    return _transact(use, write)


def _repeated_in(before: OwnedChunk, chunk: Chunk, edits: ChunkEdits) -> tuple[ChunkId, ...]:
    """Return the chunks beside a reworded one that still hold words that the edit removed."""
    beside = edits.overlapping(before)
    return tuple(other for other, passage in beside if repeats(passage, before.passage, chunk.passage.text))


def _write_rows(tenant_id: TenantId, plans: Sequence[_Plan], work: UnitOfWork) -> None:
    edits = ChunkEdits(work.connection, tenant_id)
    added: defaultdict[Namespace, list[Sequence[str]]] = defaultdict(list)
    removed: defaultdict[Namespace, list[Sequence[str]]] = defaultdict(list)
    documents: defaultdict[Namespace, list[DocumentId]] = defaultdict(list)
    for plan in plans:
        namespace = plan.before.generation.scope.namespace
        documents[namespace].append(plan.before.generation.document_id)
        if plan.chunk.content_hash != plan.before.content_hash or plan.chunk.passage.text != plan.before.passage.text:
            edits.rewrite(plan.chunk)
        terms = plan.chunk.terms if plan.chunk.passage.text != plan.before.passage.text else plan.before.terms
        if plan.before.enabled:
            removed[namespace].append(plan.before.terms)
        if plan.enabled:
            added[namespace].append(terms)
    for enabled in (False, True):
        switched = [p.before.chunk_id for p in plans if p.enabled is enabled and p.before.enabled is not enabled]
        edits.switch(switched, enabled=enabled)
    for namespace in sorted(added.keys() | removed.keys()):
        Statistics(work.connection, tenant_id).count(
            namespace, added[namespace], removed[namespace], document_ids=documents[namespace]
        )


def _remove(tenant_id: TenantId, wanted: Sequence[OwnedChunk], use: Resources) -> dict[ChunkId, Edited]:
    if not wanted:
        return {}

    def write(work: UnitOfWork) -> dict[ChunkId, Edited]:
        there = _locked(tenant_id, wanted, work)
        by_generation: defaultdict[Generation, list[OwnedChunk]] = defaultdict(list)
        for chunk in there.values():
            by_generation[chunk.generation].append(chunk)
        for generation, chunks in sorted(by_generation.items(), key=lambda pair: _place(pair[0])):
            _remove_from(tenant_id, generation, chunks, work)
        _note("chunk_delete", tenant_id, list(there.values()), work)
        work.after_commit(lambda: _settle_vectors(tenant_id, list(there), set(by_generation), use))
        missing = {chunk.chunk_id: overtaken(chunk, None) for chunk in wanted if chunk.chunk_id not in there}
        return missing | {chunk_id: Edited(chunk_id=chunk_id, status="deleted") for chunk_id in there}

    return _transact(use, write)


def _remove_from(tenant_id: TenantId, generation: Generation, chunks: Sequence[OwnedChunk], work: UnitOfWork) -> None:
    namespace = generation.scope.namespace
    left = ChunkEdits(work.connection, tenant_id).remove(generation, [chunk.ordinal for chunk in chunks])
    follow_children(tenant_id, [(chunk, "") for chunk in chunks], work)
    Parents(work.connection, tenant_id).remove_childless(generation)
    terms = [chunk.terms for chunk in chunks if chunk.enabled]
    Statistics(work.connection, tenant_id).count(namespace, [], terms, document_ids=[generation.document_id])
    if left:
        return
    if any(chunk.latest > generation.number for chunk in chunks):  # a newer upload was not named: it stays
        ChunkEdits(work.connection, tenant_id).unpublish(generation)
        gone: Iterable[Generation] = [generation]
    else:
        deleted = Documents(work.connection, tenant_id).delete(namespace, [generation.document_id])
        gone = [hidden for document in deleted.values() for hidden in document.gone]
    Retired(work.connection, tenant_id).add(list(gone))


def _note(action: str, tenant_id: TenantId, chunks: Sequence[OwnedChunk], work: UnitOfWork) -> None:
    if chunks:
        namespaces = sorted({chunk.generation.scope.namespace for chunk in chunks})
        ids = [chunk.chunk_id for chunk in chunks]
        Audit(work.connection, tenant_id).wrote(action, namespaces=namespaces, ids=ids)


def _locked(tenant_id: TenantId, chunks: Sequence[OwnedChunk], work: UnitOfWork) -> dict[ChunkId, OwnedChunk]:
    """Return the chunks that are still published, with their documents locked."""
    edits = ChunkEdits(work.connection, tenant_id)
    documents: defaultdict[Namespace, set[DocumentId]] = defaultdict(set)
    for chunk in chunks:
        documents[chunk.generation.scope.namespace].add(chunk.generation.document_id)
    for namespace in sorted(documents):
        edits.lock(namespace, list(documents[namespace]))
    return edits.named([chunk.chunk_id for chunk in chunks])


@retry_conflicts()
def _transact(use: Resources, write: Callable[[UnitOfWork], dict[ChunkId, Edited]]) -> dict[ChunkId, Edited]:
    with unit_of_work(use.mysql) as work:
        return write(work)


def _settle_vectors(
    tenant_id: TenantId, chunk_ids: Sequence[ChunkId], generations: Collection[Generation], use: Resources
) -> None:
    """Drop the vectors of these hidden chunks and refresh their documents'; without PostgreSQL the reconciler does it."""
    try:
        use.vectors(tenant_id).forget(chunk_ids)
        use.document_vectors(tenant_id).refresh(list(generations))
    except Unavailable as error:
        log.warning("vectors_left_to_the_reconciler", tenant_id=tenant_id, vectors=len(chunk_ids), code=error.code)


def _place(generation: Generation) -> tuple[str, str, int]:
    return generation.scope.namespace, generation.document_id, generation.number
