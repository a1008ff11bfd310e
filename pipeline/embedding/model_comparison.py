"""Compare two models on a set of queries, and decide whether the newer one may take over.

Rankings are ids, best first, without repeats. ``grades`` maps document ids to judged grades; a missing id is not
relevant.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from statistics import fmean

from chordwise.contract.migration import Comparison
from pipeline.records import Namespace, TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The conditions of a comparison for a switch. ``min_overlap``: mean share of the first ``k`` hits that both models
    find, required of queries without judgments; ``max_ndcg_loss``: the largest loss of nDCG@k for queries with
    judgments."""

    k: int = 10
    min_overlap: float = 0.5
    max_ndcg_loss: float = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenQuery:
    """A question to both models, with judged documents, if there are any."""

    tenant_id: TenantId
    namespaces: tuple[Namespace, ...]
    text: str
    grades: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedQuery:
    """One query answered by both models: chunks to compare, documents to judge, if there are judgments."""

    active_chunks: Sequence[str]
    target_chunks: Sequence[str]
    active_documents: Sequence[str] = ()
    target_documents: Sequence[str] = ()
    grades: Mapping[str, int] | None = None


def overlap(first: Sequence[str], second: Sequence[str], *, k: int) -> float:
    """Return the share of the first ``k`` of the longer ranking that the other's hold too; 1 if both are empty."""
    size = min(k, max(len(first), len(second)))
    return len(set(first[:k]).intersection(second[:k])) / size if size else 1.0


def ndcg(ranking: Sequence[str], grades: Mapping[str, int], *, k: int) -> float:
    """Return normalised gain of the first ``k``: grade / log2(1 + position from 1), over the best possible; else 0."""
    best = _discounted(sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:k])
    gained = _discounted([max(0, grades.get(document, 0)) for document in ranking[:k]])
    return min(1.0, gained / best) if best else 0.0


def judge(queries: Sequence[ComparedQuery], gate: Gate, *, sampled: bool, at: datetime) -> Comparison:
    """Compare the models over all queries. Judgments decide where there are any, agreement where there are none."""
    shared = fmean(overlap(query.active_chunks, query.target_chunks, k=gate.k) for query in queries) if queries else 0.0
    judged = [(query, query.grades) for query in queries if query.grades]
    active: float | None = None
    target: float | None = None
    reason: str | None = None
    if not queries:
        reason = "no queries"
    elif judged:
        active = fmean(ndcg(query.active_documents, grades, k=gate.k) for query, grades in judged)
        target = fmean(ndcg(query.target_documents, grades, k=gate.k) for query, grades in judged)
        if target < active - gate.max_ndcg_loss:
            reason = f"nDCG@{gate.k} falls from {active:.3f} to {target:.3f}"
    elif shared < gate.min_overlap:
        reason = f"overlap@{gate.k} is {shared:.3f}, below {gate.min_overlap:g}"
    return Comparison(
        **asdict(gate),
        compared_at=at.isoformat(),
        sampled=sampled,
        queries=len(queries),
        judged=len(judged),
        overlap=shared,
        ndcg_active=active,
        ndcg_target=target,
        passed=reason is None,
        reason=reason,
    )


def _discounted(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(1 + rank) for rank, gain in enumerate(gains, start=1))
