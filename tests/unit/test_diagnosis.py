"""What the doctor makes of facts: every fault planted once, and the same without it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.core import diagnosis
from pipeline.core.diagnosis import FlowerFacts, RedisFacts, Severity, VectorFacts, WorkerFacts
from pipeline.stores.diagnosing import distance, skew
from workers.names import Queue

OK, WARNING, FAILED = Severity.OK, Severity.WARNING, Severity.FAILED
WORKER = WorkerFacts(
    name="w@a",
    queues=tuple(queue.value for queue in Queue),
    version="1.0",
    skew_s=0.0,
    visibility_timeout_s=3600.0,
    task_time_limit_s=1800.0,
)
VECTORS = VectorFacts(
    table="chunk_embeddings",
    dimension=256,
    operator_class="halfvec_cosine_ops",
    indexes=(("graph", "halfvec_cosine_ops"),),
    wanted_dimension=256,
    wanted_operator_class="halfvec_cosine_ops",
)
FLOWER = FlowerFacts(url="http://127.0.0.1:5555", status=401)


def visible(*workers: WorkerFacts, own_s: float = 3600.0, limit_s: float = 1800.0, seen_s: float = 0.0):
    return diagnosis.visibility(workers, own_timeout_s=own_s, own_limit_s=limit_s, seen_s=seen_s)


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
            (diagnosis.eviction("redis", RedisFacts(policy="noeviction", maxmemory=0, used_memory=1)), OK, "no limit"),
            (
                diagnosis.eviction("redis", RedisFacts(policy="allkeys-lru", maxmemory=0, used_memory=1)),
                FAILED,
                "allkeys-lru",
            ),
            (
                diagnosis.eviction(
                    "redis", RedisFacts(policy="noeviction", maxmemory=100 * 2**20, used_memory=95 * 2**20)
                ),
                WARNING,
                "95 MiB used",
            ),
            (diagnosis.expiry(300, deadline_s=3), OK, "300 s"),
            (diagnosis.expiry(2, deadline_s=3), FAILED, "2 s; a query lives for 3 s"),
            (diagnosis.expiry(None, deadline_s=3), FAILED, "never expire"),
            (diagnosis.expiry(30 * 86400, deadline_s=3), WARNING, "2.592e+06 s"),
            (diagnosis.vectors(VECTORS), OK, "256 dimensions"),
            (diagnosis.vectors(replace(VECTORS, dimension=None)), FAILED, "no table chunk_embeddings"),
            (diagnosis.vectors(replace(VECTORS, dimension=128)), FAILED, "128 dimensions are stored"),
            (diagnosis.vectors(replace(VECTORS, operator_class="halfvec_l2_ops")), FAILED, "halfvec_l2_ops"),
            (diagnosis.vectors(replace(VECTORS, indexes=(("g", "halfvec_l2_ops"),))), FAILED, "g (halfvec_l2_ops)"),
            (diagnosis.fulltext(3, 84), OK, "3 to 84"),
            (diagnosis.fulltext(3, 12), FAILED, "3 to 12"),
            (diagnosis.fulltext(14, 84), FAILED, "14 to 84"),
            (diagnosis.clock("mysql", 0.2), OK, "within"),
            (diagnosis.clock("mysql", -0.7), WARNING, "0.7 s behind"),
            (diagnosis.clock("mysql", 60.0), FAILED, "60.0 s ahead of"),
            (diagnosis.flower(None), OK, "not set"),
            (diagnosis.flower(FLOWER), OK, "asks for a password"),
            (diagnosis.flower(replace(FLOWER, status=None)), WARNING, "nothing answers"),
            (diagnosis.flower(replace(FLOWER, status=200)), FAILED, "without a password"),
            (diagnosis.flower(replace(FLOWER, public=("8.8.8.8",))), FAILED, "8.8.8.8"),
            (diagnosis.flower(replace(FLOWER, elsewhere=("10.0.0.3",))), WARNING, "10.0.0.3"),
        ],
    )
    def it_says_what_it_saw_and_what_to_do(self, finding, severity, says):
        assert finding.severity is severity
        assert says in finding.detail
        assert bool(finding.advice) == (severity is not OK)


class DescribeWorkers:
    def it_is_content_when_every_queue_is_served(self):
        found = list(diagnosis.workers([WORKER], queues=list(Queue), version="1.0"))
        assert [(each.check, each.severity) for each in found] == [("queues", OK), ("worker_versions", OK)]

    def it_names_a_queue_nobody_listens_to(self):
        deaf = replace(WORKER, queues=tuple(queue for queue in WORKER.queues if queue != "rerank"))
        [found, _] = diagnosis.workers([deaf], queues=list(Queue), version="1.0")
        assert (found.check, found.severity) == ("queue:rerank", FAILED)
        assert "-Q rerank" in found.advice

    @pytest.mark.parametrize("version", ["0.9", None])
    def it_names_a_worker_of_another_version(self, version):
        old = replace(WORKER, name="old@b", version=version)
        found = list(diagnosis.workers([WORKER, old], queues=list(Queue), version="1.0"))[-1]
        assert (found.check, found.severity) == ("worker_versions", WARNING)
        assert "old@b" in found.detail
        assert "w@a" not in found.detail

    def it_names_every_queue_when_there_is_no_worker(self):
        found = list(diagnosis.workers([], queues=list(Queue), version="1.0"))
        assert [each.check for each in found] == [f"queue:{queue}" for queue in Queue]


class DescribeSkew:
    @pytest.mark.parametrize(("moment", "apart"), [(10.0, 0.0), (12.0, 0.0), (11.0, 0.0), (9.0, -1.0), (15.0, 3.0)])
    def it_is_how_far_a_moment_lies_outside(self, moment, apart):
        assert distance(moment, 10.0, 12.0) == apart

    def it_takes_a_slow_answer_for_no_wrong_clock(self):
        ours = iter([100.0, 130.0])
        assert skew(lambda: 101.0, clock=lambda: next(ours)) == 0.0
