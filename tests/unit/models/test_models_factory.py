from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from pipeline.errors import Misconfigured
from pipeline.models.local_embedder import LocalEmbedder
from pipeline.models.make_models import check_embedder, make_embedder, make_reranker
from pipeline.models.openai_embedder import OpenAIEmbedder
from pipeline.models.rerank_llm import LlmReranker
from pipeline.models.rerank_local import LocalReranker
from pipeline.settings import load


class DescribeMakeEmbedder:
    def it_makes_the_local_one_by_default(self):
        embedder = make_embedder(load())
        assert isinstance(embedder, LocalEmbedder)
        assert (embedder.model, embedder.dimension) == ("wordllama-l2-supercat-256", 256)

    def it_names_a_smaller_model_differently(self):
        assert make_embedder(load({"embedding_dim": 64})).model == "wordllama-l2-supercat-64"

    def it_makes_the_services(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        settings = load({"embedding_provider": "openai", "embedding_model": "bge-m3", "embedding_dim": 1024})
        embedder = make_embedder(settings)
        assert isinstance(embedder, OpenAIEmbedder)
        assert (embedder.model, embedder.dimension) == ("bge-m3", 1024)
        embedder.close()

    def it_does_not_ignore_the_name_of_a_model_it_has_not(self):
        with pytest.raises(Misconfigured, match="CHORDWISE_EMBEDDING_MODEL"):
            make_embedder(load({"embedding_model": "text-embedding-3-small"}))

    def it_loads_neither_openai_nor_weights_before_they_are_needed(self):
        code = (
            "import sys; from pipeline.models.make_models import *; from pipeline.settings import load\n"
            "make_embedder(load()); make_reranker(load()); print({'openai', 'wordllama'} & set(sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.strip() == "set()"


class DescribeMakeReranker:
    def it_follows_the_settings(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        assert isinstance(make_reranker(load()), LocalReranker)
        reranker = make_reranker(load({"llm_model": "qwen3"}))
        assert isinstance(reranker, LlmReranker)
        assert reranker.name == "llm:qwen3"
        reranker.close()


class DescribeCheckEmbedder:
    def it_compares_what_is_said_with_what_comes(self):
        class Liar(LocalEmbedder):
            def embed(self, texts, *, timeout_s=None):
                return np.ones((len(texts), 3), dtype=np.float32)

        with pytest.raises(Misconfigured, match="vectors of 3 numbers, but CHORDWISE_EMBEDDING_DIM is 256"):
            check_embedder(Liar())
