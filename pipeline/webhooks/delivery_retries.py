"""The schedule of a delivery's attempts, as in the Standard Webhooks specification, and the judgement of each."""

from dataclasses import dataclass

from pipeline.webhooks.endpoint import Event

# Seconds from one attempt to the next: the specification's own schedule, about three days in all.
DELAYS_S = (5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 14 * 3600, 20 * 3600, 24 * 3600)
_JITTER = 0.1  # the most to add, as a share, so that endpoints that failed together are not called together again
_LONGEST_ASKED_S = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    """The result of an attempt; neither ``delivered`` nor ``delay_s``: the last. ``gone``: no further calls."""

    delivered: bool = False
    delay_s: float | None = None
    gone: bool = False


def attempts_allowed(event: Event) -> int:
    """Return the number of attempts. A test is about now, and news of progress are soon outdated."""
    if event is Event.TEST:
        return 1
    return 2 if event is Event.PROGRESS else len(DELAYS_S) + 1


def judge(
    event: Event, *, attempts: int, status: int | None, retry_after_s: float | None = None, chance: float = 0.0
) -> DeliveryResult:
    """Judge attempt number ``attempts``, from 1, that ended with ``status`` or none. ``chance`` in [0, 1] spreads
    repetitions. A target's own retry time is respected, up to a day."""
    if status is not None and 200 <= status < 300:
        return DeliveryResult(delivered=True)
    if status == 410:
        return DeliveryResult(gone=True)
    if attempts >= attempts_allowed(event):
        return DeliveryResult()
    delay_s = DELAYS_S[attempts - 1] * (1 + _JITTER * chance)
    return DeliveryResult(delay_s=max(delay_s, min(retry_after_s or 0.0, _LONGEST_ASKED_S)))
