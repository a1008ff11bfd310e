"""Diagnose an installation and advise: every rule is a pure function of gathered facts."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chordwise.contract.process import REMEDIES, RESTART
from pipeline.database.worker_heartbeats import FORGOTTEN_S, DiskSpace, HostState, ProcessSign, ProcessState
from pipeline.embedding.space_store import TableShape
from pipeline.keyword_index.indexer_facts import IndexerFacts
from pipeline.metrics.definitions import IndexSummary
from pipeline.semantic.index_plan import RECALL_GOAL

SKEW_WARNING_S = 0.5  # a query lives for seconds by the clock of the gateway that accepted it
SKEW_FAILURE_S = 2.0  # leases of seconds are given and taken by different clocks
LONGEST_RESULT_EXPIRY_S = 86_400.0
LONGEST_INDEX_LAG_S = 30.0
# Servers that `make matrix` ran tests on: docs/compatibility.md. A version belongs to a series that it begins with.
TESTED_SERIES: Mapping[str, tuple[str, ...]] = {
    "MySQL": ("9",),
    "MariaDB": ("10.11", "11"),
    "PostgreSQL": ("15", "16", "17", "18"),
    "pgvector": ("0.7", "0.8"),
    "Redis": ("7", "8"),
    "Valkey": ("8", "9"),
    "RabbitMQ": ("3.10", "4"),
}
DISK_WARNING = 0.15  # share of a disk that is free
DISK_FAILED = 0.05
_NAMED = 5  # processes in one sentence
_WATCHED_BY = {"indexer": "keyword_index", "clock": "last_sweep", "upkeep": "last_sweep"}
TERM_CHARACTERS = 13  # every keyword term is hashed to so many (pipeline.keyword.fulltext_store)


class Severity(enum.StrEnum):
    """The severity of a finding: nothing to do, to be looked at, something does not work or is in danger; ``unknown``:
    cannot be judged while something else fails."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    FAILED = "failed"


Versions = Mapping[str, str | None]  # of chordwise, celery and kombu, which processes that exchange messages must share


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of one check. ``advice``: a sentence with the remedy; empty if all is well.

    ``cause``: the failing check from which this result follows (`find_causes`), empty if it stands for itself.
    ``explains``: checks that fail because of this one. ``is_part``: of a server that other checks need; ``condition``: its
    state, for "while Redis is full".
    """

    check: str
    severity: Severity
    detail: str
    advice: str = ""
    cause: str = ""
    explains: frozenset[str] = frozenset()
    is_part: bool = False
    condition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """One worker's report; None for values that its version does not report. ``skew_s``: the least distance of its
    clock from ours. ``task_time_limit_s`` None: its tasks have no limit."""

    name: str
    queues: tuple[str, ...]
    version: str | None = None
    celery: str | None = None
    kombu: str | None = None
    broker: str | None = None
    skew_s: float | None = None
    visibility_timeout_s: float | None = None
    task_time_limit_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowerFacts:
    """Flower's response without a password. ``status`` None: no answer. ``public``: answering addresses that anyone may
    reach. ``elsewhere``: other answering addresses of this machine although it should be on loopback."""

    url: str
    status: int | None
    public: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()


def ok(check: str, detail: str) -> CheckResult:
    """Return a result without advice."""
    return CheckResult(check=check, severity=Severity.OK, detail=detail)


def warning(check: str, detail: str, advice: str) -> CheckResult:
    """Return a result to be looked at."""
    return CheckResult(check=check, severity=Severity.WARNING, detail=detail, advice=advice)


def failed(check: str, detail: str, advice: str) -> CheckResult:
    """Return a result of what does not work."""
    return CheckResult(check=check, severity=Severity.FAILED, detail=detail, advice=advice)


def visibility(
    workers: Sequence[WorkerFacts], *, own_timeout_s: float, own_limit_s: float, seen_s: float
) -> CheckResult:
    """Check that the broker's visibility timeout exceeds every task: Redis hands an unacknowledged message to a second
    worker then. ``own_…``: this process's configuration; ``seen_s``: the longest task in the metrics."""
    check = "broker_visibility_timeout"
    reported = [worker.visibility_timeout_s for worker in workers if worker.visibility_timeout_s is not None]
    limits = [worker.task_time_limit_s for worker in workers if worker.task_time_limit_s is not None]
    timeouts = sorted({own_timeout_s, *reported})
    timeout_s, longest_s = timeouts[0], max([own_limit_s, seen_s, *limits])
    detail = f"{timeout_s:g} s; the longest task takes up to {longest_s:g} s"
    if timeout_s <= longest_s:
        advice = "raise visibility_timeout in celery_config.py above the longest task, or work is done twice"
        return failed(check, detail, advice)
    if len(timeouts) > 1:
        advice = "restart the workers, so that all have the same celery_config.py: the shortest counts for everybody"
        return warning(check, f"processes disagree: {', '.join(f'{timeout:g} s' for timeout in timeouts)}", advice)
    return ok(check, detail)


def eviction(check: str, memory: Mapping[str, Any] | None) -> CheckResult:
    """Check that a full Redis evicts neither messages nor running queries. ``memory``: that section of INFO; None: reading is
    not allowed."""
    if memory is None:
        advice = "check by hand that maxmemory-policy is noeviction, or give the user +info: docs/install.md"
        return warning(check, "the user may not run INFO, so maxmemory-policy cannot be read", advice)
    policy = str(memory.get("maxmemory_policy", "unknown"))
    most, used = int(memory.get("maxmemory", 0)), int(memory.get("used_memory", 0))
    limit = f"{most // 2**20} MiB" if most else "no limit"
    detail = f"maxmemory-policy {policy}, {limit}, {used // 2**20} MiB used"
    if policy != "noeviction":
        advice = "set maxmemory-policy noeviction in redis.conf: a full Redis drops messages and running queries"
        return failed(check, detail, advice)
    if most and used > 0.7 * most:
        advice = "raise maxmemory or shorten CHORDWISE_QUERY_TTL_S (docs/sizing.md): a full Redis refuses every write"
        return warning(check, detail, advice)
    return ok(check, detail)


def installation(installation_id: str | None, problem: str = "") -> CheckResult:
    """Check that the stores belong to one installation. ``problem``: a sentence that names both, empty if they do."""
    check = "installation"
    if problem:
        advice = "do what the sentence says; until then nothing is repaired or deleted"
        return failed(check, problem, advice)
    return ok(check, f"MySQL, PostgreSQL and Redis belong to {installation_id}")


def deletions(withheld: Mapping[str, int]) -> CheckResult:
    """Check whether repairs wait for an operator. ``withheld``: vectors and chunk rows by tenant, the largest first."""
    check = "deletions"
    if not withheld:
        return ok(check, "none is withheld")
    named = ", ".join(f"{count} of tenant {tenant_id}" for tenant_id, count in withheld.items())
    advice = (
        "compare the stores with the last backup; if these deletions are right, run"
        " chordwise verify --repair --delete-share 1.0 with a key of each tenant"
    )
    return failed(check, f"withheld as too many: {named}", advice)


def recognition(languages: str, flaw: str | None) -> CheckResult:
    """Check that pictures can be read on this host. ``languages``: the setting; ``flaw``: the reason if they cannot."""
    check = "recognition"
    if not languages:
        return ok(check, "pictures are not read (CHORDWISE_OCR_LANGUAGES is empty)")
    if flaw is not None:
        return warning(check, flaw, "install it on every host with ingest workers: docs/formats.md")
    return ok(check, f"tesseract reads pictures in {languages}")


def servers(versions: Mapping[str, str]) -> CheckResult:
    """Check that tests were run on servers of these series. ``versions`` by name."""
    check = "servers"
    others = [
        f"{name} {version} (tested: {', '.join(TESTED_SERIES[name])})"
        for name, version in versions.items()
        if not any(f"{version}.".startswith(f"{series}.") for series in TESTED_SERIES[name])
    ]
    if others:
        advice = "they are meant to work; docs/compatibility.md says what was run, and make matrix runs it"
        return warning(check, f"no tests were run on {', '.join(others)}", advice)
    return ok(check, ", ".join(f"{name} {version}" for name, version in versions.items()))


def expiry(expires_s: float | None, *, deadline_s: float) -> CheckResult:
    """Check that the parts of a chord live as long as its query, but not for ever."""
    check = "result_expiry"
    if not expires_s:
        advice = "set result_expires in celery_config.py to minutes: results that never expire fill Redis"
        return failed(check, "results never expire", advice)
    detail = f"{expires_s:g} s; a query lives for {deadline_s:g} s"
    if expires_s <= deadline_s:
        advice = "set result_expires in celery_config.py above CHORDWISE_QUERY_DEADLINE_MS, or chords lose their parts"
        return failed(check, detail, advice)
    if expires_s > LONGEST_RESULT_EXPIRY_S:
        advice = "set result_expires in celery_config.py to minutes: nobody reads results after the query"
        return warning(check, detail, advice)
    return ok(check, detail)


def schema(problem: str | None) -> CheckResult:
    """Check that both servers, pgvector and both schemas are those that this version expects."""
    if problem is None:
        return ok("schema", "both servers are new enough, and no table, column or index is missing")
    advice = "do what the sentence says; docs/troubleshooting.md (Parts of the schema are missing) has more"
    return failed("schema", problem, advice)


def vectors(
    table: str,
    shape: TableShape | None,
    *,
    dimension: int,
    operator_class: str,
    indexes: Sequence[IndexSummary] = (),
) -> CheckResult:
    """Check that a table of vectors has the dimension and the class of the settings, and that its indexes find enough.
    ``shape`` None: there is none."""
    check = "vectors" if table == "chunk_embeddings" else f"vectors:{table}"
    if shape is None:
        advice = (
            "run python -m pipeline.maintenance.migrate_schema upgrade, and chordwise verify --repair for each tenant"
        )
        return failed(check, f"there is no table {table}", advice)
    if shape.dimension != dimension:
        detail = f"{shape.dimension} dimensions are stored, the settings say {dimension}"
        advice = "put CHORDWISE_EMBEDDING_DIM back, or move to the other model as docs/model-migration.md says"
        return failed(check, detail, advice)
    wrong = [f"{name} ({made})" for name, made in shape.indexes if made != operator_class]
    if shape.operator_class != operator_class or wrong:
        detail = f"made with {', '.join(wrong) or shape.operator_class}, the settings say {operator_class}"
        advice = "put CHORDWISE_PGVECTOR_DISTANCE back, or drop the indexes: with another class they are never used"
        return failed(check, detail, advice)
    detail = "; ".join([f"{shape.dimension} dimensions, {shape.operator_class}", *map(_described, indexes)])
    if any(each.recall is not None and each.recall < RECALL_GOAL for each in indexes):
        advice = (
            "set CHORDWISE_VECTOR_INDEX=auto, which uses lists where a graph finds too little, or name"
            " larger options there, as hnsw (m = 24, ef_construction = 128)"
        )
        return warning(check, detail, advice)
    return ok(check, detail)


def _described(indexes: IndexSummary) -> str:
    """Return the indexes of one kind in words: "2 hnsw indexes of 1,204,000 vectors, recall 0.981, 3.6 ms, 1,103 MB"."""
    measured = "not measured yet"
    if indexes.recall is not None and indexes.search_ms is not None:
        measured = f"recall {indexes.recall:.3f}, {indexes.search_ms:.1f} ms"
    counted = f"{indexes.indexes:,} {indexes.kind} index{'' if indexes.indexes == 1 else 'es'}"
    return f"{counted} of {indexes.rows:,} vectors, {measured}, {indexes.disk_bytes / 2**20:,.0f} MB"


def fulltext(shortest: int, longest: int) -> CheckResult:
    """Check that the server's FULLTEXT indexes terms of our length."""
    detail = f"terms of {shortest} to {longest} characters are indexed, ours have {TERM_CHARACTERS}"
    if shortest <= TERM_CHARACTERS <= longest:
        return ok("fulltext", detail)
    advice = "set innodb_ft_min_token_size to 3 and innodb_ft_max_token_size to 84, restart MySQL, rebuild the index"
    return failed("fulltext", detail, advice)


def packet(takes: int, *, needed: int) -> CheckResult:
    """Check that MySQL takes statements with the largest document. ``needed``: bytes, twice the document's, as bytes are
    escaped."""
    check, detail = "mysql_packet", f"max_allowed_packet is {takes:,} bytes, the largest document needs {needed:,}"
    if takes >= needed:
        return ok(check, detail)
    advice = (
        "raise max_allowed_packet of the MySQL server, or lower CHORDWISE_MAX_DOCUMENT_BYTES:"
        " larger documents are refused with statement_too_large"
    )
    return warning(check, detail, advice)


def clock(whose: str, skew_s: float) -> CheckResult:
    """Check that a clock agrees with the gateway's."""
    check = f"clock:{whose}"
    if abs(skew_s) < SKEW_WARNING_S:
        return ok(check, f"within {SKEW_WARNING_S:g} s of the gateway's")
    detail = f"at least {abs(skew_s):.1f} s {'ahead of' if skew_s > 0 else 'behind'} the gateway's"
    advice = "have NTP or chrony keep the time on both machines: deadlines and leases are compared between clocks"
    return (failed if abs(skew_s) >= SKEW_FAILURE_S else warning)(check, detail, advice)


def workers(
    facts: Sequence[WorkerFacts],
    *,
    roles: Mapping[str, str],
    own: Versions,
    broker: str,
    signs: Sequence[ProcessSign] = (),
) -> Iterator[CheckResult]:
    """Check that a worker listens to each queue, and that each worker has the gateway's versions and broker. ``roles``: of
    the workers that listen, by queue; ``signs``: of processes that have not ended in order."""
    findings = [queue_served(queue, facts, role=role, signs=signs) for queue, role in roles.items()]
    unserved = [finding for finding in findings if finding.severity is not Severity.OK]
    yield from unserved
    if not unserved:
        yield ok("queues", f"{len(roles)} queues, {len(facts)} workers")
    if not facts:
        yield no_worker(roles, signs)
    if facts:
        yield worker_versions(facts, own)
        yield worker_brokers(facts, broker)


def no_worker(roles: Mapping[str, str], signs: Sequence[ProcessSign] = ()) -> CheckResult:
    """Return the finding that no worker runs at all, which explains every queue that is not served. ``signs``: as of
    `queue_served`."""
    if gone := [_called(sign) for sign in signs if roles.keys() & set(sign.serves)]:
        finding = failed("queues", f"no worker is running since {_listed(gone)} fell silent", RESTART)
    else:
        roles_of_workers = "|".join(dict.fromkeys(roles.values()))
        finding = failed(
            "queues", "no worker is running", f"start them: chordwise-server worker --role {roles_of_workers}"
        )
    return replace(finding, explains=frozenset(f"queue:{queue}" for queue in roles))


def queue_served(
    queue: str, facts: Sequence[WorkerFacts], *, role: str, signs: Sequence[ProcessSign] = ()
) -> CheckResult:
    """Check that a worker listens to ``queue``, which those of ``role`` do. ``signs``: of processes that have not ended in
    order; one that served the queue hangs or was killed, which is known before it counts as silent."""
    check, count = f"queue:{queue}", sum(queue in worker.queues for worker in facts)
    if count:
        return ok(check, f"{count} worker{'s' if count > 1 else ''}")
    if gone := [_called(sign) for sign in signs if queue in sign.serves]:
        return failed(check, f"no worker listens to it since {_listed(gone)} fell silent", RESTART)
    advice = f"start one: chordwise-server worker --role {role}; what is sent there waits until then"
    return failed(check, "no worker listens to it", advice)


def worker_versions(facts: Sequence[WorkerFacts], own: Versions) -> CheckResult:
    """Check that every worker has the gateway's versions of our code and of the libraries that read the messages."""
    check = "worker_versions"
    other = []
    for worker in facts:
        theirs = {"chordwise": worker.version, "celery": worker.celery, "kombu": worker.kombu}
        if differing := {name: version for name, version in theirs.items() if version and version != own[name]}:
            other.append(f"{worker.name} has {_named(differing)}")
    if not other:
        return ok(check, f"{_named(own)} everywhere")
    return warning(check, f"the gateway has {_named(own)}; {'; '.join(other)}", REMEDIES[check])


def _named(versions: Versions) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def worker_brokers(facts: Sequence[WorkerFacts], own: str) -> CheckResult:
    """Check that every worker was given the gateway's broker. One broker may have two names, so this is no failure."""
    check = "worker_brokers"
    other = [f"{worker.name} uses {worker.broker}" for worker in facts if worker.broker not in (None, own)]
    if not other:
        return ok(check, own)
    return warning(check, f"the gateway uses {own}; {'; '.join(other)}", REMEDIES[check])


def hosts(states: Sequence[HostState]) -> CheckResult:
    """Check that no host has vanished with all of its processes."""
    check = "hosts"
    lost = [
        f"{state.host} has been silent for {state.silent_s:.0f} s; it served {', '.join(state.serves)}"
        for state in states
        if state.is_lost
    ]
    if not lost:
        return ok(check, ", ".join(state.host for state in states))
    advice = f"start it again, or leave it: a host that is gone for {FORGOTTEN_S / 86_400:.0f} days is forgotten"
    serves = {one for state in states if state.is_lost for one in state.serves}
    return replace(warning(check, "; ".join(lost), advice), explains=explained_by_loss(serves))


def explained_by_loss(serves: Iterable[str]) -> frozenset[str]:
    """Return the checks that fail when processes which serve this are gone."""
    return frozenset(check for one in serves for check in (f"queue:{one}", _WATCHED_BY.get(one, f"queue:{one}")))


def silent(states: Sequence[ProcessState]) -> CheckResult:
    """Check that every process that did not end in order gives signs of life. ``states``: of those that do not."""
    check = "workers_silent"
    if not states:
        return ok(check, "every process that has not ended in order gives signs of life")
    named = [f"{_called(state.sign)} ({', '.join(state.sign.serves)}) for {state.silent_s:.0f} s" for state in states]
    finding = warning(check, f"no sign of life from {_listed(named, between='; ')}", REMEDIES[check])
    return replace(finding, explains=explained_by_loss(one for state in states for one in state.sign.serves))


def _listed(names: Sequence[str], *, between: str = ", ") -> str:
    """Return the first names, and how many more there are."""
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return between.join([*names[:_NAMED], *more])


def _called(sign: ProcessSign) -> str:
    return sign.name if sign.name.endswith(f"@{sign.host}") else f"{sign.name} on {sign.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """A store of several servers. ``node``: the one that is used; ``ready``: those of the ``others`` that answer and follow;
    ``behind``: how far the nearest is behind, with its unit, empty if it cannot be known."""

    server: str
    node: str
    others: int
    ready: int
    behind: str = ""


def standbys(nodes: Sequence[NodeFacts]) -> CheckResult:
    """Check that another server could take over from each that is used."""
    check = "standbys"
    alone = [f"{facts.server} at {facts.node}" for facts in nodes if not facts.ready]
    if alone:
        return warning(check, f"no server could take over from {' and '.join(alone)}", REMEDIES[check])
    return ok(check, "; ".join(map(_takeover, nodes)))


def _takeover(facts: NodeFacts) -> str:
    behind = f", {facts.behind} behind" if facts.behind else ""
    role = "the node in use of" if facts.server == "RabbitMQ" else "the primary server of"
    return f"{role} {facts.server} is {facts.node}, {facts.ready} of {facts.others} could take over{behind}"


def disk_space(disks: Iterable[tuple[str, DiskSpace]]) -> CheckResult:
    """Check that the disks under the folders that the installation writes have space left. ``disks``: by host."""
    check = "disk_space"
    by_disk: defaultdict[tuple[str, int], list[DiskSpace]] = defaultdict(list)  # folders share a disk of one size
    for host, disk in disks:
        by_disk[host, disk.total_bytes].append(disk)
    if not by_disk:
        return ok(check, "no disk is visible to the installation's processes: watch those of the servers")
    fullest = sorted((min(disk.free_ratio for disk in shared), where) for where, shared in by_disk.items())
    sentences = [
        f"{free:.0%} of a disk of {where[0]} is free ({free * where[1] / 1e9:.1f} GB); it holds"
        f" {', '.join(sorted({disk.holds for disk in by_disk[where]}))}"
        for free, where in fullest
        if free < DISK_WARNING
    ]
    if not sentences:
        return ok(check, f"at least {fullest[0][0]:.0%} of each disk is free")
    return (failed if fullest[0][0] < DISK_FAILED else warning)(check, "; ".join(sentences), REMEDIES[check])


def circuits(open_parts: Sequence[str]) -> CheckResult:
    """Check that no part is left out of queries after failures in a row. ``open_parts``: with a circuit that is open."""
    check = "circuits"
    if not open_parts:
        return ok(check, "every part is called")
    return warning(check, f"not called after failures in a row: {', '.join(open_parts)}", REMEDIES[check])


def last_sweep(age_s: float | None, *, interval_s: float, watched_s: float) -> CheckResult:
    """Check that the sweeper runs. ``age_s`` None: no sweep is known. ``watched_s``: how long one could be seen."""
    check, limit_s = "last_sweep", 3 * interval_s + 30.0  # and time for one long sweep
    if age_s is None and watched_s < limit_s:
        return warning(check, "no sweep is known yet", REMEDIES[check])
    if age_s is None:
        return failed(check, "no sweep is known", REMEDIES[check])
    detail = f"{age_s:.0f} s ago"
    if age_s <= limit_s:
        return ok(check, detail)
    detail = f"{detail}, more than {limit_s:.0f} s: work that was interrupted or is due again is not taken up"
    return failed(check, detail, REMEDIES[check])


def query_lane(*, wanted: int, ready: int) -> CheckResult:
    """Check that the gateway's own processes for queries run. While none does, the workers answer its queries."""
    check, detail = "query_lane", f"{ready} of {wanted} processes are ready"
    if ready == wanted:
        return ok(check, detail)
    return warning(check, detail, REMEDIES[check])


def keyword_index(indexers: Sequence[IndexerFacts]) -> CheckResult:
    """Check that the hosts' keyword indexes follow MySQL. FULLTEXT answers for the rest."""
    check = "keyword_index"
    if not indexers:
        advice = (
            "start python -m workers.indexer on each host with query workers, or set CHORDWISE_KEYWORD_ENGINE=mysql;"
            " meanwhile keyword searches use MySQL's FULLTEXT"
        )
        return warning(check, "no indexer reports", advice)
    wrong = [line for indexer in indexers for line in _behind(indexer)]
    if wrong:
        advice = "see the indexer's log event keyword_index_not_updated: is the disk full, or the folder read-only?"
        return warning(check, "; ".join(wrong), advice)
    return ok(check, ", ".join(f"{indexer.host}: {indexer.disk_bytes / 1e6:.1f} MB" for indexer in indexers))


def _behind(indexer: IndexerFacts) -> Iterator[str]:
    if indexer.failing:
        yield f"{indexer.host}: the indexes of {indexer.failing} tenants cannot be written"
    if indexer.lag_s > LONGEST_INDEX_LAG_S:
        yield (
            f"{indexer.host}: {indexer.lag_revisions} changes wait, the oldest for {indexer.lag_s:.0f} s;"
            f" {indexer.built:.0%} of the chunks are indexed"
        )


def flower(facts: FlowerFacts | None) -> CheckResult:
    """Check that Flower requires a password to view or end tasks."""
    check = "flower"
    if facts is None:
        return ok(check, "CHORDWISE_FLOWER_URL is not set, so it was not looked at")
    if facts.status is None:
        advice = "start Flower, or clear CHORDWISE_FLOWER_URL"
        return warning(check, f"nothing answers at {facts.url}", advice)
    if facts.status not in (401, 403):
        detail = f"{facts.url} answers {facts.status} to somebody without a password"
        advice = "set FLOWER_BASIC_AUTH to user:password and restart Flower: who reaches it can end tasks"
        return failed(check, detail, advice)
    exposed = (*facts.public, *facts.elsewhere)
    if exposed:
        advice = "start Flower with --address=127.0.0.1 and reach it by a tunnel; its /metrics asks for no password"
        return (failed if facts.public else warning)(check, f"it answers at {', '.join(exposed)}", advice)
    return ok(check, f"{facts.url} asks for a password")
