"""Curated question-answer pairs: which chunks are pairs, what their question is, and how well it meets another one.

A pair is a chunk that the strategy ``qa`` cut, or the document of one example, which keeps both its parts in its
metadata. Both kinds are stored as any other chunk; `filters.sql` finds them by what is named here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.chunking.pair_marks import ANSWER_KEY, PAIR_TYPE, QUESTION_KEY
from pipeline.chunking.strategies.question_answer import pair_of
from pipeline.keyword.terms import query_terms
from pipeline.query.request import Query

# Of the two ways in which questions may be alike, the better one counts more: people say the same thing in other words,
# and a model that does not know a word takes two questions for alike that differ in that word only.
_BETTER = 0.7
_MOST_TEXTS = 6  # of one query that are compared: itself, as it was rewritten, and its sub-queries


def compared_texts(query: Query) -> list[str]:
    """What is compared with the stored questions: the question as it was sent, its rewrite beside it, and its
    sub-queries. The best likeness counts."""
    more = query.understanding.sub_queries if query.understanding else ()
    return list(dict.fromkeys((query.query_text, query.text, *more)))[:_MOST_TEXTS]


def question_of(*, text: str, chunk_type: str, heading_path: Sequence[str], metadata: Mapping[str, Any]) -> str | None:
    """The question of a pair, None for what is none. The later parts of a long pair have it above them as a heading."""
    if chunk_type == PAIR_TYPE:
        pair = pair_of(text)
        return pair[0] if pair else (heading_path[-1] if heading_path else None)
    asked = metadata.get(QUESTION_KEY)
    return asked if isinstance(asked, str) and asked and ANSWER_KEY in metadata else None


def words_in_common(asked: Sequence[str], stored: str) -> float:
    """How alike two questions are by their words: the cosine of their sets of terms, ``common / sqrt(n * m)``.

    ``asked`` are the `query_terms` of the one, ``stored`` is the text of the other. In [0, 1]; 1 if they have the same
    terms, 0 if none is common or one question has none.
    """
    mine, theirs = set(asked), set(query_terms(stored))
    if not mine or not theirs:
        return 0.0
    return len(mine & theirs) / math.sqrt(len(mine) * len(theirs))


def likeness(words: float, meaning: float | None) -> float:
    """How alike two questions are: the better of both measures counts 0.7, the other one 0.3. In [0, 1].

    ``meaning`` is a cosine, below 0 taken as 0; None where no model could tell, then the words alone count.
    """
    if meaning is None:
        return words
    meaning = min(1.0, max(0.0, meaning))
    return _BETTER * max(words, meaning) + (1 - _BETTER) * min(words, meaning)


def graded(score: float, grade: Any, grades: Sequence[str], *, near_tie: float) -> float:
    """A score that tells near ties apart by grade: ``score * (1 - near_tie * r / n)``.

    ``grades`` go from best (r = 0) to worst (r = n); a pair without one, or with another one, counts as the worst. So
    the better grade is first wherever scores differ by less than their grades do, and the same question twice is
    answered by the better answer. Still in [0, 1].
    """
    steps = len(grades) - 1
    if steps < 1:
        return score
    place = grades.index(grade) if grade in grades else steps
    return score * (1.0 - near_tie * place / steps)
