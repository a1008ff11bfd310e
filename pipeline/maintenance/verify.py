"""Compare the two stores page by page, and repair PostgreSQL and the statistics from MySQL.

A difference counts if it is still there with its documents locked; unfinished work is left alone. A repair locks and
looks once more, so that it never undoes an edit or a replacement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import orjson
from pydantic import TypeAdapter

from pipeline.database.unit_of_work import unit_of_work
from pipeline.deadline import Deadline
from pipeline.documents import alignment_store, reconcile_store
from pipeline.errors import StoreUnavailable
from pipeline.jobs.computation import Computation, Done, Further
from pipeline.keyword.statistics_store import recount
from pipeline.maintenance.compare import PageDifferences, look
from pipeline.maintenance.deletion_limit import DeletionLimit, measure
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
class Differences:
    """The number of differences.

    ``missing``: published chunks without a vector. ``orphaned``: vectors without a published chunk. ``stale``: vectors
    of another text or another model. ``misplaced``: vectors under another tenant, namespace or document than their
    chunk. ``miscounted``: documents with another number of chunks than at publication. ``leftover``: chunk rows of
    unneeded generations. ``statistics``: wrong rows of the keyword statistics. ``document_vectors``: document vectors
    that are missing, of other chunks, or unneeded.
    """

    missing: int = 0
    orphaned: int = 0
    stale: int = 0
    misplaced: int = 0
    miscounted: int = 0
    leftover: int = 0
    statistics: int = 0
    document_vectors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentCounts(Differences):
    """The numbers of compared, differing and repaired rows."""

    chunks: int = 0
    vectors: int = 0
    repaired: int = 0

    def __add__(self, other: AlignmentCounts) -> AlignmentCounts:
        return AlignmentCounts(
            **{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(AlignmentCounts)}
        )

    @property
    def wrong(self) -> int:
        """The sum of all differences."""
        vectors = self.missing + self.orphaned + self.stale + self.misplaced
        return vectors + self.miscounted + self.leftover + self.statistics + self.document_vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceReport(Differences):
    """The differences of one namespace."""

    namespace: str
    documents: int
    chunks: int
    vectors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentReport(Differences):
    """The result of comparing a tenant's stores. ``withheld``: vectors and chunk rows not deleted, being too large a
    share."""

    namespaces: tuple[NamespaceReport, ...]
    repaired: int
    withheld: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparePosition:
    """The position of a comparison: the phase, and the document after which it continues."""

    phase: str = DOCUMENTS
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyProgress:
    """The progress of a comparison. ``waiting``: unfinished namespaces, the present first. ``spot``: where the present
    one continues, None for its recount. ``counts``: of the present one. ``documents``: shown, by namespace.
    ``is_whole``: all namespaces. ``limit``: deletions the repair may still make."""

    space: int
    waiting: tuple[str, ...]
    documents: Mapping[str, int]
    spot: ComparePosition | None = ComparePosition()
    counts: AlignmentCounts = AlignmentCounts()
    finished: tuple[NamespaceReport, ...] = ()
    repaired: int = 0
    is_whole: bool = False
    limit: DeletionLimit | None = None


_PROGRESS: TypeAdapter[VerifyProgress] = TypeAdapter(VerifyProgress)


def verify_step(computation: Computation, use: Resources, *, step_s: float = STEP_S) -> Done | Further:
    """Compare for about ``step_s`` seconds, at least a page; the state is a `VerifyProgress`, the answer the `AlignmentReport`.
    ``asked``: ``namespaces`` (None: all), ``repair``, ``delete_share`` as for `verify`."""
    tenant_id, repair = computation.tenant_id, bool(computation.asked["repair"])
    if computation.state is None:
        named = computation.asked["namespaces"]
        space = use.spaces.live().active
        use.installation.confirm()
        names = None if named is None else [Namespace(name) for name in named]
        share = computation.asked.get("delete_share")
        progress = begin(tenant_id, names, use, space=space, repair=repair, delete_share=share)
    else:
        progress = _PROGRESS.validate_python(computation.state)
        space = _same_space(progress.space, use)
    deadline = Deadline.after(step_s)
    while progress.waiting:
        progress = go_on(tenant_id, progress, use, space=space, repair=repair)
        if progress.waiting and deadline.has_passed:
            return Further(state=_PROGRESS.dump_python(progress, mode="json"))
    return Done(body=orjson.dumps(finish(tenant_id, progress, use, repair=repair)))


def verify(
    tenant_id: TenantId,
    namespaces: Sequence[Namespace] | None,
    use: Resources,
    *,
    repair: bool,
    space: EmbeddingSpace | None = None,
    delete_share: float | None = None,
) -> AlignmentReport:
    """Compare every chunk and vector of these or all namespaces, and recount the statistics, a page in memory at a
    time. ``space``: by default the active one. ``repair``: repair differences, deleting up to ``delete_share`` of the
    tenant's vectors and chunk rows (None: the settings'). Raises WrongInstallation."""
    use.installation.confirm()
    space = space or use.spaces.live().active
    progress = begin(tenant_id, namespaces, use, space=space, repair=repair, delete_share=delete_share)
    while progress.waiting:
        progress = go_on(tenant_id, progress, use, space=space, repair=repair)
    return finish(tenant_id, progress, use, repair=repair)


def begin(
    tenant_id: TenantId,
    namespaces: Sequence[Namespace] | None,
    use: Resources,
    *,
    space: EmbeddingSpace,
    repair: bool,
    delete_share: float | None = None,
) -> VerifyProgress:
    """Return the start of a comparison of these or all namespaces; for a repair, measure its deletion limit first."""
    documents = documents_by_namespace(tenant_id, use)
    wanted = sorted(namespaces if namespaces is not None else all_namespaces(tenant_id, documents, use, space=space))
    shown: dict[str, int] = {name: documents[name] for name in wanted if name in documents}
    limit = measure(tenant_id, use, space, share=delete_share) if repair else None
    return VerifyProgress(
        space=space.number, waiting=tuple(wanted), documents=shown, is_whole=namespaces is None, limit=limit
    )


def go_on(
    tenant_id: TenantId, progress: VerifyProgress, use: Resources, *, space: EmbeddingSpace, repair: bool
) -> VerifyProgress:
    """Compare one page, or recount a namespace whose pages are done. Repeating repairs nothing twice."""
    namespace = Namespace(progress.waiting[0])
    if progress.spot is not None:
        pages = compare(
            tenant_id, namespace, use, repair=repair, start=progress.spot, space=space, limit=progress.limit
        )
        spot, counts = next(pages)
        return replace(progress, spot=spot, counts=progress.counts + counts)
    counts = progress.counts + recount_statistics(tenant_id, namespace, use, repair=repair)
    shown = {field.name: getattr(counts, field.name) for field in fields(AlignmentCounts) if field.name != "repaired"}
    report = NamespaceReport(namespace=namespace, documents=progress.documents.get(namespace, 0), **shown)
    return replace(
        progress,
        waiting=progress.waiting[1:],
        spot=ComparePosition(),
        counts=AlignmentCounts(),
        finished=(*progress.finished, report),
        repaired=progress.repaired + counts.repaired,
    )


def finish(tenant_id: TenantId, progress: VerifyProgress, use: Resources, *, repair: bool) -> AlignmentReport:
    """Return the report on a finished comparison, and note a repair in the audit."""
    limit = progress.limit
    if repair:
        names = [report.namespace for report in progress.finished]
        with unit_of_work(use.mysql) as work:
            Audit(work.connection, tenant_id).wrote("repair", namespaces=names, count=progress.repaired)
            if limit is not None and (progress.is_whole or limit.is_exceeded):
                reconcile_store.store_withheld(work.connection, tenant_id, limit.withheld if limit.is_exceeded else 0)
    kinds = [field.name for field in fields(AlignmentCounts) if field.name not in ("chunks", "vectors", "repaired")]
    sums = {kind: sum(getattr(report, kind) for report in progress.finished) for kind in kinds}
    withheld = limit.withheld if limit else 0
    return AlignmentReport(namespaces=progress.finished, repaired=progress.repaired, withheld=withheld, **sums)


def _same_space(number: int, use: Resources) -> EmbeddingSpace:
    """Return the space that a comparison began with. Raises StoreUnavailable if it was dropped meanwhile."""
    space = use.spaces.live().numbered(number) or use.spaces.live(fresh=True).numbered(number)
    if space is None:
        raise StoreUnavailable("the embedding model was exchanged during the comparison", retry_after_s=1.0)
    return space


def compare(
    tenant_id: TenantId,
    namespace: Namespace,
    use: Resources,
    *,
    repair: bool,
    start: ComparePosition | None = None,
    space: EmbeddingSpace | None = None,
    page_chunks: int | None = None,
    limit: DeletionLimit | None = None,
) -> Iterator[tuple[ComparePosition | None, AlignmentCounts]]:
    """Compare page by page, yielding where the next begins (None: the end). ``limit``: the most deletions, None for any."""
    spot: ComparePosition | None = start or ComparePosition()
    space = space or use.spaces.live().active
    while spot is not None:
        page, unknown = _page(tenant_id, namespace, spot, use, space, chunks=page_chunks or PAGE_CHUNKS)
        counts = AlignmentCounts()
        if unknown:
            counts = _compare_page(tenant_id, namespace, unknown, use, space, repair=repair, limit=limit)
        if page.last is not None:
            spot = ComparePosition(phase=spot.phase, after=page.last)
        else:
            spot = ComparePosition(phase=VECTORS) if spot.phase == DOCUMENTS else None
        yield spot, counts


def recount_statistics(tenant_id: TenantId, namespace: Namespace, use: Resources, *, repair: bool) -> AlignmentCounts:
    """Compare the keyword statistics with the published chunks, in one pass over the namespace's terms."""
    wrong = recount(use.mysql, tenant_id, namespace, repair=repair).rows
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
    tenant_id: TenantId, documents: dict[str, int], use: Resources, *, space: EmbeddingSpace | None = None
) -> set[Namespace]:
    """Return the namespaces of MySQL and those that only vectors name."""
    table = (space or use.spaces.live().active).table
    return {Namespace(name) for name in documents} | alignment_store.vector_namespaces(
        use.postgres, tenant_id, table=table
    )


def _page(
    tenant_id: TenantId,
    namespace: Namespace,
    spot: ComparePosition,
    use: Resources,
    space: EmbeddingSpace,
    *,
    chunks: int,
) -> tuple[alignment_store.DocumentPage, tuple[DocumentId, ...]]:
    """Return the next documents, and those that this phase has to compare."""
    if spot.phase == DOCUMENTS:
        with unit_of_work(use.mysql) as work:
            page = alignment_store.page_of_documents(
                work.connection,
                tenant_id,
                namespace,
                after=spot.after,
                documents=PAGE_DOCUMENTS,
                chunks=chunks,
            )
        return page, page.document_ids
    page = alignment_store.page_of_vectors(
        use.postgres,
        tenant_id,
        namespace,
        table=space.table,
        after=spot.after,
        documents=PAGE_DOCUMENTS,
        chunks=chunks,
    )
    with unit_of_work(use.mysql) as work:
        documents = alignment_store.documents_of(work.connection, tenant_id, namespace, page.document_ids)
    return page, tuple(document_id for document_id in page.document_ids if document_id not in documents)


def _compare_page(
    tenant_id: TenantId,
    namespace: Namespace,
    document_ids: Sequence[DocumentId],
    use: Resources,
    space: EmbeddingSpace,
    *,
    repair: bool,
    limit: DeletionLimit | None,
) -> AlignmentCounts:
    first = look(tenant_id, namespace, document_ids, use, space=space)
    if not first.wrong:
        return _counted(first, first)
    second = look(tenant_id, namespace, sorted(first.guilty), use, space=space, lock=True)
    both = first.confirmed_by(second)
    repaired = mend(tenant_id, namespace, both, use, space=space, limit=limit) if repair and both.wrong else 0
    counts = _counted(first, both)
    return counts + AlignmentCounts(repaired=repaired)


def _counted(looked: PageDifferences, wrong: PageDifferences) -> AlignmentCounts:
    return AlignmentCounts(
        chunks=looked.chunks,
        vectors=looked.vectors,
        missing=len(wrong.missing),
        orphaned=len(wrong.orphaned),
        stale=len(wrong.stale),
        misplaced=len(wrong.misplaced),
        miscounted=len(wrong.miscounted),
        leftover=wrong.leftover_rows,
        document_vectors=len(wrong.document_vectors),
    )
