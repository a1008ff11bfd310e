"""Compare the two stores page by page, and repair PostgreSQL and the sizes of namespaces from MySQL.

A difference counts if it is still there with its documents locked; unfinished work is left alone. A repair locks and
looks once more, so that it never undoes an edit or a replacement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import orjson
from pydantic import TypeAdapter

from chordwise.contract.namespace import Alignment, Differences, NamespaceAlignment
from pipeline.database.unit_of_work import unit_of_work
from pipeline.deadline import Deadline
from pipeline.documents import alignment_store
from pipeline.documents.alignment_store import AlignedRows, AlignedVectors, DocumentPage
from pipeline.embedding.migration_store import Cursor
from pipeline.errors import StoreUnavailable
from pipeline.jobs.computation import Computation, Done, StepResult
from pipeline.maintenance.compare import DeletionLimit, NamespaceStores, compare_page, measure
from pipeline.maintenance.repair_stores import mend
from pipeline.records import DocumentId, EmbeddingSpace, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.namespace_store import Namespaces

STEP_S = 2.0  # seconds per step of a comparison that a caller waits for; workers serve other callers in between
PAGE_DOCUMENTS = 200
PAGE_CHUNKS = 10_000
DOCUMENTS, VECTORS = "documents", "vectors"  # the two phases: documents in MySQL, then those only in PostgreSQL
_NAMESPACES_AT_ONCE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentCounts(Differences):
    """The numbers of compared, differing and repaired rows."""

    chunks: int = 0
    vectors: int = 0
    repaired: int = 0

    def __add__(self, other: AlignmentCounts) -> AlignmentCounts:
        return AlignmentCounts(**Counter(asdict(self)) + Counter(asdict(other)))

    @property
    def wrong(self) -> int:
        """The sum of all differences."""
        return sum(getattr(self, field.name) for field in fields(Differences))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyProgress:
    """The progress of a comparison. ``waiting``: unfinished namespaces, the present first. ``position``, ``counts``: the
    position in the present one, None for its recount, and its counts. ``documents``: shown, by namespace. ``is_whole``:
    all namespaces. ``limit``: deletions the repair may still make."""

    space: int
    waiting: tuple[str, ...]
    documents: Mapping[str, int]
    position: Cursor | None = field(default_factory=Cursor)
    counts: AlignmentCounts = AlignmentCounts()
    finished: tuple[NamespaceAlignment, ...] = ()
    repaired: int = 0
    is_whole: bool = False
    limit: DeletionLimit | None = None


_PROGRESS: TypeAdapter[VerifyProgress] = TypeAdapter(VerifyProgress)


def verify_step(computation: Computation, use: Resources, *, step_s: float = STEP_S) -> StepResult:
    """Compare for about ``step_s`` seconds, at least a page; the state is a `VerifyProgress`, the answer the `Alignment`.
    ``asked``: ``namespaces`` (None: all), ``repair``, ``delete_share`` as for `verify`."""
    tenant_id, repair = computation.tenant_id, bool(computation.asked["repair"])
    if computation.state is None:
        space = use.spaces.live().active
        use.installation.confirm()
        names, share = computation.asked["namespaces"], computation.asked.get("delete_share")
        progress = _begin(tenant_id, names, use, space=space, repair=repair, delete_share=share)
    else:
        progress = _PROGRESS.validate_python(computation.state)
        space = _same_space(progress.space, use)
    deadline = Deadline.after(step_s)
    while progress.waiting:
        progress = _advance(tenant_id, progress, use, space=space, repair=repair)
        if progress.waiting and deadline.has_passed:
            state: Mapping[str, Any] = _PROGRESS.dump_python(progress, mode="json")
            return state
    return Done(body=orjson.dumps(_finish(tenant_id, progress, use, repair=repair)))


def verify(
    tenant_id: TenantId,
    namespaces: Sequence[Namespace] | None,
    use: Resources,
    *,
    repair: bool,
    space: EmbeddingSpace | None = None,
    delete_share: float | None = None,
) -> Alignment:
    """Compare every chunk and vector of these or all namespaces, and count the chunks, a page in memory at a time.
    ``space``: by default the active one. ``repair``: repair differences, deleting up to ``delete_share`` of the
    tenant's vectors and chunk rows (None: the settings'). Raises WrongInstallation."""
    use.installation.confirm()
    space = space or use.spaces.live().active
    progress = _begin(tenant_id, namespaces, use, space=space, repair=repair, delete_share=delete_share)
    while progress.waiting:
        progress = _advance(tenant_id, progress, use, space=space, repair=repair)
    return _finish(tenant_id, progress, use, repair=repair)


def _begin(
    tenant_id: TenantId,
    namespaces: Sequence[str] | None,
    use: Resources,
    *,
    space: EmbeddingSpace,
    repair: bool,
    delete_share: float | None,
) -> VerifyProgress:
    """Return the start of a comparison of these or all namespaces; for a repair, measure its deletion limit first."""
    documents = documents_by_namespace(tenant_id, use)
    names = all_namespaces(tenant_id, documents, use, space=space) if namespaces is None else namespaces
    return VerifyProgress(
        space=space.number,
        waiting=tuple(sorted(names)),
        documents={name: documents[name] for name in names if name in documents},
        is_whole=namespaces is None,
        limit=measure(tenant_id, use, space, share=delete_share) if repair else None,
    )


def _advance(
    tenant_id: TenantId, progress: VerifyProgress, use: Resources, *, space: EmbeddingSpace, repair: bool
) -> VerifyProgress:
    """Compare one page, or recount a namespace whose pages are done. Repeating repairs nothing twice."""
    namespace = Namespace(progress.waiting[0])
    if progress.position is not None:
        stores = NamespaceStores(tenant_id=tenant_id, namespace=namespace, space=space, use=use)
        next_position, counts = next(compare(stores, repair=repair, start=progress.position, limit=progress.limit))
        return replace(progress, position=next_position, counts=progress.counts + counts)
    counts = progress.counts + recount(tenant_id, namespace, use, repair=repair)
    figures = asdict(counts)
    repaired = figures.pop("repaired")
    report = NamespaceAlignment(namespace=namespace, documents=progress.documents.get(namespace, 0), **figures)
    return replace(
        progress,
        waiting=progress.waiting[1:],
        position=Cursor(),
        counts=AlignmentCounts(),
        finished=(*progress.finished, report),
        repaired=progress.repaired + repaired,
    )


def _finish(tenant_id: TenantId, progress: VerifyProgress, use: Resources, *, repair: bool) -> Alignment:
    """Return the report on a finished comparison, and note a repair in the audit."""
    limit = progress.limit
    if repair:
        names = [report.namespace for report in progress.finished]
        with unit_of_work(use.mysql) as work:
            Audit(work.connection, tenant_id).wrote("repair", namespaces=names, count=progress.repaired)
            if limit is not None and (progress.is_whole or limit.is_exceeded):
                alignment_store.store_withheld(work.connection, tenant_id, limit.withheld if limit.is_exceeded else 0)
    kinds = [field.name for field in fields(Differences)]
    sums = {kind: sum(getattr(report, kind) for report in progress.finished) for kind in kinds}
    withheld = limit.withheld if limit else 0
    return Alignment(namespaces=progress.finished, repaired=progress.repaired, withheld=withheld, **sums)


def _same_space(number: int, use: Resources) -> EmbeddingSpace:
    """Return the space that a comparison began with. Raises StoreUnavailable if it was dropped meanwhile."""
    space = use.spaces.live().numbered(number) or use.spaces.live(fresh=True).numbered(number)
    if space is None:
        raise StoreUnavailable("the embedding model was exchanged during the comparison", retry_after_s=1.0)
    return space


def remaining(names: Iterable[Namespace], position: Cursor) -> list[tuple[Namespace, Cursor]]:
    """Return the namespaces that a pass at ``position`` still has to compare, in order, each with where it starts."""
    return [
        (name, position if name == position.namespace else Cursor(namespace=name))
        for name in sorted(names)
        if position.namespace is None or name >= position.namespace
    ]


def compare(
    stores: NamespaceStores,
    *,
    repair: bool,
    start: Cursor,
    page_chunks: int = PAGE_CHUNKS,
    limit: DeletionLimit | None = None,
) -> Iterator[tuple[Cursor | None, AlignmentCounts]]:
    """Compare page by page, yielding where the next begins (None: the end). ``limit``: the most deletions, None for any."""
    position: Cursor | None = start
    while position is not None:
        phase = position.phase or DOCUMENTS
        (_, last), document_ids = _page(stores, position, chunks=page_chunks)
        counts = AlignmentCounts()
        if document_ids:
            counts = compare_documents(stores, document_ids, repair=repair, limit=limit)
        if last is not None:
            position = Cursor(namespace=stores.namespace, phase=phase, after=last)
        else:
            position = Cursor(namespace=stores.namespace, phase=VECTORS) if phase == DOCUMENTS else None
        yield position, counts


def recount(tenant_id: TenantId, namespace: Namespace, use: Resources, *, repair: bool) -> AlignmentCounts:
    """Compare a namespace's numbers of chunks and terms with its published chunks; a repair locks it and counts again."""
    with unit_of_work(use.mysql) as work:
        wrong = int(any(AlignedRows(work.connection, tenant_id).uncounted(namespace)))
    if wrong and repair:
        with unit_of_work(use.mysql) as work:
            namespaces = Namespaces(work.connection, tenant_id)
            namespaces.revise(namespace)  # the lock
            chunks, terms = AlignedRows(work.connection, tenant_id).uncounted(namespace)
            namespaces.correct_size(namespace, chunks=chunks, terms=terms)
    return AlignmentCounts(statistics=wrong, repaired=wrong if repair else 0)


def documents_by_namespace(tenant_id: TenantId, use: Resources) -> dict[str, int]:
    """Return the number of published documents of each namespace."""
    counts: dict[str, int] = {}
    after: str | None = None
    while True:
        with unit_of_work(use.mysql) as work:
            views = Namespaces(work.connection, tenant_id).views(after=after, limit=_NAMESPACES_AT_ONCE)
        counts |= {view.namespace: view.documents for view in views}
        if len(views) < _NAMESPACES_AT_ONCE:
            return counts
        after = views[-1].namespace


def all_namespaces(
    tenant_id: TenantId, documents: Iterable[str], use: Resources, *, space: EmbeddingSpace
) -> set[Namespace]:
    """Return the namespaces of MySQL and those that only vectors name."""
    named_by_vectors = AlignedVectors(use.postgres, tenant_id, table=space.table).namespaces()
    return named_by_vectors.union(map(Namespace, documents))


def _page(stores: NamespaceStores, position: Cursor, *, chunks: int) -> tuple[DocumentPage, tuple[DocumentId, ...]]:
    """Return the next documents, and those that this phase has to compare."""
    namespace, use = stores.namespace, stores.use
    bounds: dict[str, Any] = {"after": position.after or "", "documents": PAGE_DOCUMENTS, "chunks": chunks}
    if position.phase != VECTORS:
        with unit_of_work(use.mysql) as work:
            page = stores.rows(work.connection).page(namespace, **bounds)
        return page, page[0]
    page = stores.vectors.page(namespace, **bounds)
    with unit_of_work(use.mysql) as work:
        documents = stores.rows(work.connection).documents(namespace, page[0])
    return page, tuple(document_id for document_id in page[0] if document_id not in documents)


def compare_documents(
    stores: NamespaceStores, document_ids: Sequence[DocumentId], *, repair: bool, limit: DeletionLimit | None
) -> AlignmentCounts:
    """Compare these documents, twice where they differ, and with ``repair`` mend what differs both times."""
    page = compare_page(stores, document_ids)
    repaired = 0
    if page.wrong:
        page = page.confirmed_by(compare_page(stores, sorted(page.guilty), lock=True))
        repaired = mend(stores, page, limit=limit) if repair and page.wrong else 0
    return AlignmentCounts(
        chunks=page.chunks,
        vectors=page.vectors,
        missing=len(page.missing),
        orphaned=len(page.orphaned),
        stale=len(page.stale),
        misplaced=len(page.misplaced),
        miscounted=len(page.miscounted),
        leftover=sum(page.leftover.values()),
        document_vectors=len(page.document_vectors),
        repaired=repaired,
    )
