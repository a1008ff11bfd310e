"""Multipart forms in the description of the interface: the fields of a model and its files as one schema.

They are written as ``allOf`` a model and its files. Read strictly, nothing fits that: the model allows no field beside
its own, and a file is one.
"""

from __future__ import annotations

from typing import Any

FORM = "multipart/form-data"


def flatten_forms(document: dict[str, Any]) -> None:
    """Put one schema in the place of each ``allOf`` of a form."""
    schemas = document["components"]["schemas"]
    for operations in document["paths"].values():
        for operation in operations.values():
            content = operation.get("requestBody", {}).get("content", {})
            parts = content.get(FORM, {}).get("schema", {}).get("allOf")
            if parts:
                content[FORM]["schema"] = _joined([_resolved(part, schemas) for part in parts])


def _resolved(part: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    reference = part.get("$ref")
    return part if reference is None else dict(schemas[reference.rpartition("/")[2]])


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for part in parts:
        properties |= part.get("properties", {})
        required += part.get("required", [])
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
