"""The Python client of Chordwise, over HTTP only.

from chordwise import Chordwise

with Chordwise("http://127.0.0.1:8080", api_key) as client:
    client.wait(client.ingest([{"document_id": "d1", "text": "…"}], namespace="kb"))
    for hit in client.query("…", namespace="kb").chunks:
        print(hit.score, hit.title)
"""

from chordwise.archive import Manifest
from chordwise.async_client import AsyncChordwise
from chordwise.chunks import Chunk, ChunkResult, Preview, PreviewedChunk
from chordwise.client import Chordwise
from chordwise.configuring import ApiSource, Dictionary, Experiment, TriedSource
from chordwise.control import DeadLetter, PayloadReference
from chordwise.documents import Document
from chordwise.entities import EntityState
from chordwise.errors import (
    ChordwiseError,
    ConnectionFailed,
    InvalidInput,
    NotConfigured,
    ProblemError,
    QueryFailed,
    Timeout,
    UnexpectedAnswer,
)
from chordwise.examples import BookFlaw, BookStatistics, ExamplesImport, ExampleStatistics, ExamplesVerification
from chordwise.explaining import Difference, Dropped, Replay, Stage, Trace, WhyNot
from chordwise.extras import MissingExtra
from chordwise.feedback import ArmResult, Feedback, JudgedText
from chordwise.following import JobEvent
from chordwise.governing import JobItem, NamespaceDeletion
from chordwise.hooks import Delivery, NotGenuine, Webhook, verify_webhook
from chordwise.installation import Diagnosis, Finding
from chordwise.portability import Imported
from chordwise.profiles import Profile, ProfileVersion
from chordwise.querying import PendingQuery
from chordwise.results import (
    Alignment,
    Citation,
    Context,
    Dependency,
    DocumentInfo,
    Entity,
    Health,
    Hit,
    HitSource,
    Ingestion,
    Job,
    JobError,
    NamespaceAlignment,
    NamespaceInfo,
    QueryResult,
    Rerank,
    Stats,
)
from chordwise.sources import DocumentGenerations, GenerationInfo, SourceDeletion, SourceInfo
from chordwise.tenancy import ApiKey, AuditEntry, CurrentKey, Quota, Quotas, Tenant, TenantErasure, TenantQuotas
from chordwise.transport import CLIENT_VERSION

__version__ = CLIENT_VERSION

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
    "__version__",
    "verify_webhook",
]
