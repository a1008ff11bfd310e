"""Prepare claims: skip unchanged documents, parse and cut the others, and store their chunks unpublished."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import structlog
from numpy.typing import NDArray

from pipeline.archives.archive import is_packed, read_part
from pipeline.archives.chunk_lines import unpack
from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.deadline import Deadline
from pipeline.documents.chunk_store import Chunks
from pipeline.documents.cut_document import MOST_CHUNKS, Assembled, CutRequest, assembled
from pipeline.documents.document_store import Documents, IngestedDocument, Source, recipe, same_fields
from pipeline.documents.generation_store import Generations, PublishedState, Retired
from pipeline.documents.parent_store import Parents
from pipeline.errors import CuttingTooSlow, IngestCrowded, InvalidPackedDocument, Rejected
from pipeline.ingestion.claimed_items import Lease, close_jobs, end
from pipeline.ingestion.yield_turn import Turn
from pipeline.jobs.ledger_store import ItemClaim
from pipeline.keyword.terms import tokenizer_of
from pipeline.models.ports import Embedder
from pipeline.parsing.formats import RECOGNISED
from pipeline.records import (
    UNMARKED,
    Chunk,
    DocumentFields,
    Generation,
    Stage,
    TenantId,
)
from pipeline.resources import Resources
from pipeline.sandbox.parser import CUTTING_S

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedClaims:
    """Claims after comparison with the shown generations. ``unchanged`` ones have ended; ``overtaken`` ones are to be
    closed; ``replacing`` ones replace a shown generation."""

    unchanged: frozenset[ItemClaim] = frozenset()
    overtaken: tuple[ItemClaim, ...] = ()
    replacing: frozenset[ItemClaim] = frozenset()

    @property
    def ended(self) -> frozenset[ItemClaim]:
        """Claims that need no further work."""
        return self.unchanged | set(self.overtaken)


def compare(lease: Lease, sources: Mapping[Generation, Source], use: Resources) -> ComparedClaims:
    """End claims whose upload is already shown, and return which others replace a generation.

    Generation numbers order the uploads of a document: an unchanged upload supersedes all earlier ones under way. First uploads
    are not compared."""
    tenant_id = lease.tenant_id
    later = [claim for claim in lease.claims if claim.generation.number > 1 and claim.generation in sources]
    if not later:
        return ComparedClaims()
    with unit_of_work(use.mysql) as work:
        shown = Generations(work.connection, tenant_id).published_states([claim.generation for claim in later])
    alike = [claim for claim in later if _is_shown_already(sources[claim.generation], shown[claim.generation], use=use)]
    unchanged = _end_unchanged(lease, _complete(tenant_id, alike, shown, use), sources, use) if alike else []
    return ComparedClaims(
        unchanged=frozenset(unchanged),
        overtaken=tuple(claim for claim in later if shown[claim.generation].overtaken),
        replacing=frozenset(claim for claim in later if shown[claim.generation].shown is not None),
    )


def _is_shown_already(source: Source, state: PublishedState, *, use: Resources) -> bool:
    return (
        state.recipe is not None
        and state.model == use.embedder.model
        and state.rows == state.chunk_count
        and same_fields(state.fields, source.fields)
        and state.recipe == _recipe(source, use)
    )


def _recipe(source: Source, use: Resources, *, pages_left: bool = False) -> bytes:
    """Return the recipe of a document, by which an upload counts as unchanged.

    With text recognition it includes the languages, and whether pages were left out: then the same bytes are parsed again."""
    languages = use.settings.ocr_languages
    if not languages or source.media_type.partition(";")[0] not in RECOGNISED:
        return source.recipe
    return recipe(source.recipe, {"languages": languages, "pages_left": pages_left})


def _complete(
    tenant_id: TenantId, alike: Sequence[ItemClaim], states: Mapping[Generation, PublishedState], use: Resources
) -> list[ItemClaim]:
    """Return the claims whose shown generation has all its vectors. An upload of the same bytes repairs one that lacks some."""
    shown = {claim: generation for claim in alike if (generation := states[claim.generation].shown) is not None}
    counts = use.vectors(tenant_id).counts(list(shown.values()))
    return [claim for claim, g in shown.items() if counts[g] == states[claim.generation].chunk_count]


@retry_conflicts()
def _end_unchanged(
    lease: Lease, claims: Sequence[ItemClaim], sources: Mapping[Generation, Source], use: Resources
) -> Sequence[ItemClaim]:
    """Compare again with the documents locked, and end the claims whose upload is still the shown one."""
    if not claims:
        return []
    tenant_id = lease.tenant_id
    with lease.held(claims) as (work, ledger):
        generations = Generations(work.connection, tenant_id)
        states = generations.published_states([claim.generation for claim in claims], lock=True)
        claims = [c for c in claims if _is_shown_already(sources[c.generation], states[c.generation], use=use)]
        if not claims:
            return []
        chunks = {claim: states[claim.generation].chunk_count for claim in claims}
        ledger.succeed(chunks, outcome="unchanged", reused=chunks)
        generations.keep_published([claim.generation for claim in claims])
        # A superseded attempt may have written chunks, which its own end drops.
        generations.discard([claim.generation for claim in claims if not claim.may_have_rows])
        Retired(work.connection, tenant_id).add([claim.generation for claim in claims if claim.may_have_rows])
        close_jobs(tenant_id, [claim.job_id for claim in claims], ledger, use, work)
    lease.release(claims)
    log.info("documents_unchanged", documents=len(claims), chunks=sum(chunks.values()))
    return claims


CHUNKS_PER_SHARE = 128  # that are embedded between two looks at the turn; a document of more may be a long one
_CHUNKS_PER_WRITE = 1000  # in one transaction
_LONGEST_BATCH_S = 120.0  # of preparing, after which the rest of a batch becomes another one


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDocument(IngestedDocument):
    """A claimed document with its content. ``reused``: chunks that took a vector of an earlier generation."""

    claim: ItemClaim
    fields: DocumentFields
    content: Assembled
    replaces: bool  # searches see an earlier generation of it, whose vectors may be reusable
    reused: int = 0

    @property
    def searchable(self) -> Sequence[Chunk]:
        """Its enabled chunks; disabled ones have no vector and do not count for the namespace."""
        marks = self.content.marks
        if not marks:
            return self.content.chunks
        return [chunk for chunk in self.content.chunks if marks.get(chunk.ordinal, UNMARKED).enabled]

    def imported_vectors(self, embedder: Embedder) -> Mapping[int, NDArray[np.float32]]:
        """Return the vectors, by ordinal, that it came with and that this model made."""
        vectors = self.content.vectors
        return vectors if vectors and self.content.made_by == (embedder.model, embedder.dimension) else {}


def prepare(lease: Lease, use: Resources, turn: Turn) -> list[PreparedDocument]:
    """Parse and cut a batch's documents, renewing the lease. Faulty, unchanged and superseded documents end here.

    Once the turn is over, the document in work moves to the queue `long`, and those not begun are put back."""
    with unit_of_work(use.mysql) as work:
        generations = [claim.generation for claim in lease.claims]
        sources = Documents(work.connection, lease.tenant_id).sources(generations)
    compared = compare(lease, sources, use)
    prepared: list[PreparedDocument] = []
    refused: list[tuple[ItemClaim, Rejected]] = []
    superseded = list(compared.overtaken)
    deadline = Deadline.after(_LONGEST_BATCH_S)
    pending = [claim for claim in lease.claims if claim not in compared.overtaken]
    for position, claim in enumerate(pending):
        _renew_if_due(lease, use)
        if position and (turn.is_over() or deadline.has_passed):
            _leave(lease, turn, rest=pending[position:])
            break
        source = sources.get(claim.generation)
        if source is None:
            superseded.append(claim)
            continue
        try:
            prepared.append(
                _cut(claim, source, claim in compared.replacing, use, partial(_renew_or_stop, lease, turn, use))
            )
            lease.reach(Stage.PARSED, [claim])
        except Rejected as error:
            refused.append((claim, error))
        except IngestCrowded:
            _leave(lease, turn, long=[claim], rest=pending[position + 1 :])
            break
    end(lease, superseded, refused, use)
    return prepared


def _renew_if_due(lease: Lease, use: Resources) -> None:
    if lease.renew_if_due():
        use.notifications.progressed(lease.tenant_id, lease.job_id)


def _renew_or_stop(lease: Lease, turn: Turn, use: Resources) -> None:
    """Renew the lease while a document is cut. Raises IngestCrowded once the turn is over."""
    _renew_if_due(lease, use)
    if turn.is_over():
        raise IngestCrowded("the document takes long while other tenants wait")


def _leave(lease: Lease, turn: Turn, *, long: Sequence[ItemClaim] = (), rest: Sequence[ItemClaim] = ()) -> None:
    turn.leave(long=long, rest=rest)
    lease.release([*long, *rest])


def leave_unfinished(
    lease: Lease, turn: Turn, prepared: Sequence[PreparedDocument], remaining: Sequence[Chunk]
) -> list[PreparedDocument]:
    """Put documents with ``remaining`` chunks back, those of many chunks into the queue `long`. Return the other documents."""
    unfinished = {chunk.generation for chunk in remaining}
    leaving = [item for item in prepared if item.claim.generation in unfinished]
    long = [item.claim for item in leaving if item.chunk_count > CHUNKS_PER_SHARE]
    _leave(lease, turn, long=long, rest=[item.claim for item in leaving if item.claim not in long])
    return [item for item in prepared if item.claim.generation not in unfinished]


def _cut(
    claim: ItemClaim, source: Source, replaces: bool, use: Resources, meanwhile: Callable[[], None]
) -> PreparedDocument:
    content = cut(source, use, meanwhile=meanwhile)
    pages_left = content.encoding is not None and content.encoding.pages_warning is not None
    pages = [(p.page, p.page_end or p.page) for p in (chunk.passage for chunk in content.chunks) if p.page is not None]
    return PreparedDocument(
        claim=claim,
        fields=source.fields,
        content=content,
        replaces=replaces,
        chunk_count=len(content.chunks),
        title=content.title,
        recipe=_recipe(source, use, pages_left=pages_left),
        encoding=content.encoding,
        pages=(min(first for first, _ in pages), max(last for _, last in pages)) if pages else None,
    )


def cut(source: Source, use: Resources, *, meanwhile: Callable[[], None] = lambda: None) -> Assembled:
    """Parse a document and cut it into chunks; return those of an imported document as they came.

    ``meanwhile`` is called again and again until the result is there. Raises Rejected and the errors of ``meanwhile``."""
    if is_packed(source.media_type):
        return _unpacked(source, use, meanwhile)
    request = CutRequest(
        media_type=source.media_type,
        filename=source.source_uri,
        title=source.fields.title,
        chunking=source.chunking,
        scope=source.generation.scope,
    )
    return assembled(use.parser.cut(source.body, request, meanwhile=meanwhile), source.generation)


def _unpacked(source: Source, use: Resources, meanwhile: Callable[[], None]) -> Assembled:
    """Return the chunks of a packed document with their terms.

    The limit on cutting counts processor time of this thread. It is checked after every chunk; the time of ``meanwhile``,
    which runs there too, does not count."""
    ends = time.thread_time() + CUTTING_S
    embedder = use.embedder  # read once: another model may be active a moment later
    part = read_part(source.body)
    if len(part.documents) != 1:
        raise InvalidPackedDocument(f"the part holds {len(part.documents)} documents instead of one")

    def between() -> None:
        nonlocal ends
        if (now := time.thread_time()) > ends:
            raise CuttingTooSlow(f"analysing the document took more than {CUTTING_S:g} s")
        meanwhile()
        ends += time.thread_time() - now

    return unpack(
        part.documents[0],
        part.origin,
        source.generation,
        title=source.fields.title,
        strategy=source.chunking.strategy,
        tokenizer=tokenizer_of(source.generation.scope),
        model=embedder.model,
        dimension=embedder.dimension,
        limit=MOST_CHUNKS,
        between=between,
    )


def write_unpublished(lease: Lease, prepared: Sequence[PreparedDocument], turn: Turn) -> Sequence[PreparedDocument]:
    """Write chunks and parents where no search sees them. Return the documents that were written whole. Raises LeaseLost.

    Many chunks take several transactions. Once the turn is over, documents with chunks left leave the batch."""
    chunks = [chunk for item in prepared for chunk in item.content.chunks]
    again = [claim.generation for claim in lease.claims if claim.may_have_rows]
    while len(chunks) > _CHUNKS_PER_WRITE:
        part, chunks = chunks[:_CHUNKS_PER_WRITE], chunks[_CHUNKS_PER_WRITE:]
        _write_chunks(lease, part, again)
        again = []
        lease.renew_if_due()
        if turn.is_over():
            prepared, chunks = leave_unfinished(lease, turn, prepared, chunks), []
    if prepared:
        _write_last_chunks(lease, chunks, again, prepared)
    return prepared


@retry_conflicts()
def _write_chunks(lease: Lease, chunks: Sequence[Chunk], again: Sequence[Generation]) -> None:
    with lease.held() as (work, _):
        Chunks(work.connection, lease.tenant_id).write(chunks, again=again)


@retry_conflicts()
def _write_last_chunks(
    lease: Lease, chunks: Sequence[Chunk], again: Sequence[Generation], prepared: Sequence[PreparedDocument]
) -> None:
    """Write the last chunks, all marks and parents, and the stage of the items."""
    with lease.held() as (work, ledger):
        stored = Chunks(work.connection, lease.tenant_id)
        stored.write(chunks, again=again)
        stored.mark({item.claim.generation: item.content.marks for item in prepared if item.content.marks})
        Parents(work.connection, lease.tenant_id).write(
            [parent for item in prepared for parent in item.content.parents]
        )
        lease.advance(ledger, Stage.CHUNKED)


def drop_leftovers(lease: Lease, prepared: Sequence[PreparedDocument], use: Resources) -> None:
    """Delete vectors that an earlier attempt stored for chunks that are no longer cut.

    Publishing compares the numbers of vectors and chunks: leftovers would block it."""
    again = [item for item in prepared if item.claim.may_have_rows]
    kept = [chunk.chunk_id for item in again for chunk in item.searchable]
    use.vectors(lease.tenant_id).drop_others([item.claim.generation for item in again], kept)
