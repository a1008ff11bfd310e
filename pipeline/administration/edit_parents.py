"""Edit parents, and update them after edits of their children."""

from collections import defaultdict
from collections.abc import Sequence

from pipeline.chunking.tokens import count_tokens
from pipeline.database.unit_of_work import UnitOfWork
from pipeline.documents.chunk_edit_store import ChunkEdits
from pipeline.documents.cut_document import position_in, spliced
from pipeline.documents.document_views import OwnedChunk
from pipeline.documents.parent_store import Parents
from pipeline.records import ChunkId, Passage, TenantId
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.namespace_store import Namespaces


def follow_children(tenant_id: TenantId, changed: Sequence[tuple[OwnedChunk, str]], work: UnitOfWork) -> None:
    """Replace each child's old text in its parent by the new one (empty: remove it), where the parent holds it."""
    parents = Parents(work.connection, tenant_id)
    by_parent: defaultdict[ChunkId, list[tuple[OwnedChunk, str]]] = defaultdict(list)
    for chunk, text in changed:
        if chunk.parent_id is not None:
            by_parent[chunk.parent_id].append((chunk, text))
    texts = parents.stored_texts(list(by_parent))
    passages = parents.passages(list(texts))
    rewritten: set[ChunkId] = set()
    for parent_id, before in texts.items():
        after = _rewritten(before, passages[parent_id], by_parent[parent_id])
        if after and after != before:
            parents.rewrite(parent_id, after, count_tokens(after))
            rewritten.add(parent_id)
    namespaces = {chunk.generation.scope.namespace for chunk, _ in changed if chunk.parent_id in rewritten}
    for namespace in sorted(namespaces):  # a child that searches do not see is still read with its parent
        Namespaces(work.connection, tenant_id).revise(namespace)


def _rewritten(text: str, passages: dict[int, Passage], changed: Sequence[tuple[OwnedChunk, str]]) -> str:
    """Return the text of a parent after edits of these children; ``passages``: its present passages."""
    passages = {**passages, **{chunk.ordinal: _passage(chunk, chunk.passage.text) for chunk, _ in changed}}
    for chunk, new in changed:
        old = passages[chunk.ordinal]
        position = position_in(text, [passages[ordinal] for ordinal in sorted(passages)], old)
        if position >= 0:
            text = spliced(text, position, old.text, new)
            passages[chunk.ordinal] = _passage(chunk, new)
        if not new:
            del passages[chunk.ordinal]
    return text


def _passage(chunk: OwnedChunk, text: str) -> Passage:
    return Passage(text=text, start=chunk.passage.start, end=chunk.passage.end, token_count=0)


def rewrite_parent(tenant_id: TenantId, before: OwnedChunk, text: str, work: UnitOfWork) -> OwnedChunk | None:
    """Change a parent's text under its document's lock, unless it changed; return its state, None if it is gone."""
    edits, namespace = ChunkEdits(work.connection, tenant_id), before.generation.scope.namespace
    edits.lock(namespace, [before.generation.document_id])
    current = edits.named([before.chunk_id]).get(before.chunk_id)
    if current is None or current.version != before.version:
        return current
    Parents(work.connection, tenant_id).rewrite(before.chunk_id, text, count_tokens(text))
    edits.forget_recipe(before.generation)
    Namespaces(work.connection, tenant_id).revise(namespace)
    Audit(work.connection, tenant_id).wrote("chunk_edit", namespaces=[namespace], ids=[before.chunk_id])
    return edits.named([before.chunk_id]).get(before.chunk_id)


def children_of(tenant_id: TenantId, chunks: Sequence[OwnedChunk], work: UnitOfWork) -> dict[ChunkId, list[ChunkId]]:
    """Return the children of those of these chunks that are parents."""
    parents = [chunk.chunk_id for chunk in chunks if not chunk.searched]
    return Parents(work.connection, tenant_id).children(parents)
