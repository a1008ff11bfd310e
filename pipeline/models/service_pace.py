"""The rate of requests to a service, lowered on refusals and raised slowly. A pace is an immutable value, in seconds of
one clock, for the fleet (in Redis) or for one process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

HEADROOM: Final = 0.98  # share of a known limit: requests sent evenly do not arrive evenly
BURST_S: Final = 0.1  # unused seconds that may be made up for at once
AHEAD_S: Final = 5.0  # how far urgent requests may use time that is already promised to others
AHEAD_REQUESTS: Final = 2.0  # the same where the pace is slower than that

START_REQUESTS: Final = 5.0  # per second, where no limit is known
START_TOKENS: Final = 20_000.0
MOST_REQUESTS: Final = 1_000.0
MOST_TOKENS: Final = 10_000_000.0
LEAST_REQUESTS: Final = 1 / 60
LEAST_TOKENS: Final = 10.0

CUT: Final = 0.8  # factor after a refusal
CHANCE_CUT: Final = 0.95  # the same below a known limit and after a calm: two requests may just have come together
CALM_S: Final = 10.0
RECOVERY_S: Final = 30.0  # seconds from nothing back to a known limit
DOUBLING_S: Final = 1.0  # where no limit is known and none was met yet
CREEPING_S: Final = 20.0  # seconds to grow by the first pace, where no limit is known and one was met
GROWTH_EVERY_S: Final = 0.25
FIRST_PAUSE_S: Final = 0.5  # after a refusal that names no time; doubled each time
LONGEST_PAUSE_S: Final = 20.0
LONGEST_CLOSED_S: Final = 600.0  # a service that asks for a longer pause is tried again after this
LOOK_EVERY_S: Final = 60.0  # in a longer pause one request is sent, whose answer ends it: its cause may have ended
ALONE: Final = 0.1  # the share of a process that does not know the others' requests


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderLimits:
    """The largest rates per minute; 0 means unknown."""

    requests: float = 0.0
    tokens: float = 0.0

    def shared_by(self, share: float) -> ProviderLimits:
        """Return this share of the limits."""
        return ProviderLimits(requests=self.requests * share, tokens=self.tokens * share)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePace:
    """Allowed requests and tokens per second; ``request_at``, ``token_at``: when the next are due; ``looked_at``: when
    the service last asked for a pause or was asked in spite of it; ``reported``: limits that the service reported."""

    requests: float = START_REQUESTS
    tokens: float = START_TOKENS
    request_at: float = 0.0
    token_at: float = 0.0
    closed_until: float = 0.0
    looked_at: float = 0.0
    slowed_at: float = 0.0
    grown_at: float = 0.0
    refusals: int = 0
    reported: ProviderLimits = ProviderLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The reply to a request: send after ``wait_s`` if ``granted``, else ask again then. ``pace``: new; ``at``: now."""

    pace: ServicePace
    at: float
    wait_s: float
    granted: bool


def beginning(configured: ProviderLimits) -> ServicePace:
    """Return the initial pace, which knows only the configured limits."""
    most_requests, most_tokens = most(configured, ProviderLimits())
    return ServicePace(requests=most_requests or START_REQUESTS, tokens=most_tokens or START_TOKENS)


def most(configured: ProviderLimits, reported: ProviderLimits) -> tuple[float, float]:
    """Return requests and tokens per second just below the smaller of both limits; 0 where none is known."""
    pairs = ((configured.requests, reported.requests), (configured.tokens, reported.tokens))
    requests, tokens = (min(filter(None, pair), default=0.0) * HEADROOM / 60 for pair in pairs)
    return requests, tokens


def admit(
    pace: ServicePace, configured: ProviderLimits, *, now: float, tokens: float, urgent: bool, horizon_s: float
) -> Grant:
    """Reserve a slot for one request of ``tokens``, at most ``horizon_s`` away.

    The limits give the time between slots: that of one request and its tokens. An urgent request goes first, at the cost of
    the waiting ones. In a long pause that the service asked for, one request every `LOOK_EVERY_S` is sent at once."""
    requests_now, tokens_now = _within(pace, configured)
    # No moment is farther away, whatever was reserved at a lower rate, or by a clock that has been set back since then.
    latest = now + LONGEST_CLOSED_S
    closed_until = min(latest, pace.closed_until)
    look_at = min(latest, pace.looked_at + LOOK_EVERY_S)
    if look_at <= now < closed_until:
        return Grant(pace=replace(pace, looked_at=now), at=now, wait_s=0.0, granted=True)
    opens = max(now - BURST_S, closed_until)
    request_at, token_at = min(latest, max(pace.request_at, opens)), min(latest, max(pace.token_at, opens))
    if urgent:
        ahead = max(AHEAD_S, AHEAD_REQUESTS / requests_now)
        wait_s = max(0.0, closed_until - now, request_at - ahead - now)
    else:
        wait_s = max(0.0, request_at - now, token_at - now)
    if wait_s > horizon_s:
        if now < closed_until:
            wait_s = min(wait_s, look_at - now)
        return Grant(pace=pace, at=now, wait_s=wait_s, granted=False)
    taken = replace(pace, request_at=request_at + 1 / requests_now, token_at=token_at + tokens / tokens_now)
    return Grant(pace=taken, at=now, wait_s=wait_s, granted=True)


def slowed(
    pace: ServicePace, configured: ProviderLimits, *, now: float, sent_at: float, retry_after_s: float | None
) -> ServicePace:
    """Return the pace after a refusal. Requests sent before the last reduction are no new evidence."""
    outdated = sent_at <= pace.slowed_at
    pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**pace.refusals) if retry_after_s is None else retry_after_s
    if outdated and retry_after_s is None:
        return pace
    closed = closed_for(pace, now=now, seconds=pause_s)
    if outdated:
        return closed
    requests_now, tokens_now = _within(pace, configured)
    by_chance = any(most(configured, pace.reported)) and now - pace.slowed_at > CALM_S
    cut = CHANCE_CUT if by_chance else CUT
    return replace(
        closed,
        requests=max(LEAST_REQUESTS, requests_now * cut),
        tokens=max(LEAST_TOKENS, tokens_now * cut),
        slowed_at=now,
        grown_at=now,
        refusals=pace.refusals + 1,
    )


def closed_for(pace: ServicePace, *, now: float, seconds: float) -> ServicePace:
    """Return the pace when nothing may be sent for a while; a later known reopening stands."""
    latest = now + LONGEST_CLOSED_S
    return replace(pace, closed_until=min(latest, max(pace.closed_until, now + seconds)), looked_at=now)


def reopened(pace: ServicePace, *, now: float) -> ServicePace:
    """Return the pace once a request that was sent in a pause is answered: the cause of the pause has ended."""
    return replace(pace, closed_until=min(pace.closed_until, now))


def quickened(pace: ServicePace, configured: ProviderLimits, *, now: float, waited: bool) -> ServicePace:
    """Return the pace after an answer: one step up towards the known limit. Where none is known it doubles each second
    until one is met and then grows slowly, and only while requests wait for it."""
    calm = replace(pace, refusals=0) if pace.refusals else pace
    elapsed = min(1.0, now - pace.grown_at)
    if elapsed < GROWTH_EVERY_S:
        return calm
    most_requests, most_tokens = most(configured, pace.reported)
    felt = pace.slowed_at > 0.0
    requests = _grown(pace.requests, most_requests, START_REQUESTS, MOST_REQUESTS, elapsed, felt=felt, waited=waited)
    tokens = _grown(pace.tokens, most_tokens, START_TOKENS, MOST_TOKENS, elapsed, felt=felt, waited=waited)
    if (requests, tokens) == (pace.requests, pace.tokens):
        return calm
    return replace(calm, requests=requests, tokens=tokens, grown_at=now)


def adopt(pace: ServicePace, configured: ProviderLimits, limits: ProviderLimits) -> ServicePace:
    """Return the pace after the service reported limits: the first is adopted at once, and so is a lower one."""
    reported = ProviderLimits(
        requests=limits.requests or pace.reported.requests, tokens=limits.tokens or pace.reported.tokens
    )
    if reported == pace.reported:
        return pace
    before, after = most(configured, pace.reported), most(configured, reported)
    rates = [
        rate if not now_most else (now_most if not was else min(rate, now_most))
        for rate, was, now_most in zip((pace.requests, pace.tokens), before, after, strict=True)
    ]
    return replace(pace, requests=rates[0], tokens=rates[1], reported=reported)


def alone(pace: ServicePace) -> ServicePace:
    """Return the pace of a process that cannot see the others: a tenth, so that ten of them exceed nothing."""
    return replace(
        pace,
        requests=pace.requests * ALONE,
        tokens=pace.tokens * ALONE,
        reported=pace.reported.shared_by(ALONE),
        request_at=0.0,
        token_at=0.0,
    )


_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:([\d.]+)ms)?")
_MINUTE_AT_MOST_S = 600.0  # a limit that takes longer to recover is not per minute


def limits_in(headers: Mapping[str, str]) -> ProviderLimits:
    """Return the limits per minute in ``x-ratelimit-limit-…``; the reset time distinguishes limits per day."""
    return ProviderLimits(requests=_limit_in(headers, "requests"), tokens=_limit_in(headers, "tokens"))


def _limit_in(headers: Mapping[str, str], what: str) -> float:
    limit = _number(headers.get(f"x-ratelimit-limit-{what}", ""))
    used = limit - _number(headers.get(f"x-ratelimit-remaining-{what}", ""))
    reset = _DURATION.fullmatch(headers.get(f"x-ratelimit-reset-{what}", ""))
    if limit and reset and reset[0] and used > 0:
        scales = (86_400.0, 3600.0, 60.0, 1.0, 0.001)
        seconds = sum(_number(part or "") * scale for part, scale in zip(reset.groups(), scales, strict=True))
        if seconds * limit / used > _MINUTE_AT_MOST_S:
            return 0.0
    return limit


def _number(text: str) -> float:
    return float(text) if re.fullmatch(r"\d{1,15}(\.\d{1,9})?", text) else 0.0


def _within(pace: ServicePace, configured: ProviderLimits) -> tuple[float, float]:
    """Return the present pace, capped by the known limits: the settings may have changed since it was stored."""
    most_requests, most_tokens = most(configured, pace.reported)
    return (
        min(pace.requests, most_requests) if most_requests else pace.requests,
        min(pace.tokens, most_tokens) if most_tokens else pace.tokens,
    )


def _grown(rate: float, known: float, start: float, end: float, elapsed: float, *, felt: bool, waited: bool) -> float:
    if known:
        return min(known, rate + known * elapsed / RECOVERY_S)
    if not waited:
        return rate
    return min(end, rate + start * elapsed / CREEPING_S if felt else rate * 2.0 ** (elapsed / DOUBLING_S))
