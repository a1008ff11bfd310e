"""The configuration of one tenant's queries: profiles, experiments, and the profile that a query gets from both."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import orjson
from pydantic import Field, TypeAdapter

from pipeline.query.built_in_profiles import DEFAULT_PROFILE, ProfileHead, built_in_heads, position
from pipeline.query.plan import Name, StrictRecord, overlaid
from pipeline.records import TenantId
from pipeline.settings import Settings


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One tenant's profiles by name and its active experiments by id. ``is_known`` is false for the built-in
    configuration that replaces one that could not be read."""

    profiles: Mapping[str, ProfileHead]
    experiments: Mapping[str, Experiment] = field(default_factory=dict)
    is_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A query's arm of an experiment, and the changes of that arm."""

    bucket: str
    profile: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)


# From an experiment's id and a unit to the unit's arm; None for a unit that does not take part.
Assign = Callable[[str, str], Assignment | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The profile of one query: name, version, and its partial plan with that of the experiment over it."""

    profile: str
    version: int
    config: Mapping[str, Any]
    bucket: str | None = None


class UnknownProfile(LookupError):  # the reader of the query decides on the response
    """The query names a profile that the tenant does not have."""


def choose(
    configuration: Configuration, *, profile: str | None, experiment_id: str | None, unit: str, assign: Assign
) -> Choice:
    """Return the profile of a query that names ``profile``, ``experiment_id``, both or neither. ``unit``: the unit of
    assignment; the same one always gets the same arm. Raises UnknownProfile."""
    assignment = assign(experiment_id, unit) if experiment_id else None
    name = (assignment and assignment.profile) or profile or DEFAULT_PROFILE
    if name not in configuration.profiles:
        raise UnknownProfile(name)
    version = configuration.profiles[name].version_for(unit)
    if assignment is None:
        return Choice(profile=name, version=version.version, config=version.config)
    config = overlaid(version.config, assignment.overrides)
    return Choice(profile=name, version=version.version, config=config, bucket=assignment.bucket)


def internal(configuration: Configuration) -> Assign:
    """Return the assignment by the tenant's own experiments. An unknown or inactive experiment has no participants."""

    def assign(experiment_id: str, unit: str) -> Assignment | None:
        experiment = configuration.experiments.get(experiment_id)
        arm = None if experiment is None else arm_of(experiment_id, experiment, unit)
        return None if arm is None else Assignment(bucket=arm.name, profile=arm.profile, overrides=arm.overrides)

    return assign


def nobody(_experiment_id: str, _unit: str) -> Assignment | None:
    """Assign no query: experiments are off."""
    return None


def built_in_configuration() -> Configuration:
    """Return the configuration of a tenant that has stored none."""
    return Configuration(profiles=built_in_heads())


def make_assigner(settings: Settings) -> Callable[[TenantId, Configuration], Assign]:
    """Return the assigner of the configured platform. Raises Misconfigured if GrowthBook's features cannot be read."""
    if not settings.recall_experiment_enabled or settings.recall_experiment_platform == "none":
        return lambda _tenant_id, _configuration: nobody
    if settings.recall_experiment_platform == "internal":
        return lambda _tenant_id, configuration: internal(configuration)
    from pipeline.query.growthbook_client import GrowthBookExperiments  # an optional dependency

    growthbook = GrowthBookExperiments(settings.growthbook_features)
    growthbook.load()
    return lambda tenant_id, _configuration: partial(growthbook.assign, tenant_id)
