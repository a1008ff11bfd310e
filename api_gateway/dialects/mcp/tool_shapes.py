"""Arguments and results of the MCP tools. The schemas that agents read are generated from these."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from api_gateway.http.fields import NamespaceName, NewNamespaceName, QueryText, Shape, Wire
from api_gateway.resources.ingestion.uploads import DocumentIn
from api_gateway.resources.retrieval.query_body import FiltersOrText
from chordwise.contract.answer import Degradation, HitSource
from chordwise.contract.explanation import WhyNot
from chordwise.contract.job import Renamed
from pipeline.ingestion.accept import OnConflict

LONGEST_WAIT_S = 30  # shorter than proxies and agents allow an answer to take
MOST_DOCUMENTS = 100
LONGEST_TEXT = 200_000
USUAL_TEXT = 40_000


class SearchIn(Wire):
    """A question in plain words."""

    query: Annotated[QueryText, Field(description="The question, or keywords.")]
    namespaces: Annotated[
        list[NamespaceName] | None,
        Field(
            min_length=1,
            max_length=32,
            description="The knowledge bases to search; all by default. See list_namespaces.",
        ),
    ] = None
    top_k: Annotated[int, Field(ge=1, le=50, description="How many passages to read.")] = 10
    filters: Annotated[FiltersOrText | None, Field(description="Conditions on the documents.")] = None


class Passage(Shape):
    """A passage from the search. `chunk_id` can be given to `explain`, and to `fetch`."""

    chunk_id: str
    text: str
    score: float
    confidence: float | None


class FoundDocument(Shape):
    """A document with its matching passages, best first. `id` can be given to `fetch`."""

    id: str
    title: str
    url: str
    namespace: str
    document_id: str
    text: Annotated[str, Field(description="The best passages.")]
    passages: list[Passage]


class SearchOut(Shape):
    """Documents, best first. `query_id` can be given to `explain`. `remarks`: losses and omissions on the way."""

    results: list[FoundDocument]
    query_id: str | None
    degraded: bool
    remarks: list[str]


class FetchIn(Wire):
    """The text to read."""

    id: Annotated[
        str,
        Field(min_length=1, max_length=256, description="The `id` of a search result, or the `chunk_id` of a passage."),
    ]
    offset: Annotated[int, Field(ge=0, le=2**31, description="Characters to skip at the beginning.")] = 0
    max_chars: Annotated[int, Field(ge=1, le=LONGEST_TEXT, description="Characters to read at most.")] = USUAL_TEXT


class FetchOut(Shape):
    """A text. If it continues, `metadata.next_offset` is the offset of the rest."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, Any]


class NamespacesIn(Wire):
    """A page of namespaces."""

    after: Annotated[str | None, Field(max_length=64, description="`next` of the previous page.")] = None


class NamespaceOut(Shape):
    """A knowledge base, with its searchable contents."""

    namespace: str
    documents: int
    chunks: int
    created_at: datetime


class NamespacesOut(Shape):
    """Knowledge bases in order of their names. `next`: pass it as `after` for the next page, if there is one."""

    namespaces: list[NamespaceOut]
    next: str | None


class ExplainIn(Wire):
    """The answer to explain, and optionally a passage in it or missing from it."""

    query_id: Annotated[str, Field(max_length=64, description="The `query_id` of a search.")]
    chunk_id: Annotated[str | None, Field(max_length=64, description="One passage, also one that was not found.")] = (
        None
    )


class ExplainedPassage(Shape):
    """The reasons for a passage's rank. `sources`: its score and rank in each channel."""

    chunk_id: str
    document_id: str
    namespace: str
    score: float
    confidence: float | None
    reason: str
    sources: list[HitSource]


class ExplainOut(Shape):
    """The reasons for an answer. `why_not`: the stage at which the requested passage was lost; null if it was not."""

    query_id: str
    query: dict[str, Any]
    degraded: bool
    degradations: list[Degradation]
    remarks: list[str]
    latency_ms: dict[str, float]
    passages: list[ExplainedPassage]
    why_not: WhyNot | None


class IngestIn(Wire):
    """Documents for one namespace, which is created if it does not exist."""

    namespace: NewNamespaceName
    documents: Annotated[list[DocumentIn], Field(min_length=1, max_length=MOST_DOCUMENTS)]
    on_conflict: Annotated[
        OnConflict, Field(description="How to treat a document that exists already; `new` keeps both, under two ids.")
    ] = "replace"


class IngestOut(Shape):
    """The documents are stored; `job_status` reports when searches see them."""

    job_id: str
    status: str
    total: int
    renamed: list[Renamed]


class JobIn(Wire):
    """The job to report."""

    job_id: Annotated[str, Field(max_length=64, description="The `job_id` that `ingest` gave.")]
    wait_s: Annotated[float, Field(ge=0, le=LONGEST_WAIT_S, description="Seconds to wait for its end.")] = 0


class JobOut(Shape):
    """A job's progress. `errors`: the first documents that could not be ingested, with the reasons."""

    job_id: str
    namespace: str
    status: Literal["queued", "running", "succeeded", "partly_failed", "failed", "cancelled"]
    total: int
    succeeded: int
    failed: int
    cancelled: int
    chunks: int
    errors: list[dict[str, Any]]
