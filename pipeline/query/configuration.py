"""How one tenant's queries are answered: profiles, experiments, and what both make of a query that names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.query.experiments import Experiment, arm_of
from pipeline.query.plan import overlaid
from pipeline.query.profiles import BUILT_IN, DEFAULT_PROFILE, ProfileHead, built_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """How one tenant's queries are answered: its profiles by name, its active experiments by id. ``is_known``
    is false for the built-in one in the place of one that could not be read."""

    profiles: Mapping[str, ProfileHead]
    experiments: Mapping[str, Experiment] = field(default_factory=dict)
    is_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The arm of an experiment that a query fell into, and what it changes."""

    bucket: str
    profile: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)


# From an experiment's id and the unit that is drawn to its arm; None for who does not take part.
Assign = Callable[[str, str], Assignment | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The profile of one query: its name and version, and its parts of a plan with those of the experiment over them."""

    profile: str
    version: int
    config: Mapping[str, Any]
    bucket: str | None = None


class UnknownProfile(LookupError):  # whoever reads the query decides what it means
    """The query names a profile that the tenant does not have."""


def choose(
    configuration: Configuration, *, profile: str | None, experiment_id: str | None, unit: str, assign: Assign
) -> Choice:
    """What a query gets that names ``profile`` and ``experiment_id``, or neither. ``unit``: what is drawn, so that one
    session always gets the same. Raises UnknownProfile."""
    assignment = assign(experiment_id, unit) if experiment_id else None
    wanted = (assignment.profile if assignment else None) or profile or DEFAULT_PROFILE
    head = configuration.profiles.get(wanted)
    if head is None:
        raise UnknownProfile(wanted)
    version = head.version_for(unit)
    overrides = assignment.overrides if assignment else {}
    return Choice(
        profile=wanted,
        version=version.version,
        config=overlaid(version.config, overrides),
        bucket=assignment.bucket if assignment else None,
    )


def internal(configuration: Configuration) -> Assign:
    """Assignment by the tenant's own experiments. One that is not known, or not active, has nobody in it."""

    def assign(experiment_id: str, unit: str) -> Assignment | None:
        experiment = configuration.experiments.get(experiment_id)
        arm = None if experiment is None else arm_of(experiment_id, experiment, unit)
        return None if arm is None else Assignment(bucket=arm.name, profile=arm.profile, overrides=arm.overrides)

    return assign


def nobody(_experiment_id: str, _unit: str) -> Assignment | None:
    """Assignment where experiments are off."""
    return None


def built_in_configuration() -> Configuration:
    """What a tenant has that never stored anything."""
    heads = {name: ProfileHead(name=name, active=version) for name in BUILT_IN if (version := built_in(name))}
    return Configuration(profiles=heads)
