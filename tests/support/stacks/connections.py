"""Resources that share another's connections and differ in what a test is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine, Row, text

from pipeline.errors import EmbedderRefused, EmbedderUnavailable, StoreUnavailable
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.settings import Settings

_SHARED = ("mysql", "postgres", "redis", "embedder")


def sharing(use: Resources, **changes: Any) -> Resources:
    """Return resources on the same connections; ``changes`` are settings, arguments of `Resources`, or what it holds."""
    of_settings = {name: value for name, value in changes.items() if name in Settings.model_fields}
    of_resources = {name: value for name, value in changes.items() if name in Resources.__dataclass_fields__}
    values = {"settings": use.settings.model_copy(update=of_settings), **of_resources}
    of_use = {name: getattr(use, name) for name in Resources.__dataclass_fields__}
    # The model of the active space is read at each use; here it is what was given.
    made = type("Sharing", (type(use),), {"embedder": None})(**of_use | values)
    held = {name: value for name, value in changes.items() if name not in of_settings.keys() | of_resources.keys()}
    made.__dict__.update({name: getattr(use, name) for name in _SHARED if name not in held} | held)
    return made


class _BreakingVectors:
    """The real vector store, with one of its calls failing."""

    def __init__(self, real: Any, broken: str) -> None:
        self._real, self._broken = real, broken

    def __getattr__(self, name: str) -> Any:
        if name == self._broken:
            raise StoreUnavailable(f"PostgreSQL: gone before {name}")
        return getattr(self._real, name)


class _BreakingStore(Resources):
    """Resources whose vector store fails at one step, as if PostgreSQL had gone away just then."""

    broken = ""
    embedder: Any = None  # as in `sharing`

    def vectors(self, tenant_id: TenantId) -> Any:
        return _BreakingVectors(super().vectors(tenant_id), self.broken)


def breaking(use: Resources, step: str) -> Resources:
    """Return resources on the same connections whose vector store fails at a step."""
    broken = _BreakingStore(use.settings)
    broken.__dict__.update({name: getattr(use, name) for name in _SHARED}, broken=step)
    return broken


class _RefusingEmbedder:
    """The real embedder, except that it refuses texts with a word, ends with one of another, or is away for a while."""

    def __init__(self, real: Any, *, refused: str = "", ended_by: str = "", away: bool = False) -> None:
        self._real, self._refused, self._ended_by, self._away = real, refused, ended_by, away
        self.model = real.model

    def embed(self, texts: Any, **options: Any) -> Any:
        if self._away or (self._ended_by and any(self._ended_by in text for text in texts)):
            raise EmbedderUnavailable("the service is away", retry_after_s=5)
        guilty = {n: "not this text" for n, text in enumerate(texts) if self._refused and self._refused in text}
        if guilty:
            raise EmbedderRefused(reasons=guilty)
        return self._real.embed(texts, **options)

    def close(self) -> None:
        self._real.close()


def embedding_with(use: Resources, **behaviour: Any) -> Resources:
    """Return resources on the same connections whose embedder refuses a word (``refused``), ends with one (``ended_by``),
    or is ``away``."""
    return sharing(use, embedder=_RefusingEmbedder(use.embedder, **behaviour))


def in_mysql(use: Resources, statement: str, **values: Any) -> Sequence[Row[Any]]:
    """Run one statement in MySQL and return its rows."""
    return _executed(use.mysql, statement, values)


def in_postgres(use: Resources, statement: str, **values: Any) -> Sequence[Row[Any]]:
    """Run one statement in PostgreSQL and return its rows."""
    return _executed(use.postgres, statement, values)


def _executed(engine: Engine, statement: str, values: dict[str, Any]) -> Sequence[Row[Any]]:
    with engine.begin() as connection:
        result = connection.execute(text(statement), values)
        return result.all() if result.returns_rows else []
