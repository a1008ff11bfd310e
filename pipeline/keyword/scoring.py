"""BM25 over a query's units: single terms, or alternative ways of writing one thing that count as one."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from pipeline.keyword.dictionary import KeywordQuery, Run, Unit
from pipeline.keyword.matching import FieldWeights, IndexRows

# Tuned on training queries of one English collection: nDCG@10 changes by less than 0.005 for k1 from 0.9 to 1.5 and b from
# 0.4 to 0.75. Its recall, and English and Chinese collections that were not tuned on, favour full length normalisation.
K1 = 1.2
B = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """The statistics of a collection that BM25 needs.

    ``chunk_count``: chunks in the collection. ``term_count``: their lengths added up, repetitions included.
    ``chunk_frequency``: the number of chunks that hold each term; a missing term occurs in none.
    """

    chunk_count: int
    term_count: int
    chunk_frequency: Mapping[str, int]

    @property
    def average_length(self) -> float:
        """Terms per chunk; 1 for an empty collection, to avoid a division by zero."""
        return self.term_count / self.chunk_count if self.chunk_count and self.term_count else 1.0

    def idf(self, term: str) -> float:
        """``ln(1 + (N - n + 0.5) / (n + 0.5))``, positive for every term; ``n`` is at most ``N``, as it may lag
        behind."""
        return self.idf_of(self.chunk_frequency.get(term, 0))

    def idf_of(self, frequency: int) -> float:
        """Return `idf` of a term that occurs in ``frequency`` chunks."""
        frequency = min(frequency, self.chunk_count)
        return math.log1p((self.chunk_count - frequency + 0.5) / (frequency + 0.5))


# Letters and digits in one term: a user who types a code wants chunks with that code more than chunks with the words
# around it, the more so if it was recognised as the number or the date of one thing.
_CODE = re.compile(r"(?=.*[a-z])(?=.*\d).{4,}", re.ASCII)
_CODE_WORTH = 1.5
_EXACT_WORTH = 4.0
# A number of five digits, or a code with four in a row, names one thing; not 1500mg, 10000 or two years. Names of genes and
# substances, which a passage may leave out, have fewer.
_IDENTIFIER = re.compile(
    r"(?!\d+[a-z]{1,4}$|\d+000$|(?:(?:1[5-9]|20)\d\d){2}$)(?:(?=.*[a-z])(?=.*\d{4})[a-z0-9.-]{5,}|\d{5,})", re.ASCII
)
_IDENTIFIED = 3.0  # the least worth of one, as a multiple of that of the other words of its query
_PRESENCE = 1e-9  # a k1 for which one occurrence counts almost as much as many
_NEAR = 0.5  # share of the original word's worth for a possible respelling
_SHORT, _LONG = 16, 48  # units of a query
Way = Mapping[Run, float]  # the terms of one way of writing a unit, or several side by side, each with its worth
_PHRASE = 0.5  # share of its rarest term's worth that a phrase adds when its terms stand together


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedQuery:
    """A query with the worth of all its parts in a collection; ``bound`` is the upper bound of all scores. ``exact``: for each
    unit, whether a chunk has it or not, however often and among however many words."""

    units: tuple[tuple[Way, ...], ...]
    exact: tuple[bool, ...]
    phrases: tuple[tuple[Run, float], ...]
    average_length: float
    bound: float


def weigh(query: KeywordQuery, collection: Collection, *, k1: float = K1) -> WeightedQuery:
    """Return the worth of each part of a query.

    The worth of a term is ``(k1 + 1) * idf``; terms of letters and digits (``e1234``) get half as much again, exact units
    four times as much, and terms
    that a long query repeats ``n`` times up to the square root of ``n`` as much (`long_share`). A unit of several ways
    has the worth of the query's own words, with the idf of the union of all ways (at most as many chunks as their sum,
    or as the most frequent spelling);
    each way can earn all of it, a possible respelling half. A run of terms occurs in at most as many chunks as its
    rarest term. Words that stand as they are quoted earn their worth once more. An identifier (e1234, 48213) is worth three
    times as much as all other words of its query: who types one wants the passage that holds it.
    """
    repeating = 0.5 * long_share(len(query.units))
    units = [_ways(unit, collection, (k1 + 1) * unit.count**repeating) for unit in query.units]
    named = [any(map(_is_identifier, unit.ways[: len(unit.ways) - unit.near])) for unit in query.units]
    if any(named):
        rest = sum(sum(ways[0].values()) for ways, is_named in zip(units, named, strict=True) if not is_named)
        units = [
            _of_worth(ways, _IDENTIFIED * rest) if is_named else ways
            for ways, is_named in zip(units, named, strict=True)
        ]
    phrases = tuple((run, _PHRASE * (k1 + 1) * max(map(collection.idf, run))) for run in query.phrases)
    phrases += tuple((run, (k1 + 1) * sum(map(collection.idf, run))) for run in query.verbatim)
    bound = sum(sum(ways[0].values()) for ways in units) + sum(worth for _, worth in phrases)
    if asked := [collection.idf(term) for term in query.whole if term in collection.chunk_frequency]:
        phrases += ((query.whole, _PHRASE * (k1 + 1) * max(asked)),)  # a bonus: few passages say all of it
    exact = tuple(unit.is_exact or is_named for unit, is_named in zip(query.units, named, strict=True))
    return WeightedQuery(
        units=tuple(units), exact=exact, phrases=phrases, average_length=collection.average_length, bound=bound
    )


def score(
    weighed: WeightedQuery,
    rows: IndexRows,
    tokens: Mapping[str, str],
    fields: FieldWeights,
    *,
    k1: float = K1,
    b: float = B,
) -> NDArray[np.float64]:
    """Return the score of each row, in order. ``tokens``: the token of each term in the rows' namespace.

    The sum over units of their best way; a way is the sum over its terms of worth times ``tf / (tf + k1 * (1 - b + b *
    length / average))``, where ``tf`` adds up the weights of the fields that the term occurs in; and over phrases the
    same with the number of their occurrences as a run. Length is the number of terms, regardless of the fields'
    weights. ``k1`` may differ from that of `weigh`; with the same ``k1``, all weights 1 and no dictionary the result is
    plain BM25.
    """
    damping = k1 * (1 - b + b * rows.lengths / weighed.average_length)
    runs = [*(run for ways in weighed.units for way in ways for run in way), *(run for run, _ in weighed.phrases)]
    words = list(dict.fromkeys(run[0] for run in runs if len(run) == 1))
    counted = dict(zip(words, rows.counts([tokens[word] for word in words], fields), strict=True))

    def share(run: Run, is_exact: bool = False) -> NDArray[np.float64]:
        if len(run) == 1:
            frequency = counted[run[0]]
        else:
            holders, frequencies = rows.frequency(rows.runs([tokens[term] for term in run]), fields)
            frequency = np.zeros(len(damping))
            frequency[holders] = frequencies
        shared: NDArray[np.float64] = (frequency > 0) / (1 + k1) if is_exact else frequency / (frequency + damping)
        return shared

    total = np.zeros(len(damping))
    for ways, is_exact in zip(weighed.units, weighed.exact, strict=True):
        worths = (reduce(np.add, [worth * share(run, is_exact) for run, worth in way.items()]) for way in ways)
        total += reduce(np.maximum, worths)
    for run, worth in weighed.phrases:
        total += worth * share(run)
    return total


def coverage(
    query: KeywordQuery, blocks: Sequence[tuple[IndexRows, Mapping[str, str]]], fields: FieldWeights
) -> list[float]:
    """Return the share of a query that each row covers, in order, in [0, 1]: the worth of its terms that occur in the
    row, regardless of frequency and text length, over the worth of all.

    ``blocks``: rows, and the token of each term in their namespace. Equals `score` with ``k1`` near 0 over its bound:
    the binary independence model (Robertson and Spärck Jones, 1976). A term's worth is computed among these rows, the
    best candidates: a term that they all hold does not discriminate.
    """
    plain = FieldWeights()
    terms = query.all_terms
    held = [
        [np.count_nonzero(row) for row in rows.counts([tokens[term] for term in terms], plain)]
        for rows, tokens in blocks
    ]
    frequency = {term: int(sum(counts)) for term, counts in zip(terms, zip(*held, strict=True), strict=False)}
    candidates = Collection(
        chunk_count=sum(len(rows.lengths) for rows, _ in blocks),
        term_count=sum(int(rows.lengths.sum()) for rows, _ in blocks),
        chunk_frequency=frequency,
    )
    weighed = weigh(query, candidates)
    scores = (score(weighed, rows, tokens, fields, k1=_PRESENCE).tolist() for rows, tokens in blocks)
    return [min(1.0, scored / (weighed.bound or 1.0)) for block in scores for scored in block]


def long_share(terms: int) -> float:
    """Return how far a query of so many terms counts as long: 0 up to 16 terms, 1 from 48 on. A short question repeats
    a word by accident, a long one because the word is its topic."""
    return min(1.0, max(0, terms - _SHORT) / (_LONG - _SHORT))


def _ways(unit: Unit, collection: Collection, most: float) -> tuple[Way, ...]:
    own = unit.ways[0]
    if len(unit.ways) == 1 and not unit.is_exact:
        return ({(term,): most * _worth(term) * collection.idf(term) for term in own},)
    declared = len(unit.ways) - unit.near
    frequencies = [_frequency(way, collection) for way in unit.ways]
    # A chunk with one spelling often has the others too, as forms of it.
    counted = [frequencies[at] for at, way in enumerate(unit.ways[:declared]) if not at or way not in unit.together]
    together = max(counted) if unit.is_spelled else min(collection.chunk_count, sum(frequencies))
    worth = most * sum(map(collection.idf, own)) * (collection.idf_of(together) / collection.idf_of(frequencies[0]))
    if unit.is_exact and not own[0].startswith("span:"):  # a passage on the same thing often rounds a duration
        worth *= _EXACT_WORTH
    worths = (worth if position < declared else _NEAR * worth for position in range(len(unit.ways)))
    return tuple(
        {way: value} if way in unit.together else _shared(way, value, collection)
        for way, value in zip(unit.ways, worths, strict=True)
    )


def _is_identifier(way: Run) -> bool:
    return len(way) == 1 and _IDENTIFIER.fullmatch(way[0]) is not None


def _of_worth(ways: tuple[Way, ...], least: float) -> tuple[Way, ...]:
    """Return the ways of a unit with a factor by which the first has at least this worth."""
    factor = max(1.0, least / (sum(ways[0].values()) or 1.0))
    return tuple({run: factor * worth for run, worth in way.items()} for way in ways)


def _worth(term: str) -> float:
    return _CODE_WORTH if _CODE.fullmatch(term) else 1.0


def _shared(way: Run, worth: float, collection: Collection) -> Way:
    total = sum(map(collection.idf, way))
    return {(term,): worth * collection.idf(term) / total for term in way}


def _frequency(way: Run, collection: Collection) -> int:
    return min(collection.chunk_frequency.get(term, 0) for term in way)
