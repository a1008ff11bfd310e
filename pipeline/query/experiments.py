"""Experiments: the arm of a query, and its changes of the plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import orjson
from pydantic import Field, TypeAdapter

from pipeline.query.built_in_profiles import position
from pipeline.query.plan import Name, StrictRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm(StrictRecord):
    """One arm of an experiment. ``share``: relative to those of the other arms. ``overrides``: parts of a plan, laid
    over the profile; ``profile`` replaces the profile first."""

    name: Name
    share: Annotated[float, Field(ge=0, le=1000)] = 1.0
    profile: Name | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(StrictRecord):
    """Arms, the first being the baseline. ``coverage``: the share of units that take part; the others get no arm.
    ``salt``: change it to draw anew."""

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
    """Return the experiment that ``config`` describes. Raises pydantic's ValidationError."""
    return EXPERIMENT.validate_json(orjson.dumps(config), strict=True)


def arm_of(experiment_id: str, experiment: Experiment, unit: str) -> Arm | None:
    """Return the arm of ``unit``, always the same; None if it does not take part. Participation and arm are drawn
    independently, so a higher coverage changes no arm."""
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
    return chosen[-1]  # the remainder of rounding
