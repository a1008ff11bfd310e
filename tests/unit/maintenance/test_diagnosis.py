"""The doctor's findings: every fault planted once, and the same facts without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pipeline.database.clock_skew import distance, skew
from pipeline.database.worker_heartbeats import DiskSpace, HostState, ProcessSign, ProcessState
from pipeline.embedding.space_store import TableShape
from pipeline.keyword_index.indexer_facts import IndexerFacts
from pipeline.maintenance import doctor
from pipeline.maintenance.doctor import CheckResult, FlowerFacts, Severity, WorkerFacts
from pipeline.maintenance.examine_stores import connections_left, store_space
from pipeline.metrics.definitions import IndexSummary
from workers.names import Queue
from workers.roles import ROLE_OF

OK, WARNING, FAILED = Severity.OK, Severity.WARNING, Severity.FAILED
WORKER = WorkerFacts(
    name="w@a",
    queues=tuple(queue.value for queue in Queue),
    version="1.0",
    celery="5.7.0",
    kombu="5.7.0",
    broker="redis://here/0",
    skew_s=0.0,
    visibility_timeout_s=3600.0,
    task_time_limit_s=1800.0,
)
SHAPE = TableShape(dimension=256, operator_class="halfvec_cosine_ops", indexes=(("graph", "halfvec_cosine_ops"),))


GRAPHS = IndexSummary(
    table="chunk_embeddings",
    kind="hnsw",
    indexes=2,
    rows=1_204_000,
    disk_bytes=1103 << 20,
    recall=0.981,
    search_ms=3.62,
)


def vectors(shape: TableShape | None, *indexes: IndexSummary) -> CheckResult:
    return doctor.vectors(
        "chunk_embeddings", shape, dimension=256, operator_class="halfvec_cosine_ops", indexes=indexes
    )


FROZEN = ProcessState(
    sign=ProcessSign(host="a", name="queries2@a", serves=("recall", "answer")),
    silent_s=31.0,
)


def disk(free: int) -> DiskSpace:
    return DiskSpace(holds="mysql", free_bytes=free, total_bytes=100)


NODES = doctor.NodeFacts(server="PostgreSQL", node="one:5432", others=2, ready=1, behind="0.4 s")
FLOWER = FlowerFacts(url="http://127.0.0.1:5555", status=401)


def visible(*workers: WorkerFacts, own_s: float = 3600.0, limit_s: float = 1800.0, seen_s: float = 0.0):
    return doctor.visibility(workers, own_timeout_s=own_s, own_limit_s=limit_s, seen_s=seen_s)


class DescribeEveryFinding:
    @pytest.mark.parametrize(
        ("finding", "severity", "says"),
        [
            (visible(WORKER), OK, "3600 s"),
            (visible(WORKER, own_s=60.0), FAILED, "60 s; the longest task takes up to 1800 s"),
            (visible(replace(WORKER, visibility_timeout_s=90.0)), FAILED, "90 s"),
            (visible(replace(WORKER, task_time_limit_s=7200.0)), FAILED, "7200 s"),
            (visible(WORKER, seen_s=5000.0), FAILED, "5000 s"),
            (visible(replace(WORKER, visibility_timeout_s=2400.0)), WARNING, "processes disagree: 2400 s, 3600 s"),
            (
                doctor.eviction("redis", {"maxmemory_policy": "noeviction", "maxmemory": 0, "used_memory": 1}),
                OK,
                "no limit",
            ),
            (
                doctor.eviction("redis", {"maxmemory_policy": "allkeys-lru", "maxmemory": 0, "used_memory": 1}),
                FAILED,
                "allkeys-lru",
            ),
            (
                doctor.eviction(
                    "redis", {"maxmemory_policy": "noeviction", "maxmemory": 100 * 2**20, "used_memory": 95 * 2**20}
                ),
                WARNING,
                "95 MiB used",
            ),
            (doctor.expiry(300, deadline_s=3), OK, "300 s"),
            (doctor.expiry(2, deadline_s=3), FAILED, "2 s; a query lives for 3 s"),
            (doctor.expiry(None, deadline_s=3), FAILED, "never expire"),
            (doctor.expiry(30 * 86400, deadline_s=3), WARNING, "2.592e+06 s"),
            (vectors(SHAPE), OK, "256 dimensions"),
            (vectors(SHAPE, GRAPHS), OK, "2 hnsw indexes of 1,204,000 vectors, recall 0.981, 3.6 ms, 1,103 MB"),
            (
                vectors(SHAPE, replace(GRAPHS, recall=None, indexes=1)),
                OK,
                "1 hnsw index of 1,204,000 vectors, not measured",
            ),
            (vectors(SHAPE, replace(GRAPHS, recall=0.96)), WARNING, "recall 0.960"),
            (vectors(None), FAILED, "no table chunk_embeddings"),
            (vectors(replace(SHAPE, dimension=128)), FAILED, "128 dimensions are stored"),
            (vectors(replace(SHAPE, operator_class="halfvec_l2_ops")), FAILED, "halfvec_l2_ops"),
            (vectors(replace(SHAPE, indexes=(("g", "halfvec_l2_ops"),))), FAILED, "g (halfvec_l2_ops)"),
            (
                doctor.standbys([NODES]),
                OK,
                "the primary server of PostgreSQL is one:5432, 1 of 2 could take over, 0.4 s behind",
            ),
            (doctor.standbys([NODES, replace(NODES, ready=0)]), WARNING, "no server could take over from PostgreSQL"),
            (doctor.servers({"MySQL": "9.7.4", "Redis": "7.0.15"}), OK, "MySQL 9.7.4, Redis 7.0.15"),
            (
                doctor.servers({"MySQL": "8.4.1", "Redis": "7.4"}),
                WARNING,
                "no tests were run on MySQL 8.4.1 (tested: 9)",
            ),
            (doctor.servers({"MariaDB": "10.6.9"}), WARNING, "MariaDB 10.6.9 (tested: 10.11, 11)"),
            (doctor.fulltext(3, 84), OK, "3 to 84"),
            (doctor.fulltext(3, 12), FAILED, "3 to 12"),
            (doctor.fulltext(14, 84), FAILED, "14 to 84"),
            (doctor.clock("mysql", 0.2), OK, "within"),
            (doctor.clock("mysql", -0.7), WARNING, "0.7 s behind"),
            (doctor.clock("mysql", 60.0), FAILED, "60.0 s ahead of"),
            (connections_left("MySQL", used=8, most=10), OK, "8 of 10"),
            (connections_left("MySQL", used=9, most=10), WARNING, "9 of 10"),
            (store_space([]), OK, "no store"),
            (doctor.silent([]), OK, "every process"),
            (doctor.silent([FROZEN]), WARNING, "no sign of life from queries2@a (recall, answer) for 31 s"),
            (doctor.disk_space([]), OK, "no disk is visible"),
            (doctor.disk_space([("a", disk(40)), ("b", disk(20))]), OK, "at least 20% of each disk is free"),
            (doctor.disk_space([("a", disk(14))]), WARNING, "14% of a disk of a is free (0.0 GB); it holds mysql"),
            (doctor.disk_space([("a", disk(14)), ("b", disk(4))]), FAILED, "4% of a disk of b is free"),
            (doctor.circuits([]), OK, "every part"),
            (doctor.circuits(["semantic"]), WARNING, "not called after failures in a row: semantic"),
            (store_space(["MySQL: the table is full"]), FAILED, "MySQL: the table is full"),
            (doctor.flower(None), OK, "not set"),
            (doctor.flower(FLOWER), OK, "asks for a password"),
            (doctor.flower(replace(FLOWER, status=None)), WARNING, "nothing answers"),
            (doctor.flower(replace(FLOWER, status=200)), FAILED, "without a password"),
            (doctor.flower(replace(FLOWER, public=("8.8.8.8",))), FAILED, "8.8.8.8"),
            (doctor.flower(replace(FLOWER, elsewhere=("10.0.0.3",))), WARNING, "10.0.0.3"),
        ],
    )
    def it_says_what_it_saw_and_what_to_do(self, finding, severity, says):
        assert finding.severity is severity
        assert says in finding.detail
        assert bool(finding.advice) == (severity is not OK)


OWN = {"chordwise": "1.0", "celery": "5.7.0", "kombu": "5.7.0"}


def looked_at(*workers: WorkerFacts, signs: Sequence[ProcessSign] = ()):
    found = doctor.workers(workers, roles=ROLE_OF, own=OWN, broker="redis://here/0", signs=signs)
    return {each.check: each for each in found}


class DescribeWorkers:
    def it_is_content_when_every_queue_is_served(self):
        found = looked_at(WORKER)
        assert {check: finding.severity for check, finding in found.items()} == {
            "queues": OK,
            "worker_versions": OK,
            "worker_brokers": OK,
        }

    def it_names_a_queue_no_worker_listens_to(self):
        deaf = replace(WORKER, queues=tuple(queue for queue in WORKER.queues if queue != "rerank"))
        found = looked_at(deaf)["queue:rerank"]
        assert found.severity is FAILED
        assert "worker --role upkeep" in found.advice

    def it_names_who_listened_to_it_and_hangs_or_was_killed(self):
        deaf = replace(WORKER, queues=tuple(queue for queue in WORKER.queues if queue != "rerank"))
        signs = [
            ProcessSign(host="a", name="upkeep@a", serves=("upkeep", "rerank")),
            ProcessSign(host="a", name="ingest@a", serves=("ingest",)),
        ]
        found = looked_at(deaf, signs=signs)["queue:rerank"]
        assert found.detail == "no worker listens to it since upkeep@a fell silent"
        assert found.advice == "see whether it hangs or was killed, and restart it"

    def it_names_all_workers_that_hang_or_were_killed_once(self):
        signs = [ProcessSign(host="a", name=f"{queue}@a", serves=(queue,)) for queue in sorted(Queue)]
        signs.append(ProcessSign(host="a", name="gateway", serves=("gateway",)))
        found = looked_at(signs=signs)["queues"]
        names = ", ".join(f"{queue}@a" for queue in sorted(Queue)[:5])
        assert found.detail == f"no worker is running since {names}, {len(Queue) - 5} more fell silent"
        assert "start" not in found.advice.replace("restart", "")
        assert found.explains == {f"queue:{queue}" for queue in Queue}

    @pytest.mark.parametrize(
        ("differing", "named"),
        [
            ({"version": "0.9"}, "old@b has chordwise 0.9"),
            ({"celery": "5.5.3", "kombu": "5.5.4"}, "old@b has celery 5.5.3, kombu 5.5.4"),
            ({"kombu": "5.5.4"}, "old@b has kombu 5.5.4"),
        ],
    )
    def it_names_a_worker_of_other_versions(self, differing, named):
        found = looked_at(WORKER, replace(WORKER, name="old@b", **differing))["worker_versions"]
        assert found.severity is WARNING
        assert found.detail == f"the gateway has chordwise 1.0, celery 5.7.0, kombu 5.7.0; {named}"

    def it_names_a_worker_at_another_broker(self):
        found = looked_at(WORKER, replace(WORKER, name="lost@b", broker="redis://there/0"))["worker_brokers"]
        assert found.severity is WARNING
        assert "lost@b uses redis://there/0" in found.detail

    def it_names_every_queue_when_there_is_no_worker(self):
        found = looked_at()
        assert list(found) == [*(f"queue:{queue}" for queue in Queue), "queues"]
        assert found["queues"].explains == {f"queue:{queue}" for queue in Queue}


class DescribeTheLastSweep:
    @pytest.mark.parametrize(
        ("age_s", "watched_s", "severity", "says"),
        [
            (4.0, 600.0, OK, "4 s ago"),
            (45.0, 600.0, OK, "45 s ago"),
            (46.0, 600.0, FAILED, "46 s ago, more than 45 s"),
            (None, 5.0, WARNING, "no sweep is known yet"),
            (None, 600.0, FAILED, "no sweep is known"),
        ],
    )
    def it_is_overdue_after_three_intervals_and_half_a_minute(self, age_s, watched_s, severity, says):
        found = doctor.last_sweep(age_s, interval_s=5.0, watched_s=watched_s)
        assert found.severity is severity
        assert says in found.detail


class DescribeKeywordIndexes:
    GOOD = IndexerFacts(host="a", lag_s=0.2, lag_revisions=1, built=1.0, failing=0, disk_bytes=2_500_000)

    @pytest.mark.parametrize(
        ("facts", "severity", "says"),
        [
            ([GOOD], OK, "a: 2.5 MB"),
            ([], WARNING, "no indexer reports"),
            ([GOOD, replace(GOOD, host="b", failing=2)], WARNING, "b: the indexes of 2 tenants cannot be written"),
            (
                [replace(GOOD, lag_s=31.0, lag_revisions=7, built=0.4)],
                WARNING,
                "7 changes wait, the oldest for 31 s; 40%",
            ),
        ],
    )
    def it_names_the_host_that_is_behind(self, facts, severity, says):
        found = doctor.keyword_index(facts)
        assert found.severity is severity
        assert says in found.detail


class DescribeLostHosts:
    def it_says_which_host_is_gone_since_when_and_what_it_served(self):
        here = HostState(host="a", silent_s=2.0, serves=("gateway",))
        gone = HostState(host="b", silent_s=130.4, serves=("answer", "recall"))
        assert doctor.hosts([here]).severity is OK
        found = doctor.hosts([here, gone])
        assert (found.severity, found.detail) == (WARNING, "b has been silent for 130 s; it served answer, recall")
        assert "7 days" in found.advice
        assert {"queue:recall", "queue:answer"} <= found.explains


class DescribeSkew:
    @pytest.mark.parametrize(("moment", "apart"), [(10.0, 0.0), (12.0, 0.0), (11.0, 0.0), (9.0, -1.0), (15.0, 3.0)])
    def it_is_how_far_a_moment_lies_outside(self, moment, apart):
        assert distance(moment, 10.0, 12.0) == apart

    def it_takes_a_slow_answer_for_no_wrong_clock(self):
        ours = iter([100.0, 130.0])
        assert skew(lambda: 101.0, clock=lambda: next(ours)) == 0.0
