"""Whatever anybody sends to an operation, the answer is one that the description of the interface has."""

from __future__ import annotations
