"""Hash everything that decides the chunks of a document: equal recipes give equal chunks."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pipeline.records import DocumentFields

# Raise this whenever the same bytes would become other chunks than before: a parser or the chunker has changed (of terms
# `keyword.terms.VERSION` says so). Documents are then made anew at their next upload instead of being taken for unchanged.
# tests/unit/documents/test_recipe.py notices when it was forgotten.
ANALYSIS = 3


def recipe(body: bytes, how: Mapping[str, Any], *, analysis: int = ANALYSIS) -> bytes:
    """Return the SHA-256 of the bytes, of ``how`` they are read and cut (JSON of everything chunks depend on: the given
    title, but no other field nor the model), and of the number above."""
    ingredients = json.dumps([analysis, how], ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(ingredients.encode())
    digest.update(b"\x00")
    digest.update(body)
    return digest.digest()


def same_fields(one: DocumentFields, other: DocumentFields) -> bool:
    """Return whether no field that searches filter by or show differs. The title is part of the recipe instead."""
    return _plain(one) == _plain(other)


def _plain(fields: DocumentFields) -> tuple[Any, ...]:
    # As JSON, because to Python True and 1 are one value.
    metadata = json.dumps(dict(fields.metadata), sort_keys=True)
    return fields.author, fields.type, fields.tags, fields.published_at, fields.story_time, metadata
