"""Request bodies of this dialect, and the checks that need no store."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from api_gateway.http.fields import Wire
from api_gateway.resources.retrieval.conditions import Value
from pipeline.administration.edit_vector_stores import Put
from pipeline.chunking.strategies.registry import complete
from pipeline.records import Chunking
from pipeline.settings import Settings

MOST_FILES = 2000
MOST_PAIRS = 16


Key = Annotated[str, Field(min_length=1, max_length=64)]
Attributes = Annotated[dict[Key, Value], Field(max_length=MOST_PAIRS)]
StoreMetadata = Annotated[dict[Key, Annotated[str, Field(max_length=512)]], Field(max_length=MOST_PAIRS)]
FileId = Annotated[str, Field(min_length=1, max_length=64)]
Days = Annotated[int, Field(ge=1, le=365)]


class ExpiresAfter(Wire):
    """Days after its last use when a vector store is emptied."""

    anchor: Literal["last_active_at"]
    days: Days


class StaticSizes(Wire):
    """Sizes of chunks in tokens; the overlap is at most half of a chunk."""

    max_chunk_size_tokens: Annotated[int, Field(ge=100, le=4096)]
    chunk_overlap_tokens: Annotated[int, Field(ge=0)]

    @model_validator(mode="after")
    def _at_most_half(self) -> Self:
        if self.chunk_overlap_tokens * 2 > self.max_chunk_size_tokens:
            raise ValueError("chunk_overlap_tokens is more than half of max_chunk_size_tokens")
        return self


class ChunkingStrategy(Wire):
    """``auto`` is the installation's strategy; ``static`` sets the length of chunks."""

    type: Literal["auto", "static"]
    static: StaticSizes | None = None

    @model_validator(mode="after")
    def _static_has_sizes(self) -> Self:
        if (self.type == "static") != (self.static is not None):
            raise ValueError("has static exactly where its type is static")
        return self


class VectorStoreRequest(Wire):
    """A new vector store."""

    example: ClassVar = {"name": "Manuals", "metadata": {"team": "support"}}
    most_bytes: ClassVar = 256 * 1024

    name: Annotated[str, Field(max_length=256)] | None = None
    description: Annotated[str, Field(max_length=1024)] | None = None
    file_ids: Annotated[list[FileId], Field(max_length=MOST_FILES)] | None = None
    chunking_strategy: ChunkingStrategy | None = None
    expires_after: ExpiresAfter | None = None
    metadata: StoreMetadata | None = None


class VectorStoreChange(Wire):
    """Changes of a vector store; omitted fields stay, and null removes a value."""

    example: ClassVar = {"name": "Manuals of 2026"}
    most_bytes: ClassVar = 256 * 1024

    name: Annotated[str, Field(max_length=256)] | None = None
    description: Annotated[str, Field(max_length=1024)] | None = None
    expires_after: ExpiresAfter | None = None
    metadata: StoreMetadata | None = None


class StoreFileRequest(Wire):
    """A file to be put into a vector store."""

    example: ClassVar = {"file_id": "file-0123", "attributes": {"year": 2026}}

    file_id: FileId
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategy | None = None


class StoreFileChange(Wire):
    """The complete new attributes of a file."""

    example: ClassVar = {"attributes": {"year": 2027}}

    attributes: Attributes | None


class FileBatchRequest(Wire):
    """Files to be put into a vector store together: ``file_ids`` with common options, or ``files`` with individual
    ones."""

    example: ClassVar = {"file_ids": ["file-0123", "file-4567"]}
    most_bytes: ClassVar = 24 * 1024 * 1024  # 2000 files with 16 attributes of the greatest length

    file_ids: Annotated[list[FileId], Field(min_length=1, max_length=MOST_FILES)] | None = None
    files: Annotated[list[StoreFileRequest], Field(min_length=1, max_length=MOST_FILES)] | None = None
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategy | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.file_ids is None) == (self.files is None):
            raise ValueError("has either file_ids or files")
        return self


class HybridSearch(Wire):
    """The weights of meaning and words when their rankings are fused; at least one must be above 0."""

    embedding_weight: Annotated[float, Field(ge=0, le=100)]
    text_weight: Annotated[float, Field(ge=0, le=100)]

    @model_validator(mode="after")
    def _one_counts(self) -> Self:
        if not (self.embedding_weight or self.text_weight):
            raise ValueError("leaves no weight above 0")
        return self


class RankingOptions(Wire):
    """Ranking options. ``none`` disables reranking; any other ranker selects the installation's."""

    ranker: Literal["none", "auto", "default-2024-11-15", "default_2024_08_21"] | None = None
    score_threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    hybrid_search: HybridSearch | None = None


class SearchRequest(Wire):
    """A search in one vector store. Several queries run concurrently, and each result gets its best score."""

    example: ClassVar = {
        "query": "How do I reset the controller?",
        "max_num_results": 5,
        "filters": {"type": "and", "filters": [{"type": "gte", "key": "year", "value": 2025}]},
        "ranking_options": {"ranker": "auto", "score_threshold": 0.2},
    }
    most_bytes: ClassVar = 1024 * 1024

    query: (
        Annotated[str, Field(min_length=1, max_length=8000)]
        | Annotated[list[Annotated[str, Field(min_length=1, max_length=8000)]], Field(min_length=1, max_length=16)]
    )
    filters: dict[str, Any] | None = Field(
        default=None,
        description="`{type, key, value}` with type eq, ne, gt, gte, lt, lte, in or nin; or `{type, filters}` with and, or.",
    )
    max_num_results: Annotated[int, Field(ge=1, le=50)] = 10
    ranking_options: RankingOptions | None = None
    rewrite_query: bool | None = None


def to_put(sent: StoreFileRequest, use: Settings) -> Put:
    """Return a file to be put into a vector store as a record."""
    chunking = to_chunking(sent.chunking_strategy, use)
    return Put(file_id=sent.file_id, chunking=chunking, attributes=sent.attributes or {})


def to_chunking(sent: ChunkingStrategy | None, use: Settings) -> Chunking:
    """Return the chunking that a strategy requests."""
    usual = {"max_tokens": use.chunk_max_tokens, "overlap": use.chunk_overlap}
    options = {}
    if sent is not None and sent.static is not None:
        size = sent.static.max_chunk_size_tokens
        options = {"max_tokens": size, "overlap": sent.static.chunk_overlap_tokens / size}
    return complete("sentences", options, usual)
