"""Measure which share of what exact search finds an approximate index finds, and choose how many of its lists are read."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
import structlog
from numpy.typing import NDArray

from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import PipelineError
from pipeline.ingestion.make_vectors import vectors_of
from pipeline.records import EmbeddingSpace, TenantId
from pipeline.resources import Resources
from pipeline.semantic import question_text_store
from pipeline.semantic.index_plan import IndexRow
from pipeline.semantic.short_questions import short_questions
from pipeline.semantic.vector_index_store import IndexBuilder
from pipeline.semantic.vector_store import halfvec_literal
from pipeline.tenants.usage_store import Purpose

log = structlog.get_logger(__name__)

QuestionVectors = NDArray[np.float32]

# Of the lists; tried in this order.
_SHARES = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.085, 0.1, 0.12, 0.145, 0.18, 0.22, 0.3, 0.4, 0.5, 0.7, 1.0)
# The recall to guarantee for any question. The sample of questions is small, so the measured recall must exceed it by
# `_MARGIN` / sqrt(number of questions).
_GOAL = 0.97
# Numbers of nearest rows that are measured. With a filter that 10 % pass, the best ten are about the nearest hundred.
_FEW, _DEEP = 10, 100
_MARGIN = 0.09  # two standard errors of a recall of 0.97 to 0.99, with ten rows a question
_MOST_QUESTIONS, _FEWEST_QUESTIONS = 192, 20
_ROWS_COMPARED = 100_000_000  # of all questions together, for the exact answers: 30 s of PostgreSQL once a day
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

    Takes the fewest lists that find enough of the nearest ten, and of the nearest hundred, of its range; all of them find
    everything. Nothing is noted where there are no questions, or no model.
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
    truth = _nearest(row, sent, builder, use, probes=None)
    enough = min(1.0, _GOAL + _MARGIN / math.sqrt(len(sent)))
    chosen: dict[int, tuple[int, float]] = {}
    for share in _SHARES:
        probes = math.ceil(share * row.lists)
        found = _nearest(row, sent, builder, use, probes=probes)
        for best in (_FEW, _DEEP):
            # Identical passages have equal distances and may swap places, so even all lists may not reach the goal.
            if best not in chosen and ((recall := _recall(truth, found, best)) >= enough or probes == row.lists):
                chosen[best] = probes, recall
        if len(chosen) == 2:
            break
    (probes, recall), deep_probes = chosen[_FEW], max(chosen[_FEW][0], chosen[_DEEP][0])
    builder.note_recall(row, probes=probes, deep_probes=deep_probes, recall=recall, questions=len(sent))
    use.meter.observe("chordwise_vector_index_recall", recall)
    log.info(
        "vector_index_measured",
        tenant_id=row.tenant_id,
        index=row.name,
        recall=round(recall, 3),
        lists=row.lists,
        probes=probes,
        deep_probes=deep_probes,
        questions=len(sent),
    )
    return 1


def questions_of(tenant_id: TenantId, space: EmbeddingSpace, use: Resources, *, count: int) -> QuestionVectors | None:
    """Vectors of questions that the tenant asked, if the installation keeps them and has enough, else of made-up ones;
    None for a tenant without chunks. Raises what the model raises."""
    with unit_of_work(use.mysql) as work:
        texts = question_text_store.asked(work.connection, tenant_id, most=count)
        if len(texts) < _FEWEST_QUESTIONS:
            stored = question_text_store.stored(work.connection, tenant_id, most=count)
            texts = short_questions(stored, seed=len(stored))
    if not texts:
        return None
    return vectors_of(tenant_id, texts, use, purpose=Purpose.QUERY, embedder=use.spaces.embedder(space))


def _nearest(
    row: IndexRow, sent: Sequence[str], builder: IndexBuilder, use: Resources, *, probes: int | None
) -> list[list[str]]:
    distance = use.settings.pgvector_distance
    found = []
    for each in sent:
        began = time.monotonic()
        found.append(builder.nearest(row, each, distance=distance, limit=_DEEP, probes=probes))
        time.sleep(time.monotonic() - began)  # half of the time belongs to searches
    return found


def _recall(truth: Sequence[Sequence[str]], found: Sequence[Sequence[str]], best: int) -> float:
    """Which share of the ``best`` that there are was found, over all questions."""
    here = sum(len(set(right[:best]).intersection(each[:best])) for right, each in zip(truth, found, strict=True))
    return here / max(1, sum(len(right[:best]) for right in truth))
