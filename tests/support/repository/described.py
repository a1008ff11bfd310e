"""The operations of the gateway as its own description has them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx

METHODS = ("get", "put", "post", "delete", "patch")
_PARAMETER = re.compile(r"([^/{}]+)/\{(\w+)\}")


@dataclass(frozen=True)
class Operation:
    """One method at one path."""

    method: str
    path: str
    query: tuple[str, ...]
    media_types: tuple[str, ...]
    protected: bool

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def names(self) -> tuple[str, ...]:
        """For each id in the path, the part that stands before it."""
        return tuple(match[1] for match in _PARAMETER.finditer(self.path))

    def at(self, ids: dict[str, str]) -> str:
        """The path with these ids in it."""
        return _PARAMETER.sub(lambda match: f"{match[1]}/{ids[match[1]]}", self.path)


@cache
def description() -> dict[str, Any]:
    """The document at /openapi.json of the running stack."""
    answer = httpx.get(f"{os.environ['CHORDWISE_URL']}/openapi.json", timeout=30)
    return dict(answer.raise_for_status().json())


def operations() -> list[Operation]:
    """Every operation, those that need no key included."""
    return [
        Operation(
            method=method.upper(),
            path=path,
            query=tuple(each["name"] for each in operation.get("parameters", []) if each["in"] == "query"),
            media_types=tuple(operation.get("requestBody", {}).get("content", {})),
            protected=bool(operation.get("security")),
        )
        for path, item in description()["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    ]
