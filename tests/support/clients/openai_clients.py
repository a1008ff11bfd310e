"""Our clients of the service of openai_server.py, set to wait for little."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from pipeline.models.openai_embedder import OpenAIEmbedder
from pipeline.models.rerank_llm import LlmReranker
from pipeline.query.rewriter import Rewriter
from tests.support.servers.openai_answers import SECRET
from tests.support.servers.openai_server import OpenAIServer


@contextmanager
def embedder_on(server: OpenAIServer, **options: Any) -> Iterator[OpenAIEmbedder]:
    """An embedder that gives up soon: 10 seconds a request, 2 retries after milliseconds."""
    defaults = {"model": "hashed", "dimension": 64, "timeout_s": 10.0, "retries": 2, "first_wait_s": 0.01}
    embedder = OpenAIEmbedder(**{**defaults, **options}, base_url=server.url, api_key=SECRET)
    try:
        yield embedder
    finally:
        embedder.close()


@contextmanager
def reranker_on(server: OpenAIServer, **options: Any) -> Iterator[LlmReranker]:
    """A language model's judgement, on a fixed day."""
    defaults = {"model": "judge", "timeout_s": 10.0, "clock": lambda: datetime(2026, 3, 1, tzinfo=UTC)}
    reranker = LlmReranker(**{**defaults, **options}, base_url=server.url, api_key=SECRET)
    try:
        yield reranker
    finally:
        reranker.close()


@contextmanager
def rewriter_on(server: OpenAIServer, **options: Any) -> Iterator[Rewriter]:
    """A language model's idea of what a query means."""
    rewriter = Rewriter(**{"model": "thinker", "timeout_s": 10.0, **options}, base_url=server.url, api_key=SECRET)
    try:
        yield rewriter
    finally:
        rewriter.close()
