"""``chordwise doctor``: what is wrong, and what to do about it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.text import Text

from chordwise.api.installation import Dependency, Finding
from chordwise.cli import screen
from chordwise.client import Chordwise
from chordwise.config import Connection, as_operator
from chordwise.errors import ChordwiseError, NotConfigured, ProblemError
from chordwise.transport import CLIENT_VERSION

_MOMENT_S = 2.0  # older results are shown with their age
_STYLES = {"ok": "green", "warning": "yellow", "failed": "red"}
_ADVICE = {
    "mysql": "start it, and compare CHORDWISE_MYSQL_URL of the server",
    "postgres": "start it, and compare CHORDWISE_POSTGRES_URL of the server",
    "redis": "start it, and compare CHORDWISE_REDIS_URL of the server",
    "broker": "start it, and compare CHORDWISE_BROKER_URL of the server",
    "keyword_index": "see that python -m workers.indexer runs on every host with query workers",
    "last_sweep": "see that beat runs, and a worker for the queue upkeep",
    "worker_versions": "restart these workers with the server's versions",
    "worker_brokers": "compare CHORDWISE_BROKER_URL of these workers and of the server",
}


def doctor(
    drift: Annotated[bool, typer.Option("--drift", help="Also compare the two stores; may take a while.")] = False,
    as_json: screen.Json = False,
) -> None:
    """Check the connection, the key, everything the server depends on, how it is set up, and the versions.

    How the installation is set up takes the operator's key: CHORDWISE_ADMIN_KEY, which make up keeps in
    .local/stacks/up/env, or a CHORDWISE_API_KEY with the scope operator. One line for each check, with what to do where
    something is wrong.
    Exits with 1 if anything failed.
    """
    # A check of both /readyz and `/v1/doctor` is shown once, as the latter describes it.
    findings = list({finding.check: finding for finding in _findings(screen.connection(), drift=drift)}.values())
    failed = [finding.check for finding in findings if finding.severity == "failed"]
    if as_json:
        screen.print_json({"ok": not failed, "findings": [_as_json(finding) for finding in findings]})
    else:
        console = screen.stdout()
        width = max(len(finding.check) for finding in findings)
        for finding in findings:
            detail = finding.detail + (f" - {finding.advice}" if finding.advice else "")
            state = (f"{finding.severity:<7}  ", _STYLES.get(finding.severity, ""))
            line = Text.assemble(state, f"{screen.clean(finding.check):<{width}}  ", screen.clean(detail))
            console.print(line, soft_wrap=True)
    if failed:
        raise ChordwiseError(f"{screen.plural(len(failed), 'check')} failed: {', '.join(failed)}")


def _findings(known: Connection, *, drift: bool) -> Iterator[Finding]:
    try:
        client = Chordwise(known.url, known.api_key, timeout=10.0, retries=1)
    except NotConfigured as error:
        advice = "make up writes both for the local stack"
        yield Finding(check="configuration", severity="failed", detail=str(error), advice=advice)
        return
    with client:
        yield Finding(check="configuration", severity="ok", detail=f"{known.url}, from {known.origin}")
        began = time.perf_counter()
        try:
            health = client.health()
        except ChordwiseError as error:
            advice = "is the server running, and is CHORDWISE_URL right?"
            yield Finding(check="server", severity="failed", detail=str(error), advice=advice)
            return
        elapsed_ms = (time.perf_counter() - began) * 1000
        yield Finding(check="server", severity="ok", detail=f"answers in {elapsed_ms:.0f} ms")
        yield _key(client)
        for name, dependency in health.dependencies.items():
            yield _dependency(name, dependency)
        if not health.ready and all(dependency.ok for dependency in health.dependencies.values()):
            advice = "wait a moment, then see the server's logs"
            yield Finding(check="readiness", severity="failed", detail=health.status, advice=advice)
        yield _versions(client, health.version)
        yield from _installation(known)
        if drift:
            yield _drift(client)


def _dependency(name: str, dependency: Dependency) -> Finding:
    """Convert a check of /readyz to a finding, with its age if it is more than `_MOMENT_S`."""
    took = f" in {dependency.latency_ms:.1f} ms" if dependency.latency_ms is not None else ""
    if dependency.ok:
        said = f"answers{took}" if took else dependency.detail or "ok"
    else:
        said = f"{dependency.status}{took}" + (f": {dependency.detail}" if dependency.detail else "")
    if dependency.age_s is not None and dependency.age_s >= _MOMENT_S:
        said += f" (checked {dependency.age_s:.0f} s ago)"
    if dependency.ok:
        return Finding(check=name, severity="ok", detail=said)
    advice = f"start a worker: celery -A workers.app worker -Q {name[6:]}" if name.startswith("queue:") else ""
    severity = "warning" if dependency.status in ("warning", "unknown") else "failed"
    return Finding(
        check=name, severity=severity, detail=said, advice=advice or _ADVICE.get(name, "see the server's logs")
    )


def _as_json(finding: Finding) -> dict[str, str]:
    names = ("check", "severity", "detail", "advice")
    return {name: getattr(finding, name) for name in names}


def _installation(known: Connection) -> Iterator[Finding]:
    """What the server finds wrong with how it is set up; a warning if this key may not know."""
    try:
        operator = as_operator(known)
        with Chordwise(operator.url, operator.api_key, timeout=30.0, retries=1) as client:
            yield from client.doctor().findings
    except ProblemError as error:
        advice = "set CHORDWISE_ADMIN_KEY, or use a key with the scope operator"
        detail = "not examined: this takes the operator's key" if error.status in (401, 403) else str(error)
        severity = "warning" if error.status in (401, 403, 404) else "failed"
        yield Finding(check="installation", severity=severity, detail=detail, advice=advice)
    except ChordwiseError as error:
        yield Finding(check="installation", severity="failed", detail=str(error), advice="see the server's logs")


def _key(client: Chordwise) -> Finding:
    try:
        namespaces = client.namespaces()
    except ProblemError as error:
        refused = error.status in (401, 403)
        advice = "CHORDWISE_API_KEY is not a valid key of this server" if refused else "see the server's logs"
        return Finding(check="key", severity="failed", detail=str(error), advice=advice)
    except ChordwiseError as error:
        return Finding(check="key", severity="failed", detail=str(error), advice="see the server's logs")
    return Finding(check="key", severity="ok", detail=f"accepted; {screen.plural(len(namespaces), 'namespace')}")


def _versions(client: Chordwise, told: str | None) -> Finding:
    try:
        server = told or client.server_version()
    except ChordwiseError as error:
        return Finding(check="version", severity="warning", detail=str(error), advice="the server's version is unknown")
    detail = f"client {CLIENT_VERSION}, server {server or 'unknown'}"
    same = server is None or server.split(".")[:2] == CLIENT_VERSION.split(".")[:2]
    advice = "" if same else "install the client that belongs to the server"
    return Finding(check="version", severity="ok" if same else "warning", detail=detail, advice=advice)


def _drift(client: Chordwise) -> Finding:
    try:
        found = client.verify()
    except ChordwiseError as error:
        return Finding(check="drift", severity="failed", detail=str(error), advice="see the server's logs")
    detail = f"{found.missing} missing, {found.orphaned} orphaned, {found.stale} stale"
    advice = "" if found.aligned else "chordwise verify --repair"
    return Finding(check="drift", severity="ok" if found.aligned else "failed", detail=detail, advice=advice)
