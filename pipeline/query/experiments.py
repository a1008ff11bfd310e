"""Experiments: which arm a query falls into, and what that changes of its plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import orjson
from pydantic import ConfigDict, Field, TypeAdapter

from pipeline.query.profiles import position

_STRICT = ConfigDict(extra="forbid")

Name = Annotated[str, Field(min_length=1, max_length=64)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way of doing it. ``share`` is taken relative to those of the other arms. ``overrides`` are parts of a plan, laid
    over the profile; ``profile`` puts another profile in its place first."""

    __pydantic_config__ = _STRICT

    name: Name
    share: Annotated[float, Field(ge=0, le=1000)] = 1.0
    profile: Name | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Arms, the first being the baseline. ``coverage``: the share of units that take part; the others are asked without
    it. ``salt``: redraws."""

    __pydantic_config__ = _STRICT

    arms: Annotated[tuple[Arm, ...], Field(min_length=1, max_length=20)]
    coverage: Annotated[float, Field(ge=0, le=1)] = 1.0
    salt: Annotated[str, Field(max_length=64)] = ""
    note: Annotated[str, Field(max_length=255)] = ""

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        if len(set(names)) != len(names):
            raise ValueError("two arms have the same name")
        if not math.fsum(arm.share for arm in self.arms):
            raise ValueError("no arm has a share above 0")


EXPERIMENT: TypeAdapter[Experiment] = TypeAdapter(Experiment)


def read_experiment(config: Mapping[str, Any]) -> Experiment:
    """The experiment that ``config`` describes. Raises pydantic's ValidationError."""
    return EXPERIMENT.validate_json(orjson.dumps(config), strict=True)


def arm_of(experiment_id: str, experiment: Experiment, unit: str) -> Arm | None:
    """Return the arm of ``unit``, always the same; None if it does not take part. Taking part and the arm are drawn
    independently, so a higher coverage moves nobody."""
    salt = f"{experiment_id}:{experiment.salt}"
    if position(f"{salt}:coverage", unit) >= experiment.coverage:
        return None
    total = math.fsum(arm.share for arm in experiment.arms)
    point, passed = position(salt, unit) * total, 0.0
    chosen = [arm for arm in experiment.arms if arm.share]
    for arm in chosen:
        passed += arm.share
        if point < passed:
            return arm
    return chosen[-1]  # what rounding left over
