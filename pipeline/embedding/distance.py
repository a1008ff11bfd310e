"""The distances by which vectors are compared, and the score that each gives to unrelated vectors."""

import math
from typing import Final, Literal

Distance = Literal["cosine", "euclidean"]

# The score of two unit vectors at right angles: ``1 - distance``, or ``1 / (1 + distance)`` with the distance sqrt(2).
ORTHOGONAL: Final[dict[Distance, float]] = {"cosine": 0.0, "euclidean": 1 / (1 + math.sqrt(2))}
