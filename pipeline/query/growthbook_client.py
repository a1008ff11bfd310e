"""Experiments run with GrowthBook's SDK on features (``profile``, ``overrides``, either may be missing) from a file or
SDK endpoint, loaded before and renewed beside the queries."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import structlog
from growthbook import GrowthBook

from pipeline.caches import RefreshingValue
from pipeline.errors import Misconfigured, PipelineError
from pipeline.query.configuration import Assignment
from pipeline.records import TenantId

log = structlog.get_logger(__name__)

_FRESH_S = 60.0
_TIMEOUT_S = 5.0
_MOST_BYTES = 4 * 1024 * 1024


class GrowthBookExperiments:
    """The features of one installation, and the assignment of units to their variations."""

    def __init__(self, source: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Set the source: the path of a JSON file, or the URL of an SDK endpoint (``…/api/features/<client key>``)."""
        self._source = source
        # Refreshed in a thread beside the queries, which never wait for it.
        self._features: RefreshingValue[Mapping[str, Any]] = RefreshingValue(
            self._read, fresh_s=_FRESH_S, patience_s=0.0, on_failure=_report, clock=clock
        )

    def load(self) -> None:
        """Read the features now. Raises Misconfigured if they cannot be read."""
        self._features.refresh()

    def assign(self, tenant_id: TenantId, experiment_id: str, unit: str) -> Assignment | None:
        """Return GrowthBook's variation of ``unit`` (attributes ``id``, ``tenant_id``); None without one."""
        sdk = GrowthBook(
            attributes={"id": unit, "tenant_id": tenant_id}, features=dict(self._features.get(patient=False))
        )
        try:
            feature = sdk.eval_feature(experiment_id)
        finally:
            sdk.destroy()
        result = feature.experimentResult
        if result is None or not result.inExperiment:
            return None
        value = feature.value if isinstance(feature.value, Mapping) else {}
        profile, overrides = value.get("profile"), value.get("overrides", {})
        return Assignment(
            bucket=str(result.key),
            profile=profile if isinstance(profile, str) else None,
            overrides=overrides if isinstance(overrides, Mapping) else {},
        )

    def _read(self) -> Mapping[str, Any]:
        """Load the features once. Raises Misconfigured if the features cannot be read."""
        try:
            return _features_at(self._source)
        except (OSError, ValueError, httpx.HTTPError) as error:
            raise Misconfigured(f"CHORDWISE_GROWTHBOOK_FEATURES cannot be read: {type(error).__name__}") from error


def _report(error: PipelineError) -> None:
    log.warning("growthbook_not_read", error=type(error.__cause__).__name__)


def _features_at(source: str) -> Mapping[str, Any]:
    if source.startswith(("http://", "https://")):
        answer = httpx.get(source, timeout=_TIMEOUT_S, follow_redirects=False)
        answer.raise_for_status()
        if len(answer.content) > _MOST_BYTES:
            raise ValueError("more features than can be")
        read = answer.json()
    else:
        read = json.loads(Path(source).read_text(encoding="utf-8"))
    features = read.get("features", read) if isinstance(read, Mapping) else None
    if not isinstance(features, Mapping):
        raise ValueError("not an object of features")
    return features
