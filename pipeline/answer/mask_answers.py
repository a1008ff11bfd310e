"""Mask personal data in hits' texts before highlights, context and token counts. Ids and the question stay."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from pipeline.privacy.redaction import MaskedKind, redact
from pipeline.ranking.hits import Hydrated

_IDS = frozenset({"parent_id", "chapter_id"})


def masked(hit: Hydrated, *, kinds: Collection[MaskedKind] = tuple(MaskedKind)) -> Hydrated:
    """Return ``hit`` with its text, title, headings, source and the texts in its metadata masked."""
    return replace(
        hit,
        title=None if hit.title is None else redact(hit.title, kinds=kinds),
        text=redact(hit.text, kinds=kinds),
        heading_path=tuple(redact(heading, kinds=kinds) for heading in hit.heading_path),
        source_uri=None if hit.source_uri is None else redact(hit.source_uri, kinds=kinds),
        metadata={name: value if name in _IDS else masked_value(value, kinds) for name, value in hit.metadata.items()},
    )


def masked_texts(texts: Mapping[str, str], *, kinds: Collection[MaskedKind] = tuple(MaskedKind)) -> dict[str, str]:
    """Return the texts that are read with hits, masked."""
    return {chunk_id: redact(text, kinds=kinds) for chunk_id, text in texts.items()}


def masked_value(value: Any, kinds: Collection[MaskedKind]) -> Any:
    """Return a JSON value with its texts masked at any depth; numbers and names of fields stay."""
    if isinstance(value, str):
        return redact(value, kinds=kinds)
    if isinstance(value, Mapping):
        return {name: masked_value(one, kinds) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [masked_value(one, kinds) for one in value]
    return value
