"""The table of everything that the clients can do.

Each class has the operations of one resource; ``@operation`` makes each of them a method of both clients. An operation is
named once, where it is defined: nothing else lists it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from chordwise.api.api_sources import ApiSourceOperations
from chordwise.api.archives import ArchiveOperations
from chordwise.api.chunks import ChunkOperations
from chordwise.api.dead_letters import DeadLetterOperations
from chordwise.api.dictionaries import DictionaryOperations
from chordwise.api.documents import DocumentOperations
from chordwise.api.entities import EntityOperations
from chordwise.api.examples import ExampleOperations
from chordwise.api.experiments import ExperimentOperations
from chordwise.api.explanations import ExplanationOperations
from chordwise.api.feedback import FeedbackOperations
from chordwise.api.ingestion import IngestionOperations
from chordwise.api.installation import InstallationOperations
from chordwise.api.jobs import JobOperations
from chordwise.api.keys import KeyOperations
from chordwise.api.migrations import MigrationOperations
from chordwise.api.namespaces import NamespaceOperations
from chordwise.api.profiles import ProfileOperations
from chordwise.api.queries import QueryOperations
from chordwise.api.sources import SourceOperations
from chordwise.api.tenants import TenantOperations
from chordwise.api.webhooks import WebhookOperations
from chordwise.retries import RetryPolicy


class Operations(
    IngestionOperations,  # ingest, ingest_files
    JobOperations,  # jobs and their items; wait for them, steer them
    DeadLetterOperations,
    DocumentOperations,  # documents, their generations, rollback
    SourceOperations,
    ChunkOperations,  # read, edit, delete, preview
    NamespaceOperations,  # list, delete, verify
    ArchiveOperations,  # export, import
    EntityOperations,
    ExampleOperations,  # import, statistics, verification
    QueryOperations,  # ask, submit, fetch, cancel; many at once
    ExplanationOperations,  # trace, why not, replay
    FeedbackOperations,  # ratings and judgments
    ProfileOperations,
    DictionaryOperations,
    ApiSourceOperations,
    ExperimentOperations,
    WebhookOperations,
    TenantOperations,  # tenants, quotas, usage, audit
    KeyOperations,
    MigrationOperations,  # to another embedding model
    InstallationOperations,  # health, version, doctor
):
    """Every operation as a generator of calls. Holds no connection; ``transport.Steps`` describes how to run one."""

    def __init__(self, policy: RetryPolicy, *, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._policy = policy
        self._timeout_s = timeout_s
        self._clock = clock
