"""Compare the two stores page by page, and make both what MySQL says they should be.

What looks wrong is looked at a second time, with its documents held still, before it counts: a document that is
published between two reads differs only once. What a job or the sweeper still works on is left alone. A repair locks
its documents and looks a third time, so that it never undoes an edit or a replacement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from pipeline.flows.comparing import Found, look
from pipeline.flows.mend import mend
from pipeline.flows.resources import Resources
from pipeline.records import DocumentId, EmbeddingSpace, Namespace, TenantId
from pipeline.stores import alignment
from pipeline.stores.audit import Audit
from pipeline.stores.namespaces import Namespaces
from pipeline.stores.recount import recount
from pipeline.stores.work import unit_of_work

PAGE_DOCUMENTS = 200
PAGE_CHUNKS = 10_000
DOCUMENTS, VECTORS = "documents", "vectors"  # the two phases: what MySQL knows, then what only PostgreSQL knows
_NAMESPACES_AT_ONCE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was looked at and what differs.

    ``missing``: shown chunks without a vector. ``orphaned``: vectors without a shown chunk. ``stale``: vectors of
    another text or another model. ``misplaced``: vectors under another tenant, namespace or document than their chunk.
    ``miscounted``: documents with another number of chunks than they were published with. ``leftover``: chunk rows of
    generations nobody needs. ``statistics``: rows of the keyword statistics that are wrong. ``document_vectors``:
    vectors of whole documents that are missing, of other chunks than there are, or unneeded.
    """

    chunks: int = 0
    vectors: int = 0
    missing: int = 0
    orphaned: int = 0
    stale: int = 0
    misplaced: int = 0
    miscounted: int = 0
    leftover: int = 0
    statistics: int = 0
    document_vectors: int = 0
    repaired: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(Counts)})

    @property
    def wrong(self) -> int:
        """Everything that differs."""
        vectors = self.missing + self.orphaned + self.stale + self.misplaced
        return vectors + self.miscounted + self.leftover + self.statistics + self.document_vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceReport:
    """How one namespace stands; the words are those of ``Counts``."""

    namespace: str
    documents: int
    chunks: int
    vectors: int
    missing: int
    orphaned: int
    stale: int
    misplaced: int = 0
    miscounted: int = 0
    leftover: int = 0
    statistics: int = 0
    document_vectors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a tenant's stores stand to each other. ``repaired``: what was put right by this run."""

    namespaces: tuple[NamespaceReport, ...]
    missing: int
    orphaned: int
    stale: int
    repaired: int
    misplaced: int = 0
    miscounted: int = 0
    leftover: int = 0
    statistics: int = 0
    document_vectors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where a comparison is: the phase, and the document after which it goes on."""

    phase: str = DOCUMENTS
    after: str = ""


def verify(
    tenant_id: TenantId,
    namespaces: Sequence[Namespace] | None,
    use: Resources,
    *,
    repair: bool,
    space: EmbeddingSpace | None = None,
) -> Report:
    """Compare every chunk with every vector of these namespaces, or of all the tenant has, and recount the statistics.

    ``space``: the embedding space to look into, the active one if none is given. With ``repair``, what differs is put
    right. Needs memory for a page of documents at a time, whatever their number.
    """
    space = space or use.spaces.live().active
    known = documents_by_namespace(tenant_id, use)
    wanted = sorted(namespaces if namespaces is not None else all_namespaces(tenant_id, known, use, space=space))
    reports = []
    total = Counts()
    for namespace in wanted:
        counts = Counts()
        for _, page in compare(tenant_id, namespace, use, repair=repair, space=space):
            counts += page
        counts += recounted(tenant_id, namespace, use, repair=repair)
        total += counts
        shown = {each.name: getattr(counts, each.name) for each in fields(Counts) if each.name != "repaired"}
        reports.append(NamespaceReport(namespace=namespace, documents=known.get(namespace, 0), **shown))
    if repair:
        with unit_of_work(use.mysql) as work:
            Audit(work.connection, tenant_id).wrote("repair", namespaces=wanted, count=total.repaired)
    told = {each.name: getattr(total, each.name) for each in fields(Counts) if each.name not in ("chunks", "vectors")}
    return Report(namespaces=tuple(reports), **told)


def compare(
    tenant_id: TenantId,
    namespace: Namespace,
    use: Resources,
    *,
    repair: bool,
    start: Spot | None = None,
    space: EmbeddingSpace | None = None,
    page_chunks: int | None = None,
) -> Iterator[tuple[Spot | None, Counts]]:
    """Compare page by page; each comes with where the next one begins, None after the last."""
    spot: Spot | None = start or Spot()
    space = space or use.spaces.live().active
    while spot is not None:
        page, unknown = _page(tenant_id, namespace, spot, use, space, chunks=page_chunks or PAGE_CHUNKS)
        counts = _compare_page(tenant_id, namespace, unknown, use, space, repair=repair) if unknown else Counts()
        if page.last is not None:
            spot = Spot(phase=spot.phase, after=page.last)
        else:
            spot = Spot(phase=VECTORS) if spot.phase == DOCUMENTS else None
        yield spot, counts


def recounted(tenant_id: TenantId, namespace: Namespace, use: Resources, *, repair: bool) -> Counts:
    """The keyword statistics against the shown chunks. One pass over the namespace's terms."""
    wrong = recount(use.mysql, tenant_id, namespace, repair=repair).rows
    return Counts(statistics=wrong, repaired=wrong if repair else 0)


def documents_by_namespace(tenant_id: TenantId, use: Resources) -> dict[str, int]:
    """How many documents each namespace shows."""
    found: dict[str, int] = {}
    after: str | None = None
    while True:
        with unit_of_work(use.mysql) as work:
            views = Namespaces(work.connection, tenant_id).views(after=after, limit=_NAMESPACES_AT_ONCE)
        found |= {view.namespace: view.documents for view in views}
        if len(views) < _NAMESPACES_AT_ONCE:
            return found
        after = views[-1].namespace


def all_namespaces(
    tenant_id: TenantId, known: dict[str, int], use: Resources, *, space: EmbeddingSpace | None = None
) -> set[Namespace]:
    """Those of MySQL and those that only vectors name."""
    table = (space or use.spaces.live().active).table
    return {Namespace(name) for name in known} | alignment.vector_namespaces(use.postgres, tenant_id, table=table)


def _page(
    tenant_id: TenantId, namespace: Namespace, spot: Spot, use: Resources, space: EmbeddingSpace, *, chunks: int
) -> tuple[alignment.Page, tuple[DocumentId, ...]]:
    """The next documents, and which of them this phase has to compare."""
    if spot.phase == DOCUMENTS:
        with unit_of_work(use.mysql) as work:
            page = alignment.page_of_documents(
                work.connection,
                tenant_id,
                namespace,
                after=spot.after,
                documents=PAGE_DOCUMENTS,
                chunks=chunks,
            )
        return page, page.document_ids
    page = alignment.page_of_vectors(
        use.postgres,
        tenant_id,
        namespace,
        table=space.table,
        after=spot.after,
        documents=PAGE_DOCUMENTS,
        chunks=chunks,
    )
    with unit_of_work(use.mysql) as work:
        known = alignment.documents_of(work.connection, tenant_id, namespace, page.document_ids)
    return page, tuple(document_id for document_id in page.document_ids if document_id not in known)


def _compare_page(
    tenant_id: TenantId,
    namespace: Namespace,
    document_ids: Sequence[DocumentId],
    use: Resources,
    space: EmbeddingSpace,
    *,
    repair: bool,
) -> Counts:
    first = look(tenant_id, namespace, document_ids, use, space=space)
    if not first.wrong:
        return _counted(first, first)
    second = look(tenant_id, namespace, sorted(first.guilty), use, space=space, lock=True)
    both = first.confirmed_by(second)
    repaired = mend(tenant_id, namespace, both, use, space=space) if repair and both.wrong else 0
    counts = _counted(first, both)
    return counts + Counts(repaired=repaired)


def _counted(looked: Found, wrong: Found) -> Counts:
    return Counts(
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
