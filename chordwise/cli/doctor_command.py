"""``chordwise doctor`` and ``chordwise verify``: checks of the installation, with remedies, and of the two stores."""

import time
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Annotated

import typer
from rich.text import Text
from typer import Option

from chordwise.api.installation import Dependency, Health
from chordwise.api.namespaces import Alignment
from chordwise.cli import screen
from chordwise.client import Chordwise
from chordwise.config import Connection, as_operator, discover
from chordwise.contract.process import REMEDIES, RESTART, Finding
from chordwise.errors import ChordwiseError, NotConfigured, ProblemError
from chordwise.transport import CLIENT_VERSION

_MOMENT_S = 2.0  # older results are shown with their age
_ORDER = {"failed": 0, "warning": 1, "unknown": 2, "ok": 3}  # what needs a person comes first
_STYLES = {"ok": "green", "warning": "yellow", "failed": "red"}
_SELF_EXPLAINING = ("mysql", "postgres", "redis", "broker", "clocks")  # a sentence with a semicolon names the remedy
_KEY_NEEDS = {
    "mysql": "MySQL",
    "redis": "Redis",
}  # the server looks a key up in one and counts its requests in the other
_ADVICE = {
    **REMEDIES,
    # For these the server's diagnosis gives advice by details that /readyz does not have.
    "keyword_index": "see that python -m workers.indexer runs on every host with query workers",
    "queues": "start them: chordwise-server worker --role NAME for each role",
}
# The role of the workers that listen to a queue, where it has another name; a test compares them with the server's.
_ROLES = {"recall": "queries", "answer": "queries", "batch": "queries", "rerank": "upkeep"}


def doctor(
    drift: Annotated[bool, Option("--drift", help="Also compare the two stores; may take a while.")] = False,
) -> None:
    """Check the connection, the key, the server's dependencies, its configuration, and the versions.

    The configuration is checked only with the operator's key: CHORDWISE_ADMIN_KEY, which make up keeps in
    .local/stacks/up/env, or a CHORDWISE_API_KEY with the scope operator. Prints one line for each check, with
    a remedy for each failure. Exits with 1 if a check failed.
    """
    # A check of both /readyz and `/v1/doctor` is shown once, as the latter describes it.
    findings = list({finding.check: finding for finding in _findings(discover(), drift=drift)}.values())
    failed = [finding.check for finding in findings if finding.severity == "failed" and not finding.cause]
    if screen.as_json():
        names = ("check", "severity", "detail", "advice")
        rows = [{name: getattr(finding, name) for name in (*names, "cause")} for finding in findings]
        screen.print_json({"ok": not failed, "findings": rows})
    else:
        console = screen.stdout()
        own = [finding for finding in findings if not finding.cause]
        own.sort(key=lambda finding: _ORDER.get(finding.severity, 0))
        width = max(len(finding.check) for finding in own)
        for finding in own:
            detail = finding.detail + (f" - {finding.advice}" if finding.advice else "")
            state = (f"{finding.severity:<7}  ", _STYLES.get(finding.severity, ""))
            line = Text.assemble(state, f"{screen.clean(finding.check):<{width}}  ", screen.clean(detail))
            console.print(line, soft_wrap=True)
            for follows in _following(finding, findings):
                console.print(Text(f"{'':<{width + 11}}{screen.clean(follows)}"), soft_wrap=True)
    if failed:
        raise ChordwiseError(f"{screen.plural(len(failed), 'check')} failed: {', '.join(failed)}")


def _following(cause: Finding, findings: Sequence[Finding]) -> Iterator[str]:
    """Yield one line for the checks that say the same because of a cause."""
    by_detail: dict[str, list[str]] = {}
    for finding in findings:
        if finding.cause == cause.check:
            by_detail.setdefault(finding.detail, []).append(finding.check)
    for detail, checks in by_detail.items():
        yield f"{detail}: {', '.join(checks)}"


def _failed(check: str, detail: object, advice: str = "see the server's logs", severity: str = "failed") -> Finding:
    return Finding(check=check, severity=severity, detail=str(detail), advice=advice)


def _passed(check: str, detail: str) -> Finding:
    return Finding(check=check, severity="ok", detail=detail)


def _findings(server: Connection, *, drift: bool) -> Iterator[Finding]:
    try:
        client = Chordwise(server.url, server.api_key, timeout=10.0, retries=1)
    except NotConfigured as error:
        yield _failed("configuration", error, "make up writes both for the local stack")
        return
    with client:
        yield _passed("configuration", f"{server.url}, from {server.origin}")
        began = time.perf_counter()
        try:
            health = client.health()
        except ChordwiseError as error:
            yield _failed("server", error, "is the server running, and is CHORDWISE_URL right?")
            return
        yield _passed("server", f"answers in {(time.perf_counter() - began) * 1000:.0f} ms")
        yield _key(client, health)
        for name, dependency in health.dependencies.items():
            yield _dependency(name, dependency)
        if not health.ready and all(dependency.ok for dependency in health.dependencies.values()):
            yield _failed("readiness", health.status, "wait a moment, then see the server's logs")
        yield _versions(client, health.version)
        yield from _installation(server, health)
        if drift:
            yield _drift(client)


def _dependency(name: str, dependency: Dependency) -> Finding:
    """Convert a check of /readyz to a finding, with its age if it is more than `_MOMENT_S`."""
    latency = f" in {dependency.latency_ms:.1f} ms" if dependency.latency_ms is not None else ""
    if dependency.ok:
        detail = f"answers{latency}" if latency else dependency.detail or "ok"
    else:
        detail = f"{dependency.status}{latency}" + (f": {dependency.detail}" if dependency.detail else "")
    if dependency.age_s is not None and dependency.age_s >= _MOMENT_S:
        detail += f" (checked {dependency.age_s:.0f} s ago)"
    if dependency.ok:
        return _passed(name, detail)
    if dependency.cause:
        severity = "unknown" if dependency.status == "unknown" else "failed"
        return Finding(check=name, severity=severity, detail=dependency.detail or "", cause=dependency.cause)
    advice = _ADVICE.get(name, "see the server's logs")
    if name in _SELF_EXPLAINING and ";" in (dependency.detail or ""):
        advice = ""
    if name.startswith("queue:"):
        queue = name.removeprefix("queue:")
        advice = f"start one: chordwise-server worker --role {_ROLES.get(queue, queue)}"
    if name.startswith("queue") and "fell silent" in (dependency.detail or ""):
        advice = RESTART
    return _failed(name, detail, advice, "warning" if dependency.status in ("warning", "unknown") else "failed")


def _obstacle(check: str, health: Health) -> Finding | None:
    """Return the finding of a check of this client that a store of the server does not permit, None if all can be used."""
    for name, title in _KEY_NEEDS.items():
        dependency = health.dependencies.get(name)
        if dependency is not None and not dependency.ok:
            cause = dependency.cause or name
            detail = f"cannot be judged while {title} {dependency.condition or 'cannot be used'}"
            return Finding(check=check, severity="unknown", detail=detail, cause=cause)
    return None


def _installation(server: Connection, health: Health) -> Iterator[Finding]:
    """Return the server's findings on its configuration; a warning if this key lacks the scope."""
    try:
        operator = as_operator(server)
        with Chordwise(operator.url, operator.api_key, timeout=30.0, retries=1) as client:
            yield from client.doctor().findings
    except ProblemError as error:
        if error.status in (401, 403):
            advice = "set CHORDWISE_ADMIN_KEY, or use a key with the scope operator"
            yield _failed("doctor", "not examined: this takes the operator's key", advice, "warning")
        else:
            yield _obstacle("doctor", health) or _failed("doctor", error)
    except ChordwiseError as error:
        yield _obstacle("doctor", health) or _failed("doctor", error)


def _key(client: Chordwise, health: Health) -> Finding:
    if (obstacle := _obstacle("key", health)) is not None:
        return obstacle
    try:
        namespaces = client.namespaces()
    except ChordwiseError as error:
        if isinstance(error, ProblemError) and error.status in (401, 403):
            return _failed("key", error, "CHORDWISE_API_KEY is not a valid key of this server")
        return _failed("key", f"could not be checked: {error}", severity="warning")
    return _passed("key", f"accepted; {screen.plural(len(namespaces), 'namespace')}")


def _versions(client: Chordwise, version: str | None) -> Finding:
    try:
        server = version or client.server_version()
    except ChordwiseError as error:
        return _failed("version", error, "the server's version is unknown", "warning")
    detail = f"client {CLIENT_VERSION}, server {server or 'unknown'}"
    if server is None or server.split(".")[:2] == CLIENT_VERSION.split(".")[:2]:
        return _passed("version", detail)
    return _failed("version", detail, "install the client that belongs to the server", "warning")


def _drift(client: Chordwise) -> Finding:
    try:
        alignment = client.verify()
    except ChordwiseError as error:
        return _failed("drift", error)
    detail = f"{alignment.missing} missing, {alignment.orphaned} orphaned, {alignment.stale} stale"
    return _passed("drift", detail) if alignment.aligned else _failed("drift", detail, "chordwise verify --repair")


def verify(
    namespaces: Annotated[
        list[str] | None, Option("--namespace", "-n", help="Only this namespace; repeatable. Default: all.")
    ] = None,
    repair: Annotated[bool, Option("--repair", help="Repair the differences, then compare again.")] = False,
    delete_share: Annotated[
        float | None,
        Option(
            "--delete-share",
            min=0.0,
            max=1.0,
            metavar="SHARE",
            help="With --repair: confirm that up to this share of all vectors and chunk rows may be deleted.",
        ),
    ] = None,
) -> None:
    """Compare the text store with the vector store.

    missing: chunks without a vector. orphaned: vectors without a chunk. stale: vectors of an older text. Named only
    if there are any: misplaced vectors, miscounted documents, leftover rows, wrong sizes of namespaces, wrong vectors of whole
    documents. Exits with 1 if there are differences; with --repair, if any remain. A repair that would delete more than
    a small share of the tenant's data withholds those deletions until --delete-share confirms them.
    """
    if delete_share is not None and not repair:
        raise typer.BadParameter("is only allowed with --repair", param_hint="--delete-share")
    with screen.connect() as client:
        first = client.verify(namespaces or None, repair=repair, delete_share=delete_share)
        final = client.verify(namespaces or None) if repair else first
    if screen.as_json():
        screen.print_json({**final.raw, "repaired": first.repaired, "withheld": first.withheld})
    else:
        _show(final)
        if repair:
            screen.say(f"repaired {first.repaired}")
    if not final.aligned:
        advice = "the server's logs have more about the rest" if repair else "run chordwise verify --repair"
        if first.withheld:
            advice = (
                f"{first.withheld} vectors and rows of chunks were not deleted, as they are too large a share: is this the"
                " right MySQL, and is its backup complete? If so, chordwise verify --repair --delete-share 1.0 deletes them"
            )
        raise ChordwiseError(f"the stores differ ({_counts(final)}); {advice}")
    if not screen.as_json():
        screen.say(f"aligned: {_counts(final)}")


def _show(alignment: Alignment) -> None:
    if not alignment.namespaces:
        screen.say("No namespaces.")
        return
    counts, differences = ("documents", "chunks", "vectors"), ("missing", "orphaned", "stale")
    rows = (
        (
            *(row.namespace, *(getattr(row, name) for name in counts)),
            *(Text(str(count), style="bold red" if count else "") for count in attrgetter(*differences)(row)),
        )
        for row in alignment.namespaces
    )
    screen.print_table(("namespace", *counts, *differences), rows, numbers=(*counts, *differences))


def _counts(alignment: Alignment) -> str:
    usual = [f"{getattr(alignment, kind)} {kind}" for kind in ("missing", "orphaned", "stale")]
    rare = ("misplaced", "miscounted", "leftover", "statistics", "document_vectors")
    return ", ".join(usual + [f"{count} {kind}" for kind in rare if (count := getattr(alignment, kind))])
