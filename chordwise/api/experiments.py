"""Experiments: arms of retrieval compared on real queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chordwise.errors import UnexpectedAnswer
from chordwise.records import Result, decode
from chordwise.resource import Resource, operation, segment
from chordwise.transport import Steps

_EXPERIMENTS = "/v1/experiments"


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(Result):
    """Arms of retrieval that are compared on real queries: ``experiment`` has them, and ``coverage``."""

    experiment_id: str
    active: bool = False
    experiment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResult(Result):
    """What people thought of the answers of one arm of an experiment."""

    bucket: str
    good: int = 0
    bad: int = 0
    clicks: int = 0
    queries: int = 0
    sessions: int = 0
    mean_click_place: float | None = None


class ExperimentOperations(Resource):
    """Operations on experiments. Every call may be sent twice."""

    @operation
    def experiments(self) -> Steps[list[Experiment]]:
        """Every experiment."""
        return self._list(Experiment, _EXPERIMENTS)

    @operation
    def store_experiment(
        self, experiment_id: str, experiment: Mapping[str, Any], *, active: bool = True
    ) -> Steps[Experiment]:
        """Add or change an experiment: ``arms`` and ``coverage``, see docs/profiles.md."""
        body = {"experiment": dict(experiment), "active": active}
        return self._one(Experiment, "PUT", f"{_EXPERIMENTS}/{segment(experiment_id)}", body=body)

    @operation
    def delete_experiment(self, experiment_id: str) -> Steps[None]:
        """Remove an experiment; queries that name it are asked as if there were none."""
        yield from self._request("DELETE", f"{_EXPERIMENTS}/{segment(experiment_id)}")

    @operation
    def experiment_results(self, experiment_id: str) -> Steps[list[ArmResult]]:
        """What people thought of each arm's answers; the first is what the others are compared with."""
        path = f"/v1/experiments/{segment(experiment_id)}/results"
        said = (yield from self._request("GET", path)).json()
        if not isinstance(said, dict) or not isinstance(said.get("buckets"), list):
            raise UnexpectedAnswer("the results of an experiment come without buckets")
        return [decode(ArmResult, entry) for entry in said["buckets"]]
