"""The weight of the semantic channel beside the keyword channel, by what the two of them found for a query."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.records import ChunkId

# Learnt on 24 judged sets; leaving one out changes little: docs/decisions/0093.
_UNREAD: Final = 4.0
_LEAST_UNREAD: Final = 0.2  # in one language, too, some of the first ten hold no word of a query
_ALL_UNREAD: Final = 0.6
_FOREIGN: Final = 6.0
_ALL_FOREIGN: Final = 0.3
_ALL_COVERED: Final = 0.6  # from here on the words are the query's own language
PAIRS: Final = 1.8  # a query in pairs of characters has many that are no word
_SLOPE: Final = 2.5
_USUAL_LEAD: Final = 0.2
_MOST: Final = 0.5
_FIRST: Final = 10
_CONSIDERED: Final = 100  # best hits, the default pool
_FLAT: Final = 1e-9  # spread of the scores, as a share of the highest


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryEvidence:
    """The results of both searches for a query. ``covered``: the share of the query's worth that the first hit by words
    holds. ``unread``: the share of the first ten hits by meaning that hold no word of the query. ``foreign``: the share that
    holds not even its words of grammar, which are not searched for; None unless the query is English and the model finds
    translations. ``lead``: see `lead_of`.
    ``long``: how long the query is (`keyword.scoring.long_share`). ``beyond_words``: how well the model recognises
    passages without a word of the query. All in [0, 1]."""

    covered: float
    unread: float
    lead: float | None
    long: float
    beyond_words: float
    foreign: float | None = None

    @classmethod
    def of(
        cls,
        words: Sequence[float],
        meaning: Sequence[tuple[str, float]],
        *,
        scored: Mapping[ChunkId, float],
        bound: float | None,
        unspaced: bool,
        long: float,
        beyond_words: float,
        foreign: int | None = None,
    ) -> "QueryEvidence":
        """Return the evidence of both channels' hits, best first. ``words``: the keyword channel's scores, ``bound``: the
        highest possible one; ``scored``: its scores of chunks that only the semantic channel found. ``unspaced``: the
        query is written without spaces between words. ``foreign``: how many of `unread_of` hold no word of grammar."""
        first = words[0] / bound if words and bound else 0.0
        nearest = meaning[:_FIRST]
        return cls(
            covered=min(1.0, max(0.0, first) * (PAIRS if unspaced else 1.0)),
            unread=len(unread_of(meaning, scored)) / len(nearest) if nearest else 0.0,
            foreign=foreign / len(nearest) if nearest and foreign is not None else None,
            lead=lead_of([score for _, score in meaning]),
            long=long,
            beyond_words=beyond_words,
        )


def unread_of(meaning: Sequence[tuple[str, float]], scored: Mapping[ChunkId, float]) -> list[ChunkId]:
    """Return those of the first ten hits by meaning that hold no word of the query."""
    nearest = [ChunkId(chunk_id) for chunk_id, _ in meaning[:_FIRST]]
    return [chunk_id for chunk_id in nearest if scored.get(chunk_id) == 0]


def semantic_factor(evidence: QueryEvidence) -> float:
    """Return the factor of the semantic channel's weight for this query, from 0.61 to 665.

    ``exp(long * min(0.5, 2.5 * (lead - 0.2)) + 4 * beyond_words * u * max(0, 1 - covered / 0.6))``, where ``u`` is
    ``unread`` from 0.2 (0) to 0.6 (1). The first term, from -0.5 to 0.5, is 0 where `lead_of` is None: a vector search
    always finds a hundred neighbours, and if the first does not stand out, it did not recognise the query. The second,
    from 0 to 4: words cannot judge passages in another language or in other words, which a model may recognise; but if
    one passage holds much of the query, the words are those of the answer.

    Where ``foreign`` is known, the second term is ``6 * beyond_words * min(1, foreign / 0.3) * max(0, 1 - covered / 0.6)``,
    from 0 to 6: an English passage may hold none of the words that are searched for, but one without its words of grammar
    is in another language.
    """
    unread = _UNREAD * min(1.0, max(0.0, (evidence.unread - _LEAST_UNREAD) / (_ALL_UNREAD - _LEAST_UNREAD)))
    if evidence.foreign is not None:
        unread = _FOREIGN * min(1.0, evidence.foreign / _ALL_FOREIGN)
    exponent = evidence.beyond_words * unread * max(0.0, 1 - evidence.covered / _ALL_COVERED)
    if evidence.lead is not None:
        exponent += evidence.long * min(_MOST, _SLOPE * (evidence.lead - _USUAL_LEAD))
    return math.exp(exponent)


def lead_of(scores: Sequence[float]) -> float | None:
    """Return how far the first hit is ahead of the second, as a share of the span of the best 100, in [0, 1].

    ``scores``: best first. Return None if all score alike, and for less than 10 hits, which depend more on the collection than
    on the query."""
    first = scores[:_CONSIDERED]
    if len(first) < _FIRST or not first[0] - first[-1] > _FLAT * abs(first[0]):
        return None
    return (first[0] - first[1]) / (first[0] - first[-1])
