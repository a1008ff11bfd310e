"""Examples for the description: values that fit a schema and look like what is really sent.

Made from the schemas, so that no example can be forgotten or fall behind; a name that occurs everywhere has one value
everywhere. What a route shows itself is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

_DEEPEST = 12
_MOMENT, _UUID = "2026-01-02T09:30:00Z", "0b8f6c1e-5a4d-4f0e-9c53-8f3f1f6f2a11"

_STRINGS: Final = {
    "namespace": "kb",
    "document_id": "manual-1",
    "title": "Controller manual",
    "text": "Hold the button for five seconds.",
    "tenant_id": "acme",
    "author": "ada",
    "url": "https://example.com/hooks",
    "uri": "file:manual.md",
    "media_type": "text/markdown",
    "query_text": "How do I reset the controller?",
    "profile": "default",
    "channel": "keyword",
    "namespaces": "kb",
    "tags": "controller",
    "name": "mine",
    "code": "invalid_document",
    "detail": "is required",
    "pointer": "/documents/0/text",
    "request_id": "d1f6a5c2",
    "etag": '"1-1"',
    "marker": "[1]",
    "model": "bge-m3",
    "metadata": "value",
    "sha256": "0" * 64,
    "from": "2026-01-01",
    "to": "2026-01-31",
    "import_id": "move-1",
    "cursor": "WyJqb2JzIiwiMjAyNiJd",
    "order_by": "parent_id",
    "experiment_id": "shorter-answers",
    "Last-Event-ID": "",
    "Prefer": "wait=5",
    "Cache-Control": "no-cache",
}
_FORMATS: Final = {
    "date-time": _MOMENT,
    "date": "2026-01-02",
    "uuid": _UUID,
    "uri": "https://example.com",
    "binary": "",
}


def example_of(schema: Schema, schemas: Mapping[str, Schema], name: str = "", depth: int = 0) -> Any:
    """A value that fits ``schema``. ``schemas`` are those it may refer to; ``name``: what the value is called."""
    if "$ref" in schema:
        return example_of(schemas[str(schema["$ref"]).rsplit("/", 1)[-1]], schemas, name, depth + 1)
    for known in ("example", "const", "default"):
        if schema.get(known) is not None:
            return schema[known]
    if schema.get("examples"):
        return schema["examples"][0]
    if "enum" in schema:
        return schema["enum"][0]
    if "allOf" in schema:
        parts = [example_of(part, schemas, name, depth + 1) for part in schema["allOf"]]
        return {key: value for part in parts for key, value in part.items()} if isinstance(parts[0], dict) else parts[0]
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        useful = [choice for choice in choices if choice.get("type") != "null"]
        return example_of(useful[0], schemas, name, depth + 1) if useful and depth < _DEEPEST else None
    return _of_type(schema, schemas, name, depth)


def _of_type(schema: Schema, schemas: Mapping[str, Schema], name: str, depth: int) -> Any:
    match schema.get("type"):
        case "object":
            return _object(schema, schemas, depth)
        case "array":
            return _array(schema, schemas, name, depth)
        case "string":
            return _string(schema, name)
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return False
        case "null":
            return None
    return {}


def _object(schema: Schema, schemas: Mapping[str, Schema], depth: int) -> dict[str, Any]:
    required = set(schema.get("required", ()))
    found = {
        key: example_of(value, schemas, key, depth + 1)
        for key, value in schema.get("properties", {}).items()
        if depth < _DEEPEST or key in required
    }
    return found if set(found) >= required else {}


def _array(schema: Schema, schemas: Mapping[str, Schema], name: str, depth: int) -> list[Any]:
    if "prefixItems" in schema:
        return [example_of(item, schemas, name, depth + 1) for item in schema["prefixItems"]]
    if depth >= _DEEPEST or not schema.get("items"):
        return []
    return [example_of(schema["items"], schemas, name, depth + 1)] * max(1, int(schema.get("minItems", 1)))


def _string(schema: Schema, name: str) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    if name not in _STRINGS and (name.endswith("_id") or name == "id"):
        return _UUID
    if name in _STRINGS:
        return _STRINGS[name]
    return "a" * max(1, int(schema.get("minLength", 0))) if schema.get("pattern") else "…"


def _number(schema: Schema) -> int | float:
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    value = 1 if least is None else max(1, least)
    most = schema.get("maximum", schema.get("exclusiveMaximum"))
    if most is not None and value > most:
        value = most
    if value == schema.get("exclusiveMinimum") or value == schema.get("exclusiveMaximum"):
        value = value - 0.5 if most is not None else value + 1
    return value
