"""Compare two answers to the same question."""

from collections.abc import Mapping
from typing import Any


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the difference of two sent answers; ``overlap`` is the share of the longer one that both have."""
    first, second = _places(before), _places(after)
    size = max(len(first), len(second))
    both = [chunk_id for chunk_id in second if chunk_id in first]
    return {
        "overlap": round(len(both) / size, 4) if size else 1.0,
        "same_order": list(first) == list(second),
        "moved": [
            {
                "chunk_id": chunk_id,
                "from": first[chunk_id][0],
                "to": second[chunk_id][0],
                "score_before": first[chunk_id][1],
                "score_after": second[chunk_id][1],
                "contributions": _contributions(first[chunk_id][2], second[chunk_id][2]),
            }
            for chunk_id in both
            if first[chunk_id][0] != second[chunk_id][0]
        ],
        "added": [_entry(chunk_id, *second[chunk_id][:2]) for chunk_id in second if chunk_id not in first],
        "removed": [_entry(chunk_id, *first[chunk_id][:2]) for chunk_id in first if chunk_id not in second],
    }


def plan_difference(before: Mapping[str, Any], after: Mapping[str, Any], *, at: str = "") -> list[dict[str, Any]]:
    """Return the settings in which two plans differ, each with a JSON pointer, ``before`` and ``after``."""
    differences: list[dict[str, Any]] = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            differences += plan_difference(old, new, at=f"{at}/{name}")
        elif old != new:
            differences.append({"pointer": f"{at}/{name}", "before": old, "after": new})
    return differences


def _places(answer: Mapping[str, Any]) -> dict[str, tuple[int, float, Mapping[str, float]]]:
    return {
        chunk["chunk_id"]: (
            position,
            chunk["score"],
            {source["channel"]: source["contribution"] for source in chunk["sources"]},
        )
        for position, chunk in enumerate(answer["chunks"], start=1)
    }


def _contributions(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, dict[str, float | None]]:
    names = dict.fromkeys([*before, *after])
    return {name: {"before": before.get(name), "after": after.get(name)} for name in names}


def _entry(chunk_id: str, position: int, score: float) -> dict[str, Any]:
    return {"chunk_id": chunk_id, "place": position, "score": score}
