"""Merge hits of the same chunk, document or content."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Literal

from pipeline.keyword.normal_form import normal_form
from pipeline.ranking.fusion import Contribution
from pipeline.ranking.hits import Drop, Hit

Sameness = Literal["chunk", "document", "content"]


def deduplicated(hits: Sequence[Hit], by: Sameness) -> tuple[list[Hit], list[Drop]]:
    """Keep the best of equal hits with each channel's largest contribution; return the others as drops."""
    if by == "chunk":  # fusion has seen to that
        return list(hits), []
    groups: dict[Hashable, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(hit.document if by == "document" else content_hash(hit.passage.text), []).append(hit)
    kept = [_merged(group) if len(group) > 1 else group[0] for group in groups.values()]
    dropped = [
        hit.drop("dedupe", f"same_{by}", hit.score, group[0].score) for group in groups.values() for hit in group[1:]
    ]
    return kept, dropped


def content_hash(text: str) -> bytes:
    """Return a hash that ignores case, white space and Unicode forms (full width, composed)."""
    normal = " ".join(normal_form("NFKC", text).casefold().split())
    return hashlib.blake2b(normal.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _merged(group: Sequence[Hit]) -> Hit:
    best = group[0]
    parts: dict[str, Contribution] = {}
    for hit in group:
        for part in hit.fused.contributions:
            best_part = parts.get(part.channel)
            if best_part is None or (part.contribution or 0.0) > (best_part.contribution or 0.0):
                parts[part.channel] = part
    fused = best.fused._replace(contributions=tuple(parts[channel] for channel in sorted(parts)))
    return replace(best, fused=fused, duplicates=tuple(hit.chunk_id for hit in group[1:]))
