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
    from chordwise.api.api_sources import ApiSource as ApiSource
    from chordwise.api.api_sources import TriedSource as TriedSource
    from chordwise.api.archive_files import Manifest as Manifest
    from chordwise.api.archives import Imported as Imported
    from chordwise.api.chunks import Chunk as Chunk
    from chordwise.api.chunks import ChunkBeginning as ChunkBeginning
    from chordwise.api.chunks import ChunkResult as ChunkResult
    from chordwise.api.chunks import Preview as Preview
    from chordwise.api.chunks import PreviewedChunk as PreviewedChunk
    from chordwise.api.dead_letters import DeadLetter as DeadLetter
    from chordwise.api.dead_letters import PayloadReference as PayloadReference
    from chordwise.api.dictionaries import Dictionary as Dictionary
    from chordwise.api.documents import Document as Document
    from chordwise.api.documents import DocumentGenerations as DocumentGenerations
    from chordwise.api.documents import DocumentInfo as DocumentInfo
    from chordwise.api.documents import GenerationInfo as GenerationInfo
    from chordwise.api.entities import EntityState as EntityState
    from chordwise.api.examples import BookFlaw as BookFlaw
    from chordwise.api.examples import BookStatistics as BookStatistics
    from chordwise.api.examples import ExamplesImport as ExamplesImport
    from chordwise.api.examples import ExampleStatistics as ExampleStatistics
    from chordwise.api.examples import ExamplesVerification as ExamplesVerification
    from chordwise.api.experiments import ArmResult as ArmResult
    from chordwise.api.experiments import Experiment as Experiment
    from chordwise.api.explanations import AnswerEvent as AnswerEvent
    from chordwise.api.explanations import Difference as Difference
    from chordwise.api.explanations import Dropped as Dropped
    from chordwise.api.explanations import Replay as Replay
    from chordwise.api.explanations import Stage as Stage
    from chordwise.api.explanations import Trace as Trace
    from chordwise.api.explanations import WhyNot as WhyNot
    from chordwise.api.explanations import WrittenAnswer as WrittenAnswer
    from chordwise.api.explanations import WrittenCitation as WrittenCitation
    from chordwise.api.feedback import Feedback as Feedback
    from chordwise.api.feedback import JudgedText as JudgedText
    from chordwise.api.installation import Dependency as Dependency
    from chordwise.api.installation import Diagnosis as Diagnosis
    from chordwise.api.installation import Finding as Finding
    from chordwise.api.installation import Health as Health
    from chordwise.api.installation import Worker as Worker
    from chordwise.api.jobs import Ingestion as Ingestion
    from chordwise.api.jobs import Job as Job
    from chordwise.api.jobs import JobError as JobError
    from chordwise.api.jobs import JobEvent as JobEvent
    from chordwise.api.jobs import JobItem as JobItem
    from chordwise.api.keys import ApiKey as ApiKey
    from chordwise.api.keys import CurrentKey as CurrentKey
    from chordwise.api.namespaces import Alignment as Alignment
    from chordwise.api.namespaces import NamespaceAlignment as NamespaceAlignment
    from chordwise.api.namespaces import NamespaceDeletion as NamespaceDeletion
    from chordwise.api.namespaces import NamespaceFields as NamespaceFields
    from chordwise.api.namespaces import NamespaceInfo as NamespaceInfo
    from chordwise.api.profiles import Profile as Profile
    from chordwise.api.profiles import ProfileVersion as ProfileVersion
    from chordwise.api.queries import BatchedAnswer as BatchedAnswer
    from chordwise.api.queries import Citation as Citation
    from chordwise.api.queries import Context as Context
    from chordwise.api.queries import Entity as Entity
    from chordwise.api.queries import Hit as Hit
    from chordwise.api.queries import HitSource as HitSource
    from chordwise.api.queries import PendingQuery as PendingQuery
    from chordwise.api.queries import QueryResult as QueryResult
    from chordwise.api.queries import Rerank as Rerank
    from chordwise.api.queries import Stats as Stats
    from chordwise.api.sources import SourceDeletion as SourceDeletion
    from chordwise.api.sources import SourceInfo as SourceInfo
    from chordwise.api.tenants import AuditEntry as AuditEntry
    from chordwise.api.tenants import Quota as Quota
    from chordwise.api.tenants import Quotas as Quotas
    from chordwise.api.tenants import Tenant as Tenant
    from chordwise.api.tenants import TenantErasure as TenantErasure
    from chordwise.api.tenants import TenantQuotas as TenantQuotas
    from chordwise.api.webhooks import Delivery as Delivery
    from chordwise.api.webhooks import NotGenuine as NotGenuine
    from chordwise.api.webhooks import Webhook as Webhook
    from chordwise.api.webhooks import verify_webhook as verify_webhook
    from chordwise.async_client import AsyncChordwise as AsyncChordwise
    from chordwise.client import Chordwise as Chordwise
    from chordwise.errors import ChordwiseError as ChordwiseError
    from chordwise.errors import ConnectionFailed as ConnectionFailed
    from chordwise.errors import InvalidInput as InvalidInput
    from chordwise.errors import MissingExtra as MissingExtra
    from chordwise.errors import NotConfigured as NotConfigured
    from chordwise.errors import ProblemError as ProblemError
    from chordwise.errors import QueryFailed as QueryFailed
    from chordwise.errors import Timeout as Timeout
    from chordwise.errors import UnexpectedAnswer as UnexpectedAnswer

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
    "api.explanations": "AnswerEvent Difference Dropped Replay Stage Trace WhyNot WrittenAnswer WrittenCitation",
    "api.feedback": "Feedback JudgedText",
    "api.installation": "Dependency Diagnosis Finding Health Worker",
    "api.jobs": "Ingestion Job JobError JobEvent JobItem",
    "api.keys": "ApiKey CurrentKey",
    "api.namespaces": "Alignment NamespaceAlignment NamespaceDeletion NamespaceFields NamespaceInfo",
    "api.profiles": "Profile ProfileVersion",
    "api.queries": "BatchedAnswer Citation Context Entity Hit HitSource PendingQuery QueryResult Rerank Stats",
    "api.sources": "SourceDeletion SourceInfo",
    "api.tenants": "AuditEntry Quota Quotas Tenant TenantErasure TenantQuotas",
    "api.webhooks": "Delivery NotGenuine Webhook verify_webhook",
    "async_client": "AsyncChordwise",
    "client": "Chordwise",
    "errors": "ChordwiseError ConnectionFailed InvalidInput MissingExtra NotConfigured"
    " ProblemError QueryFailed Timeout UnexpectedAnswer",
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = sorted({*_MODULE_OF, "__version__"})


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
