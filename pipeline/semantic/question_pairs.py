"""Curated question-answer pairs: recognise them, extract their question, and compare it with another one.

A pair is a chunk cut by the strategy ``qa``, or the document of one example, which keeps both parts in its metadata.
Both kinds are stored as any other chunk; `filters.sql_filters` selects them by the names defined here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.chunking.strategies.question_answer import ANSWER_KEY, PAIR_TYPE, QUESTION_KEY, pair_of
from pipeline.keyword.terms import query_terms
from pipeline.query.request import Query

# The better of the two similarities counts more: users ask the same thing in other words, and a model that does not
# know a word takes two questions for equal that differ only in that word.
_BETTER = 0.7
_MOST_TEXTS = 6  # texts of one query that are compared: itself, its rewrite, and its sub-queries


def compared_texts(query: Query) -> list[str]:
    """Return the texts to compare with stored questions, of which the best counts: question, rewrite, sub-queries."""
    more = query.understanding.sub_queries if query.understanding else ()
    return list(dict.fromkeys((query.query_text, query.text, *more)))[:_MOST_TEXTS]


def question_of(*, text: str, chunk_type: str, heading_path: Sequence[str], metadata: Mapping[str, Any]) -> str | None:
    """Return the question of a pair, None for other chunks. Later parts of a long pair have the question as a heading."""
    if chunk_type == PAIR_TYPE:
        pair = pair_of(text)
        return pair[0] if pair else (heading_path[-1] if heading_path else None)
    question = metadata.get(QUESTION_KEY)
    return question if isinstance(question, str) and question and ANSWER_KEY in metadata else None


def words_in_common(terms: Sequence[str], stored: str) -> float:
    """Return the lexical similarity of two questions: the cosine of their sets of terms, ``common / sqrt(n * m)``.

    ``terms`` are the `query_terms` of the one, ``stored`` is the text of the other. In [0, 1]; 1 if they have the same
    terms, 0 if none is common or one question has none.
    """
    mine, theirs = set(terms), set(query_terms(stored))
    if not mine or not theirs:
        return 0.0
    return len(mine & theirs) / math.sqrt(len(mine) * len(theirs))


def likeness(words: float, meaning: float | None) -> float:
    """Return the similarity of two questions: 0.7 times the better and 0.3 times the other of both measures. In [0, 1].

    ``meaning`` is a cosine, negative values taken as 0; None if no model could tell, then the words alone count.
    """
    if meaning is None:
        return words
    meaning = min(1.0, max(0.0, meaning))
    return _BETTER * max(words, meaning) + (1 - _BETTER) * min(words, meaning)


def graded(score: float, grade: Any, grades: Sequence[str], *, near_tie: float) -> float:
    """Return the score lowered a little by grade, to order near ties: ``score * (1 - near_tie * r / n)``.

    ``grades`` go from best (r = 0) to worst (r = n); a pair without a grade, or with an unknown one, counts as the
    worst. So the better grade wins wherever scores differ by less than their grades do, and of two answers to the same
    question the better one. Still in [0, 1].
    """
    steps = len(grades) - 1
    if steps < 1:
        return score
    rank = grades.index(grade) if grade in grades else steps
    return score * (1.0 - near_tie * rank / steps)
