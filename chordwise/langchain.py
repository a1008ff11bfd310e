"""Chordwise as a retriever of LangChain: the extra ``langchain`` of chordwise-client.

from chordwise.langchain import ChordwiseRetriever

retriever = ChordwiseRetriever(namespaces=["kb"], k=5)
documents = retriever.invoke("how are documents replaced")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, SecretStr, model_validator

from chordwise.agents.asker import Asker, OwnsConnections, listed
from chordwise.agents.passages import passage_metadata
from chordwise.api.queries import QueryResult
from chordwise.async_client import AsyncChordwise
from chordwise.client import Chordwise
from chordwise.errors import missing

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ModuleNotFoundError as error:
    raise missing("langchain", error) from error


def _names(value: Any) -> Any:
    return list(listed(value)) if isinstance(value, str | Iterable) else value


class ChordwiseRetriever(OwnsConnections, BaseRetriever):
    """Documents for a question: one for each chunk that answers it, best first, at most ``k``.

    ``options`` are further keywords of ``Chordwise.query``; the server's profile decides on all that is left
    out. ``invoke(question, k=…, filters=…)`` takes the same names for one call. Without ``client``
    and ``async_client``, connections are made with ``url`` and ``api_key`` or CHORDWISE_URL and CHORDWISE_API_KEY,
    and kept until ``close`` or ``aclose``. Raises ChordwiseError like any client. A run's id is the request's id.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    namespaces: Annotated[list[str], BeforeValidator(_names)]
    k: int = Field(default=10, ge=1, le=1000)
    filters: dict[str, Any] | None = None
    method: str | None = None
    profile: str | None = None
    retrieve: dict[str, Any] | None = None
    rerank: bool | None = None
    expand: bool | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    url: str | None = None
    api_key: SecretStr | None = None
    timeout: float = Field(default=30.0, gt=0)
    client: Chordwise | None = Field(default=None, exclude=True, repr=False)
    async_client: AsyncChordwise | None = Field(default=None, exclude=True, repr=False)
    _asker: Asker = PrivateAttr()

    @model_validator(mode="after")
    def _connect(self) -> Self:
        self._asker = Asker(
            client=self.client,
            async_client=self.async_client,
            url=self.url,
            api_key=self.api_key.get_secret_value() if self.api_key else None,
            timeout=self.timeout,
        )
        return self

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return _documents(self._asker.ask(query, **self._options(kwargs, str(run_manager.run_id))))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return _documents(await self._asker.aask(query, **self._options(kwargs, str(run_manager.run_id))))

    def _options(self, arguments: Mapping[str, Any], run_id: str) -> Any:
        names = ("namespaces", "k", "filters", "method", "profile", "retrieve", "rerank", "expand")
        bound = {name: getattr(self, name) for name in names}
        options = {**bound, "request_id": run_id, **self.options, **arguments}
        if arguments.get("namespace") and not arguments.get("namespaces"):
            options["namespaces"] = None  # else the bound ones would be searched instead
        k = options.pop("k")
        return options if options.get("top_k") is not None else {**options, "top_k": k}


def _documents(result: QueryResult) -> list[Document]:
    return [
        Document(id=hit.chunk_id, page_content=hit.text, metadata=passage_metadata(hit, result.query_id))
        for hit in result.chunks
    ]
