"""Create the embedder and reranker of an installation, for ingestion and for queries."""

import threading
from collections.abc import Callable
from typing import Literal

from pipeline.errors import Misconfigured
from pipeline.local_models import flaw_of, local_model, stored_name
from pipeline.models.local_embedder import LocalEmbedder, onnx_encoder, packaged_encoder
from pipeline.models.ports import Embedder, Reranker
from pipeline.models.rerank_local import LocalReranker
from pipeline.models.service_pace_store import FleetGovernor
from pipeline.records import EmbeddingSpace
from pipeline.settings import RerankProvider, Settings

# The openai package takes a second to import, so only installations that use it do.


def make_space_embedder(
    settings: Settings, space: EmbeddingSpace, *, governed_by: Callable[[str], FleetGovernor] | None = None
) -> Embedder:
    """Return the embedder of one embedding space; see ``make_embedder``. Raises Misconfigured."""
    space_settings = settings.model_copy(
        update={"embedding_provider": space.provider, "embedding_model": space.model, "embedding_dim": space.dimension}
    )
    base_url = api_key = None
    if space.service != "default" and settings.embedding_next_base_url:
        base_url, key = settings.embedding_next_base_url, settings.embedding_next_api_key
        api_key = key.get_secret_value() if key else None
    return make_embedder(space_settings, governed_by=governed_by, base_url=base_url, api_key=api_key)


def make_embedder(
    settings: Settings,
    *,
    governed_by: Callable[[str], FleetGovernor] | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
) -> Embedder:
    """Return the settings' embedder: one per process, created after the fork, to be closed. ``governed_by``: an
    account's governor. Without ``base_url`` and ``api_key`` the openai package's variables apply. Raises Misconfigured.
    """
    if settings.embedding_provider == "local":
        return make_local_embedder(settings.embedding_model, settings.embedding_dim)
    from pipeline.models.openai_embedder import OpenAIEmbedder

    return OpenAIEmbedder(
        model=settings.embedding_model,
        dimension=settings.embedding_dim,
        batch_texts=settings.embedding_batch_texts,
        timeout_s=settings.embedding_timeout_s,
        concurrency=settings.embedding_concurrency,
        governed_by=governed_by,
        base_url=base_url,
        api_key=api_key,
    )


def make_local_embedder(model: str, dimension: int) -> Embedder:
    """Return the local embedder of this name, without loading weights. Raises Misconfigured."""
    if flaw := flaw_of(model, dimension):
        raise Misconfigured(f"the embedding {flaw}")
    built_in, name = local_model(model), stored_name(model, dimension)
    if built_in is None:
        return onnx_encoder(name, dimension)
    return LocalEmbedder(dimension=dimension) if built_in.extra is None else packaged_encoder(built_in, name, dimension)


def make_reranker(settings: Settings, provider: RerankProvider | Literal["auto"] = "auto") -> Reranker:
    """Return the reranker that ``settings.reranker_for`` names; create one per process. Raises Misconfigured."""
    match settings.reranker_for(provider):
        case "http":
            from pipeline.models.rerank_client import HttpReranker

            key = settings.rerank_api_key
            return HttpReranker(
                url=settings.rerank_url,
                dialect=settings.rerank_dialect,
                model=settings.rerank_model,
                api_key=key.get_secret_value() if key else None,
                timeout_s=settings.rerank_timeout_s,
            )
        case "llm":
            from pipeline.models.rerank_llm import LlmReranker

            return LlmReranker(model=settings.llm_model, timeout_s=settings.llm_timeout_s)
        case "local":
            return LocalReranker()


def check_embedder(embedder: Embedder, *, timeout_s: float | None = None) -> None:
    """Embed one text, so that wrong settings stop the start. Raises Misconfigured, or EmbedderUnavailable."""
    shape = embedder.embed(["hello"], timeout_s=timeout_s).shape
    if shape != (1, embedder.dimension):
        raise Misconfigured(
            f"the embedding model gives vectors of {shape[-1]} numbers,"
            f" but CHORDWISE_EMBEDDING_DIM is {embedder.dimension}"
        )


class Rerankers:
    """One reranker of each kind for the whole process. Safe to share between threads; not across a fork."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._made: dict[RerankProvider, Reranker] = {}
        self._lock = threading.Lock()

    def of(self, provider: RerankProvider) -> Reranker:
        """Return the reranker of this kind, or the local one where it is not configured. Raises Misconfigured."""
        reranker = self._made.get(provider)
        if reranker is None:
            with self._lock:
                reranker = self._made.setdefault(provider, make_reranker(self._settings, provider))
        return reranker

    def close(self) -> None:
        """Close every connection that was opened."""
        for reranker in self._made.values():
            reranker.close()
