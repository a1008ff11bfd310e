"""Made-up questions of a few words, for measuring recall where no question that was asked is kept.

Texts themselves would not do: an index is built of them, so it finds their neighbours more often than a question's.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from pipeline.core.segmentation import segment
from pipeline.core.terms import holds_unspaced

_FEWEST, _MOST = 2, 5
_READ = 2000  # characters of a text


def short_questions(texts: Iterable[str], *, seed: int) -> list[str]:
    """Two to five words of each text, in their order; of a shorter one all. The same for the same seed."""
    rng = random.Random(seed)
    questions = []
    for text in texts:
        unspaced = holds_unspaced(text)
        words = segment(text[:_READ]) if unspaced else text[:_READ].split()
        words = [word for word in words if any(character.isalnum() for character in word)]
        count = min(len(words), rng.randint(_FEWEST, _MOST))
        chosen = sorted(rng.sample(range(len(words)), count))
        questions.append(("" if unspaced else " ").join(words[place] for place in chosen))
    return [question for question in questions if question]
