"""Profiles and experiments of retrieval."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from chordwise.contract.record import Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileVersionShape(Answered):
    """One version of a profile."""

    config_version: int
    config: Mapping[str, Any]
    note: str
    created_by: str
    created_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentShape(Answered):
    """An experiment."""

    experiment_id: str
    active: bool
    experiment: Mapping[str, Any]
