"""Fusion by a plug-in of an installed package: its protocol, its loading, and checks of its result."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from numbers import Real
from types import MappingProxyType
from typing import Protocol, cast

from pipeline.errors import FusionPluginFailed
from pipeline.ranking.fusion import Completed, Fused, Weights, best_first, weighted_fusion
from pipeline.records import ChunkId, Ranking

GROUP = "chordwise.fusion"


class FusionPlugin(Protocol):
    """A rule that fuses several channels' rankings into one score per chunk. It is called concurrently in threads."""

    def __call__(
        self, rankings: Sequence[Ranking], *, weights: Weights, completed: Completed
    ) -> Mapping[ChunkId, float]:
        """Return the score of each chunk to keep, at least 0, higher is better. ``rankings``: one per channel that
        worked, best first. ``completed``: a channel's scores of chunks that only others recalled. Do not modify the
        arguments."""
        ...


def custom_fusion(
    plugin: FusionPlugin, rankings: Sequence[Ranking], *, weights: Weights, completed: Completed | None = None
) -> list[Fused]:
    """Merge rankings by the scores of ``plugin``. Best first; equal scores are ordered by chunk id.

    A chunk without a score is dropped. A plug-in returns totals only, so ``contribution`` and ``normalized`` of every
    channel are None; rank and score are the channel's own. Raises FusionPluginFailed when the plug-in raises, invents a
    chunk, or gives a score that is not a finite number of 0 or more.
    """
    candidates = {chunk_id for ranking in rankings for chunk_id in ranking.chunk_ids}
    extra = {channel: MappingProxyType(dict(scores)) for channel, scores in (completed or {}).items()}
    try:
        scores = plugin(tuple(rankings), weights=MappingProxyType(dict(weights)), completed=MappingProxyType(extra))
    except Exception as error:  # every error of a plug-in has the same meaning: the rule did not work
        raise FusionPluginFailed(f"it raised {type(error).__name__}") from error
    if not isinstance(scores, Mapping):
        raise FusionPluginFailed(f"it gave a {type(scores).__name__} instead of a mapping from chunk to score")
    for chunk_id, score in scores.items():
        if chunk_id not in candidates:
            raise FusionPluginFailed("it gave a chunk that no channel recalled")
        if isinstance(score, bool) or not isinstance(score, Real) or not math.isfinite(score) or score < 0:
            raise FusionPluginFailed("it gave a score that is not a finite number of 0 or more")
    seen = weighted_fusion(rankings, completed=completed)
    return best_first(_rescored(hit, float(scores[hit.chunk_id])) for hit in seen if hit.chunk_id in scores)


def _rescored(hit: Fused, score: float) -> Fused:
    parts = tuple(part._replace(normalized=None, contribution=None) for part in hit.contributions)
    return hit._replace(score=score, contributions=parts)


@functools.cache
def installed_fusions() -> tuple[str, ...]:
    """Return the names of the installed fusions without loading any."""
    return tuple(sorted(entry_points(group=GROUP).names))


@functools.cache
def load_fusion(name: str) -> FusionPlugin:
    """Return the fusion of this name, loaded once in each process. Raises FusionPluginFailed."""
    try:
        fusion = next(iter(entry_points(group=GROUP, name=name))).load()
    except StopIteration:
        raise FusionPluginFailed("it is not installed here") from None
    except Exception as error:  # a third-party module may raise anything when it is loaded
        raise FusionPluginFailed(f"it could not be loaded: {type(error).__name__}") from error
    if not callable(fusion):
        raise FusionPluginFailed(f"a {type(fusion).__name__} cannot be called")
    return cast(FusionPlugin, fusion)
