"""`make chaos`: documents of three tenants go in while the stack's processes are killed at random; nothing may be lost.

Needs a stack of its own, whose supervisor starts again what is killed here. The seed decides which documents are sent
and who is killed when; how far each process is at that moment, it cannot decide. Exits 0 if every promise held.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from sqlalchemy import text

from pipeline.database.unit_of_work import unit_of_work
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.settings import load
from pipeline.tenants.tenant_store import Tenants
from tests.faults import chaos_kills as kills
from tests.faults.chaos_checks import Expected, broken_promises, unfinished
from tests.faults.chaos_wrong_mysql import WrongMySQL

NAMESPACE = "chaos"
_BATCH = 20
_REPLACED_SHARE = 0.2
_QUIET_AT_LEAST_S = 3.0


@dataclass(slots=True)
class Tenant:
    """One tenant's documents, as they were last accepted."""

    tenant_id: TenantId
    key: str
    batches: list[list[dict[str, object]]]
    expected: Expected = field(default_factory=dict)
    repeated: int = 0


def main(arguments: list[str]) -> int:
    """Run the chaos, let the system settle, check the promises."""
    chosen = _parser().parse_args(arguments)
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(1_000_000)
    again = f"--seed {seed}" + (f" --broker {chosen.broker}" if chosen.broker != "redis" else "")
    print(f"chaos: seed {seed}; repeat with make chaos ARGS='{again}'", flush=True)
    stack = Path(os.environ["CHORDWISE_STACK_DIR"])
    use = Resources(load())
    _check_broker(chosen.broker, use)
    tenants = [_tenant(use, number, seed, chosen) for number in range(chosen.tenants)]
    plan = kills.plan(random.Random(seed), seconds=chosen.seconds, broker=chosen.broker)
    mistake = _wrong_mysql(use, tenants, chosen)
    began = time.monotonic()
    threads = [threading.Thread(target=_send, args=(tenant, chosen.seconds, began), daemon=True) for tenant in tenants]
    if mistake is not None:  # in the middle third
        over = began + chosen.seconds * 2 / 3
        waits = threading.Timer(chosen.seconds / 3, mistake.carry_out, kwargs={"until": over})
        waits.daemon = True
        threads.append(waits)
    for thread in threads:
        thread.start()
    kills.carry_out(plan, stack, began=began)
    for thread in threads:
        thread.join(timeout=max(1.0, began + chosen.seconds + chosen.settle - time.monotonic()))
    alive = sum(thread.is_alive() for thread in threads)
    print(f"chaos: killing and sending over after {time.monotonic() - began:.0f} s, settling", flush=True)
    settled_s = _settle(use, tenants, until=began + chosen.seconds + chosen.settle)
    problems = [f"{alive} tenants could not send everything"] if alive else []
    if settled_s is None:
        problems.append(f"not settled within {chosen.settle:.0f} s")
    problems += _after_all(use, tenants)
    if mistake is not None:
        problems += mistake.problems()
    sent = sum(len(tenant.expected) for tenant in tenants)
    repeated = sum(tenant.repeated for tenant in tenants)
    print(
        f"chaos: {sent} documents of {len(tenants)} tenants, {repeated} requests repeated, {len(plan)} kills,"
        f" settled {'never' if settled_s is None else f'{settled_s:.0f} s'} after the last one;"
        f" {time.monotonic() - began:.0f} s in all",
        flush=True,
    )
    for problem in problems:
        print(f"BROKEN  {problem}", flush=True)
    print("chaos: every promise held" if not problems else f"chaos: {len(problems)} promises broken", flush=True)
    return 1 if problems else 0


def _check_broker(wanted: str, use: Resources) -> None:
    """Check that the stack was started with this broker: the Makefile and this option must agree."""
    found = "redis" if use.settings.broker.startswith(("redis://", "rediss://")) else "rabbitmq"
    if found != wanted:
        raise SystemExit(f"chaos: the stack's broker is {found}, not {wanted}: start it with make chaos")


def _wrong_mysql(use: Resources, tenants: Sequence[Tenant], chosen: argparse.Namespace) -> WrongMySQL | None:
    """Prepare the mistake with a second, empty MySQL, and a tenant whose documents no other step touches."""
    if chosen.no_wrong_mysql:
        return None
    tenant_id = TenantId(f"chaos-watched-{os.getpid()}")
    with unit_of_work(use.mysql) as work:
        made = Tenants(work.connection, tenant_id)
        made.create("chaos")
        key = made.issue_key("chaos")
    dice = random.Random(0)
    batch = [_document(f"w{index:03d}", 1, dice) for index in range(20)]
    with _gateway(key) as client:
        answer = client.post("/v1/documents", json={"namespace": NAMESPACE, "documents": batch}).raise_for_status()
        job = client.get(f"/v1/jobs/{answer.json()['job_id']}", params={"wait": 30}, timeout=60).json()
    if job["status"] != "succeeded":
        raise SystemExit(f"chaos: the watched documents were not ingested: {job['status']}")
    return WrongMySQL(use, [tenant.tenant_id for tenant in tenants], tenant_id)


def _after_all(use: Resources, tenants: Sequence[Tenant]) -> list[str]:
    found = []
    for tenant in tenants:
        found += broken_promises(use, tenant.tenant_id, NAMESPACE, tenant.expected)
        with _gateway(tenant.key) as client:
            report = client.post("/v1/verify", json={"namespaces": [NAMESPACE]}, timeout=60).json()
        found += [
            f"{tenant.tenant_id}: {report[name]} {name}" for name in ("missing", "orphaned", "stale") if report[name]
        ]
    return found


def _tenant(use: Resources, number: int, seed: int, chosen: argparse.Namespace) -> Tenant:
    """A new tenant and what it will send: every document once, a fifth of them again later with another text."""
    tenant_id = TenantId(f"chaos-{seed}-{number}-{os.getpid()}")
    with unit_of_work(use.mysql) as work:
        tenants = Tenants(work.connection, tenant_id)
        tenants.create("chaos")
        key = tenants.issue_key("chaos")
    dice = random.Random(f"{seed}/{number}")
    names = [f"d{index:05d}" for index in range(number, chosen.documents, chosen.tenants)]
    first = [_document(name, 1, dice) for name in names]
    again = [_document(name, 2, dice) for name in dice.sample(names, int(len(names) * _REPLACED_SHARE))]
    batches = [first[start : start + _BATCH] for start in range(0, len(first), _BATCH)]
    batches += [again[start : start + _BATCH] for start in range(0, len(again), _BATCH)]
    return Tenant(tenant_id=tenant_id, key=key, batches=batches)


def _document(name: str, version: int, dice: random.Random) -> dict[str, object]:
    words = [f"word{dice.randrange(4000)}" for _ in range(dice.randrange(60, 900))]
    sentences = [" ".join(words[start : start + 12]) + "." for start in range(0, len(words), 12)]
    body = f"Document {name} in version {version}. " + " ".join(sentences)
    return {"document_id": name, "title": f"{name} v{version}", "text": body, "tags": ["chaos"]}


def _send(tenant: Tenant, seconds: float, began: float) -> None:
    """Spread the batches over the time of the kills; what is not answered with 202 is sent again as it is."""
    with _gateway(tenant.key) as client:
        for index, batch in enumerate(tenant.batches):
            time.sleep(max(0.0, began + seconds * index / len(tenant.batches) - time.monotonic()))
            while not _accepted(client, batch):
                tenant.repeated += 1
                time.sleep(0.5)
            tenant.expected.update((str(document["document_id"]), str(document["text"])) for document in batch)


def _accepted(client: httpx.Client, batch: list[dict[str, object]]) -> bool:
    try:
        answer = client.post("/v1/documents", json={"namespace": NAMESPACE, "documents": batch})
    except httpx.TransportError:
        return False
    if 400 <= answer.status_code < 500 and answer.status_code != 429:
        raise SystemExit(f"chaos: the gateway refused a batch: {answer.status_code} {answer.text[:300]}")
    return answer.status_code == 202


def _settle(use: Resources, tenants: Sequence[Tenant], *, until: float) -> float | None:
    """Wait until no item is open and nothing waits to be dropped; gives the seconds, None if it does not come to
    that."""
    began = time.monotonic()
    quiet_since: float | None = None
    while time.monotonic() < until:
        left = _left(use, tenants)
        if left:
            quiet_since = None
        elif quiet_since is None:
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since > _QUIET_AT_LEAST_S and _ready():
            return quiet_since - began
        time.sleep(0.5)
    print(f"chaos: still open: {_left(use, tenants)}", flush=True)
    return None


def _left(use: Resources, tenants: Sequence[Tenant]) -> str:
    try:
        with use.mysql.connect() as connection:
            connection.execute(text("SELECT 1"))
            found = [unfinished(connection, tenant.tenant_id) for tenant in tenants]
    except Exception as error:  # a server that is being started again
        return type(error).__name__
    return "; ".join(each for each in found if each)


def _ready() -> bool:
    try:
        return httpx.get(f"{os.environ['CHORDWISE_URL']}/readyz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def _gateway(key: str) -> httpx.Client:
    return httpx.Client(
        base_url=os.environ["CHORDWISE_URL"], headers={"Authorization": f"Bearer {key}"}, timeout=httpx.Timeout(15)
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="repeat the run of this seed")
    parser.add_argument("--broker", choices=("redis", "rabbitmq"), default="redis", help="what carries messages")
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--tenants", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=110.0, help="how long documents are sent and processes killed")
    parser.add_argument("--settle", type=float, default=150.0, help="how long the system may take to come to rest")
    parser.add_argument("--no-wrong-mysql", action="store_true", help="leave the step with a second MySQL out")
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
