"""Counts of a tenant's calls of models, by day, job, purpose and model."""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Literal

UsageKey = Literal["day", "job", "model", "purpose"]


class Purpose(enum.StrEnum):
    """Purposes of calls: embedding, then those of the language model."""

    INGEST = "ingest"
    QUERY = "query"
    EDIT = "edit"
    REPAIR = "repair"
    UNDERSTAND = "understand"
    RERANK = "rerank"
    ANSWER = "answer"


OF_THE_LANGUAGE_MODEL = frozenset({Purpose.UNDERSTAND, Purpose.RERANK, Purpose.ANSWER})


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCounts:
    """``texts`` sent in ``requests`` as ``tokens``, with those of replies; ``cached_texts`` saved about ``saved_tokens``.
    ``cost``: at the prices of their time."""

    requests: int = 0
    texts: int = 0
    tokens: int = 0
    cached_texts: int = 0
    saved_tokens: int = 0
    cost: Decimal = Decimal(0)

    def __add__(self, other: UsageCounts) -> UsageCounts:
        return UsageCounts(
            **{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(self)}
        )
