"""The Python client of Chordwise, over HTTP only.

from chordwise import Chordwise

with Chordwise("http://127.0.0.1:8080", api_key) as client:
    client.wait(client.ingest([{"document_id": "d1", "text": "…"}], namespace="kb"))
    for hit in client.query("…", namespace="kb").chunks:
        print(hit.score, hit.title)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chordwise.api.api_sources import ApiSource, TriedSource
    from chordwise.api.archive_files import Manifest
    from chordwise.api.archives import Imported
    from chordwise.api.chunks import Chunk, ChunkBeginning, ChunkResult, Preview, PreviewedChunk
    from chordwise.api.dead_letters import DeadLetter, PayloadReference
    from chordwise.api.dictionaries import Dictionary
    from chordwise.api.documents import Document, DocumentGenerations, DocumentInfo, GenerationInfo
    from chordwise.api.entities import EntityState
    from chordwise.api.examples import BookFlaw, BookStatistics, ExamplesImport, ExampleStatistics, ExamplesVerification
    from chordwise.api.experiments import ArmResult, Experiment
    from chordwise.api.explanations import (
        Difference,
        Dropped,
        Replay,
        Stage,
        Trace,
        WhyNot,
        WrittenAnswer,
        WrittenCitation,
    )
    from chordwise.api.feedback import Feedback, JudgedText
    from chordwise.api.installation import Dependency, Diagnosis, Finding, Health, Worker
    from chordwise.api.job_events import JobEvent
    from chordwise.api.jobs import Ingestion, Job, JobError, JobItem
    from chordwise.api.keys import ApiKey, CurrentKey
    from chordwise.api.namespaces import (
        Alignment,
        NamespaceAlignment,
        NamespaceDeletion,
        NamespaceFields,
        NamespaceInfo,
    )
    from chordwise.api.profiles import Profile, ProfileVersion
    from chordwise.api.queries import (
        Citation,
        Context,
        Entity,
        Hit,
        HitSource,
        PendingQuery,
        QueryResult,
        Rerank,
        Stats,
    )
    from chordwise.api.sources import SourceDeletion, SourceInfo
    from chordwise.api.tenants import AuditEntry, Quota, Quotas, Tenant, TenantErasure, TenantQuotas
    from chordwise.api.webhooks import Delivery, NotGenuine, Webhook, verify_webhook
    from chordwise.async_client import AsyncChordwise
    from chordwise.client import Chordwise
    from chordwise.errors import (
        ChordwiseError,
        ConnectionFailed,
        InvalidInput,
        MissingExtra,
        NotConfigured,
        ProblemError,
        QueryFailed,
        Timeout,
        UnexpectedAnswer,
    )

    __version__: str

# Where each name is: its module is imported when the name is first used, because all of them take longer than a query.
_HOMES = {
    "api.api_sources": "ApiSource TriedSource",
    "api.archive_files": "Manifest",
    "api.archives": "Imported",
    "api.chunks": "Chunk ChunkBeginning ChunkResult Preview PreviewedChunk",
    "api.dead_letters": "DeadLetter PayloadReference",
    "api.dictionaries": "Dictionary",
    "api.documents": "Document DocumentGenerations DocumentInfo GenerationInfo",
    "api.entities": "EntityState",
    "api.examples": "BookFlaw BookStatistics ExamplesImport ExampleStatistics ExamplesVerification",
    "api.experiments": "ArmResult Experiment",
    "api.explanations": "Difference Dropped Replay Stage Trace WhyNot WrittenAnswer WrittenCitation",
    "api.feedback": "Feedback JudgedText",
    "api.installation": "Dependency Diagnosis Finding Health Worker",
    "api.job_events": "JobEvent",
    "api.jobs": "Ingestion Job JobError JobItem",
    "api.keys": "ApiKey CurrentKey",
    "api.namespaces": "Alignment NamespaceAlignment NamespaceDeletion NamespaceFields NamespaceInfo",
    "api.profiles": "Profile ProfileVersion",
    "api.queries": "Citation Context Entity Hit HitSource PendingQuery QueryResult Rerank Stats",
    "api.sources": "SourceDeletion SourceInfo",
    "api.tenants": "AuditEntry Quota Quotas Tenant TenantErasure TenantQuotas",
    "api.webhooks": "Delivery NotGenuine Webhook verify_webhook",
    "async_client": "AsyncChordwise",
    "client": "Chordwise",
    "errors": "ChordwiseError ConnectionFailed InvalidInput MissingExtra NotConfigured"
    " ProblemError QueryFailed Timeout UnexpectedAnswer",
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Alignment",
    "ApiKey",
    "ApiSource",
    "ArmResult",
    "AsyncChordwise",
    "AuditEntry",
    "BookFlaw",
    "BookStatistics",
    "Chordwise",
    "ChordwiseError",
    "Chunk",
    "ChunkBeginning",
    "ChunkResult",
    "Citation",
    "ConnectionFailed",
    "Context",
    "CurrentKey",
    "DeadLetter",
    "Delivery",
    "Dependency",
    "Diagnosis",
    "Dictionary",
    "Difference",
    "Document",
    "DocumentGenerations",
    "DocumentInfo",
    "Dropped",
    "Entity",
    "EntityState",
    "ExampleStatistics",
    "ExamplesImport",
    "ExamplesVerification",
    "Experiment",
    "Feedback",
    "Finding",
    "GenerationInfo",
    "Health",
    "Hit",
    "HitSource",
    "Imported",
    "Ingestion",
    "InvalidInput",
    "Job",
    "JobError",
    "JobEvent",
    "JobItem",
    "JudgedText",
    "Manifest",
    "MissingExtra",
    "NamespaceAlignment",
    "NamespaceDeletion",
    "NamespaceFields",
    "NamespaceInfo",
    "NotConfigured",
    "NotGenuine",
    "PayloadReference",
    "PendingQuery",
    "Preview",
    "PreviewedChunk",
    "ProblemError",
    "Profile",
    "ProfileVersion",
    "QueryFailed",
    "QueryResult",
    "Quota",
    "Quotas",
    "Replay",
    "Rerank",
    "SourceDeletion",
    "SourceInfo",
    "Stage",
    "Stats",
    "Tenant",
    "TenantErasure",
    "TenantQuotas",
    "Timeout",
    "Trace",
    "TriedSource",
    "UnexpectedAnswer",
    "Webhook",
    "WhyNot",
    "Worker",
    "WrittenAnswer",
    "WrittenCitation",
    "__version__",
    "verify_webhook",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value = importlib.import_module("chordwise.transport").CLIENT_VERSION
    elif name in _MODULE_OF:
        value = getattr(importlib.import_module(f"chordwise.{_MODULE_OF[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
