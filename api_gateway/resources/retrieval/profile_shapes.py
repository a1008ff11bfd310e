"""Profiles and experiments, as they are stored and shown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from api_gateway.http.fields import DescribedBy, Label, Wire
from api_gateway.resources.shapes import Shape, shown
from pipeline.query.experiments import Experiment
from pipeline.query.plan import Plan, plan_as_json
from pipeline.query.profiles import BUILT_IN, ProfileHead, ProfileVersion

Share = Annotated[float, Field(ge=0, le=1)]


class ProfileRequest(Wire):
    """A new version of a profile. `config` is a plan in part: what it leaves open, the installation's settings say.
    `share`: 1 lets every query have it, less tries it beside the active version, 0 only stores it."""

    config: Annotated[dict[str, Any], DescribedBy(Plan)]
    note: Annotated[str, Field(max_length=255)] = ""
    share: Share = 1.0
    tenant_id: str | None = None


class ActivateRequest(Wire):
    """Which version queries get, and which share of them; less than 1 is a trial beside the active one."""

    version: Annotated[int, Field(ge=1)]
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    tenant_id: str | None = None


class ExperimentRequest(Wire):
    """An experiment; the first arm is what the others are compared with."""

    experiment: Annotated[dict[str, Any], DescribedBy(Experiment)]
    active: bool = True
    tenant_id: str | None = None


class ProfileShape(Shape):
    """A profile as it counts now. `config_version` stands in every answer that was made with it."""

    name: Label
    config_version: int
    built_in: bool
    note: str
    trial_version: int | None
    trial_share: float
    previous_version: int | None


class ProfileDetail(ProfileShape):
    """A profile with what it says, and the whole plan that this makes here."""

    config: dict[str, Any]
    plan: dict[str, Any]


class ProfileList(Shape):
    """Every profile a query may name."""

    data: list[ProfileShape]
    next_cursor: None


class ProfileVersionShape(Shape):
    """One version of a profile."""

    config_version: int
    config: dict[str, Any]
    note: str
    created_by: str
    created_at: datetime | None


class ProfileVersionList(Shape):
    """Every version, the newest first."""

    data: list[ProfileVersionShape]
    next_cursor: None


class ExperimentShape(Shape):
    """An experiment."""

    experiment_id: str
    active: bool
    experiment: dict[str, Any]


class ExperimentList(Shape):
    """Every experiment of the tenant."""

    data: list[ExperimentShape]
    next_cursor: None


def profile(head: ProfileHead) -> dict[str, Any]:
    """One profile in a list."""
    return {
        "name": head.name,
        "config_version": head.active.version,
        "built_in": head.name in BUILT_IN,
        "note": head.active.note,
        "trial_version": head.trial.version if head.trial else None,
        "trial_share": head.trial_share,
        "previous_version": head.previous_version,
    }


def profile_detail(head: ProfileHead, plan: Plan) -> dict[str, Any]:
    """One profile with its plan."""
    return {**profile(head), "config": dict(head.active.config), "plan": plan_as_json(plan)}


def profile_version(version: ProfileVersion) -> dict[str, Any]:
    """One version."""
    return shown(ProfileVersionShape, version, config_version=version.version, config=dict(version.config))
