"""Maximal marginal relevance: what is returned should not say the same thing twice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from pipeline.keyword.normal_form import normal_form
from pipeline.ranking.hits import Hit

_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"  # Han and kana, in which words have no gaps between them
_RUNS = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_WORDS = re.compile(r"[a-z0-9]+")


def shingles(text: str) -> frozenset[str]:
    """The words of a text, and the pairs of neighbouring characters where words have no gaps between them."""
    if text.isascii():
        return frozenset(_WORDS.findall(text.lower()))
    found: set[str] = set()
    for run in _RUNS.findall(normal_form("NFKC", text).casefold()):
        if len(run) > 1 and _IS_UNSPACED.match(run):
            found.update(map("".join, pairwise(run)))
        else:
            found.add(run)
    return frozenset(found)


def likeness(one: frozenset[str], said: frozenset[str]) -> float:
    """Share of ``one``'s words that ``said`` holds, in [0, 1]; 0 without words. A text that repeats a part is more
    alike than one that adds to it."""
    return len(one & said) / len(one) if one else 0.0


def diversified(hits: Sequence[Hit], *, diversity: float, top_k: int) -> list[Hit]:
    """Up to ``top_k`` of the hits, one at a time: always the one with the highest ``lambda * relevance - (1 - lambda) *
    likeness``, lambda being ``1 - diversity``, relevance its score over the best score, likeness that to whichever hit
    taken before is most like it. The first of equals.

    ``score`` stays what relevance says, so in what is returned it may rise; ``likeness`` says why.
    """
    if diversity <= 0:
        return list(hits[:top_k])
    best = max((hit.score for hit in hits), default=0.0)
    said = [shingles(hit.passage.text) for hit in hits]
    gain = [(1 - diversity) * (hit.score / best if best > 0 else 0.0) for hit in hits]
    nearest = [0.0] * len(hits)
    left = list(range(len(hits)))
    chosen: list[Hit] = []
    while left and len(chosen) < top_k:
        taken = max(left, key=lambda place: (gain[place] - diversity * nearest[place], -place))
        left.remove(taken)
        chosen.append(replace(hits[taken], likeness=nearest[taken]))
        for place in left:
            nearest[place] = max(nearest[place], likeness(said[place], said[taken]))
    return chosen
