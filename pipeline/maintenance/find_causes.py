"""Find the causes among the checks that fail, and fold what follows from them.

One model for `/readyz`, the doctor, the overview and Health: a check *needs* parts (MySQL, PostgreSQL, Redis, the broker), and
cannot be judged while one of them is unsound; a failing check *explains* others, which are shown under it.
A new check gets its row in `NEEDS`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pipeline.errors import StoreFull
from pipeline.maintenance.doctor import CheckResult, Severity

NAMES: Final[Mapping[str, str]] = {
    "redis": "Redis",
    "broker": "the broker",
    "mysql": "MySQL",
    "postgres": "PostgreSQL",
}
_STORES: Final = ("mysql", "postgres")
_QUEUES: Final = ("redis", "broker")  # a worker writes its heartbeat while it is connected to the broker

# The parts without which a check cannot be judged, by its name or the part of its name before the colon.
NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "queue": _QUEUES,
    "queues": _QUEUES,
    "workers": _QUEUES,
    "worker_versions": _QUEUES,
    "worker_brokers": _QUEUES,
    "workers_silent": _QUEUES,
    "hosts": _QUEUES,
    "clocks": ("redis",),
    "clock:workers": _QUEUES,
    "clock:redis": ("redis",),
    "clock:mysql": ("mysql",),
    "clock:postgres": ("postgres",),
    "last_sweep": ("redis",),
    "keyword_index": ("redis",),
    "circuits": ("redis",),
    "store_space": ("redis",),
    "disk_space": ("redis",),
    "schema": _STORES,
    "installation": ("redis", *_STORES),
    "deletions": ("mysql",),
    "connections:mysql": ("mysql",),
    "connections:postgresql": ("postgres",),
    "servers": ("redis", "broker", *_STORES),
    "standbys": ("redis", *_STORES),
    "vectors": _STORES,
    "model": ("mysql",),
    "fulltext": ("mysql",),
    "mysql_packet": ("mysql",),
    "broker_visibility_timeout": _QUEUES,
    "broker_eviction": ("broker",),
    "redis_eviction": ("redis",),
}

_NO_WORKER: Final = "queues"  # follows from what explains every queue
# Further causes of a check that fails, the nearest first.
_FOLLOWS: Final[Mapping[str, tuple[str, ...]]] = {
    "last_sweep": ("broker", "mysql", "postgres", "installation", "schema", "queue:upkeep"),
    "keyword_index": ("mysql", "disk_space"),
    "circuits": ("mysql", "postgres", "model"),
    "store_space": ("disk_space",),
}


def condition(error: BaseException) -> str:
    """Return the state of a part, for "while Redis …", by the error of the check that asked it."""
    if isinstance(error, StoreFull):
        return "is full"
    return "does not answer" if "does not answer" in str(error) else "cannot be used"


def needs_of(check: str) -> tuple[str, ...]:
    """Return the parts without which a check cannot be judged."""
    return NEEDS.get(check, NEEDS.get(check.partition(":")[0], ()))


def unjudged(check: str, cause: CheckResult) -> CheckResult:
    """Return the result of a check that cannot be judged while a part that it needs is unsound."""
    name = NAMES.get(cause.check, cause.check)
    detail = f"cannot be judged while {name} {cause.condition or 'cannot be used'}"
    return CheckResult(check=check, severity=Severity.UNKNOWN, detail=detail, cause=cause.check)


def obstacle(check: str, failing: Mapping[str, CheckResult]) -> CheckResult | None:
    """Return the failing part because of which ``check`` cannot be judged, None if it can. ``failing``: by name."""
    return next((failing[part] for part in needs_of(check) if part in failing), None)


def fold(findings: Sequence[CheckResult]) -> list[CheckResult]:
    """Return the findings in the same order, each with the ``cause`` from which it follows.

    A check that needs an unsound part is `unjudged`, even one that passed; another failing check keeps its words and gets
    the cause that explains it. A cause of a cause counts, so that one broken part has one name everywhere. A cause is as
    severe as the failures that it explains.
    """
    failing = {found.check: found for found in findings if found.severity in (Severity.WARNING, Severity.FAILED)}
    unsound = {name: found for name, found in failing.items() if found.is_part and found.severity is Severity.FAILED}
    folded = []
    for found in findings:
        cause = _root(found.check, failing, unsound)
        part = obstacle(found.check, unsound)
        if found.is_part and cause in unsound:
            folded.append(replace(found, detail=f"it is on the same server as {NAMES.get(cause, cause)}", cause=cause))
        elif part is not None:
            folded.append(unjudged(found.check, unsound.get(cause, part)))
        else:
            folded.append(found if found.severity is Severity.OK else replace(found, cause=cause))
    fatal = {found.cause for found in folded if found.severity is Severity.FAILED}
    return [replace(found, severity=Severity.FAILED) if found.check in fatal else found for found in folded]


def causes(findings: Sequence[CheckResult]) -> list[CheckResult]:
    """Return the findings that need a person: not ok, and not the consequence of another one; the failures first."""
    open_ones = [found for found in findings if found.severity is not Severity.OK and not found.cause]
    return sorted(open_ones, key=lambda found: found.severity is not Severity.FAILED)


def _root(check: str, failing: Mapping[str, CheckResult], unsound: Mapping[str, CheckResult]) -> str:
    """Return the failing check at the end of the chain of causes, empty if ``check`` stands for itself."""
    seen = [check]
    while (nearer := _nearest(seen[-1], failing, unsound)) is not None and nearer not in seen:
        seen.append(nearer)
    return seen[-1] if len(seen) > 1 else ""


def _nearest(check: str, failing: Mapping[str, CheckResult], unsound: Mapping[str, CheckResult]) -> str | None:
    part = obstacle(check, unsound)
    if part is not None:
        return part.check
    sums_up = failing[check].explains if check == _NO_WORKER and check in failing else frozenset()
    explaining = [
        name
        for name, other in failing.items()
        if name != check and (check in other.explains or (sums_up and sums_up <= other.explains))
    ]
    following = [name for name in _FOLLOWS.get(check, ()) if name in failing]
    return next(iter([*explaining, *following]), None)
