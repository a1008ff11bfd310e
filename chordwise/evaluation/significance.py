"""Significance of the difference between two runs over the same queries. Pure functions."""

import itertools
import math
import operator
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_EXACT = 12  # up to so many differences every assignment of signs is evaluated
_ROUNDS = 10_000
_TIE = 1e-9  # smaller differences are rounding errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """The comparison of B with A, query by query. ``difference`` is the mean of B minus that of A, ``p`` the probability
    of one as large in either direction by chance. ``error``: standard error of the difference; 0 for fewer than two
    queries. ``better``, ``worse``: the number of queries for which B is so."""

    queries: int
    mean_a: float
    mean_b: float
    difference: float
    error: float
    p: float
    better: int
    worse: int


def paired(a: Sequence[float], b: Sequence[float], *, rounds: int = _ROUNDS, seed: int = 0) -> Paired:
    """Compare two runs whose values are in the same order of queries.

    Two-sided randomisation test (Fisher; Smucker et al., CIKM 2007): without a real difference, the sign of each query's
    difference is random. ``p`` is the share of assignments of signs whose mean is at least as far from 0: among all
    assignments for up to 12 differing queries, else among ``rounds`` random ones and the observed one. Raises ValueError
    for runs of different lengths.
    """
    differences = [after - before for before, after in zip(a, b, strict=True)]
    count = len(differences)
    mean = math.fsum(differences) / count if count else 0.0
    spread = math.fsum((difference - mean) ** 2 for difference in differences)
    return Paired(
        queries=count,
        mean_a=math.fsum(a) / count if count else 0.0,
        mean_b=math.fsum(b) / count if count else 0.0,
        difference=mean,
        error=math.sqrt(spread / (count - 1) / count) if count > 1 else 0.0,
        p=_chance([difference for difference in differences if abs(difference) > _TIE], rounds=rounds, seed=seed),
        better=sum(difference > _TIE for difference in differences),
        worse=sum(difference < -_TIE for difference in differences),
    )


def _chance(differences: Sequence[float], *, rounds: int, seed: int) -> float:
    """Return ``p`` for nonzero differences; the zero ones have no sign and change neither sum nor share."""
    count = len(differences)
    observed = abs(math.fsum(differences)) - _TIE
    tables = [_sums(differences[start : start + 8]) for start in range(0, count, 8)]
    size = len(tables)
    if count <= _EXACT:
        every = (signs.to_bytes(size, "little") for signs in range(1 << count))
        return sum(abs(_signed(tables, signs)) >= observed for signs in every) / (1 << count)
    draw = random.Random(seed)
    totals: Iterable[float] = itertools.repeat(0.0, rounds)
    for table in tables:  # a byte for each round
        totals = list(map(operator.add, totals, map(table.__getitem__, draw.randbytes(rounds))))
    reached = sum(abs(total) >= observed for total in totals)
    return (reached + 1) / (rounds + 1)


def _sums(differences: Sequence[float]) -> list[float]:
    """Return, for each byte, the sum of up to eight differences with the signs given by its bits."""
    sums = [0.0]
    for difference in differences:
        sums = [total - difference for total in sums] + [total + difference for total in sums]
    return sums * (256 // len(sums))


def _signed(tables: Sequence[Sequence[float]], signs: bytes) -> float:
    """Return the sum with the signs given by the bits, a byte for each table."""
    return sum(map(operator.getitem, tables, signs))
