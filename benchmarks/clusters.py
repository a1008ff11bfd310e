"""Synthetic vectors distributed like those of texts: themes, topics within them, passages around a topic. Reproducible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_THEMES = 40
_PASSAGES_PER_TOPIC = 50
_THEME_SHARE = 0.8  # distance of topics from their theme, relative to the theme's length
_SPREAD = 0.7  # distance of passages from their topic
_QUERY_SPREAD = 0.9  # a question is a little farther out than its answers

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Clusters:
    """Topics of one dimension. ``rng`` advances with every call."""

    topics: NDArray[np.float64]
    rng: np.random.Generator

    @classmethod
    def of(cls, passages: int, *, dimension: int, seed: int) -> Clusters:
        """Make topics for a number of passages."""
        rng = np.random.default_rng(seed)
        count = max(1, passages // _PASSAGES_PER_TOPIC)
        themes = rng.normal(size=(_THEMES, dimension))
        topics = _THEME_SHARE * rng.normal(size=(count, dimension)) + themes[rng.integers(0, _THEMES, count)]
        return cls(topics / np.linalg.norm(topics, axis=1, keepdims=True), rng)

    def passages(self, count: int) -> Matrix:
        """Return unit vectors around randomly drawn topics."""
        return self._around(count, _SPREAD)

    def questions(self, count: int) -> Matrix:
        """Return passages' vectors a little farther out."""
        return self._around(count, _QUERY_SPREAD)

    def _around(self, count: int, spread: float) -> Matrix:
        chosen = self.topics[self.rng.integers(0, len(self.topics), count)]
        moved = chosen + spread / np.sqrt(chosen.shape[1]) * self.rng.normal(size=chosen.shape)
        return (moved / np.linalg.norm(moved, axis=1, keepdims=True)).astype(np.float32)
