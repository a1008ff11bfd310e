"""Store ratings of hits with their query, which expires within the hour, and derive judgments. No text is logged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import structlog

from chordwise.contract.ratings import ArmResult, FeedbackShape, JudgedQuery, RatingName
from pipeline.administration.call_store import call_store
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.documents.chunk_store import Chunks
from pipeline.documents.document_view_store import DocumentViews
from pipeline.errors import NothingRated, QueryUnanswered
from pipeline.feedback.judgments import feedback_id, judgments
from pipeline.feedback.rating_store import FeedbackStore
from pipeline.query.configuration import read_experiment
from pipeline.query.profile_store import Experiments
from pipeline.query.request import Query
from pipeline.query.understanding import QueryState
from pipeline.records import ChunkId, DocumentId, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.audit_store import Audit

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingRequest:
    """A user's rating of a query's answer: of a chunk, or of a whole document. ``namespace``: of the document, if
    several of the query's namespaces may hold it. ``session_id``: of the rater; None is the query's."""

    rating: RatingName
    chunk_id: str | None = None
    document_id: str | None = None
    namespace: str | None = None
    note: str | None = None
    session_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rated:
    """The rated hit. The last three are None if the answer did not hold it."""

    namespace: str
    document_id: str
    place: int | None = None
    score: float | None = None
    source: str | None = None


list_ratings = call_store(FeedbackStore, FeedbackStore.page, reading=True)
take_back = call_store(FeedbackStore, FeedbackStore.remove)


def rate(
    tenant_id: TenantId, state: QueryState, rating: RatingRequest, *, request_id: str, use: Resources
) -> tuple[FeedbackShape, bool]:
    """Store a rating and return it with whether it is new; repeating changes nothing. A hit that is not in the answer
    may be rated if the query could have found it. Raises QueryUnanswered, NothingRated."""
    if state.answer is None:
        raise QueryUnanswered("the query has no answer yet; rate it once it has one")
    query = state.query
    session_id = rating.session_id or query.session_id
    with unit_of_work(use.mysql) as work:
        rated = _in_answer(orjson.loads(state.answer), rating)
        if rated is None and rating.rating != "click":
            chunks, documents = Chunks(work.connection, tenant_id), DocumentViews(work.connection, tenant_id)
            rated = _in_stores(query, rating, chunks, documents)
        if rated is None:
            raise NothingRated(_missing(rating))
        moment = datetime.now(UTC)
        kind = "chunk" if rating.chunk_id else "document"
        target = f"{rated.namespace}\n{rating.chunk_id or rating.document_id or ''}"
        stored, new = FeedbackStore(work.connection, tenant_id).add(
            FeedbackShape(
                feedback_id=feedback_id(query.query_id, kind, target, rating.rating, session_id),
                created_at=moment,
                rated_at=moment,
                query_id=query.query_id,
                query_text=query.query_text,
                namespaces=query.namespaces,
                namespace=rated.namespace,
                document_id=rated.document_id,
                chunk_id=rating.chunk_id,
                rating=rating.rating,
                note=rating.note,
                place=rated.place,
                score=rated.score,
                source=rated.source,
                profile=query.profile,
                config_version=query.config_version,
                experiment_id=query.experiment_id,
                experiment_bucket=query.experiment_bucket,
                session_id=session_id,
                request_id=request_id,
            )
        )
    version = {"config_version": query.config_version, "experiment_bucket": query.experiment_bucket}
    rank = {"rating": rating.rating, "place": rated.place, "new": new}
    log.info("feedback_given", query_id=query.query_id, **rank, **version)
    return stored, new


def judgment_page(
    tenant_id: TenantId, namespace: Namespace, *, min_votes: float, after: bytes | None, limit: int, use: Resources
) -> tuple[list[JudgedQuery], bytes | None]:
    """Return the judgments of up to ``limit`` questions by key, and the key to continue after, None at the end."""
    with reading(use.mysql) as connection:
        store = FeedbackStore(connection, tenant_id)
        keys = store.texts(namespace, after=after, limit=limit + 1)
        ratings = store.of_texts(namespace, first=keys[0], last=keys[:limit][-1]) if keys else []
    judged = judgments(ratings, tenant_id=tenant_id, namespace=namespace, min_votes=min_votes)
    return judged, keys[limit - 1] if len(keys) > limit else None


def experiment_results(tenant_id: TenantId, experiment_id: str, use: Resources) -> list[ArmResult] | None:
    """Return each arm's ratings and searches in the experiment's order; None for an unknown experiment."""
    with reading(use.mysql) as connection:
        experiment = Experiments(connection, tenant_id).all().get(experiment_id)
        ratings = FeedbackStore(connection, tenant_id).arms(experiment_id)
        searches = Audit(connection, tenant_id).arms(experiment_id)
    if experiment is None and not ratings and not searches:
        return None
    arms = [] if experiment is None else [arm.name for arm in read_experiment(experiment[0]).arms]
    return [
        ArmResult(bucket=bucket, **ratings.get(bucket, {}), **searches.get(bucket, {}))
        for bucket in dict.fromkeys([*arms, *ratings, *searches])
    ]


def _in_answer(answer: Mapping[str, Any], rating: RatingRequest) -> _Rated | None:
    """Return the rated hit; of a document, its best one."""
    hits: Sequence[Mapping[str, Any]] = answer.get("chunks") or ()
    for position, hit in enumerate(hits, start=1):
        same = hit["chunk_id"] == rating.chunk_id if rating.chunk_id else hit["document_id"] == rating.document_id
        if same and rating.namespace in (None, hit["namespace"]):
            fields = {name: hit[name] for name in ("namespace", "document_id", "score", "source")}
            return _Rated(place=position, **fields)
    return None


def _in_stores(query: Query, rating: RatingRequest, chunks: Chunks, documents: DocumentViews) -> _Rated | None:
    """Return a hit that the query could have found, in the first of its namespaces that holds it."""
    namespaces = [searched for searched in query.namespaces if rating.namespace in (None, searched)]
    if rating.chunk_id is not None:
        chunks_by_id = (
            chunks.hydrate([ChunkId(rating.chunk_id)], namespaces=namespaces, reads_as=query.reads_as)
            if namespaces
            else {}
        )
        chunk = chunks_by_id.get(ChunkId(rating.chunk_id))
        return None if chunk is None else _Rated(namespace=chunk.namespace, document_id=chunk.document_id)
    document_id = DocumentId(rating.document_id or "")
    held = (
        namespace
        for namespace in namespaces
        if documents.view(namespace, document_id, reads_as=query.reads_as) is not None
    )
    namespace = next(held, None)
    return None if namespace is None else _Rated(namespace=namespace, document_id=document_id)


def _missing(rating: RatingRequest) -> str:
    thing = "chunk" if rating.chunk_id else "document"
    if rating.rating == "click":
        return f"the answer holds no such {thing}, so nobody can have opened it there"
    return f"neither the answer nor a namespace of the query holds such a {thing}"
