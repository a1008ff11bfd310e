"""The built-in profiles, and the choice of a version for a query. A profile is a partial plan that the installation's
settings complete; versions that a tenant stores under a built-in name follow version 1."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeline.tenants.namespace_store import EXAMPLE_TABLES

DEFAULT_PROFILE = "default"
BUILT_IN_VERSION = 1

# docs/profiles.md describes the purpose of each.
BUILT_IN: Mapping[str, Mapping[str, Any]] = {
    DEFAULT_PROFILE: {},
    "medical_examples": {
        "top_k": 15,
        "retrieve": {
            "method": "semantic",
            "optional_namespaces": list(EXAMPLE_TABLES),
            "channels": {"semantic": {"weight": 1.0, "options": {"per_namespace": 5}}},
            "ladder": {"thresholds": [0.7, 0.6, 0.5], "min_results": 5},
            "selection": {"dedupe": "content", "quality": {"enough": 15}},
        },
        "understand": {"keywords": True, "expand": 0},
        "context": {"passages": "dialogue", "header": "none"},
    },
    "novel": {
        "retrieve": {
            "requires_story_time": True,
            "allocation": "double",
            "channels": {
                "keyword": {"weight": 0.5, "options": {"fields": {"body": 2, "summary": 1, "entity_names": 1}}},
                "semantic": {"weight": 0.5},
            },
            "fusion": {"strategy": "rrf", "k": 60},
            "time_decay": {"shape": "hyperbolic", "scale": 1_000_000, "by": "story_time"},
        },
        "understand": {"rewrite": True, "keywords": True, "entities": True, "expand": 0},
        "context": {"format": "text", "header": "story", "over_budget": "stop", "entities": True},
    },
    "support": {
        "top_k": 5,
        "retrieve": {
            "channels": {
                "keyword": {"weight": 0.3, "timeout_ms": 800, "retry": 1},
                "semantic": {"weight": 0.6, "timeout_ms": 800, "retry": 1},
                "faq": {"weight": 0.1, "timeout_ms": 800, "retry": 1},
                "api": {"weight": 0.0, "timeout_ms": 800, "retry": 1},
            },
            "fusion": {"strategy": "weighted", "reading_gate": True},
            "selection": {"dedupe": "content"},
        },
        "fallback": {
            "enabled": True,
            "threshold": 0.4,
            "faq": True,
            "hint": "没有找到可靠的答案，请联系人工客服。 / No reliable answer was found; please contact a human agent.",
        },
    },
    "knowledge": {
        "retrieve": {"selection": {"dedupe": "content"}},
        "understand": {"router": "rules"},
        "rerank": {"enabled": True, "min_results": 1},
        "context": {"format": "markdown", "parents": True},
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileVersion:
    """One version of a profile. ``config`` is a partial plan."""

    name: str
    version: int
    config: Mapping[str, Any]
    note: str = ""
    created_by: str = ""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileHead:
    """The active version of a profile. ``trial_share`` of the queries, in [0, 1], get ``trial`` instead."""

    name: str
    active: ProfileVersion
    trial: ProfileVersion | None = None
    trial_share: float = 0.0
    previous_version: int | None = None

    def version_for(self, unit: str) -> ProfileVersion:
        """Return the version for ``unit``, always the same one, so that a session keeps its version."""
        if self.trial is not None and position(f"{self.name}:{self.trial.version}", unit) < self.trial_share:
            return self.trial
        return self.active


def built_in(name: str) -> ProfileVersion | None:
    """Return the built-in profile of this name."""
    if name not in BUILT_IN:
        return None
    return ProfileVersion(name=name, version=BUILT_IN_VERSION, config=BUILT_IN[name], note="built in")


def built_in_heads() -> dict[str, ProfileHead]:
    """Return every built-in profile by name."""
    return {name: ProfileHead(name=name, active=version) for name in BUILT_IN if (version := built_in(name))}


def position(salt: str, unit: str) -> float:
    """Return the position of ``unit`` in [0, 1): evenly distributed, stable for a salt, independent between salts."""
    digest = hashlib.blake2b(f"{len(salt)}:{salt}{unit}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
