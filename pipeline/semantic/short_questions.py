"""Made-up questions of a few words, for measuring recall where no question that was asked is kept.

Texts themselves would not do: an index is built of them, so it finds their neighbours more often than a question's.
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
    """Two to five keywords of each text, in their order; of a shorter one all, of one without any none.

    The same for the same seed.
    """
    rng = random.Random(seed)
    questions = []
    for text in texts:
        words = keywords_of(text[:_READ], most=_WORDS)
        chosen = sorted(rng.sample(range(len(words)), min(len(words), rng.randint(_FEWEST, _MOST))))
        questions.append(("" if holds_unspaced(text) else " ").join(words[place] for place in chosen))
    return [question for question in questions if question]
