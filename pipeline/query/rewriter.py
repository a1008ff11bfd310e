"""Rewriters: understand a query with a language model, or without one do nothing."""

from __future__ import annotations

from typing import Protocol

from pipeline.query.background import Background
from pipeline.query.model_replies import Rewritten, Routed
from pipeline.settings import Settings


class Rewriter(Protocol):
    """Suggests other wordings of a query; thread-safe. A method returns None if it has no suggestion, and raises
    RewriterUnavailable without a usable reply within ``timeout_s``."""

    def expand(self, query_text: str, *, most: int, timeout_s: float) -> tuple[str, ...] | None:
        """Return up to ``most`` sub-queries that ask the same in other terms; may be empty."""
        ...

    def rewrite(self, query_text: str, *, background: Background | None = None, timeout_s: float) -> Rewritten | None:
        """Return the query rewritten so that it needs no ``background``, with its keywords and names."""
        ...

    def route(self, query_text: str, *, timeout_s: float) -> Routed | None:
        """Return the search method for the query."""
        ...

    def imagine(self, query_text: str, *, timeout_s: float) -> str | None:
        """Return a passage that resembles an answer (HyDE)."""
        ...

    def close(self) -> None:
        """Let go of connections; the rewriter cannot be used afterwards."""
        ...


class NoRewriter:
    """Suggests nothing: every method returns None."""

    def _nothing(self, *_texts: object, **_limits: object) -> None:
        return None

    expand = rewrite = route = imagine = close = _nothing


def make_rewriter(settings: Settings) -> Rewriter:
    """Return a rewriter with the configured language model, or NoRewriter. Make one per process. Raises Misconfigured."""
    if not settings.llm_model:
        return NoRewriter()
    from pipeline.query.rewriter_llm import LlmRewriter

    return LlmRewriter(model=settings.llm_model, timeout_s=settings.llm_timeout_s)
