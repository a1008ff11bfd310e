"""Synthetic questions of a few words, for measuring recall where no real questions are stored.

Whole texts would not do: an index is built from them, so it finds their neighbours more often than a question's.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from pipeline.keyword.terms import holds_unspaced
from pipeline.query.keywords import keywords_of

_FEWEST, _MOST = 2, 5
_READ = 2000  # characters of a text
_WORDS = 200


def short_questions(texts: Iterable[str], *, seed: int) -> list[str]:
    """Return two to five keywords of each text, in their order; all keywords of a shorter text; nothing for a text
    without any.

    Deterministic for a given seed.
    """
    rng = random.Random(seed)
    questions = []
    for text in texts:
        words = keywords_of(text[:_READ], most=_WORDS)
        chosen = sorted(rng.sample(range(len(words)), min(len(words), rng.randint(_FEWEST, _MOST))))
        questions.append(("" if holds_unspaced(text) else " ").join(words[place] for place in chosen))
    return [question for question in questions if question]
