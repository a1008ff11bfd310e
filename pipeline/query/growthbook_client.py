"""Experiments run with GrowthBook's SDK on features (``profile``, ``overrides``, either may be missing) from a file or
SDK endpoint, loaded before and renewed beside the queries."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import structlog
from growthbook import GrowthBook

from pipeline.errors import Misconfigured
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
        self._clock = clock
        self._features: Mapping[str, Any] = {}
        self._asked_at = float("-inf")
        self._lock = threading.Lock()

    def load(self) -> None:
        """Read the features now. Raises Misconfigured if they cannot be read."""
        self._asked_at = self._clock()
        try:
            self._features = self._read()
        except (OSError, ValueError, httpx.HTTPError) as error:
            raise Misconfigured(f"CHORDWISE_GROWTHBOOK_FEATURES cannot be read: {type(error).__name__}") from error

    def assign(self, tenant_id: TenantId, experiment_id: str, unit: str) -> Assignment | None:
        """Return GrowthBook's variation of ``unit`` (attribute ``id``; rules may read ``tenant_id``); None if unknown,
        off or without one."""
        self._renew()
        sdk = GrowthBook(attributes={"id": unit, "tenant_id": tenant_id}, features=dict(self._features))
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

    def _renew(self) -> None:
        """Start reading the features in a thread, at most once a minute; the previous ones hold meanwhile, and if it
        fails."""
        if self._clock() - self._asked_at < _FRESH_S or not self._lock.acquire(blocking=False):
            return
        self._asked_at = self._clock()
        threading.Thread(target=self._renew_now, name="growthbook", daemon=True).start()

    def _renew_now(self) -> None:
        try:
            self._features = self._read()
        except (OSError, ValueError, httpx.HTTPError) as error:
            log.warning("growthbook_not_read", error=type(error).__name__)
        finally:
            self._lock.release()

    def _read(self) -> Mapping[str, Any]:
        if self._source.startswith(("http://", "https://")):
            answer = httpx.get(self._source, timeout=_TIMEOUT_S, follow_redirects=False)
            answer.raise_for_status()
            if len(answer.content) > _MOST_BYTES:
                raise ValueError("more features than can be")
            read = answer.json()
        else:
            read = json.loads(Path(self._source).read_text(encoding="utf-8"))
        features = read.get("features", read) if isinstance(read, Mapping) else None
        if not isinstance(features, Mapping):
            raise ValueError("not an object of features")
        return features
