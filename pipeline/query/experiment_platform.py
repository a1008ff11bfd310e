"""Choose the platform that assigns queries to arms of experiments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pipeline.query.configuration import Assign, Configuration, internal, nobody
from pipeline.records import TenantId
from pipeline.settings import Settings

Assigner = Callable[[TenantId, Configuration], Assign]


def make_assigner(settings: Settings) -> Assigner:
    """Return the assigner of the configured platform. Raises Misconfigured if GrowthBook's features cannot be read."""
    if not settings.recall_experiment_enabled or settings.recall_experiment_platform == "none":
        return lambda _tenant_id, _configuration: nobody
    if settings.recall_experiment_platform == "internal":
        return lambda _tenant_id, configuration: internal(configuration)
    from pipeline.query.growthbook_client import GrowthBookExperiments  # an optional dependency

    growthbook = GrowthBookExperiments(settings.growthbook_features)
    growthbook.load()
    return lambda tenant_id, _configuration: partial(growthbook.assign, tenant_id)
