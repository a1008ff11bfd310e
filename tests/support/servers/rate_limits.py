"""Rate limits for the service of openai_server.py: so many requests and tokens in each window of time, and no more."""

from __future__ import annotations

import math
import time
from collections import Counter

from tests.support.servers.openai_answers import Answer, refused
from tests.support.servers.openai_server import Seen, tokens_in


class FixedWindows:
    """Counts anew when a window of ``seconds`` begins. A window stands for a minute whose clock runs faster: ``headers``
    names the limits as of a minute of real time, as a service would. ``until_exceeded``: a window ends ``seconds`` after
    its first refusal and not before one, so that callers meet the limit on a machine of any speed."""

    def __init__(
        self,
        *,
        requests: int,
        seconds: float,
        tokens: int | None = None,
        retry_after: bool = True,
        headers: bool = False,
        until_exceeded: bool = False,
    ) -> None:
        self.requests, self.tokens, self.seconds = requests, tokens, seconds
        self._retry_after, self._headers = retry_after, headers
        self._until_exceeded = until_exceeded
        self._exceeded = 0  # windows that were, and when the present one ends
        self._ends_at = float("inf")
        self.taken: Counter[int] = Counter()
        self.tokens_taken: Counter[int] = Counter()
        self.refused: Counter[int] = Counter()
        self.delay_s = 0.0

    def __call__(self, request: Seen) -> Answer:
        now = time.monotonic()
        window = self._window(now)
        tokens = tokens_in(request.body["input"])
        over = self.tokens is not None and self.tokens_taken[window] + tokens > self.tokens
        if self.taken[window] >= self.requests or over:
            self.refused[window] += 1
            if not self._until_exceeded:
                self._ends_at = (window + 1) * self.seconds
            elif self.refused[window] == 1:
                self._ends_at = now + self.seconds
            left = f"{math.ceil((self._ends_at - now) * 1000) / 1000}"
            return refused(429, "slow down", retry_after=left if self._retry_after else None)
        self.taken[window] += 1
        self.tokens_taken[window] += tokens
        told = {"x-ratelimit-limit-requests": str(int(self.requests * 60 / self.seconds))} if self._headers else {}
        return Answer(headers=told, delay_s=self.delay_s)

    def _window(self, now: float) -> int:
        if not self._until_exceeded:
            return int(now / self.seconds)
        if now >= self._ends_at:
            self._exceeded, self._ends_at = self._exceeded + 1, float("inf")
        return self._exceeded

    def share_used(self, *, of: str = "requests", skip: int = 1) -> float:
        """Return the used share of the full windows: all but the first ``skip`` and the last."""
        taken = self.taken if of == "requests" else self.tokens_taken
        whole = sorted(taken)[skip:-1]
        limit = self.requests if of == "requests" else (self.tokens or 0)
        return sum(taken[window] for window in range(whole[0], whole[-1] + 1)) / (limit * (whole[-1] + 1 - whole[0]))
