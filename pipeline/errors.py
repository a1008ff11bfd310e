"""The error tree. The base class of an error decides what happens to the interrupted work (see workers/base.py)."""

from collections.abc import Iterator, Mapping


class PipelineError(Exception):
    """Base of all deliberate errors. ``code`` is stable and shown to users; ``str(error)`` is one sentence."""

    code = "internal_error"

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code or self.code

    @property
    def public(self) -> str:
        """Return the sentence for callers of the API. It omits the names of servers, databases and users."""
        return str(self)


class Rejected(PipelineError):
    """The document is at fault: a retry cannot help, so its item fails with the reason."""

    code = "document_rejected"


class Unavailable(PipelineError):
    """A dependency is not answering: the same call may succeed later."""

    code = "dependency_unavailable"

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Misconfigured(PipelineError):
    """The installation is at fault: an operator has to change a setting or a schema before this can work."""

    code = "misconfigured"


class WrongInstallation(Unavailable):
    """The stores belong to different installations, or (``two_primaries``, of a server) to two states of one. The message
    names addresses, for logs; callers get ``public``."""

    code = "wrong_installation"
    _two_primaries = ""

    def __init__(self, message: str, *, two_primaries: str = "") -> None:
        super().__init__(message)
        self._two_primaries = two_primaries

    @property
    def public(self) -> str:
        """Return the sentence without addresses."""
        if self._two_primaries:
            return (
                f"Two servers of {self._two_primaries} take writes beside each other; chordwise doctor tells the operator of"
                " this service which."
            )
        return (
            "The stores of this service belong to different installations; chordwise doctor tells its operator which."
        )


class VectorTableMissing(Misconfigured):
    """The table of an embedding space does not exist, so semantic search is impossible."""

    code = "vector_table_missing"


class EmptyDocument(Rejected):
    """Parsing left no text to index."""

    code = "empty_document"


class DocumentTooLarge(Rejected):
    """The document is larger, or has more chunks, than this installation accepts."""

    code = "document_too_large"


class UnsupportedMediaType(Rejected):
    """No parser is registered for the declared media type."""

    code = "unsupported_media_type"


class UndecodableText(Rejected):
    """The bytes are not text in any encoding that could be recognised."""

    code = "undecodable_text"


class MalformedDocument(Rejected):
    """The document does not follow its declared format."""

    code = "malformed_document"


class DamagedPart(Rejected):
    """A part of an archive, or a document in it, does not follow the archive format."""

    code = "damaged_part"


class InvalidPackedDocument(Rejected):
    """A document of an archive holds an impossible value: a missing text, or an invalid vector."""

    code = "invalid_packed_document"


class PartKnown(PipelineError):
    """This part of an import was accepted before; there is nothing to do."""

    code = "part_known"


class EncryptedDocument(Rejected):
    """The document cannot be read without a password."""

    code = "encrypted_document"


class ParserTimeout(Rejected):
    """Parsing the document took longer than this installation allows."""

    code = "parser_timeout"


class ParserMemory(Rejected):
    """Parsing the document needed more memory than this installation allows."""

    code = "parser_memory"


class CuttingTooSlow(Rejected):
    """Cutting and analysing the document took longer than this installation allows."""

    code = "cutting_too_slow"


class CuttingMemory(Rejected):
    """Cutting and analysing the document needed more memory than this installation allows."""

    code = "cutting_memory"


class NewerMessage(Unavailable):
    """A message of a newer version than this worker's. Its work comes back by itself, for workers of that version."""

    code = "newer_message"


class IngestCrowded(Unavailable):
    """A document or its batch took longer than its share while other tenants waited; it goes on in a moment."""

    code = "ingest_crowded"


class ParserUnavailable(Unavailable):
    """The process that parses and cuts documents could not be started or reached."""

    code = "parser_unavailable"


class FetchRefused(Rejected):
    """This installation does not fetch from the document's address."""

    code = "fetch_refused"


class FetchFailed(Rejected):
    """The server of the document refuses to deliver it."""

    code = "fetch_failed"


class FetchUnavailable(Unavailable):
    """The server of the document did not answer in time, or asked to come back later."""

    code = "fetch_unavailable"


class EmbedderUnavailable(Unavailable):
    """The embedding service did not answer, or asked to back off for a while."""

    code = "embedder_unavailable"


class Silent(Unavailable):
    """A service gave no answer in the time of one call. A second silence says as much as a fifth, and costs as long."""


class RateLimited(EmbedderUnavailable):
    """The service is at its rate limit; the waiting work has not failed, and no attempt is counted."""

    code = "rate_limited"


class EmbedderRefused(Rejected):
    """The embedding service will not embed some texts; ``reasons`` by their positions in the call, none if unknown."""

    code = "embedder_refused"

    def __init__(self, message: str = "", *, reasons: Mapping[int, str] | None = None) -> None:
        self.reasons = dict(sorted((reasons or {}).items()))
        super().__init__(message or next(iter(self.reasons.values()), ""))

    @property
    def indexes(self) -> tuple[int, ...]:
        """Return the positions of the texts in the call, in order."""
        return tuple(self.reasons)


class RerankerUnavailable(Unavailable):
    """The reranking model gave no usable ranking in time."""

    code = "reranker_unavailable"


class FusionPluginFailed(PipelineError):
    """The custom fusion of a query raised, returned something that is no fusion, or could not be loaded."""

    code = "fusion_plugin_failed"


class RewriterUnavailable(Unavailable):
    """The language model gave no usable answer about a query in time."""

    code = "rewriter_unavailable"


class WriterUnavailable(Unavailable):
    """The language model wrote no answer in time."""

    code = "writer_unavailable"


class WriterBusy(WriterUnavailable):
    """The language model's service is at its rate limit."""

    code = "rate_limited"


class StoreUnavailable(Unavailable):
    """A database or Redis did not answer. ``public``: the sentence without addresses and names of the installation."""

    code = "store_unavailable"
    _public = ""

    def __init__(self, message: str, *, retry_after_s: float | None = None, public: str = "") -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self._public = public

    @property
    def public(self) -> str:
        """Return the sentence for callers of the API."""
        return self._public or str(self)


class OutcomeUnknown(StoreUnavailable):
    """A store stopped answering during a commit, so the transaction was carried out whole or not at all."""

    code = "outcome_unknown"


class StatementTooLarge(Rejected):
    """A store takes no statement as large as this document needs."""

    code = "statement_too_large"


class StoreFull(StoreUnavailable):
    """A store refused a write because its disk or its memory is full. ``server``: its name."""

    def __init__(self, message: str, *, server: str = "A store") -> None:
        super().__init__(message, public=f"{server} has no space left")
        self.server = server


class TenantGone(PipelineError):
    """A row was to be written for a tenant that does not exist any more; the work for it is dropped."""

    code = "tenant_erased"


class ErasureUnfinished(PipelineError):
    """A tenant cannot be created because the erasure of an earlier one of this id is not finished."""

    code = "erasure_unfinished"

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class StoreMisconfigured(Misconfigured, StoreUnavailable):
    """A store answers but lacks a requirement of this service: a right, an extension, a table, a newer version.
    Misconfigured stops a process at start; Unavailable makes a running one answer 503 and let documents wait."""

    code = "store_misconfigured"


class StoreReadOnly(StoreMisconfigured):
    """A store answers and takes no writes."""

    code = "store_read_only"


class CircuitOpen(Unavailable):
    """A dependency failed repeatedly and gets no calls for a while; this call was not made."""

    code = "circuit_open"


class TooLate(Unavailable):
    """A dependency did not answer within the time that the query had left for it."""

    code = "timeout"


class LeaseLost(PipelineError):
    """Another worker holds this item now; results computed for it must not be written."""

    code = "lease_lost"


class VectorsMissing(Unavailable):
    """The vector store does not hold one vector for every chunk of a generation that is about to be published."""

    code = "vectors_missing"


class MigrationRefused(PipelineError):
    """A move to another embedding model cannot take this step now; ``code`` says which condition is not met."""

    code = "migration_refused"


class BackupFailed(PipelineError):
    """A backup or its restoration could not be completed; nothing half-made is left under its name."""

    code = "backup_failed"


class QuotaExceeded(PipelineError):
    """The tenant would store more than it may; nothing was accepted. ``quota`` says which, as numbers; ``retry_after_s``: when
    some of it may be free again, None for what only a deletion frees."""

    code = "quota_exceeded"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        quota: Mapping[str, str | int] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.quota = dict(quota or {})
        self.retry_after_s = retry_after_s


class WorkerUnavailable(Unavailable):
    """No worker has begun a computation that a caller waits for."""

    code = "worker_unavailable"


class ComputationTimeout(Unavailable):
    """A worker has begun a computation that a caller waits for, and did not end it in time."""

    code = "computation_timeout"


class PreconditionFailed(PipelineError):
    """The resource has changed since its etag was issued; nothing was done."""

    code = "precondition_failed"


class GenerationNotKept(PipelineError):
    """The document cannot be rolled back: that generation is not retained, or is the published one."""

    code = "generation_not_kept"


class NotReingestible(PipelineError):
    """A stored document cannot be ingested again as requested; ``code`` names the reason."""

    code = "upload_pending"


class ApiSourceUnavailable(Unavailable):
    """A business API did not answer in time, or asked to back off."""

    code = "api_source_unavailable"


class ApiSourceTimedOut(ApiSourceUnavailable):
    """A business API did not answer within its time limit."""


class ApiSourceFailed(PipelineError):
    """A business API refused, its answer does not fit its mapping, or the tenant has none of this name."""

    code = "api_source_failed"


class NothingRated(PipelineError):
    """The rated chunk is neither a hit of the answer nor one that the query could have found."""

    code = "rated_not_found"


class QueryUnanswered(PipelineError):
    """The query has no answer yet, so there is nothing to rate."""

    code = "query_unanswered"


class NoSuchName(PipelineError):
    """A name or id has characters outside the valid set, so no store can compare it."""

    code = "no_such_name"


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what caused it, each once. An error that is raised anew where its own consequence is handled is
    among the causes of that consequence, and the consequence among its own."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = getattr(error, "original_exception", None) or error.__cause__ or error.__context__  # PyMySQL's
