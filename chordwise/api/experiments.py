"""Experiments: arms of retrieval compared on real queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chordwise.contract import profile, ratings
from chordwise.resource import Resource, entries, operation, path
from chordwise.transport import Steps

Experiment = profile.ExperimentShape
ArmResult = ratings.ArmResult


class ExperimentOperations(Resource):
    """Operations on experiments. Every call may be sent twice."""

    @operation
    def experiments(self) -> Steps[list[Experiment]]:
        """Return every experiment."""
        return self._list(Experiment, path("experiments"))

    @operation
    def experiment(self, experiment_id: str) -> Steps[Experiment]:
        """Return one experiment."""
        return self._one(Experiment, "GET", path("experiments", experiment_id))

    @operation
    def store_experiment(
        self, experiment_id: str, experiment: Mapping[str, Any], *, active: bool = True
    ) -> Steps[Experiment]:
        """Add or change an experiment: ``arms`` and ``coverage``, see docs/profiles.md."""
        body = {"experiment": dict(experiment), "active": active}
        return self._one(Experiment, "PUT", path("experiments", experiment_id), body=body)

    @operation
    def delete_experiment(self, experiment_id: str) -> Steps[None]:
        """Delete an experiment; queries that name it are answered without one."""
        return self._delete(path("experiments", experiment_id))

    @operation
    def experiment_results(self, experiment_id: str) -> Steps[list[ArmResult]]:
        """Return users' ratings for each arm; the first arm is the baseline."""
        source = path("experiments", experiment_id, "results")
        return entries(ArmResult, (yield from self._request("GET", source)).json(), source, "buckets")
