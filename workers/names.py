"""Names of queues and tasks in messages: all the gateway knows of the tasks."""

from __future__ import annotations

import enum


class Queue(enum.StrEnum):
    """Every queue; compose and the local stack must give each at least one worker (tests/test_guards.py)."""

    INGEST = "ingest"  # batches of documents
    LONG = "long"  # single documents that take long while other tenants wait
    RECALL = "recall"  # the header tasks of a query's chord, one per channel
    ANSWER = "answer"  # its callback: fuse, rerank, hydrate
    BATCH = "batch"  # slices of the queries of a batch
    RERANK = "rerank"  # steps that wait for a model: understanding, and the callback of queries that need one
    COMPUTE = "compute"  # work for waiting callers of the gateway, except queries: previews, books, edits, comparisons
    UPKEEP = "upkeep"  # the sweeper and other periodic work


# The queues of workers that can work on a query, those first that compose answers.
QUERY_QUEUES = (Queue.ANSWER, Queue.RERANK, Queue.RECALL)


class TaskName(enum.StrEnum):
    """Every task that can be sent."""

    INGEST = "ingest.batch"
    LONG = "ingest.long"
    RECALL = "recall.channel"
    UNDERSTAND = "recall.understand"
    ANSWER = "recall.answer"
    FINISH = "recall.finish"
    BATCH = "recall.batch"
    EXPLAIN = "recall.explain"
    COMPUTE = "compute.step"
    SWEEP = "upkeep.sweep"
    RECONCILE = "upkeep.reconcile"
    WEBHOOKS = "upkeep.webhooks"
    MIGRATE = "upkeep.migrate"
    AUDIT = "upkeep.audit"
    VECTOR_INDEXES = "upkeep.vector_indexes"


# The version of messages and of the records in Redis that they name, in a header of every message. Raise it when workers of
# the version before could not carry out a message; messages of one version less must still be carried out.
MESSAGE_FORMAT = 2
FORMAT = "format"

# All of a query in a process of the gateway; it goes through no broker: workers/lane.py.
LANE_TASK = "lane.answer"
