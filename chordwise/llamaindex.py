"""Chordwise as a retriever of LlamaIndex: the extra ``llamaindex`` of chordwise-client.

from chordwise.llamaindex import ChordwiseRetriever

nodes = ChordwiseRetriever(["kb"], top_k=5).retrieve("how are documents replaced")
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack, cast

from chordwise.agents.asker import Asker, OwnsConnections, listed
from chordwise.agents.passages import TECHNICAL, passage_metadata
from chordwise.api.queries import AskKeywords, BoundKeywords, Hit, QueryResult
from chordwise.async_client import AsyncChordwise
from chordwise.client import Chordwise
from chordwise.errors import missing

try:
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
except ModuleNotFoundError as error:
    raise missing("llamaindex", error) from error


class ChordwiseRetriever(OwnsConnections, BaseRetriever):
    """Nodes for a question: one for each chunk that answers it, best first, each with its score.

    ``options`` are those of ``Chordwise.query``, such as ``top_k`` and ``filters``; the server's profile decides on all that
    is left out. Without ``client`` and ``async_client``, connections are made with ``url`` and ``api_key`` or CHORDWISE_URL
    and CHORDWISE_API_KEY, and kept until ``close`` or ``aclose``. Of a query bundle only the text is used, because the
    server embeds it itself. Raises ChordwiseError.
    """

    def __init__(
        self,
        namespaces: Iterable[str] | str,
        *,
        client: Chordwise | None = None,
        async_client: AsyncChordwise | None = None,
        url: str | None = None,
        api_key: str | None = None,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
        **options: Unpack[BoundKeywords],
    ) -> None:
        self._namespaces = listed(namespaces)
        self._options = options
        self._asker = Asker(
            client=client, async_client=async_client, url=url, api_key=api_key, timeout=options.get("timeout") or 30.0
        )
        super().__init__(callback_manager=callback_manager, verbose=verbose)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(self._asker.ask(query_bundle.query_str, **self._query_options()))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return _nodes(await self._asker.aask(query_bundle.query_str, **self._query_options()))

    def _query_options(self) -> AskKeywords:
        return cast(AskKeywords, {**self._options, "namespaces": self._namespaces})


def _nodes(result: QueryResult) -> list[NodeWithScore]:
    return [NodeWithScore(node=_node(hit, result.query_id), score=hit.score) for hit in result.chunks]


def _node(hit: Hit, query_id: str) -> TextNode:
    metadata: dict[str, Any] = passage_metadata(hit, query_id)
    technical = [name for name in TECHNICAL if name in metadata]
    start, end = metadata.get("start"), metadata.get("end")
    return TextNode(
        id_=hit.chunk_id,
        text=hit.text,
        metadata=metadata,
        excluded_llm_metadata_keys=technical,
        excluded_embed_metadata_keys=technical,
        start_char_idx=start if isinstance(start, int) else None,
        end_char_idx=end if isinstance(end, int) else None,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=hit.document_id)},
    )
