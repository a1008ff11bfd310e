"""Neighbour support: raise the scores of candidates that resemble good ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.keyword.bm25 import K1, B
from pipeline.ranking.fusion import Fused, as_fused, best_first
from pipeline.records import ChunkId

# Flat optima on the training queries of one English collection: docs/decisions/0011.
SHARE: Final = 0.2  # of a score that its neighbours decide
NEIGHBOURS: Final = 10
CONSIDERED: Final = 50  # best candidates; twice as many cost twice as much and are no better

_TOKEN: Final = 13  # characters; see keyword.terms.Tokenizer
_TOLD_APART_BY: Final = 8  # of them, the last: as many as go into a machine word
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio
_TABLE_BITS: Final = 16

Terms = NDArray[np.unsignedinteger[Any]]  # the tokens of a chunk, in any order: the same number, the same token


def neighbour_feedback(
    fused: Sequence[Fused], terms: Mapping[ChunkId, Terms], *, share: float = SHARE, neighbours: int = NEIGHBOURS
) -> list[Fused]:
    """Let the best candidates' scores follow those of their nearest neighbours among them; no candidate is added or
    lost.

    ``score' = (1 - share) * score + share * support``, where ``support`` is the mean score of the ``neighbours``
    candidates most similar in words, weighted by similarity (score regularisation: Diaz, Regularizing ad hoc retrieval
    scores, CIKM 2005; the cluster hypothesis). The change is the hit's ``feedback``, so its score stays the sum of its
    contributions and that. A score in [0, 1] stays there.

    ``terms``: the tokens of chunks in the keyword index. Similarity is the cosine of BM25's saturated term counts times
    ``ln(1 + (n - df + 0.5) / (df + 0.5))`` over the ``n`` chunks considered: a term that all candidates share
    distinguishes none. Tokens differ between namespaces, so neighbours are of one. A candidate without ``terms`` gets
    the average support, at most its own score. Candidates after the first 50 have no support: they stay behind them, in
    their order. Fewer than three with terms change nothing. Best first; equal scores are ordered by chunk id. Raises
    ValueError for a share outside [0, 1].
    """
    if not 0 <= share <= 1:
        raise ValueError(f"a share lies between 0 and 1, not at {share}")
    ordered = best_first(fused)
    first, rest = ordered[:CONSIDERED], ordered[CONSIDERED:]
    comparable = [hit for hit in first if len(terms.get(hit.chunk_id, ()))]
    if len(comparable) < 3 or not share:
        return ordered
    scores = np.array([hit.score for hit in comparable])
    support = _support(similarities([terms[hit.chunk_id] for hit in comparable]), scores, neighbours)
    total = float(scores.sum())
    usual = min(1.0, float(support.sum()) / total) if total else 1.0
    supported = dict(zip((hit.chunk_id for hit in comparable), support.tolist(), strict=True))
    moved = [_moved(hit, supported.get(hit.chunk_id, usual * hit.score), share) for hit in first]
    return best_first(moved) + [_moved(hit, 0.0, share) for hit in rest]


def feedback_share(weights: Iterable[float]) -> float:
    """Return the share of a score that neighbours decide: two thirds of the relative weight of all channels but the
    heaviest, at most 0.2. 0 for a single channel: its neighbours repeat its mistakes, and no other channel corrects
    them."""
    ordered = sorted(weights)
    total = sum(ordered)
    return min(SHARE, 2 / 3 * sum(ordered[:-1]) / total) if total else 0.0


def terms_of(indexed: bytes) -> Terms:
    """Return a chunk's tokens (joined by spaces in the index) as numbers, one for each: its last eight characters."""
    count = (len(indexed) + 1) // (_TOKEN + 1)
    if not count:
        return np.zeros(0, np.uint64)
    return np.ndarray((count,), np.uint64, indexed, _TOKEN - _TOLD_APART_BY, (_TOKEN + 1,))


def similarities(terms: Sequence[Terms]) -> NDArray[np.float32]:
    """Return the cosine of each two chunks; 0 with itself, and without a shared term."""
    lengths = np.array(list(map(len, terms)))
    count = len(terms)
    kept, column, width = _columns(np.concatenate(terms).astype(np.uint64, copy=False))
    cell = np.repeat(np.arange(count) * width, lengths)[kept] + column
    counts = np.bincount(cell, minlength=count * width).astype(np.float32).reshape(count, width)
    frequency = np.minimum(counts, 1).sum(axis=0)
    rarity = np.where(frequency > 1, np.log1p((count - frequency + 0.5) / (frequency + 0.5)), 0.0)
    damping = K1 * (1 - B) + K1 * B * lengths / max(1.0, float(lengths.mean()))
    weights = counts + damping.astype(np.float32)[:, None]
    np.divide(counts, weights, out=weights)
    weights *= rarity.astype(np.float32)
    norms = np.sqrt(np.einsum("ij,ij->i", weights, weights))
    weights /= np.where(norms > 0, norms, np.float32(1))[:, None]
    cosines: NDArray[np.float32] = weights @ weights.T
    np.fill_diagonal(cosines, 0.0)
    return cosines


def _columns(codes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return the indexes of terms that may occur more than once, their columns, and the number of columns.

    A term that occurs once joins no two chunks. Most terms do, so a table of hashes excludes them; a few others share
    their slots (multiplicative hashing: Knuth). The same table numbers the columns: each slot belongs to the term seen
    last in it, and the few other terms of a slot get columns of their own.
    """
    slot = (codes * _SPREAD >> np.uint64(64 - _TABLE_BITS)).astype(np.int64)
    taken = np.bincount(slot, minlength=1 << _TABLE_BITS) > 1
    kept = np.flatnonzero(taken[slot])
    shared_slots = np.flatnonzero(taken)
    column_of = np.empty(1 << _TABLE_BITS, np.int64)
    column_of[shared_slots] = np.arange(len(shared_slots))
    column, codes = column_of[slot[kept]], codes[kept]
    owner = np.empty(len(shared_slots), np.uint64)
    owner[column] = codes
    strangers = np.flatnonzero(owner[column] != codes)
    distinct, own = np.unique(codes[strangers], return_inverse=True)
    column[strangers] = len(shared_slots) + own
    return kept, column, len(shared_slots) + len(distinct)


def _support(similar: NDArray[np.float32], scores: NDArray[np.float64], neighbours: int) -> NDArray[np.float64]:
    """Return the mean score of each chunk's nearest neighbours by similarity; its own score without any."""
    nearest = min(neighbours, len(scores) - 1)
    least = np.partition(similar, -nearest, axis=1)[:, -nearest]
    weights = np.where(similar >= least[:, None], similar, 0.0).astype(np.float64)
    total = weights.sum(axis=1)
    mean: NDArray[np.float64] = np.where(total > 0, weights @ scores / np.where(total > 0, total, 1), scores)
    return mean


def _moved(hit: Fused, support: float, share: float) -> Fused:
    chunk_id, score, contributions, feedback = hit
    change = share * (support - score)
    return as_fused((chunk_id, score + change, contributions, feedback + change))
