"""Whether two runs over the same queries differ by more than chance. Pure functions."""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_EXACT = 12  # differences up to which every assignment of signs is looked at
_ROUNDS = 10_000
_TIE = 1e-9  # rounding errors are no difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """What comes of comparing B with A, query by query. ``difference`` is the mean of B minus that of A, ``p`` how likely
    one as large, in either direction, would be by chance. ``error``: standard error of the difference; 0 of fewer than
    two queries. ``better``, ``worse``: for how many queries B is so."""

    queries: int
    mean_a: float
    mean_b: float
    difference: float
    error: float
    p: float
    better: int
    worse: int


def paired(a: Sequence[float], b: Sequence[float], *, rounds: int = _ROUNDS, seed: int = 0) -> Paired:
    """Compare two runs whose values stand at the same places for the same queries.

    Two-sided randomisation test (Fisher; Smucker et al., CIKM 2007): were there no difference, each query's could as
    well have had the other sign. ``p`` is the share of assignments of signs whose mean is at least as far from 0: of all
    of them up to 12 queries that differ, else of ``rounds`` random ones, and the one that was seen. Raises ValueError
    for runs of different lengths.
    """
    differences = [after - before for before, after in zip(a, b, strict=True)]
    count = len(differences)
    mean = math.fsum(differences) / count if count else 0.0
    spread = math.fsum((each - mean) ** 2 for each in differences)
    return Paired(
        queries=count,
        mean_a=math.fsum(a) / count if count else 0.0,
        mean_b=math.fsum(b) / count if count else 0.0,
        difference=mean,
        error=math.sqrt(spread / (count - 1) / count) if count > 1 else 0.0,
        p=_chance([each for each in differences if abs(each) > _TIE], rounds=rounds, seed=seed),
        better=sum(each > _TIE for each in differences),
        worse=sum(each < -_TIE for each in differences),
    )


def _chance(differences: Sequence[float], *, rounds: int, seed: int) -> float:
    """Queries without a difference have no sign, so they are left out: they change neither sum nor share."""
    count = len(differences)
    seen = abs(math.fsum(differences)) - _TIE
    tables = [_sums(differences[start : start + 8]) for start in range(0, count, 8)]
    size = len(tables)
    if count <= _EXACT:
        every = (signs.to_bytes(size, "little") for signs in range(1 << count))
        return sum(abs(_signed(tables, signs)) >= seen for signs in every) / (1 << count)
    draw = random.Random(seed)
    totals: Iterable[float] = itertools.repeat(0.0, rounds)
    for table in tables:  # a byte for each round
        totals = list(map(operator.add, totals, map(table.__getitem__, draw.randbytes(rounds))))
    reached = sum(abs(total) >= seen for total in totals)
    return (reached + 1) / (rounds + 1)


def _sums(differences: Sequence[float]) -> list[float]:
    """The sums of up to eight differences with the signs that the bits of each byte say."""
    sums = [0.0]
    for each in differences:
        sums = [total - each for total in sums] + [total + each for total in sums]
    return sums * (256 // len(sums))


def _signed(tables: Sequence[Sequence[float]], signs: bytes) -> float:
    """The sum with the signs that the bits say, a byte for each table."""
    return sum(map(operator.getitem, tables, signs))
