"""How sure an answer is of a hit, comparable between queries, unlike scores that are relative to one result list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipeline.core.fusion import Contribution
from pipeline.records import ChannelName


def confidence(strengths: Iterable[float]) -> float:
    """The chance that at least one channel is right, were each right with its own strength: ``1 - Π(1 - s)``.

    A strength is a channel's score over the highest it could have given: BM25 over its bound, cosine over 1.
    Values outside [0, 1] are clipped.
    """
    doubt = 1.0
    for strength in strengths:
        doubt *= 1.0 - min(1.0, max(0.0, strength))
    return 1.0 - doubt


def confidence_of(parts: Iterable[Contribution], bounds: Mapping[ChannelName, float | None]) -> float:
    """How sure an answer is of a hit with these contributions. ``bounds``: the highest score of each channel that can
    say so; the others have no part in it."""
    return confidence(
        part.score / bound for part in parts if part.score is not None and (bound := bounds.get(part.channel))
    )
