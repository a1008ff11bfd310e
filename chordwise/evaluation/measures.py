"""Measures of rankings, given judgements. Pure functions; rankings are document ids, best first, without repeats.

``grades`` maps document ids to judged grades; a document that is not in it, or has grade 0 or less, is not relevant.
Every measure lies between 0 and 1, and is 0 when nothing is relevant.
"""

import math
from collections.abc import Iterable, Mapping, Sequence


def first_occurrences(ids: Iterable[str]) -> list[str]:
    """Return each id once, at its first position: the ranking of documents from a ranking of their chunks."""
    return list(dict.fromkeys(ids))


def ndcg(ranking: Sequence[str], grades: Mapping[str, int], *, k: int = 10) -> float:
    """Return the discounted gain of the first ``k`` as a share of the best possible.

    The gain is the grade itself (linear, as in trec_eval) and is divided by log2(1 + position), counted from 1.
    """
    best = _discounted(sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:k])
    gained = _discounted([max(0, grades.get(document, 0)) for document in ranking[:k]])
    return min(1.0, gained / best) if best else 0.0


def reciprocal_rank(ranking: Sequence[str], grades: Mapping[str, int], *, k: int = 10) -> float:
    """Return one over the position of the first relevant document; 0 if it is not among the first ``k``."""
    positions = (position for position, document in enumerate(ranking[:k], start=1) if grades.get(document, 0) > 0)
    return 1 / next(positions, math.inf)


def recall(ranking: Sequence[str], grades: Mapping[str, int], *, k: int = 100) -> float:
    """Return the share of the relevant documents among the first ``k``."""
    relevant = {document for document, grade in grades.items() if grade > 0}
    return len(relevant.intersection(ranking[:k])) / len(relevant) if relevant else 0.0


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least ``percent`` of the values do not exceed (nearest rank); 0 for no values."""
    if not values:
        return 0.0
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def _discounted(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(1 + position) for position, gain in enumerate(gains, start=1))
