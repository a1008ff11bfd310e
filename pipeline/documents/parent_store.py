"""Texts that are read with a chunk. Parents are larger passages that children are part of; they have no terms and no vectors,
and no search finds them; they follow edits of their children. Windows are the chunks around a chunk; they are not stored."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from pipeline.chunking.tokens import count_tokens
from pipeline.database.rows import TenantStore, generation_key, insert_many, now, placeholders
from pipeline.database.statements import OF_GENERATION, generation_columns, same_generation, sql
from pipeline.database.unit_of_work import UnitOfWork
from pipeline.documents.chunk_edit_store import ChunkEdits
from pipeline.documents.chunk_store import PASSAGE_COLUMNS, passage_columns
from pipeline.documents.clean_text import seam
from pipeline.documents.cut_document import position_in, spliced
from pipeline.documents.document_views import OwnedChunk
from pipeline.records import ChunkId, Generation, ParentChunk, Passage, TenantId
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.namespace_store import Namespaces


class Parents(TenantStore):
    """One tenant's parents."""

    def write(self, parents: Sequence[ParentChunk]) -> None:
        """Write parents of generations that are not shown yet; `Chunks.drop` clears what an earlier attempt left."""
        moment = now()
        insert_many(
            self._connection,
            "INSERT INTO parent_chunks (tenant_id, namespace, document_id, generation, ordinal, chunk_id,"
            f" {PASSAGE_COLUMNS}, created_at) VALUES ({placeholders(range(14))})",
            [
                (*generation_columns(p.generation), p.ordinal, p.chunk_id, *passage_columns(p.passage), moment)
                for p in parents
            ],
        )

    def texts(self, parent_ids: Sequence[ChunkId]) -> dict[ChunkId, str]:
        """Return the parents' texts to read with their children, without those of disabled children."""
        texts = self.stored_texts(parent_ids)
        for row in self._run(_HIDDEN, ids=list(parent_ids)) if parent_ids else ():
            texts[row.parent_id] = _without(texts.get(row.parent_id, ""), row.text)
        return texts

    def stored_texts(self, parent_ids: Sequence[ChunkId]) -> dict[ChunkId, str]:
        """Return the whole texts of parents."""
        rows = self._run(_TEXTS, ids=list(parent_ids)) if parent_ids else ()
        return {ChunkId(row.chunk_id): str(row.text) for row in rows}

    def passages(self, parent_ids: Sequence[ChunkId]) -> dict[ChunkId, dict[int, Passage]]:
        """Return text and offsets of each parent's chunks, by ordinal."""
        passages: dict[ChunkId, dict[int, Passage]] = {parent_id: {} for parent_id in parent_ids}
        for row in self._run(_PASSAGES, ids=list(parent_ids)) if parent_ids else ():
            passage = Passage(text=row.text, start=row.start_offset, end=row.end_offset, token_count=0)
            passages[row.parent_id][row.ordinal] = passage
        return passages

    def rewrite(self, parent_id: ChunkId, new_text: str, token_count: int) -> None:
        """Replace the text of a parent."""
        self._run(_REWRITE, id=parent_id, text=new_text, tokens=token_count, now=now())

    def children(self, parent_ids: Sequence[ChunkId]) -> dict[ChunkId, list[ChunkId]]:
        """Return the chunks of each parent."""
        children: dict[ChunkId, list[ChunkId]] = {parent_id: [] for parent_id in parent_ids}
        for row in self._run(_CHILDREN, ids=list(parent_ids)) if parent_ids else ():
            children[row.parent_id].append(row.chunk_id)
        return children

    def remove_childless(self, generation: Generation) -> None:
        """Delete the parents of a generation that have no child left."""
        self._connection.execute(_REMOVE_CHILDLESS, generation_key(generation))

    def restore(self, parents: Sequence[ParentChunk], generation: Generation) -> int:
        """Write a generation's missing parents that have children. Return how many."""
        missing_ids = set(self._connection.execute(_MISSING, generation_key(generation)).scalars())
        missing = [parent for parent in parents if parent.chunk_id in missing_ids]
        self.write(missing)
        return len(missing)


def _without(text: str, part: str) -> str:
    """Return ``text`` without the first ``part`` and the white space before it."""
    position = text.find(part)
    return spliced(text, position, part, "") if part and position >= 0 else text


_TEXTS = sql("SELECT chunk_id, text FROM parent_chunks WHERE tenant_id = :tenant AND chunk_id IN :ids")

# Found through the document, by the key that begins every table.
_OF_PARENTS = (
    f" FROM parent_chunks p JOIN chunks c ON {same_generation('c', 'p')} AND c.parent_id = p.chunk_id"
    " WHERE p.tenant_id = :tenant AND p.chunk_id IN :ids"
)
_HIDDEN = sql(f"SELECT c.parent_id, c.text{_OF_PARENTS} AND c.enabled = 0 ORDER BY c.ordinal")
_PASSAGES = sql(f"SELECT c.parent_id, c.ordinal, c.text, c.start_offset, c.end_offset{_OF_PARENTS} ORDER BY c.ordinal")
_CHILDREN = sql(f"SELECT c.parent_id, c.chunk_id{_OF_PARENTS} ORDER BY c.ordinal")

_REWRITE = sql(
    "UPDATE parent_chunks SET text = :text, token_count = :tokens, version = version + 1, edited_at = :now"
    " WHERE tenant_id = :tenant AND chunk_id = :id"
)


_REMOVE_CHILDLESS = sql(
    f"DELETE FROM parent_chunks WHERE {OF_GENERATION} AND NOT EXISTS (SELECT 1 FROM chunks c"
    " WHERE c.tenant_id = :tenant AND c.namespace = :namespace AND c.document_id = :document"
    " AND c.generation = :generation AND c.parent_id = parent_chunks.chunk_id)"
)
_MISSING = sql(
    "SELECT DISTINCT c.parent_id FROM chunks c"
    " LEFT JOIN parent_chunks p ON p.tenant_id = c.tenant_id AND p.chunk_id = c.parent_id"
    " WHERE c.tenant_id = :tenant AND c.namespace = :namespace AND c.document_id = :document"
    " AND c.generation = :generation AND c.parent_id IS NOT NULL AND p.chunk_id IS NULL"
)


def windows(connection: Connection, tenant_id: TenantId, sizes: Mapping[ChunkId, int]) -> dict[ChunkId, str]:
    """Return each chunk's text with up to ``sizes`` enabled neighbours on either side; a missing chunk is omitted.
    Joined by a space, at a paragraph or heading by a blank line; overlaps appear once."""
    by_size: defaultdict[int, list[ChunkId]] = defaultdict(list)
    for chunk_id, size in sizes.items():
        if size > 0:
            by_size[size].append(chunk_id)
    texts: dict[ChunkId, str] = {}
    for size, chunk_ids in by_size.items():
        rows = connection.execute(_AROUND, {"tenant": tenant_id, "ids": chunk_ids, "size": size})
        ends: dict[ChunkId, int] = {}
        for row in rows:
            chunk_id = ChunkId(row.chunk_id)
            if chunk_id not in texts:
                texts[chunk_id] = row.text
            elif row.start_offset < ends[chunk_id] and not row.reworded:
                texts[chunk_id] += row.text[ends[chunk_id] - row.start_offset :]
            else:
                texts[chunk_id] += seam(row.start_offset - ends[chunk_id]) + row.text
            ends[chunk_id] = row.end_offset
    return texts


def whole_documents(
    connection: Connection, tenant_id: TenantId, chunk_ids: Sequence[ChunkId], *, most_tokens: int
) -> dict[ChunkId, str]:
    """Return the whole documents of these chunks where they have at most ``most_tokens``, checked before reading."""
    if not chunk_ids:
        return {}
    values = {"tenant": tenant_id, "ids": list(chunk_ids), "most": most_tokens}
    small = connection.execute(_SMALL, values).scalars()
    return windows(connection, tenant_id, {ChunkId(chunk_id): _ANY_NUMBER for chunk_id in small})


_ANY_NUMBER = 1_000_000  # of chunks, more than a document has

_SMALL = sql(
    f"SELECT c.chunk_id FROM chunks c JOIN chunks n ON {same_generation('n', 'c')} AND n.enabled = 1"
    " WHERE c.tenant_id = :tenant AND c.chunk_id IN :ids GROUP BY c.chunk_id HAVING SUM(n.token_count) <= :most"
)

_AROUND = sql(
    "SELECT c.chunk_id, n.text, n.start_offset, n.end_offset, n.reworded FROM chunks c"
    f" JOIN chunks n ON {same_generation('n', 'c')} AND n.ordinal BETWEEN IF(c.ordinal > :size, c.ordinal - :size, 0)"
    " AND c.ordinal + :size WHERE c.tenant_id = :tenant AND c.chunk_id IN :ids AND (n.enabled = 1"
    " OR n.chunk_id = c.chunk_id) ORDER BY c.chunk_id, n.ordinal"
)


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
            lead = old.text.removesuffix(old.own_text)  # stands in the parent above the child already
            text = spliced(text, position, old.own_text, new.removeprefix(lead))
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
