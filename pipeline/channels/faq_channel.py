"""Recall of curated answers: the keyword and the semantic channel propose pairs, which are scored by the similarity of
the query to their questions."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine

from pipeline.caches import RecentValues
from pipeline.channels.channel import Channel
from pipeline.channels.semantic_channel import SearchedSpace
from pipeline.chunking.strategies.question_answer import ANSWER_KEY, PAIR_TYPE, QUESTION_KEY, pair_of
from pipeline.database.unit_of_work import reading
from pipeline.documents.chunk_store import Chunks, StoredChunk
from pipeline.errors import PipelineError
from pipeline.keyword.terms import query_terms
from pipeline.models.ports import Embedder
from pipeline.query.channel_options import FaqOptions, options_of, searched_namespaces
from pipeline.query.plan import ChannelPlan, QualityPlan
from pipeline.query.request import Query, Recalled
from pipeline.records import ChannelName, ChunkId, QueryId, TenantId
from pipeline.threads import start_call

Matrix = NDArray[np.float32]
Embed = Callable[[Embedder, TenantId, Sequence[str], float], Matrix]

MIN_SCORE = 0.45  # below it questions usually differ in subject: docs/channels.md
_PROPOSED = 24  # pairs that each of the two channels proposes
_MOST_PROPOSED = 200
_MEANING_SHARE = 0.6  # share of the channel's time, after which only words are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScoredPair:
    chunk: StoredChunk
    score: float

    @property
    def pair_key(self) -> tuple[str, ...]:
        """The key of the pair that the chunk belongs to."""
        own = self.chunk.parent_id or (self.chunk.chunk_id if self.chunk.chunk_type == "qa" else "")
        return (self.chunk.namespace, self.chunk.document_id, own)


@dataclass(frozen=True, slots=True)
class FaqChannel:
    """Question-answer pairs. ``space`` and ``embed`` give the vectors of questions, as for the semantic channel."""

    mysql: Engine
    keyword: Channel
    semantic: Channel
    space: Callable[[int | None], SearchedSpace]
    embed: Embed
    name: ChannelName = ChannelName.FAQ
    _known: RecentValues[tuple[TenantId, int, str], Matrix] = field(default_factory=lambda: RecentValues(4096))

    def recall(self, query: Query) -> Recalled:
        """Return one hit for each pair whose question is similar to the query's, the best part of a long pair; score in
        [0, 1]. ``guard`` reports when meaning was left out. Raises Unavailable if MySQL is."""
        pair_query = self._pair_query(query)
        proposed, lost = self._proposed(pair_query)
        scored, unknown = self._scored(pair_query, proposed)
        least = self._least(query)
        best: dict[tuple[str, ...], _ScoredPair] = {}
        for pair in sorted(scored, key=lambda pair: (-pair.score, pair.chunk.ordinal, pair.chunk.chunk_id)):
            if pair.score >= least:
                best.setdefault(pair.pair_key, pair)
        hits = sorted(best.values(), key=lambda pair: (-pair.score, pair.chunk.chunk_id))[: query.pool_of(self.name)]
        lost = lost or unknown
        return Recalled(
            chunk_ids=tuple(hit.chunk.chunk_id for hit in hits),
            scores=tuple(hit.score for hit in hits),
            upper_bound=1.0,
            zero=0.0,
            guard={"lost": lost} if lost else None,
        )

    def score(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        """Return the similarity of the query to the questions of the pairs among those chunks; the least have none."""
        scored, _ = self._scored(self._pair_query(query), chunk_ids)
        return {pair.chunk.chunk_id: pair.score for pair in scored if pair.score >= self._least(query)}

    def _least(self, query: Query) -> float:
        plan = query.plan.channels.get(self.name)
        return MIN_SCORE if plan is None or plan.min_score is None else plan.min_score

    def _pair_query(self, query: Query) -> Query:
        """Return the query for the other channels: only pairs, few, under an id of its own, by which they cache."""
        plan = query.plan
        pool = min(_MOST_PROPOSED, max(_PROPOSED, plan.top_k))
        proposed = ChannelPlan(pool=pool, timeout_ms=query.timeout_ms_of(self.name))
        channels = {**plan.retrieve.channels, "keyword": proposed, "semantic": proposed}
        namespaces = searched_namespaces(options_of(FaqOptions, plan.channels.get(self.name)), query.namespaces)
        return replace(
            query,
            query_id=QueryId(f"{query.query_id}:{self.name}:{','.join(namespaces)}"),
            namespaces=namespaces,
            filters=replace(query.filters, pairs=True),
            plan=replace(
                plan, top_k=1, retrieve=replace(plan.retrieve, method="hybrid", allocation="pool", channels=channels)
            ),
        )

    def _proposed(self, pair_query: Query) -> tuple[list[ChunkId], Mapping[str, Any] | None]:
        meaning = start_call(self.semantic.recall, pair_query)
        by_words = self.keyword.recall(pair_query)
        chunk_ids = list(by_words.chunk_ids)
        lost: Mapping[str, Any] | None = (by_words.guard or {}).get("lost")
        try:
            chunk_ids += meaning.result(timeout=self._meaning_s(pair_query)).chunk_ids
        except TimeoutError:
            meaning.cancel()
            lost = {"code": "timeout", "detail": "pairs could not be looked for by meaning in time"}
        except PipelineError as error:
            lost = {"code": error.code, "detail": "pairs could not be looked for by meaning"}
        return list(dict.fromkeys(chunk_ids)), lost

    def _scored(
        self, pair_query: Query, chunk_ids: Sequence[ChunkId]
    ) -> tuple[list[_ScoredPair], Mapping[str, Any] | None]:
        pairs = self._pairs(pair_query, chunk_ids)
        if not pairs:
            return [], None
        texts = compared_texts(pair_query)
        questions = list(dict.fromkeys(question for _, question in pairs))
        lost: Mapping[str, Any] | None = None
        meaning: dict[str, float] | None = None
        try:
            meaning = self._meaning(pair_query, texts, questions)
        except PipelineError as error:
            lost = {"code": error.code, "detail": "questions were compared by their words alone"}
        terms = [query_terms(text) for text in texts]
        like = {
            question: likeness(
                max(words_in_common(term, question) for term in terms), None if meaning is None else meaning[question]
            )
            for question in questions
        }
        quality = pair_query.plan.retrieve.selection.quality or QualityPlan()
        scored = [
            _ScoredPair(
                chunk=chunk,
                score=graded(
                    like[question], chunk.metadata.get(quality.key), quality.grades, near_tie=quality.near_tie
                ),
            )
            for chunk, question in pairs
        ]
        return scored, lost

    def _pairs(self, pair_query: Query, chunk_ids: Sequence[ChunkId]) -> list[tuple[StoredChunk, str]]:
        """Return those of the chunks that are shown pairs of the searched namespaces, with their questions."""
        if not chunk_ids:
            return []
        with reading(self.mysql) as connection:
            stored = Chunks(connection, pair_query.tenant_id).hydrate(
                chunk_ids, namespaces=pair_query.namespaces, reads_as=pair_query.reads_as, since=pair_query.since
            )
        read = ((stored[chunk_id], _question(stored[chunk_id])) for chunk_id in chunk_ids if chunk_id in stored)
        return [(chunk, question) for chunk, question in read if question]

    def _meaning(self, pair_query: Query, texts: Sequence[str], questions: Sequence[str]) -> dict[str, float]:
        """Return the best cosine of each question with a text of the query. Vectors of questions are cached."""
        space = self.space(pair_query.embedding_space)

        def embed(missing: Sequence[str]) -> Matrix:
            return self.embed(space.embedder, pair_query.tenant_id, missing, self._meaning_s(pair_query))

        every = list(dict.fromkeys((*texts, *questions)))
        keys = [(pair_query.tenant_id, space.number, text) for text in every]
        vectors = dict(
            zip(every, self._known.get_many(keys, lambda some: embed([key[2] for key in some])), strict=True)
        )
        mine = np.stack([_unit(vectors[text]) for text in texts])
        theirs = np.stack([_unit(vectors[question]) for question in questions])
        return dict(zip(questions, (theirs @ mine.T).max(axis=1).astype(float).tolist(), strict=True))

    def _meaning_s(self, pair_query: Query) -> float:
        return pair_query.timeout_ms_of(self.name) * _MEANING_SHARE / 1000


def _question(chunk: StoredChunk) -> str | None:
    return question_of(
        text=chunk.text, chunk_type=chunk.chunk_type, heading_path=chunk.heading_path, metadata=chunk.metadata
    )


def _unit(vector: Matrix) -> Matrix:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector


# The better of the two similarities counts more: users ask the same thing in other words, and a model that does not
# know a word takes two questions for equal that differ only in that word.
_BETTER = 0.7
_MOST_TEXTS = 6  # texts of one query that are compared: itself, its rewrite, and its sub-queries


def compared_texts(query: Query) -> list[str]:
    """Return the texts to compare with stored questions, of which the best counts: question, rewrite, sub-queries."""
    more = query.understanding.sub_queries if query.understanding else ()
    return list(dict.fromkeys((query.query_text, query.text, *more)))[:_MOST_TEXTS]


def question_of(*, text: str, chunk_type: str, heading_path: Sequence[str], metadata: Mapping[str, Any]) -> str | None:
    """Return the question of a pair, None for other chunks. Later parts of a long pair have the question as a heading."""
    if chunk_type == PAIR_TYPE:
        pair = pair_of(text)
        return pair[0] if pair else (heading_path[-1] if heading_path else None)
    question = metadata.get(QUESTION_KEY)
    return question if isinstance(question, str) and question and ANSWER_KEY in metadata else None


def words_in_common(terms: Sequence[str], stored: str) -> float:
    """Return the cosine of the terms of two questions, ``common / sqrt(n * m)``, in [0, 1]; 0 without any."""
    mine, theirs = set(terms), set(query_terms(stored))
    if not mine or not theirs:
        return 0.0
    return len(mine & theirs) / math.sqrt(len(mine) * len(theirs))


def likeness(words: float, meaning: float | None) -> float:
    """Return the similarity of two questions in [0, 1]: 0.7 times the better and 0.3 times the other of both measures.
    ``meaning`` is a cosine, negative ones count as 0; None leaves the words alone."""
    if meaning is None:
        return words
    meaning = min(1.0, max(0.0, meaning))
    return _BETTER * max(words, meaning) + (1 - _BETTER) * min(words, meaning)


def graded(score: float, grade: Any, grades: Sequence[str], *, near_tie: float) -> float:
    """Return the score lowered by grade to order near ties: ``score * (1 - near_tie * r / n)`` for the grade at r from
    0 (best) to n. A missing or unknown grade counts as the worst. In [0, 1]."""
    steps = len(grades) - 1
    if steps < 1:
        return score
    rank = grades.index(grade) if grade in grades else steps
    return score * (1.0 - near_tie * rank / steps)
