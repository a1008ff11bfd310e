"""One meaning for filters, written down for both databases: every channel applies the same ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.core.pairs import ANSWER_KEY, MARK, PAIR_TYPE, QUESTION_KEY
from pipeline.records import Filters
from pipeline.stores.conditions import mysql_where, postgres_where
from pipeline.stores.rows import to_json, to_naive


def mysql_condition(filters: Filters, *, alias: str, chunk: str) -> tuple[str, dict[str, Any]]:
    """Return a condition on a row of ``generations`` and one of ``chunks``, whose own story time goes first, with its
    values; ``TRUE`` without any."""
    parts: list[str] = []
    values: dict[str, Any] = {}
    if filters.type is not None:
        parts.append(f"{alias}.type = :f_type")
        values["f_type"] = filters.type
    if filters.author is not None:
        parts.append(f"{alias}.author = :f_author")
        values["f_author"] = filters.author
    if filters.tags:
        parts.append(f"JSON_CONTAINS({alias}.tags, :f_tags)")
        values["f_tags"] = to_json(list(filters.tags))
    if filters.metadata:
        parts.append(f"JSON_CONTAINS({alias}.metadata, :f_metadata)")
        values["f_metadata"] = to_json(dict(filters.metadata))
    if filters.start is not None:
        parts.append(f"{alias}.published_at >= :f_start")
        values["f_start"] = to_naive(filters.start)
    if filters.end is not None:
        parts.append(f"{alias}.published_at <= :f_end")
        values["f_end"] = to_naive(filters.end)
    if filters.story_time is not None:
        story_time = f"COALESCE({chunk}.story_time, {alias}.story_time)"
        parts.append(f"({story_time} IS NULL OR {story_time} <= :f_story_time)")
        values["f_story_time"] = filters.story_time
    if filters.pairs:
        example = f"JSON_CONTAINS_PATH({alias}.metadata, 'all', '$.{QUESTION_KEY}', '$.{ANSWER_KEY}')"
        parts.append(f"({chunk}.chunk_type = '{PAIR_TYPE}' OR {example})")
    if filters.where is not None:
        parts.append(mysql_where(filters.where, f"{alias}.metadata", values))
    return " AND ".join(parts) or "TRUE", values


def postgres_condition(filters: Filters) -> tuple[str, dict[str, Any]]:
    """The same condition on a row of ``chunk_embeddings``."""
    parts: list[str] = []
    values: dict[str, Any] = {}
    if filters.type is not None:
        parts.append("type = :f_type")
        values["f_type"] = filters.type
    if filters.author is not None:
        parts.append("author = :f_author")
        values["f_author"] = filters.author
    if filters.tags:
        parts.append("tags @> CAST(:f_tags AS text[])")
        values["f_tags"] = list(filters.tags)
    if filters.metadata:
        parts += _postgres_metadata(filters.metadata, values)
    if filters.start is not None:
        parts.append("published_at >= :f_start")
        values["f_start"] = filters.start
    if filters.end is not None:
        parts.append("published_at <= :f_end")
        values["f_end"] = filters.end
    if filters.story_time is not None:
        parts.append("(story_time IS NULL OR story_time <= :f_story_time)")
        values["f_story_time"] = filters.story_time
    if filters.pairs:
        example = f"jsonb_exists_all(metadata, ARRAY['{QUESTION_KEY}', '{ANSWER_KEY}'])"
        parts.append(f"(metadata @> CAST(:f_pair AS jsonb) OR {example})")
        values["f_pair"] = to_json(MARK)
    if filters.where is not None:
        parts.append(postgres_where(filters.where, "metadata", values))
    return " AND ".join(parts) or "TRUE", values


def _postgres_metadata(asked: Mapping[str, Any], values: dict[str, Any]) -> Iterator[str]:
    """One condition for each value that is asked for; all together they are JSON_CONTAINS of ``asked``.

    A single value is also met by a list that holds it. PostgreSQL's ``@>`` grants that to a whole document but to nothing
    inside of one, so the list is asked for as well.
    """
    for number, (path, value) in enumerate(_leaves(asked, ())):
        wanted = [value] if isinstance(value, list | tuple | Mapping) else [value, [value]]
        names = [f"f_metadata_{number}", f"f_metadata_{number}_listed"][: len(wanted)]
        values.update({name: to_json(_nested(path, each)) for name, each in zip(names, wanted, strict=True)})
        yield f"({' OR '.join(f'metadata @> CAST(:{name} AS jsonb)' for name in names)})"


def _leaves(asked: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What objects within objects hold in the end, each with the keys that lead to it."""
    for key, value in asked.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _nested(path: tuple[str, ...], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value
