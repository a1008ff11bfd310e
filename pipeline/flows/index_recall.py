"""Measure what searches through an approximate index find of what exact search finds, and choose its ``ef_search``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import structlog
from numpy.typing import NDArray

from pipeline.core.indexing import MEASURED_RECALL, IndexRow
from pipeline.core.short_questions import short_questions
from pipeline.errors import PipelineError
from pipeline.flows.resources import Resources
from pipeline.flows.vectorizing import vectors_of
from pipeline.records import EmbeddingSpace, TenantId
from pipeline.stores import question_texts
from pipeline.stores.usage import Purpose
from pipeline.stores.vector_indexes import IndexBuilder
from pipeline.stores.vectors import halfvec_literal
from pipeline.stores.work import unit_of_work

log = structlog.get_logger(__name__)

QuestionVectors = NDArray[np.float32]

_LADDER = (100, 160, 250, 400, 630, 1000)  # values of ef_search that are tried
_JUDGED = 10
_MOST_QUESTIONS, _FEWEST_QUESTIONS = 64, 20
_ROWS_COMPARED = 20_000_000  # of all questions together, to find what there is to be found: some 15 s
_FRESH_S = 86_400.0


def measure(
    row: IndexRow,
    space: EmbeddingSpace,
    builder: IndexBuilder,
    use: Resources,
    *,
    questions: Callable[..., QuestionVectors | None],
) -> int:
    """Measure a ready index whose recall is unknown or was measured a day ago. Gives whether it was.

    Takes the smallest ``ef_search`` that finds `MEASURED_RECALL` of the ten nearest rows of its range, or the largest
    that is allowed (CHORDWISE_SEMANTIC_HNSW_EF_SEARCH). Nothing is noted where there are no questions, or no model.
    """
    if row.state != "ready" or row.first is None or (row.measured_s is not None and row.measured_s < _FRESH_S):
        return 0
    count = max(_FEWEST_QUESTIONS, min(_MOST_QUESTIONS, _ROWS_COMPARED // max(1, row.chunks)))
    try:
        vectors = questions(row.tenant_id, space, use, count=count)
    except PipelineError as error:
        log.warning("vector_index_not_measured", tenant_id=row.tenant_id, index=row.name, code=error.code)
        return 0
    if vectors is None or not len(vectors):
        return 0
    sent = [halfvec_literal(vector) for vector in vectors]
    truth = _nearest(row, sent, builder, use, ef_search=None)
    largest = use.settings.semantic_hnsw_ef_search
    for ef_search in (*(each for each in _LADDER if each < largest), largest):
        recall = _share(truth, _nearest(row, sent, builder, use, ef_search=ef_search))
        if recall >= MEASURED_RECALL:
            break
    builder.note_recall(row, ef_search=ef_search, recall=recall, questions=len(sent))
    log.info(
        "vector_index_measured",
        tenant_id=row.tenant_id,
        index=row.name,
        recall=round(recall, 3),
        ef_search=ef_search,
        questions=len(sent),
    )
    return 1


def questions_of(tenant_id: TenantId, space: EmbeddingSpace, use: Resources, *, count: int) -> QuestionVectors | None:
    """Vectors of questions that the tenant asked, if the installation keeps them and has enough, else of made-up ones;
    None for a tenant without chunks. Raises what the model raises."""
    with unit_of_work(use.mysql) as work:
        texts = question_texts.asked(work.connection, tenant_id, most=count)
        if len(texts) < _FEWEST_QUESTIONS:
            stored = question_texts.stored(work.connection, tenant_id, most=count)
            texts = short_questions(stored, seed=len(stored))
    if not texts:
        return None
    return vectors_of(tenant_id, texts, use, purpose=Purpose.QUERY, embedder=use.spaces.embedder(space))


def _nearest(
    row: IndexRow, sent: Sequence[str], builder: IndexBuilder, use: Resources, *, ef_search: int | None
) -> list[set[str]]:
    distance = use.settings.pgvector_distance
    return [builder.nearest(row, each, distance=distance, limit=_JUDGED, ef_search=ef_search) for each in sent]


def _share(truth: Sequence[set[str]], found: Sequence[set[str]]) -> float:
    return sum(len(right & each) for right, each in zip(truth, found, strict=True)) / max(1, sum(map(len, truth)))
