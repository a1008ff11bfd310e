"""Parents under edits: what is done to them, and what edits of their children do to them."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.core.tokens import count_tokens
from pipeline.records import ChunkId, TenantId
from pipeline.stores.audit import Audit
from pipeline.stores.chunk_edits import ChunkEdits, OwnedChunk
from pipeline.stores.namespaces import Namespaces
from pipeline.stores.parents import Parents, replaced
from pipeline.stores.work import UnitOfWork


def follow_children(tenant_id: TenantId, changed: Sequence[tuple[OwnedChunk, str]], work: UnitOfWork) -> None:
    """Put each child's new text in the place of its old one in its parent; the empty text takes it out.

    A parent that does not hold the old text any more, because it was edited itself, stays as it is.
    """
    parents = Parents(work.connection, tenant_id)
    known = parents.stored_texts([chunk.parent_id for chunk, _ in changed if chunk.parent_id is not None])
    after = dict(known)
    for chunk, text in changed:
        if chunk.parent_id in after:
            after[chunk.parent_id] = replaced(after[chunk.parent_id], chunk.passage.text, text)
    rewritten: set[ChunkId] = set()
    for parent_id, text in after.items():
        if text and text != known[parent_id]:
            parents.rewrite(parent_id, text, count_tokens(text))
            rewritten.add(parent_id)
    places = {chunk.generation.scope.namespace for chunk, _ in changed if chunk.parent_id in rewritten}
    for namespace in sorted(places):  # a child that searches do not see is still read with its parent
        Namespaces(work.connection, tenant_id).revise(namespace)


def rewrite_parent(tenant_id: TenantId, before: OwnedChunk, text: str, work: UnitOfWork) -> OwnedChunk | None:
    """Give a parent another text, its document held still. Gives what is there afterwards, None if it has gone, and
    what somebody else made of it if it has changed."""
    edits = ChunkEdits(work.connection, tenant_id)
    edits.lock(before.generation.scope.namespace, [before.generation.document_id])
    current = edits.named([before.chunk_id]).get(before.chunk_id)
    if current is not None and current.version == before.version:
        Parents(work.connection, tenant_id).rewrite(before.chunk_id, text, count_tokens(text))
        Namespaces(work.connection, tenant_id).revise(before.generation.scope.namespace)
        Audit(work.connection, tenant_id).wrote(
            "chunk_edit", namespaces=[before.generation.scope.namespace], ids=[before.chunk_id]
        )
        return edits.named([before.chunk_id]).get(before.chunk_id)
    return current


def children_of(tenant_id: TenantId, chunks: Sequence[OwnedChunk], work: UnitOfWork) -> dict[ChunkId, list[ChunkId]]:
    """The children of those of these that are parents."""
    parents = [chunk.chunk_id for chunk in chunks if not chunk.searched]
    return Parents(work.connection, tenant_id).children(parents)
