"""`make ha`: lose each server in turn while documents go in and questions are asked, and print what callers saw.

A fault lasts until uploads and queries have been whole again for some seconds; then the server comes back, beside the
same load. After each, the load rests, every document that was accepted is compared with the stores, and `verify` must
find nothing. With ``--seed`` three random faults at random times, which overlap; a range of seeds is one run of so many such
schedules. Exits 0 if no document was lost, no answer was mixed and no status wrong.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from compose.localstack.progress import Failure, say
from pipeline.errors import PipelineError
from tests.faults.chaos_checks import broken_promises, unfinished
from tests.ha.load import DOORS, Load, Operation, summed
from tests.ha.stage import Stage, stage
from tests.support.servers import tools_for_tests
from tests.support.servers.members import Cluster, Fault, Member
from tests.support.servers.standby import PostgresPair

_AT_LEAST_S, _AT_MOST_S = 6.0, 45.0  # of a fault
_WHOLE_FOR_S = 3.0
_LATEST_S = 20.0  # of each door one operation at least, also on a busy machine
_WHOLE_AGAIN_S = 90.0  # a cluster, after the server is back
_SETTLED_WITHIN_S = 120.0
_DECIDES_AFTER_S = 1.5  # the tool that promotes a standby
_BEHIND_S = 3.0
_HEAD = ("event", *DOORS, "slowest query", "late", "lost", "mixed", "wrong", "verify clean after")


@dataclass(frozen=True, kw_only=True)
class Event:
    """A fault of a server of one cluster. ``place``: the member, None for the primary. ``behind``: the standby lacks the
    last seconds. ``at_s``: after its schedule began; ``lasts_s``: None until everything was whole again for some seconds."""

    cluster: str
    fault: Fault
    place: int | None = None
    behind: bool = False
    at_s: float = 0.0
    lasts_s: float | None = None

    @property
    def name(self) -> str:
        """Return the event as the table names it."""
        which = "" if self.place is None else f" {self.place + 1}"
        behind = ", standby behind" if self.behind else ""
        when = "" if self.lasts_s is None else f" {self.at_s:.0f}-{self.at_s + self.lasts_s:.0f} s"
        return f"{self.cluster}{which} {self.fault}{behind}{when}"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Events of different clusters that begin in this order, after which the stores are compared once."""

    events: Sequence[Event]
    name: str


def main(arguments: Sequence[str]) -> int:
    """Run the events and print the table."""
    parser = argparse.ArgumentParser(prog="make ha", description=__doc__)
    parser.add_argument("--seed", type=_seeds, help="random schedules, as 1-20 or 5,7, after the events of --only")
    parser.add_argument("--only", default="", help="events whose name has one of these words, separated by commas")
    parser.add_argument("--writers", type=int, default=1, help="nodes of MySQL that take writes at the same time")
    parser.add_argument("--broker", choices=("rabbitmq", "redis"), default="rabbitmq", help="what carries messages")
    chosen = parser.parse_args(arguments)
    tools_for_tests.fetch_for_clusters()
    rows: list[list[str]] = []
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="chordwise-ha-") as made:
        Path(made).chmod(0o711)  # PostgreSQL runs as another user
        with (
            stage(Path(made), writers=chosen.writers, rabbitmq=chosen.broker == "rabbitmq") as found,
            closing(Load(found.tenants)) as load,
        ):
            load.resume()
            _wait_until_whole(load)
            for schedule in _schedules(found.clusters, chosen.seed, chosen.only.split(",")):
                for row, wrong in _run(schedule, found, load):
                    rows.append(row)
                    problems += wrong
                    say(" | ".join(row))
                    for sentence in wrong:
                        say(f"    BROKEN  {sentence}")
                    for line in _tracebacks(found.logs) if wrong else ():
                        say(f"    {line}")
            asked = [each for each in load.done if each.door in DOORS[1:4]]
    _print(rows)
    failed = sum(each.outcome == "failed" for each in asked)
    say(f"{len(asked)} queries: {failed} failed, {sum(each.is_late for each in asked)} late")
    say(f"{len(problems)} broken promises")
    return 1 if problems else 0


def _tracebacks(logs: Sequence[Path]) -> Iterator[str]:
    """Yield the lines of the gateways' logs with a traceback: where an answer of status 500 came from."""
    for log in logs:
        yield from (line for line in log.read_text(errors="replace").splitlines() if "Traceback" in line)


def _seeds(text: str) -> Sequence[int]:
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def _schedules(
    clusters: Mapping[str, Cluster], seeds: Sequence[int] | None, words: Sequence[str]
) -> Iterator[Schedule]:
    every = [
        *(Event(cluster=kind, fault=fault) for kind, cluster in clusters.items() for fault in cluster.faults),
        *(Event(cluster=kind, fault="handed over") for kind in clusters),
        Event(cluster="mysql", fault="killed", place=2),
        Event(cluster="postgres", fault="killed", behind=True),
    ]
    chosen = [event for event in every if any(word in event.name for word in words)]
    yield from (Schedule(events=(event,), name=event.name) for event in chosen if seeds is None or words != [""])
    yield from (random_schedule(seed, clusters) for seed in seeds or ())


def random_schedule(seed: int, clusters: Mapping[str, Cluster]) -> Schedule:
    """Return faults of three kinds of servers, the first two at the same time for some seconds: with as many seeds in a row
    as there are pairs of kinds, each pair once."""
    dice = random.Random(seed)
    pairs = list(itertools.combinations(sorted(clusters), 2))
    pair = dice.sample(pairs[seed % len(pairs)], 2)
    third = dice.choice([kind for kind in sorted(clusters) if kind not in pair])
    begins = (0.0, dice.uniform(0, 4), dice.uniform(4, 12))
    events = tuple(
        Event(
            cluster=kind,
            fault=dice.choice(clusters[kind].faults),
            place=dice.randrange(len(clusters[kind].members)),
            at_s=at_s,
            lasts_s=dice.uniform(5, 12),
        )
        for kind, at_s in zip((*pair, third), begins, strict=True)
    )
    return Schedule(events=events, name=f"{seed}: " + ", ".join(event.name for event in events))


def _run(schedule: Schedule, found: Stage, load: Load) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the rows of a schedule, of its faults and of the return, each with the promises that were broken."""
    _wait_until_whole(load)
    began = time.monotonic()
    lost: dict[Event, tuple[Cluster, Member]] = {}

    def bring_back(event: Event) -> None:
        cluster, member = lost[event]
        cluster.bring_back(member)

    steps = [(event.at_s, False, event) for event in schedule.events]
    steps += [(event.at_s + event.lasts_s, True, event) for event in schedule.events if event.lasts_s is not None]
    for at_s, is_return, event in sorted(steps, key=lambda step: step[0]):
        time.sleep(max(0.0, began + at_s - time.monotonic()))
        if is_return:
            bring_back(event)
        else:
            lost[event] = _strike(event, found)
    open_ones = [event for event in schedule.events if event.lasts_s is None]
    if open_ones:
        time.sleep(_AT_LEAST_S)
        _wait_until_whole(load, began, within_s=_AT_MOST_S)
    returns = time.monotonic()
    for event in open_ones:
        bring_back(event)
    ends = time.monotonic() + _WHOLE_AGAIN_S
    clusters = [cluster for cluster, _ in lost.values()]
    while not (is_whole := all(cluster.is_whole() for cluster in clusters)) and time.monotonic() < ends:
        time.sleep(0.5)
    time.sleep(_WHOLE_FOR_S)
    _wait_until_whole(load, returns, within_s=_AT_MOST_S)
    load.pause()
    clean_s, broken = _settle(found)
    problems = [f"{schedule.name}: {sentence}" for sentence in broken]
    if not is_whole:
        problems.append(f"{schedule.name}: the cluster was not whole within {_WHOLE_AGAIN_S:.0f} s")
    fault, back = load.since(began, returns), load.since(returns)
    problems += _unasked(schedule.name, fault) if open_ones else []
    yield _row(schedule.name, fault, began), problems + _wrong(schedule.name, [*fault, *back])
    row = _row(f"{schedule.name}: back", back, returns)
    lost_documents = sum("lost" in sentence for sentence in broken)
    row[-4], row[-1] = str(lost_documents), "never" if clean_s is None else f"{clean_s:.0f} s"
    yield row, _unasked(f"{schedule.name}: back", back)
    load.resume()


def _strike(event: Event, found: Stage) -> tuple[Cluster, Member]:
    cluster = found.clusters[event.cluster]
    member = cluster.primary() if event.place is None else cluster.members[event.place]
    if event.behind and isinstance(cluster, PostgresPair):
        cluster.fall_behind()
        time.sleep(_BEHIND_S)
    was_primary = member is cluster.primary()
    say(f"  {event.name}: {member.name}")
    cluster.strike(member, event.fault)
    if was_primary:
        is_to_decide = isinstance(cluster, PostgresPair) and event.fault != "handed over"
        time.sleep(_DECIDES_AFTER_S if is_to_decide else 0)
        cluster.take_over()
    return cluster, member


def _wait_until_whole(load: Load, began: float = -math.inf, *, within_s: float = 120.0) -> None:
    """Wait until everything that was begun in the last seconds, and since ``began``, went well, through every door, and no
    longer than that."""
    ends = time.monotonic() + within_s
    while time.monotonic() < ends:
        now = time.monotonic()
        last = load.since(now - _WHOLE_FOR_S)
        latest = {each.door: each.outcome for each in load.since(max(began, now - _LATEST_S))}
        if last and all(each.outcome == "ok" for each in last) and [*latest.values()] == ["ok"] * len(DOORS):
            return
        time.sleep(0.3)
    say(f"    not whole within {within_s:.0f} s")


def _settle(found: Stage) -> tuple[float | None, list[str]]:
    """Wait until nothing is unfinished and the stores agree; return after how many seconds, and what is broken else."""
    began = time.monotonic()
    broken = ["nothing could be looked at"]
    while time.monotonic() - began < _SETTLED_WITHIN_S:
        try:
            broken = _broken(found)
        except (PipelineError, ValueError) as error:
            broken = [f"{type(error).__name__}: {error}"]
        if not broken:
            return time.monotonic() - began, []
        time.sleep(1)
    return None, broken


def _broken(found: Stage) -> list[str]:
    sentences = []
    for tenant in found.tenants:
        with found.use.mysql.connect() as connection:
            left = unfinished(connection, tenant.tenant_id)
        if left:
            return [left]
        sentences += broken_promises(found.use, tenant.tenant_id, tenant.namespace, tenant.expected)
        report = tenant.client.post("/v1/verify", json={"namespaces": [tenant.namespace]}).json()
        sentences += [
            f"{report.get(name)} {name}" for name in ("missing", "orphaned", "stale") if report.get(name) != 0
        ]
    return sentences


def _wrong(name: str, operations: Sequence[Operation]) -> list[str]:
    """Return a sentence for each answer that no interface promises, and print what else was not answered in full."""
    for said, count in summed(operations).most_common(12):
        say(f"    {count} × {said[:220]}")
    wrong = Counter(each.said for each in operations if each.outcome == "wrong")
    return [f"{name}: {count} × {said}" for said, count in wrong.items()]


def _unasked(name: str, operations: Sequence[Operation]) -> list[str]:
    """Return a sentence for each door without an operation: a cell of the table that shows nothing."""
    asked = {each.door for each in operations}
    return [f"{name}: nothing went through {door}" for door in DOORS if door not in asked]


def _row(name: str, operations: Sequence[Operation], began: float) -> list[str]:
    """Return the cells of a row: for each door the seconds until its first success, and what was not answered in full."""
    cells = []
    for door in DOORS:
        own = [each for each in operations if each.door == door]
        first = min((each.started + each.took_s for each in own if each.outcome in ("ok", "degraded")), default=None)
        counted = Counter(each.outcome for each in own)
        others = [f"{counted[kind]} {kind}" for kind in ("failed", "refused", "proxy", "degraded") if counted[kind]]
        again = "never" if first is None else f"{first - began:.1f} s"
        cells.append(", ".join([again, *others, f"of {len(own)}"]))
    slowest = max((each.took_s for each in operations if each.door in DOORS[1:4]), default=0.0)
    late = sum(each.is_late for each in operations)
    counts = [sum(each.is_mixed for each in operations), sum(each.outcome == "wrong" for each in operations)]
    return [name, *cells, f"{slowest:.1f} s", str(late), "", *map(str, counts), ""]


def _print(rows: Sequence[Sequence[str]]) -> None:
    say("")
    for row in (_HEAD, ["---"] * len(_HEAD), *rows):
        say(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    try:
        sys.exit(main(sys.argv[1:]))
    except Failure as failure:
        say(f"ha: {failure}")
        sys.exit(1)
