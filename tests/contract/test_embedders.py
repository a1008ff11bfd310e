"""The contract of embedders, checked for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import EmbedderUnavailable, Misconfigured
from pipeline.models.local_embedder import LocalEmbedder
from pipeline.models.make_models import check_embedder, make_local_embedder
from pipeline.models.openai_embedder import OpenAIEmbedder
from pipeline.models.ports import Embedder
from tests.support.clients.openai_clients import embedder_on
from tests.support.corpora.tiny_onnx import DIMENSION, write_encoder
from tests.support.servers.openai_answers import Answer, refused, slow, with_data, with_vectors
from tests.support.servers.openai_server import OpenAIServer, hashed

LOCAL = [LocalEmbedder(dimension=64), LocalEmbedder(dimension=256)]  # shared: loading takes half a second
TEXTS = [
    "the red fox",
    "a blue whale",
    "重置路由器的步骤",
    "PPR-9087 喷嘴",
    "x" * 50_000,
    "",
    " \n",
    "\ud800 broken",
    "😀",
]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(dimension=64) as server:
        yield server


class EmbedderContract:
    """The contract of embedders. Subclass it and provide the `embedder` fixture."""

    def it_gives_one_unit_vector_per_text(self, embedder: Embedder):
        vectors = embedder.embed(TEXTS)
        assert vectors.shape == (len(TEXTS), embedder.dimension)
        assert vectors.dtype == np.float32
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)

    def it_gives_a_text_the_same_vector_whatever_else_is_in_the_call(self, embedder: Embedder):
        together = embedder.embed(TEXTS)
        alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
        assert np.array_equal(together, alone)
        assert np.array_equal(embedder.embed(TEXTS[::-1]), together[::-1])

    def it_takes_no_texts_at_all(self, embedder: Embedder):
        assert embedder.embed([]).shape == (0, embedder.dimension)

    def it_puts_similar_texts_nearer_than_different_ones(self, embedder: Embedder):
        fox, foxes, invoice = embedder.embed(["the red fox runs", "the red fox runs fast", "unpaid invoice, March"])
        assert fox @ foxes > fox @ invoice

    def it_can_be_shared_between_threads(self, embedder: Embedder):
        expected = embedder.embed(TEXTS)
        with ThreadPoolExecutor(6) as pool:
            for vectors in pool.map(lambda _: embedder.embed(TEXTS), range(6)):
                assert np.array_equal(vectors, expected)

    def it_keeps_to_a_time_that_is_already_over(self, embedder: Embedder):
        with pytest.raises(EmbedderUnavailable):
            embedder.embed(["late"], timeout_s=0.0)

    def it_passes_the_check_at_start(self, embedder: Embedder):
        check_embedder(embedder)

    def it_has_a_name(self, embedder: Embedder):
        assert embedder.model


class DescribeLocalEmbedder(EmbedderContract):
    @pytest.fixture(params=LOCAL)
    def embedder(self, request: pytest.FixtureRequest) -> Embedder:
        return request.param

    def it_knows_a_paraphrase(self, embedder: Embedder):
        question, answer, other = embedder.embed(
            ["how do I reset my password", "changing a forgotten login credential", "the harvest of olives in Spain"]
        )
        assert question @ answer > question @ other

    @pytest.mark.parametrize(("text", "trust"), [("how do I reset my password\nnow", 1.0), ("", 1.0), ("蟾蜍", 0.0)])
    def it_says_what_it_cannot_read(self, embedder: Embedder, text: str, trust: float):
        assert isinstance(embedder, LocalEmbedder)
        assert embedder.trust(text) == pytest.approx(trust)

    def it_trusts_half_a_reading_by_its_fourth_power(self):
        assert LocalEmbedder().trust("中蟾") == pytest.approx(0.5**4)

    def it_nests_its_dimensions(self):
        short, long = LocalEmbedder(dimension=128).embed(["olives"])[0], LocalEmbedder().embed(["olives"])[0]
        assert short == pytest.approx(long[:128] / np.linalg.norm(long[:128]), abs=1e-6)

    def it_refuses_a_dimension_it_has_not(self):
        with pytest.raises(Misconfigured, match="64, 128 or 256"):
            LocalEmbedder(dimension=384)


class DescribeUniversalSentenceEncoder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return make_local_embedder("use-multilingual-v3", 512)

    def it_reads_chinese(self, embedder: Embedder):
        question, answer, other = embedder.embed(["怎么重置密码", "忘记登录密码后的找回步骤", "西班牙的橄榄收成"])
        assert question @ answer > question @ other + 0.2


class DescribeOnnxEncoder(EmbedderContract):
    @pytest.fixture
    def embedder(self, tmp_path: Path) -> Embedder:
        return make_local_embedder(f"onnx:{write_encoder(tmp_path)}", DIMENSION)


class DescribeOpenAIEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self, server: OpenAIServer) -> Iterator[Embedder]:
        with embedder_on(server, batch_texts=4, batch_tokens=20_000) as embedder:
            yield embedder


class DescribeBatchesOfOpenAIEmbedder:
    @pytest.fixture
    def embedder(self, server: OpenAIServer) -> Iterator[OpenAIEmbedder]:
        with embedder_on(server, batch_texts=10, batch_tokens=1000) as embedder:
            yield embedder

    def it_splits_by_count_and_by_tokens(self, server: OpenAIServer, embedder: OpenAIEmbedder):
        embedder.embed([f"text {number}" for number in range(25)])
        assert sorted(len(body["input"]) for body in server.seen("embeddings")) == [5, 10, 10]
        embedder.embed(["word " * 300] * 4)
        assert sorted(len(body["input"]) for body in server.seen("embeddings")[3:]) == [1, 1, 1, 1]

    def it_learns_how_many_texts_a_service_takes(self, server: OpenAIServer):
        server.limiter = lambda seen: refused(413) if len(seen.body["input"]) > 16 else Answer()
        texts = [f"text {number}" for number in range(256)]
        with embedder_on(server, batch_texts=64, concurrency=1) as embedder:
            embedder.embed(texts)
            before = len(server.requests)
            embedder.embed(texts)
            assert {len(request.body["input"]) for request in server.requests[before:]} == {16}

    def it_keeps_several_requests_under_way_and_the_order(self, server: OpenAIServer, embedder: OpenAIEmbedder):
        texts = [f"text {number}" for number in range(80)]
        server.next("embeddings", slow(0.4), slow(0.3), slow(0.2), slow(0.1))
        together = embedder.embed(texts)
        assert server.most_under_way == 4
        assert np.array_equal(together, np.concatenate([embedder.embed([text]) for text in texts]))

    def it_reuses_connections(self, server: OpenAIServer, embedder: OpenAIEmbedder):
        for _ in range(5):
            embedder.embed(["again"])
        assert len(server.connections) == 1

    def it_sends_dimensions_only_to_models_that_take_them(self, server: OpenAIServer):
        for model, sent in {"bge-m3": None, "text-embedding-3-small": 64, "proxy/text-embedding-3-large": 64}.items():
            with embedder_on(server, model=model) as embedder:
                embedder.embed(["hello"])
                assert server.seen("embeddings")[-1].get("dimensions") == sent

    def it_sends_no_more_than_the_beginning_of_a_long_text(self, server: OpenAIServer, embedder: OpenAIEmbedder):
        embedder.embed(["word " * 20_000, "汉字" * 20_000])
        longest = [len(text) for body in server.seen("embeddings") for text in body["input"]]
        assert max(longest) < 25_000
        assert min(longest) < 7_000

    def it_falls_back_to_floats_for_good(self, server: OpenAIServer, embedder: OpenAIEmbedder):
        packed = embedder.embed(["hello"])
        server.encodings = {"float"}
        assert embedder.embed(["hello"]) == pytest.approx(packed, abs=1e-6)
        embedder.embed(["hello"])
        assert [body.get("encoding_format") for body in server.seen("embeddings")] == [
            "base64",
            "base64",
            "float",
            "float",
        ]

    def it_understands_a_server_that_ignores_the_encoding(self, server: OpenAIServer, embedder: OpenAIEmbedder):
        expected = embedder.embed(["hello"])
        server.next("embeddings", with_vectors(lambda _: hashed("hello", 64).tolist()))
        assert embedder.embed(["hello"]) == pytest.approx(expected, abs=1e-6)

    def it_orders_by_index_never_by_arrival(self, server: OpenAIServer, embedder: OpenAIEmbedder):
        expected = embedder.embed(TEXTS[:4])
        server.next("embeddings", with_data(lambda data: data[::-1]))
        assert np.array_equal(embedder.embed(TEXTS[:4]), expected)
