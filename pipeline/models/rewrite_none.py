"""Where no language model is configured: nothing is made of a query but what rules make of it."""

from __future__ import annotations

from pipeline.core.background import Background
from pipeline.core.model_replies import Rewritten, Routed


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
