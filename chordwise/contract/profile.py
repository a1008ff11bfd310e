"""Profiles and experiments of retrieval."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    """Arms of retrieval that are compared on real queries. `experiment` holds the arms and `coverage`."""

    experiment_id: str
    active: bool
    experiment: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileShape(Answered):
    """The active version of a profile. `config_version` is in every answer that used it."""

    name: str = field(metadata={"json_schema_extra": {"minLength": 1, "maxLength": 128}})
    config_version: int
    built_in: bool
    note: str
    trial_version: int | None
    trial_share: float
    previous_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDetail(ProfileShape):
    """A profile with its configuration and the resulting complete plan."""

    config: Mapping[str, Any]
    plan: Mapping[str, Any]
