"""Rate limits for the service of openai_server.py: so many requests and tokens in each window of time, and no more."""

from __future__ import annotations

import math
import time
from collections import Counter

from tests.support.servers.openai_answers import Answer, refused
from tests.support.servers.openai_server import Seen, tokens_in


class FixedWindows:
    """Counts anew when a window of ``seconds`` begins. A window stands for a minute whose clock runs faster: ``headers``
    names the limits as of a minute of real time, as a service would."""

    def __init__(
        self,
        *,
        requests: int,
        seconds: float,
        tokens: int | None = None,
        retry_after: bool = True,
        headers: bool = False,
    ) -> None:
        self.requests, self.tokens, self.seconds = requests, tokens, seconds
        self._retry_after, self._headers = retry_after, headers
        self.taken: Counter[int] = Counter()
        self.tokens_taken: Counter[int] = Counter()
        self.refused: Counter[int] = Counter()
        self.delay_s = 0.0

    def __call__(self, request: Seen) -> Answer:
        now = time.monotonic()
        window = int(now / self.seconds)
        tokens = tokens_in(request.body["input"])
        over = self.tokens is not None and self.tokens_taken[window] + tokens > self.tokens
        if self.taken[window] >= self.requests or over:
            self.refused[window] += 1
            left = f"{math.ceil(((window + 1) * self.seconds - now) * 1000) / 1000}"
            return refused(429, "slow down", retry_after=left if self._retry_after else None)
        self.taken[window] += 1
        self.tokens_taken[window] += tokens
        told = {"x-ratelimit-limit-requests": str(int(self.requests * 60 / self.seconds))} if self._headers else {}
        return Answer(headers=told, delay_s=self.delay_s)

    def share_used(self, *, of: str = "requests", skip: int = 1) -> float:
        """What was used of the windows that were open all the time: all but the first ``skip`` and the last."""
        taken = self.taken if of == "requests" else self.tokens_taken
        whole = sorted(taken)[skip:-1]
        limit = self.requests if of == "requests" else (self.tokens or 0)
        return sum(taken[window] for window in range(whole[0], whole[-1] + 1)) / (limit * (whole[-1] + 1 - whole[0]))
