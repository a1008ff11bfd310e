"""Load the current text of the best candidates from the system of record."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final, TypeVar

import structlog

from chordwise.contract.answer import sureness
from pipeline.chunking.strategies.registry import window_of
from pipeline.database.engines import outage_of
from pipeline.database.unit_of_work import reading
from pipeline.documents.chunk_store import Chunks, StoredChunk
from pipeline.errors import CircuitOpen, PipelineError, TooLate, Unavailable
from pipeline.filters.python_filters import SHOWN_FIELDS, may_be_more, unmet
from pipeline.filters.readers import may_read
from pipeline.keyword_index.host_words import IndexAtRevision
from pipeline.outages import replace_in_outage, tolerate_outage
from pipeline.query.plan import Plan
from pipeline.query.request import Query, QueryMoment, copied
from pipeline.ranking.confidence import UNTOLD, Confidences
from pipeline.ranking.fusion import Fused
from pipeline.ranking.hits import Drop, Hit, Hydrated, fields_of
from pipeline.ranking.selection import CHOICE, are_full, capped, decayed, deduplicated, grade_of, grouped, select
from pipeline.records import ChannelName, ChunkId, DocumentFields, QueryId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived, Journal
from pipeline.retrieval.ask_channels import RESERVE_S
from pipeline.threads import start_call

log = structlog.get_logger(__name__)

# Vectors are kept in half precision, so that a cosine may come out this far beyond 1.
_ROUNDING = 5e-3
_MOST_READ = 1000  # candidates whose text is read for one query, whatever depth a plan asks for
_NOT_ALL = (
    "conditions_not_exhaustive: fewer passages than asked for meet the conditions among the {looked_at} best that were"
    " looked at; there may be others further down"
)


def load_text(arrived: Arrived, fused: Sequence[Fused], use: Resources) -> list[Hit]:
    """Return the fused candidates that can be shown, with their text, as deep as the answer may need."""
    if arrived.query.exclude:
        fused = _without_excluded(arrived, fused)
    sure = Confidences(arrived.query.query_text, fused, arrived.usable)
    if fused and sure.is_untold and UNTOLD not in arrived.journal.remarks:
        arrived.journal.remarks.append(UNTOLD)
    passages = hydrate(arrived, fused, sure, use)
    drops = _unread(fused, passages, arrived.query.plan)
    return arrived.journal.step("fuse", _hits(fused, passages, sure), drops)


def _without_excluded(arrived: Arrived, fused: Sequence[Fused]) -> list[Fused]:
    known = frozenset(arrived.query.exclude)
    drops = [Drop(chunk_id=hit.chunk_id, stage="filter", reason="excluded") for hit in fused if hit.chunk_id in known]
    arrived.journal.dropped(drops)
    return [hit for hit in fused if hit.chunk_id not in known]


def _hits(fused: Sequence[Fused], passages: Mapping[str, Hydrated], sure: Mapping[str, float | None]) -> list[Hit]:
    return [
        Hit(fused=hit, passage=passages[hit.chunk_id], score=hit.score, confidence=sure[hit.chunk_id])
        for hit in fused
        if hit.chunk_id in passages
    ]


def _unread(fused: Sequence[Fused], passages: Mapping[str, Hydrated], plan: Plan) -> Iterator[Drop]:
    """Yield a Drop for every candidate below the last one whose text was read.

    None of them could be in the answer: no step moves a candidate from beyond ``top_k``, or enough candidates were read."""
    read = max((position for position, hit in enumerate(fused, start=1) if hit.chunk_id in passages), default=0)
    stays = counts_alone(plan) and needed(plan) == plan.top_k
    for position, hit in enumerate(fused[read:], start=read + 1):
        if stays and position > plan.top_k:
            yield Drop(chunk_id=hit.chunk_id, stage="select", reason="beyond_top_k", value=position, limit=plan.top_k)
        else:
            yield Drop(chunk_id=hit.chunk_id, stage="fuse", reason="below_what_was_read", value=position, limit=read)


def hydrate(
    arrived: Arrived, fused: Sequence[Fused], sure: Mapping[str, float | None], use: Resources
) -> dict[str, Hydrated]:
    """Return the text of the best hits. Later hits replace those that are not shown, fail the filters, or are flawed.

    Of a document replaced since the query began, only chunks of the newest recalled generation are returned. While MySQL is
    away the texts come from this host's keyword index. ``sure``: the confidence of each hit."""
    started = time.perf_counter()
    query, journal = arrived.query, arrived.journal
    supplied = {
        passage.chunk_id: copied(Hydrated, passage)
        for envelope in arrived.usable.values()
        for passage in envelope.supplied
    }
    stored = [hit for hit in fused if hit.chunk_id not in supplied][:_MOST_READ]
    batch = needed(query.plan)
    chunks: dict[ChunkId, StoredChunk] = {}
    shown = ShownChunks(query, use, arrived.texts)
    position = 0
    with journal.losing("hydrate", "the text of the hits could not be read"):
        while position < len(stored) and not _enough(stored[:position], chunks, sure, stored[position].score, query):
            ids = [ChunkId(hit.chunk_id) for hit in stored[position : position + batch]]
            chunks |= _satisfying(shown.read(ids), query, journal)
            position += len(ids)
            batch = max(batch, position)  # each time as many as before: few statements, and few unneeded texts
    shown.record_losses(journal)
    journal.took("hydrate", started)
    if query.conditions is not None:
        supplied = {
            chunk_id: passage for chunk_id, passage in supplied.items() if query.conditions.met_by(fields_of(passage))
        }
        recalled = [len(envelope.chunk_ids) for envelope in arrived.usable.values()]
        if len(chunks) + len(supplied) < query.top_k and may_be_more(recalled, position):
            journal.remarks.append(_NOT_ALL.format(looked_at=position))
    return _without_flaws(fused, supplied | _newest_passages(chunks), journal)


def _enough(
    read: Sequence[Fused],
    chunks: Mapping[ChunkId, StoredChunk],
    sure: Mapping[str, float | None],
    unread: float,
    query: Query,
) -> bool:
    if counts_alone(query.plan):
        return len(chunks) >= needed(query.plan)
    hits = _hits(read, _newest_passages(chunks), sure)
    return bool(hits) and enough(hits, unread, query.plan, query.present)


def _newest_passages(chunks: Mapping[ChunkId, StoredChunk]) -> dict[str, Hydrated]:
    """Return the texts of the chunks of each document's newest generation."""
    newest: dict[tuple[str, str], int] = {}
    for chunk in chunks.values():
        document = (chunk.namespace, chunk.document_id)
        newest[document] = max(chunk.generation, newest.get(document, 0))
    return {
        chunk_id: _hydrated(chunk)
        for chunk_id, chunk in chunks.items()
        if chunk.generation == newest[chunk.namespace, chunk.document_id]
    }


def _satisfying(read: Mapping[ChunkId, StoredChunk], query: Query, journal: Journal) -> dict[ChunkId, StoredChunk]:
    """Keep the chunks that satisfy the filters and the conditions.

    Channels apply the filters too, but to their own copy of the fields, which may be older. They apply no conditions."""
    reasons: dict[ChunkId, str] = {}
    for chunk_id, chunk in read.items():
        if query.filters and (failed := unmet(query.filters, copied(DocumentFields, chunk))):
            reasons[chunk_id] = f"filter_{failed}"
        elif query.conditions is not None and not query.conditions.met_by(fields_of(_hydrated(chunk))):
            reasons[chunk_id] = "conditions"
    journal.dropped(Drop(chunk_id=name, stage="filter", reason=reason) for name, reason in reasons.items())
    return {chunk_id: chunk for chunk_id, chunk in read.items() if chunk_id not in reasons}


def _without_flaws(fused: Sequence[Fused], passages: dict[str, Hydrated], journal: Journal) -> dict[str, Hydrated]:
    """Keep the passages that are whole. A flawed one is a loss: its writer has a bug."""
    flawed = [
        Drop(chunk_id=hit.chunk_id, stage="validate", reason=reason[0], value=reason[1])
        for hit in fused
        if hit.chunk_id in passages and (reason := flaw(hit, passages[hit.chunk_id])) is not None
    ]
    if not flawed:
        return passages
    journal.dropped(flawed)
    reasons = ", ".join(sorted({drop.reason for drop in flawed}))
    journal.lost("validate", "invalid_hits", f"{len(flawed)} hits could not be shown: {reasons}")
    left_out = {drop.chunk_id for drop in flawed}
    return {chunk_id: passage for chunk_id, passage in passages.items() if chunk_id not in left_out}


def flaw(fused: Fused, passage: Hydrated) -> tuple[str, float | None] | None:
    """Return the flaw of a hit that cannot be shown, and its number, or None. A hit needs a text, its ids, and possible
    scores: a similarity lies in [-1, 1]."""
    if not passage.text or passage.text.isspace():
        return "empty_text", None
    if not (passage.chunk_id and passage.document_id and passage.namespace):
        return "incomplete_metadata", None
    if not math.isfinite(fused.score):
        return "impossible_score", fused.score
    for part in fused.contributions:
        if part.channel == ChannelName.SEMANTIC and part.score is not None and not abs(part.score) <= 1 + _ROUNDING:
            return "impossible_similarity", part.score
    return None


def read(query: Query, chunk_ids: Sequence[str], namespaces: Sequence[str], use: Resources) -> dict[str, Hydrated]:
    """Return the text of shown chunks of these namespaces, whatever namespaces the query names. Raises
    StoreUnavailable."""
    with reading(use.mysql) as connection:
        chunks = Chunks(connection, query.tenant_id)
        stored = chunks.hydrate(
            [ChunkId(chunk_id) for chunk_id in chunk_ids],
            namespaces=namespaces,
            reads_as=query.reads_as,
            since=query.since,
        )
    return {str(chunk_id): _hydrated(chunk) for chunk_id, chunk in stored.items()}


def _hydrated(chunk: StoredChunk) -> Hydrated:
    segment = chunk.segment
    shown = {name: getattr(chunk, name, None) for name in SHOWN_FIELDS} | {
        "tags": list(chunk.tags),
        "position": chunk.ordinal,
        "heading_path": list(chunk.heading_path),
        "chunk_type": None if chunk.chunk_type == "parent" else chunk.chunk_type,
        "chapter_id": segment and segment.chapter_id,
        "entity_names": segment and list(segment.entity_names),
        "summary": segment and segment.summary,
        "attributes": (segment and dict(segment.attributes)) or None,
        "page_start": chunk.page,
    }
    return copied(
        Hydrated,
        chunk,
        metadata={**chunk.metadata, **{name: value for name, value in shown.items() if value not in (None, [])}},
        window=window_of(chunk.chunking),
        chapter_id=None if segment is None else segment.chapter_id,
        entity_names=() if segment is None else segment.entity_names,
    )


class ShownChunks:
    """Reads the shown chunks of a query. After one failure MySQL is not asked again for this query. ``known``: chunks that
    were read already, None for those that are not shown."""

    def __init__(self, query: Query, use: Resources, known: Mapping[ChunkId, StoredChunk | None] | None = None) -> None:
        self._query = query
        self._use = use
        self._known = known or {}
        self._index: IndexAtRevision | None = None
        self._missing = 0
        self._withheld = 0

    def read(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, StoredChunk]:
        """Return those of these chunks that are shown, as of now or of the index's revision. Raises Unavailable if the
        index has none of the query's namespaces."""
        if self._index is not None:
            return self._of_index(self._index, chunk_ids)
        if all(chunk_id in self._known for chunk_id in chunk_ids):
            found = ((chunk_id, self._known[chunk_id]) for chunk_id in chunk_ids)
            return {chunk_id: chunk for chunk_id, chunk in found if chunk is not None}
        of_mysql = partial(read_in_time, self._query, self._use, partial(self.of_mysql, chunk_ids))
        return replace_in_outage(of_mysql, lambda _: self._of_last_index(chunk_ids))

    def _of_last_index(self, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, StoredChunk] | None:
        """Read this host's index from now on; None if it has none of the query's namespaces."""
        if (indexes := self._use.local_indexes) is not None:
            self._index = indexes.last_known(self._query.tenant_id, self._query.namespaces_read)
        return None if self._index is None else self._of_index(self._index, chunk_ids)

    def _of_index(self, index: IndexAtRevision, chunk_ids: Sequence[ChunkId]) -> Mapping[ChunkId, StoredChunk]:
        if not self._query.rules_known:
            self._withheld += len(chunk_ids)
            return {}
        stored = [entry for entry in index.view.chunks(chunk_ids) if entry.row.namespace in index.states]
        self._missing += len(chunk_ids) - len(stored)
        chunks = {entry.row.chunk_id: entry.stored() for entry in stored}
        reads_as = self._query.reads_as
        return {chunk_id: chunk for chunk_id, chunk in chunks.items() if may_read(chunk.readers, reads_as)}

    def record_losses(self, journal: Journal) -> None:
        """Report the chunks that the index could not show, and the index's age."""
        if self._index is not None:
            outage = outage_of(self._use.mysql)
            held_up = outage is not None and outage.is_held_up
            journal.answered_from_index(self._index.age_s(datetime.now(UTC)), held_up=held_up)
        if self._missing:
            detail = f"{self._missing} passages are not in this host's keyword index and were left out"
            journal.lost("hydrate", "not_in_index", detail)
        if self._withheld:
            detail = f"{self._withheld} passages were withheld: the tenant's rules for personal data could not be read"
            journal.lost("hydrate", "rules_unknown", detail)

    def of_mysql(self, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, StoredChunk]:
        """Return those that MySQL shows now. Raises Unavailable."""
        query = self._query
        with reading(self._use.mysql) as connection:
            chunks = Chunks(connection, query.tenant_id)
            return chunks.hydrate(
                chunk_ids, namespaces=query.namespaces_read, reads_as=query.reads_as, since=query.since
            )


def read_at_once(
    every: Iterable[tuple[Arrived, Sequence[Fused]]], use: Resources
) -> dict[QueryId, Mapping[ChunkId, StoredChunk | None]]:
    """Return the texts that each answer needs first, read by one statement for all queries with the same rights. Those whose
    statement fails read their own."""
    alike: defaultdict[object, list[tuple[Query, list[ChunkId]]]] = defaultdict(list)
    for arrived, fused in every:
        query = arrived.query
        wanted = [ChunkId(hit.chunk_id) for hit in fused if hit.chunk_id not in query.exclude][: needed(query.plan)]
        alike[query.namespaces_read, query.reads_as].append((query, wanted))
    read: dict[QueryId, Mapping[ChunkId, StoredChunk | None]] = {}
    for some in alike.values():
        ids = list(dict.fromkeys(chunk_id for _, wanted in some for chunk_id in wanted))
        first = min((query for query, _ in some), key=lambda query: query.created_at)
        with tolerate_outage(log.warning, "texts_not_read_at_once", queries=len(some)):
            chunks = read_in_time(first, use, partial(ShownChunks(first, use).of_mysql, ids)) if ids else {}
            for query, wanted in some:
                read[query.query_id] = {chunk_id: chunks.get(chunk_id) for chunk_id in wanted}
    return read


def needed(plan: Plan) -> int:
    """Return how many kept hits must be read: those to return, to choose from for diversity, or to rerank."""
    choice = CHOICE if plan.retrieve.selection.diversity > 0 else 1
    return max(choice * plan.top_k, plan.rerank.top_n if plan.rerank.enabled else 0)


def counts_alone(plan: Plan) -> bool:
    """Return whether the first ``needed`` hits suffice: no rule drops or moves a hit because of its text."""
    retrieve, how = plan.retrieve, plan.retrieve.selection
    plain = how.dedupe == "chunk" and how.per_document is None and how.quality is None and how.group_by is None
    return plain and retrieve.time_decay is None and retrieve.ladder is None and not retrieve.score_threshold


def enough(read: Sequence[Hit], unread: float, plan: Plan, present: QueryMoment) -> bool:
    """Return whether the hits read so far determine the result. ``read``: the first hits of the fused order;
    ``unread``: the fused score of the next one, an upper bound of all later scores, because age only reduces a score.

    A ladder reads everything: similar hits may be anywhere in the order.
    """
    retrieve, how = plan.retrieve, plan.retrieve.selection
    if retrieve.ladder is not None:
        return False
    hits = decayed(read, retrieve.time_decay, present) if retrieve.time_decay is not None else list(read)
    hits, _ = deduplicated(hits, how.dedupe)
    hits = [hit for hit in hits if sureness(hit.confidence) >= retrieve.score_threshold]
    near_tie = 0.0
    if how.quality is not None:
        if len(hits) <= how.quality.enough:
            return False
        near_tie = how.quality.near_tie * max(hit.score for hit in hits)
        worst = max(1, len(how.quality.grades) - 1)
        hits = [hit for hit in hits if grade_of(hit, how.quality) < worst]
    if how.per_document is not None:
        hits, _ = capped(hits, how.per_document)
    wanted = needed(plan)
    if len(hits) < wanted:
        return False
    if how.group_by is not None:
        if not are_full(grouped(hits, how, plan.top_k), how, plan.top_k):
            return False
        wanted = max(wanted, len(select(hits, plan)[0]))
    last = hits[wanted - 1].score
    if how.quality is not None:  # a hit as good as the last may have a better grade
        return last - near_tie > unread
    return retrieve.time_decay is None or last >= unread


T = TypeVar("T")

PART: Final = "texts"  # the name of the circuit in logs and metrics
_OVERDUE_S: Final = 0.15  # seconds for reads of an answer that is assembled after its deadline


def read_in_time(query: Query, use: Resources, read: Callable[[], T]) -> T:
    """Return the result of ``read``, waiting no longer than the query allows. Raises its errors, TooLate, and
    CircuitOpen if MySQL failed a moment ago for this tenant or for several, or if other reads hang in this process."""
    patience_s = use.settings.recall_timeout_ms / 1000
    with use.bulkhead.place(PART):
        permit = use.breakers.enter(PART, query.tenant_id)
        if permit is None:
            raise CircuitOpen("texts are not read for a while, because MySQL failed repeatedly")
        left_s = query.deadline.before(RESERVE_S).left_s()
        failed = False
        try:
            if left_s > 2 * patience_s and use.reading:  # the client's timeout is short enough; no thread is needed
                return read()
            return start_call(read).result(timeout=max(_OVERDUE_S, min(left_s, patience_s)))
        except TimeoutError:
            failed = left_s >= patience_s  # the timeout of a query that came too late proves nothing about MySQL
            if (outage := outage_of(use.mysql)) is not None:
                outage.suspect(timed_out=True)
            raise TooLate("MySQL did not answer within the time that was left") from None
        except PipelineError as error:
            failed = isinstance(error, Unavailable)
            raise
        finally:
            use.breakers.leave(permit, failed=failed)
