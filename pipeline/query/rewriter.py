"""Rewriters: what has queries understood by a language model, and the one that has none."""

from __future__ import annotations

from typing import Protocol

from pipeline.query.background import Background
from pipeline.query.model_replies import Rewritten, Routed
from pipeline.settings import Settings


class Rewriter(Protocol):
    """Says what else a query may mean; thread-safe. A method returns None where it has nothing, and raises
    RewriterUnavailable when nothing usable came within ``timeout_s``."""

    def expand(self, query_text: str, *, most: int, timeout_s: float) -> tuple[str, ...] | None:
        """Up to ``most`` sub-queries that ask the same in other terms; may be empty."""
        ...

    def rewrite(self, query_text: str, *, background: Background | None = None, timeout_s: float) -> Rewritten | None:
        """The query put better, so that it can be read without its ``background``; its keywords, and what it names."""
        ...

    def route(self, query_text: str, *, timeout_s: float) -> Routed | None:
        """Where it should be searched."""
        ...

    def imagine(self, query_text: str, *, timeout_s: float) -> str | None:
        """A passage as one that answers it might be (HyDE)."""
        ...

    def close(self) -> None:
        """Let go of connections; the rewriter cannot be used afterwards."""
        ...


class NoRewriter:
    """Has nothing to say."""

    def expand(self, query_text: str, *, most: int, timeout_s: float) -> tuple[str, ...] | None:  # noqa: ARG002 - the port's
        """None."""
        return None

    def rewrite(
        self,
        query_text: str,  # noqa: ARG002 - the port's
        *,
        background: Background | None = None,  # noqa: ARG002 - the port's
        timeout_s: float,  # noqa: ARG002 - the port's
    ) -> Rewritten | None:
        """None."""
        return None

    def route(self, query_text: str, *, timeout_s: float) -> Routed | None:  # noqa: ARG002 - the port's
        """None."""
        return None

    def imagine(self, query_text: str, *, timeout_s: float) -> str | None:  # noqa: ARG002 - the port's
        """None."""
        return None

    def close(self) -> None:
        """Nothing is open."""


def make_rewriter(settings: Settings) -> Rewriter:
    """A language model when the settings name one, otherwise nobody. Make one per process. Raises Misconfigured."""
    if not settings.llm_model:
        return NoRewriter()
    from pipeline.query.rewriter_llm import LlmRewriter

    return LlmRewriter(model=settings.llm_model, timeout_s=settings.llm_timeout_s)
