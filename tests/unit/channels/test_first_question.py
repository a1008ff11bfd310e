"""The first question of a process to the semantic channel, by the local model."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.channels.semantic_channel import SearchedSpace, SemanticChannel
from pipeline.models.local_embedder import LocalEmbedder, prepare_references
from pipeline.query.request import RecallGuard
from pipeline.records import Namespace, TenantId
from pipeline.semantic.search_store import NearestChunks
from tests.support.corpora.queries import query_of


class EmptyTable:
    """A table of vectors without rows."""

    def nearest(self, *_: Any, **__: Any) -> NearestChunks:
        return NearestChunks(hits=(), guard=RecallGuard(method="exact"))


class DescribeTheFirstQuestion:
    @pytest.mark.parametrize("text", ["How is green tea brewed?", "绿茶怎么泡？"])
    def it_is_embedded_alone_after_the_start_and_still_compared_with_the_reference_sentences(self, text):
        asked = []

        def ask(embedder, _tenant_id, texts, _seconds):
            asked.append(tuple(texts))
            return embedder.embed(texts)

        embedder = LocalEmbedder()
        prepare_references(embedder)
        made: dict[str, Any] = {"vectors": lambda _: None, "search": lambda _: EmptyTable()}
        space = SearchedSpace(number=1, table="chunk_embeddings", embedder=embedder, **made)
        query = query_of(text, tenant_id=TenantId("a"), namespaces=(Namespace("kb"),))
        found = SemanticChannel(lambda _: space, ask).recall(query)
        assert asked == [(text,)]
        assert found.background is not None
