"""Why a chunk is not in an answer: the first stage at which it was lost, and the number that decided it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pipeline.core.validity import unmet
from pipeline.records import DocumentFields, Filters

# The field of a document that a filter of another name is about.
_FIELDS = {"start": "published_at", "end": "published_at"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the system of record knows of a chunk now. ``shown``: whether its generation is the published one."""

    namespace: str
    document_id: str
    shown: bool
    enabled: bool
    fields: DocumentFields


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The verdict. ``stage`` is one of: returned, namespace, published, filter, channel, recall, fuse, hydrate, or that of
    the rule which left it out. ``value`` is the chunk's number, ``limit`` the one it needed, where there are such."""

    stage: str
    reason: str
    detail: str
    value: float | None = None
    limit: float | None = None
    channels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def why_not(
    chunk_id: str,
    trace: Mapping[str, Any],
    standing: Standing,
    scores: Mapping[str, float],
    *,
    namespaces: Sequence[str],
    filters: Filters,
) -> Finding:
    """The finding for a chunk that exists. ``trace``: of the run in question. ``scores``: what each channel gives the
    chunk now, whether it recalled it or not."""
    returned = trace["returned"]
    if chunk_id in returned:
        place = returned.index(chunk_id) + 1
        return Finding(
            stage="returned", reason="returned", detail=f"It is in the answer, at place {place}.", value=place
        )
    if standing.namespace not in namespaces:
        detail = f"It is in the namespace {standing.namespace}, which the query does not search."
        return Finding(stage="namespace", reason="other_namespace", detail=detail)
    if not standing.shown:
        detail = "Its document has another generation published now, or none."
        return Finding(stage="published", reason="not_published", detail=detail)
    if not standing.enabled:
        return Finding(stage="published", reason="disabled", detail="It was taken out of searches by hand.")
    failed = unmet(filters, standing.fields)
    if failed is not None:
        asked, has = getattr(filters, failed), getattr(standing.fields, _FIELDS.get(failed, failed))
        detail = f"The filter {failed} asks for {_said(asked)}; it has {_said(has)}."
        return Finding(stage="filter", reason=failed, detail=detail)
    dropped = [drop for drop in trace["drops"] if drop["chunk_id"] == chunk_id]
    if dropped:
        return _dropped(dropped[-1])
    return _not_recalled(chunk_id, trace, scores)


def _said(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value)


def _dropped(drop: Mapping[str, Any]) -> Finding:
    value, limit = drop["value"], drop["limit"]
    numbers = ""
    if value is not None and limit is not None:
        numbers = f": it has {value:.6g}, the limit is {limit:.6g}"
    detail = f"The stage {drop['stage']} left it out, {drop['reason'].replace('_', ' ')}{numbers}."
    return Finding(stage=drop["stage"], reason=drop["reason"], detail=detail, value=value, limit=limit)


def _not_recalled(chunk_id: str, trace: Mapping[str, Any], scores: Mapping[str, float]) -> Finding:
    """No rule touched it: either no channel brought it, or what brought it was lost on the way."""
    channels = {name: _in_channel(chunk_id, said, scores.get(name)) for name, said in trace["channels"].items()}
    if any(each["rank"] for each in channels.values()):
        detail = "A channel found it, and its text could not be read any more when the answer was put together."
        return Finding(stage="hydrate", reason="not_hydrated", detail=detail, channels=channels)
    broken = [name for name, said in trace["channels"].items() if said["status"] != "ok"]
    working = {name: each for name, each in channels.items() if name not in broken}
    nearest = max(working.items(), key=lambda item: _nearness(item[1]), default=None)
    if nearest is None:
        detail = f"No channel answered: {', '.join(broken)}."
        return Finding(stage="channel", reason="channel_lost", detail=detail, channels=channels)
    name, each = nearest
    lost = f" The {', '.join(broken)} channel did not answer." if broken else ""
    if each["score"] is None or each["cutoff"] is None or (name == "keyword" and not each["score"]):
        what = "It shares no word with the query." if name == "keyword" else f"The {name} channel has no score for it."
        return Finding(
            stage="recall",
            reason="no_match",
            detail=what + lost,
            value=each["score"],
            limit=each["cutoff"],
            channels=channels,
        )
    detail = (
        f"No channel recalled it. {name} came nearest: it scores {each['score']:.6g}, the last of the"
        f" {each['recalled']} that were recalled has {each['cutoff']:.6g}.{lost}"
    )
    return Finding(
        stage="recall",
        reason="beyond_pool",
        detail=detail,
        value=each["score"],
        limit=each["cutoff"],
        channels=channels,
    )


def _in_channel(chunk_id: str, said: Mapping[str, Any], score: float | None) -> dict[str, Any]:
    hits = said["hits"]
    rank = next((hit["rank"] for hit in hits if hit["chunk_id"] == chunk_id), None)
    return {
        "status": said["status"],
        "score": score,
        "rank": rank,
        "recalled": len(hits),
        "cutoff": hits[-1]["score"] if hits else None,
    }


def _nearness(each: Mapping[str, Any]) -> float:
    """How near a chunk came to being recalled: its score over the last that was."""
    if each["score"] is None or not each["cutoff"]:
        return -1.0
    return float(each["score"] / each["cutoff"])
