"""The distances by which vectors of length 1 are compared: what pgvector calls them, and the score that each gives."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

Distance = Literal["cosine", "euclidean"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A distance in pgvector's words. ``similarity``: the score of a distance, higher for nearer, 1 for equal vectors;
    ``orthogonal``: that of two vectors at right angles."""

    operator: str
    operator_class: str
    similarity: Callable[[float], float]
    orthogonal: float


MEASURES: Final[dict[Distance, Measure]] = {
    "cosine": Measure(
        operator="<=>",
        operator_class="halfvec_cosine_ops",
        similarity=lambda distance: 1.0 - distance,
        orthogonal=0.0,
    ),
    "euclidean": Measure(
        operator="<->",
        operator_class="halfvec_l2_ops",
        similarity=lambda distance: 1.0 / (1.0 + distance),
        orthogonal=1.0 / (1.0 + math.sqrt(2)),
    ),
}
