"""Recall by meaning: the chunks whose vectors are nearest to the query's."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import structlog

from pipeline.caches import RecentValues
from pipeline.channels.local_indexes import HostIndex
from pipeline.distances import MEASURES, Distance
from pipeline.embedding.reference_sentences import SPACED, UNSPACED, found_across
from pipeline.errors import PipelineError
from pipeline.keyword.terms import holds_unspaced
from pipeline.models.local_embedder import LOCAL, LocalEmbedder, query_vectors, reference_vectors
from pipeline.models.ports import Embedder, Matrix
from pipeline.query.channel_options import SemanticOptions, options_of
from pipeline.query.request import Query, Recalled
from pipeline.records import ChannelName, ChunkId, QueryId, TenantId
from pipeline.semantic.search_plan import MOST_BY_ID
from pipeline.semantic.search_store import NearestChunks, VectorSearch
from pipeline.semantic.vector_store import Vectors

log = structlog.get_logger(__name__)

_REFERENCES: Final = (*SPACED, *UNSPACED)

# Of chunks where equal texts count once: vectors include titles, so those of equal texts may differ.
_LEAST_OF_CONTENTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedSpace:
    """The vectors that a query is compared with, and the model that computed them."""

    number: int
    table: str
    embedder: Embedder
    vectors: Callable[[TenantId], Vectors]
    search: Callable[[TenantId], VectorSearch]
    distance: Distance = "cosine"


class References(NamedTuple):
    """The vectors of the reference sentences in both kinds of writing. ``across``: see `found_across`."""

    spaced: Matrix
    unspaced: Matrix
    across: float

    @classmethod
    def of(cls, vectors: Matrix) -> "References":
        """Return those of the vectors of all sentences, in order."""
        spaced, unspaced = vectors[: len(SPACED)], vectors[len(SPACED) :]
        return cls(spaced, unspaced, found_across(spaced, unspaced))


@dataclass(frozen=True, slots=True)
class SemanticChannel:
    """The vectors in PostgreSQL. ``space`` returns the space that a query names, the active one for None. ``ask`` has a
    model embed texts within a time limit, instead of directly. ``host`` lists the chunks that pass selective
    filters."""

    space: Callable[[int | None], SearchedSpace]
    ask: Callable[[Embedder, TenantId, Sequence[str], float], Matrix] | None = None
    host: HostIndex | None = None
    name: ChannelName = ChannelName.SEMANTIC
    _known: RecentValues[tuple[TenantId, int, str], Matrix] = field(default_factory=lambda: RecentValues(1024))
    _references: RecentValues[int, References] = field(default_factory=lambda: RecentValues(16))

    def recall(self, query: Query) -> Recalled:
        """Return the chunks nearest to the query; similarity is computed now and never stored. Chunks less similar than
        the query's threshold are left out."""
        space = self.space(query.embedding_space)
        plan = query.plan.channels.get(self.name)
        limit, per_namespace = query.pool_of(self.name), options_of(SemanticOptions, plan).per_namespace
        vector, caps = self._vector(query, space), query.caps
        if caps is not None and caps.contents:
            limit = max(limit, _LEAST_OF_CONTENTS)
        nearest = space.search(query.tenant_id).nearest(
            vector,
            namespaces=query.namespaces,
            filters=query.filters,
            limit=limit,
            per_namespace=per_namespace,
            passing=None if self.host is None else partial(self.host.passing, query, limit=MOST_BY_ID),
            caps=caps,
        )
        return self._recalled(query, space, vector, nearest)

    def recall_each(self, queries: Sequence[Query]) -> dict[QueryId, Recalled]:
        """Return `recall` of many queries of a tenant; those for the same documents share a statement. Leaves out queries
        that need more than one search. `prepare` them before. Raises Unavailable."""
        alike: defaultdict[object, list[Query]] = defaultdict(list)
        for query in queries:
            options = options_of(SemanticOptions, query.plan.channels.get(self.name))
            if query.caps is None and options.per_namespace is None:
                key = query.embedding_space, sorted(query.namespaces), repr(query.filters), query.pool_of(self.name)
                alike[repr(key)].append(query)
        recalled: dict[QueryId, Recalled] = {}
        for some in alike.values():
            first, space = some[0], self.space(some[0].embedding_space)
            vectors = [self._vector(query, space) for query in some]
            found = space.search(first.tenant_id).nearest_to_each(
                vectors, namespaces=first.namespaces, filters=first.filters, limit=first.pool_of(self.name)
            )
            for query, vector, nearest in zip(some, vectors, found, strict=True):
                if nearest is not None:
                    recalled[query.query_id] = self._recalled(query, space, vector, nearest)
        return recalled

    def _recalled(self, query: Query, space: SearchedSpace, vector: Matrix, nearest: NearestChunks) -> Recalled:
        plan = query.plan.channels.get(self.name)
        threshold = None if plan is None else plan.min_score
        references = self._read_references(query, space)
        near = [hit for hit in nearest.hits if threshold is None or hit[1] >= threshold]
        return Recalled(
            chunk_ids=tuple(chunk_id for chunk_id, _ in near),
            scores=tuple(score for _, score in near),
            upper_bound=1.0,
            zero=MEASURES[space.distance].orthogonal,
            background=None if references is None else _background(query, references, vector),
            model=space.embedder.model,
            beyond_words=embedder.beyond_words(query.query_text)
            if isinstance(embedder := space.embedder, LocalEmbedder)
            else (references.across if references else 0.0),
            trust=embedder.trust(query.query_text) if isinstance(embedder, LocalEmbedder) else 1.0,
            guard=asdict(nearest.guard),
        )

    def score(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        """Return the similarity of chunks that another channel found."""
        if not chunk_ids:
            return {}
        space = self.space(query.embedding_space)
        vector = self._vector(query, space)
        return space.vectors(query.tenant_id).scores(vector, chunk_ids)

    def score_each(self, asked: Sequence[tuple[Query, Sequence[ChunkId]]]) -> dict[QueryId, dict[ChunkId, float]]:
        """Return `score` of many queries of a tenant, each with its chunks, in one statement for each embedding space."""
        spaces: defaultdict[int | None, list[tuple[Query, Sequence[ChunkId]]]] = defaultdict(list)
        for query, chunk_ids in asked:
            spaces[query.embedding_space].append((query, chunk_ids))
        scores: dict[QueryId, dict[ChunkId, float]] = {}
        for number, some in spaces.items():
            space = self.space(number)
            pairs = [(self._vector(query, space), chunk_ids) for query, chunk_ids in some]
            of_each = space.vectors(some[0][0].tenant_id).scores_of_each(pairs)
            scores.update(zip([query.query_id for query, _ in some], of_each, strict=True))
        return scores

    def prepare(self, query: Query, texts: Sequence[str]) -> None:
        """Embed several wordings of a query in one call, unless cached."""
        space = self.space(query.embedding_space)
        unknown = [text for text in dict.fromkeys(texts) if (query.tenant_id, space.number, text) not in self._known]
        if unknown:
            for text, vector in zip(unknown, self._embedded(query, space, unknown), strict=True):
                self._known.put((query.tenant_id, space.number, text), vector)

    def _vector(self, query: Query, space: SearchedSpace) -> Matrix:
        """Return the query's vector, computed once; the first request embeds the reference sentences as well."""

        def embed() -> Matrix:
            has_references = isinstance(space.embedder, LOCAL) or space.number in self._references
            vectors = self._embedded(query, space, [query.query_text, *(() if has_references else _REFERENCES)])
            if not has_references:
                self._references.put(space.number, References.of(vectors[1:]))
            vector: Matrix = vectors[0]
            return vector

        return self._known.get((query.tenant_id, space.number, query.query_text), embed)

    def _read_references(self, query: Query, space: SearchedSpace) -> References | None:
        """Return the vectors of the reference sentences; None if the model does not give them."""

        def embed() -> References:
            if not isinstance(space.embedder, LOCAL):
                return References.of(self._embedded(query, space, _REFERENCES))
            seconds = query.timeout_ms_of(self.name) / 1000
            parts = [reference_vectors(space.embedder, some, timeout_s=seconds) for some in (SPACED, UNSPACED)]
            return References.of(np.concatenate(parts))

        try:
            return self._references.get(space.number, embed)
        except PipelineError:
            log.warning("background_unknown", tenant_id=query.tenant_id, query_id=query.query_id, space=space.number)
            return None

    def _embedded(self, query: Query, space: SearchedSpace, texts: Sequence[str]) -> Matrix:
        seconds = query.timeout_ms_of(self.name) / 1000
        if self.ask is not None:
            return self.ask(space.embedder, query.tenant_id, texts, seconds)
        return query_vectors(space.embedder, texts, timeout_s=seconds)


def _background(query: Query, references: References, vector: Matrix) -> float:
    """Return the mean cosine of the query with the reference sentences in its kind of writing. Models differ in the cosine
    that they give unrelated texts."""
    return float(((references.unspaced if holds_unspaced(query.query_text) else references.spaced) @ vector).mean())
