"""Read passages from a business API's answer; every value is bounded and checked for its type."""

from __future__ import annotations

import hashlib
import unicodedata
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from chordwise.contract.document import COMPARED, LENGTHS
from pipeline.api_sources.api_source import MISSING, ApiMapping, ApiSource, resolve
from pipeline.errors import ApiSourceFailed
from pipeline.filters.python_filters import finite, unmet
from pipeline.query.request import SuppliedPassage
from pipeline.records import DocumentFields, Filters, TenantId

# The namespace of version-5 UUIDs under which passages of APIs get their ids.
_API_IDS = uuid.UUID("0d7c6c0b-0d0e-4b36-9d3c-6f0a3c1f7a52")

_LONGEST = {"url": 2048, "id": 64} | {name: length.most for name, length in LENGTHS.items()}
_MOST_TAGS, _LONGEST_TAG = 64, 128
_LONGEST_VALUE, _MOST_VALUES = 512, 32  # of metadata: characters of a text, entries of a list
_MILLISECONDS_FROM = 100_000_000_000  # an epoch time above it is in milliseconds: in seconds it is the year 5138


@dataclass(frozen=True, slots=True, kw_only=True)
class Passages:
    """The passages of one source, best first, scores in [0, 1]. ``left_out``: the number of ignored items, by reason."""

    found: Sequence[tuple[SuppliedPassage, float]] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)


def passages_of(
    answer: bytes, source: ApiSource, *, name: str, tenant_id: TenantId, namespace: str, filters: Filters
) -> Passages:
    """Return the first ``max_items`` items that fit the filters, each id once. Scores are the API's, mapped from
    ``score_range`` to [0, 1], else ``1 / (1 + r)`` for place r from 1; ties by chunk id. Raises ApiSourceFailed without
    a list of items."""
    try:
        items = resolve(orjson.loads(answer), source.mapping.items)
    except orjson.JSONDecodeError:
        raise ApiSourceFailed("the answer is not JSON") from None
    if items is MISSING or items is None:
        raise ApiSourceFailed("the answer has nothing where its items should be")
    if not isinstance(items, list):
        raise ApiSourceFailed("the answer has no list where its items should be")
    left_out: Counter[str] = Counter(beyond_max_items=max(0, len(items) - source.max_items))
    passages: dict[str, tuple[SuppliedPassage, float]] = {}
    for rank, item in enumerate(items[: source.max_items], start=1):
        text = _text(resolve(item, source.mapping.text), source.max_text)
        if text is None:
            left_out["no_text"] += 1
            continue
        read = _read(item, source.mapping)
        if not source.applies_filters and not fits(filters, read):
            left_out["filtered"] += 1
            continue
        score = _score(item, source.mapping, rank)
        if score < source.min_score:
            left_out["below_min_score"] += 1
            continue
        passage = _passage(read, text, name=name, tenant_id=tenant_id, namespace=namespace)
        if passage.chunk_id in passages:
            left_out["same_id"] += 1
            continue
        passages[passage.chunk_id] = (passage, score)
    best = sorted(passages.values(), key=lambda pair: (-pair[1], pair[0].chunk_id))
    return Passages(found=best, left_out={reason: count for reason, count in sorted(left_out.items()) if count})


def fits(filters: Filters, read: Mapping[str, Any]) -> bool:
    """Return whether an item meets the filters as in the stores: a filtered field must be present."""
    fields = {name: read[name] for name in (*COMPARED, "published_at", "metadata")}
    return unmet(filters, DocumentFields(**fields, tags=tuple(read["tags"]))) is None


def _read(item: Any, mapping: ApiMapping) -> dict[str, Any]:
    def value(pointer: str | None) -> Any:
        return None if pointer is None else resolve(item, pointer)

    def short(pointer: str | None, kind: str) -> str | None:
        return _text(value(pointer), _LONGEST[kind], whole=True)

    metadata = {name: _plain(value(pointer)) for name, pointer in mapping.metadata.items()}
    return {
        "id": _identity(value(mapping.id)),
        "title": _text(value(mapping.title), _LONGEST["title"]),
        "url": _link(short(mapping.url, "url")),
        **{name: short(getattr(mapping, name), name) for name in COMPARED},
        "tags": _tags(value(mapping.tags)),
        "published_at": _moment(value(mapping.published_at)),
        "metadata": {name: plain for name, plain in metadata.items() if plain is not MISSING},
    }


def _passage(read: Mapping[str, Any], text: str, *, name: str, tenant_id: TenantId, namespace: str) -> SuppliedPassage:
    identity = read["id"] or read["url"] or hashlib.sha256(f"{read['title']}\x1f{text}".encode()).hexdigest()
    chunk_id = str(uuid.uuid5(_API_IDS, "\x1f".join((tenant_id, name, identity))))
    fields = {field: read[field] for field in (*COMPARED, "tags", "published_at")}
    fields |= {"source_uri": read["url"], "api_source": name}
    return SuppliedPassage(
        chunk_id=chunk_id,
        document_id=identity if len(identity) <= _LONGEST["id"] else chunk_id,
        namespace=namespace,
        title=read["title"],
        text=text,
        metadata={**read["metadata"], **{key: value for key, value in fields.items() if value not in (None, [])}},
        published_at=read["published_at"],
    )


def _score(item: Any, mapping: ApiMapping, rank: int) -> float:
    given = None if mapping.score is None else _number(resolve(item, mapping.score))
    if given is None:
        return 1.0 / (1 + rank)
    lowest, highest = mapping.score_range
    # Halved so that no span is infinite.
    score = (given / 2 - lowest / 2) / (highest / 2 - lowest / 2)
    return min(1.0, max(0.0, score))


def _number(value: Any) -> float | None:
    if isinstance(value, str) and len(value) <= 32:
        with suppress(ValueError):
            value = float(value)
    return finite(value)


def _identity(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = _clean(str(value)).strip()
    return text or None


def _text(value: Any, most: int, *, whole: bool = False) -> str | None:
    """Return printable text cut to ``most`` characters; with ``whole``, None if it is longer."""
    if not isinstance(value, str):
        return None
    text = _clean(value[: most + 1] if not whole else value).strip()
    return None if not text or (whole and len(text) > most) else text[:most]


def _clean(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        character for character in text if character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cs"}
    )


def _link(url: str | None) -> str | None:
    return url if url and url.lower().startswith(("http://", "https://")) and url.isprintable() else None


def _tags(value: Any) -> list[str]:
    tags = value if isinstance(value, list) else [value]
    texts = (_text(tag, _LONGEST_TAG, whole=True) for tag in tags[:_MOST_TAGS])
    return list(dict.fromkeys(tag for tag in texts if tag))


def _moment(value: Any) -> datetime | None:
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value[:64].strip())
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except (ValueError, OverflowError):
            return None
    number = _number(value)
    if number is None or number < 0:
        return None
    try:
        return datetime.fromtimestamp(number / 1000 if number >= _MILLISECONDS_FROM else number, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _plain(value: Any, *, listed: bool = False) -> Any:
    """Return a value for metadata: text, a number, true, false, or a list of such. Deeper values are omitted."""
    if isinstance(value, str):
        return _clean(value[:_LONGEST_VALUE])
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list) and not listed:
        return [plain for plain in (_plain(item, listed=True) for item in value[:_MOST_VALUES]) if plain is not MISSING]
    return MISSING
