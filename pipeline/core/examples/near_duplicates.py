"""Rows of a book that ask nearly the same question as an earlier one."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from pipeline.core.normal_form import normal_form
from pipeline.core.terms import holds_unspaced

THRESHOLD: Final = 0.7  # Jaccard similarity of shingles, from which on two questions count as nearly the same

# A pair at the threshold is a candidate with a probability of 1 - (1 - 0.7^4)^16 = 0.987.
_PERMUTATIONS, _BANDS, _SEED = 64, 16, 1
_MOST_CANDIDATES = 20  # compared with one question
_NO_WORD = re.compile(r"[\W_]+")


class NearDuplicates:
    """The questions of one category: MinHash with LSH proposes candidates, the exact Jaccard similarity of shingles
    decides."""

    def __init__(self) -> None:
        # Not at the top: the parser process imports this package, and its memory is limited.
        from rensa import RMinHash, RMinHashLSH

        self._signature = partial(RMinHash, num_perm=_PERMUTATIONS, seed=_SEED)
        self._index = RMinHashLSH(threshold=THRESHOLD, num_perm=_PERMUTATIONS, num_bands=_BANDS)
        self._seen: list[tuple[frozenset[str], str]] = []
        self._by_text: dict[str, str] = {}

    def add(self, question: str, place: str) -> tuple[str, float] | None:
        """Return the place of a nearly equal earlier question and the similarity in [0, 1], or None. Case, width,
        punctuation and white space do not count. Only questions unlike all earlier ones are indexed, which bounds the
        cost."""
        text = _NO_WORD.sub("", normal_form("NFKC", question).casefold())
        if not text:
            return None
        if text in self._by_text:
            return self._by_text[text], 1.0
        self._by_text[text] = place
        shingles = _shingles(text)
        signature = self._signature()
        signature.update(sorted(shingles))
        candidates = (self._seen[number] for number in self._index.query(signature)[:_MOST_CANDIDATES])
        compared = [(_jaccard(shingles, others), where) for others, where in candidates]
        similarity, where = max(compared, default=(0.0, ""))
        if similarity >= THRESHOLD:
            return where, similarity
        self._index.insert(len(self._seen), signature)
        self._seen.append((shingles, place))
        return None


def _shingles(text: str) -> frozenset[str]:
    """Return characters and pairs of characters of a text in a script without spaces, else triples of letters."""
    lengths = (1, 2) if holds_unspaced(text) else (3,)
    found = (text[at : at + length] for length in lengths for at in range(max(1, len(text) - length + 1)))
    return frozenset(found)


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)
