"""Layered recall on MySQL and pgvector: documents, filters, channels and fusion with the design's figures, over HTTP."""

from __future__ import annotations

import itertools
import math
import statistics
from typing import Any

import pytest

from pipeline.models.local_embedder import LocalEmbedder
from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.corpora.documents import document, found_documents, upload
from tests.support.corpora.pump_library import KB, LIBRARY, NO_RERANK, PATIENT, asked, fused


def of_channel(answer: dict[str, Any], channel: str) -> list[dict[str, Any]]:
    return [each for chunk in answer["chunks"] for each in chunk["sources"] if each["channel"] == channel]


class DescribeDocuments:
    def it_keeps_title_author_type_tags_and_published_at(self, library, tenant_id):
        kept = library.get("/v1/documents/pump", params={"namespace": KB}).json()
        sent = LIBRARY[0]
        assert {name: kept[name] for name in ("title", "author", "type", "tags", "published_at")} == {
            name: sent[name] for name in ("title", "author", "type", "tags", "published_at")
        }
        body = {"tenant_id": tenant_id, "query_text": "轴承温度", "namespaces": [KB]}
        answer = library.post("/v1/rag/query", json=body).json()
        chunk = next(chunk for chunk in answer["chunks"] if chunk["document_id"] == "pump")
        assert (chunk["title"], chunk["metadata"]["position"]) == ("水泵操作规程", 0)
        assert {name: chunk["metadata"][name] for name in ("author", "type", "tags")} == {
            name: sent[name] for name in ("author", "type", "tags")
        }
        assert chunk["metadata"]["published_at"].startswith("2025-01-10")

    def it_cuts_200_to_500_characters_at_sentence_ends_with_20_to_30_percent_overlap(self, library):
        sentences = [f"第{n}台水泵的轴承温度不得超过{60 + n}度，每{n % 5 + 1}小时记录一次。" for n in range(100, 200)]
        upload(library, "long", [document("long", "".join(sentences), title="规程", type="manual", tags=["泵"])])
        chunks = library.get("/v1/chunks", params={"namespace": "long", "limit": 200}).json()["data"]
        assert len(chunks) > 5
        for chunk in chunks:
            assert chunk["text"].endswith("。")
            assert all(f"{sentence}。" in sentences for sentence in chunk["text"].split("。")[:-1])
        for above, below in itertools.pairwise(chunks):
            assert 200 <= len(above["text"]) <= 500
            repeated = above["end"] - below["start"]
            assert above["text"][-repeated:] == below["text"][:repeated]
            assert 0.2 <= repeated / len(above["text"]) <= 0.3
        assert [chunk["ordinal"] for chunk in chunks] == list(range(len(chunks)))
        assert len({chunk["chunk_id"] for chunk in chunks}) == len(chunks)

    def it_keeps_the_chunks_of_both_stores_aligned(self, library):
        report = library.post("/v1/verify", json={"namespaces": [KB]}).json()
        assert (report["missing"], report["orphaned"], report["stale"]) == (0, 0, 0)
        assert report["namespaces"][0]["chunks"] == len(LIBRARY)


class DescribeFilters:
    @pytest.mark.parametrize("method", ["full_text", "semantic", "hybrid"])
    @pytest.mark.parametrize(
        ("filters", "expected"),
        [
            ({"type": "manual"}, {"pump", "boiler", "english"}),
            ({"tags": ["水泵"]}, {"pump", "repair"}),
            ({"tags": ["水泵", "检修"]}, {"repair"}),
            ({"author": "李雷"}, {"pump", "boiler"}),
            ({"start": "2025-06-01T00:00:00Z", "end": "2026-02-01T00:00:00Z"}, {"repair", "boiler"}),
            ({"type": "manual", "author": "李雷", "start": "2026-01-01T00:00:00Z"}, {"boiler"}),
        ],
        ids=["type", "tag", "two tags", "author", "time", "together"],
    )
    def it_filters_every_channel_alike(self, library, method, filters, expected):
        text = "水泵 锅炉 应当停 pump"
        answer = asked(library, text, filters=filters, retrieve={"method": method})
        assert set(found_documents(answer)) == expected
        assert not answer["stats"]["degraded"]

    def it_keeps_tenants_apart(self, library, tenant_id, use):
        answer = asked(library, "水泵轴承")
        with gateway(make_tenant(use)[1]) as other:
            upload(other, KB, [document("theirs", "水泵轴承归别人所有。")])
            assert found_documents(asked(other, "水泵轴承")) == ["theirs"]
            assert other.get(f"/v1/queries/{answer['query_id']}").status_code == 404
            assert other.get("/v1/documents/pump", params={"namespace": KB}).status_code == 404
            body = {"tenant_id": tenant_id, "query_text": "水泵", "namespaces": [KB]}
            assert other.post("/v1/rag/query", json=body).status_code == 403
        assert "theirs" not in found_documents(asked(library, "水泵轴承"))


class DescribeChannels:
    @pytest.mark.parametrize(
        ("text", "first", "found"),
        [
            ("轴承温度", "pump", {"pump", "repair"}),
            ("锅炉安全", "boiler", {"boiler"}),  # 安全 stands in the title only
            ("停机检修", "repair", {"repair"}),
        ],
    )
    def it_finds_chinese_words_in_title_and_body(self, library, text, first, found):
        answer = asked(library, text, retrieve={"method": "full_text"}, rerank=NO_RERANK)
        assert found_documents(answer)[0] == first
        assert found <= set(found_documents(answer))
        assert {chunk["source"] for chunk in answer["chunks"]} == {"keyword"}

    def it_measures_similarity_as_one_minus_cosine_distance(self, client, namespace, use: Resources):
        texts = {"a": "The pump is primed.", "b": "Bearings wear out.", "c": "Whales sing in deep water."}
        upload(client, namespace, [document(name, text) for name, text in texts.items()])
        answer = asked(client, texts["a"], namespace=namespace, retrieve={"method": "semantic"}, rerank=NO_RERANK)
        embedder = LocalEmbedder(dimension=use.settings.embedding_dim)
        question, *vectors = embedder.embed([texts["a"], *texts.values()])
        expected = {
            name: sum(left * right for left, right in zip(question, vector, strict=True))
            for name, vector in zip(texts, vectors, strict=True)
        }
        scores = {chunk["document_id"]: chunk["sources"][0]["score"] for chunk in answer["chunks"]}
        assert scores == pytest.approx(expected, abs=2e-3)
        assert scores["a"] == pytest.approx(1.0, abs=2e-3)
        assert found_documents(answer) == sorted(texts, key=lambda name: -expected[name])

    @pytest.mark.parametrize("query", ["水泵轴承", "centrifugal pump"])
    @pytest.mark.parametrize("top_k", [1, 2, 3, 5])
    def it_shares_top_k_between_channels_and_fills_every_place(self, library, query, top_k):
        everything = asked(library, query, top_k=50)["chunks"]
        answer = asked(library, query, top_k=top_k, retrieve={"allocation": "balanced"})
        assert len(answer["chunks"]) == min(top_k, len(everything))


class DescribeFusion:
    @pytest.mark.parametrize("k", [None, 10])
    def it_adds_up_reciprocal_ranks_with_k_60_by_default(self, library, k):
        answer = fused(library, "水泵轴承温度", strategy="rrf", **({} if k is None else {"k": k}))
        assert (
            len(answer["chunks"]) == len(LIBRARY) - 1
        )  # the English one has a negative cosine and no word of the query
        for chunk in answer["chunks"]:
            ranks = [each["rank"] for each in chunk["sources"]]
            assert chunk["score"] == pytest.approx(sum(1 / ((k or 60) + rank) for rank in ranks), abs=1e-9)
        scores = [chunk["score"] for chunk in answer["chunks"]]
        assert scores == sorted(scores, reverse=True)
        for channel, hits in answer["stats"]["hits"].items():
            assert sorted(each["rank"] for each in of_channel(answer, channel)) == list(range(1, hits + 1))

    def it_brings_scores_between_0_and_1_by_min_max(self, library):
        answer = fused(library, "水泵轴承温度", strategy="weighted", normalisation="min_max")
        for channel in ("keyword", "semantic"):
            said = of_channel(answer, channel)
            lowest, highest = min(each["score"] for each in said), max(each["score"] for each in said)
            assert highest > lowest
            for each in said:
                assert each["normalized"] == pytest.approx((each["score"] - lowest) / (highest - lowest), abs=1e-9)

    def it_brings_scores_between_0_and_1_by_z_score(self, library):
        answer = fused(library, "水泵轴承温度", strategy="weighted", normalisation="z_score")
        for channel in ("keyword", "semantic"):
            said = of_channel(answer, channel)
            scores = [each["score"] for each in said]
            mean, deviation = statistics.fmean(scores), statistics.pstdev(scores)
            for each in said:
                # Three deviations to either side of the mean are what 0 and 1 stand for.
                expected = ((each["score"] - mean) / deviation + 3) / 6
                assert each["normalized"] == pytest.approx(min(1.0, max(0.0, expected)), abs=1e-6)
                assert 0 <= each["normalized"] <= 1

    @pytest.mark.parametrize("normalisation", ["min_max", "z_score"])
    def it_adds_up_weights_times_normalised_scores(self, library, normalisation):
        answer = fused(library, "水泵轴承温度", strategy="weighted", normalisation=normalisation)
        shares = {}
        for channel in ("keyword", "semantic"):
            of_it = [
                each["contribution"] / each["normalized"] for each in of_channel(answer, channel) if each["normalized"]
            ]
            shares[channel] = statistics.fmean(of_it)
            assert of_it == pytest.approx([shares[channel]] * len(of_it), rel=1e-6)
        assert math.fsum(shares.values()) == pytest.approx(1.0)
        for chunk in answer["chunks"]:
            assert chunk["score"] == pytest.approx(math.fsum(each["contribution"] for each in chunk["sources"]))
            assert 0 <= chunk["score"] <= 1

    def it_follows_weights_that_a_query_sets(self, library):
        for loud in ("keyword", "semantic"):
            weights = {name: {**PATIENT[name], "weight": 1.0 if name == loud else 0.001} for name in PATIENT}
            retrieve = {"channels": weights, "fusion": {"strategy": "rrf", "feedback": False}}
            answer = asked(library, "水泵轴承温度", retrieve=retrieve, rerank=NO_RERANK)
            ranked = [
                each["rank"] for chunk in answer["chunks"] for each in chunk["sources"] if each["channel"] == loud
            ]
            assert ranked == sorted(ranked)
            contributions = {each["channel"]: each["contribution"] for each in answer["chunks"][0]["sources"]}
            assert max(contributions, key=contributions.__getitem__) == loud

    def it_gives_a_chunk_once_with_every_source_and_labels_the_one_or_both(self, library):
        answer = fused(library, "水泵轴承温度", strategy="rrf")
        ids = [chunk["chunk_id"] for chunk in answer["chunks"]]
        assert len(set(ids)) == len(ids)
        merged = [chunk for chunk in answer["chunks"] if len(chunk["sources"]) == 2]
        assert merged
        for chunk in merged:
            assert {each["channel"] for each in chunk["sources"]} == {"keyword", "semantic"}
            recalled = [each for each in chunk["sources"] if each["rank"] is not None]
            strongest = max(chunk["sources"], key=lambda each: each["contribution"])
            assert chunk["source"] == ("both" if len(recalled) == 2 else strongest["channel"])

    def it_lets_age_weigh_when_the_query_says_so(self, library):
        decay = {"shape": "half_life", "half_life_days": 365}
        plain = asked(library, "水泵轴承", rerank=NO_RERANK)
        aged = asked(library, "水泵轴承", retrieve={"time_decay": decay}, rerank=NO_RERANK)
        assert {chunk["decay"] for chunk in plain["chunks"]} == {None}
        decays = {chunk["document_id"]: chunk["decay"] for chunk in aged["chunks"]}
        assert decays["pump"] < decays["repair"] < decays["boiler"] < decays["english"] <= 1
        days = 142  # from pump's date to repair's
        assert decays["pump"] / decays["repair"] == pytest.approx(0.5 ** (days / 365), rel=1e-3)
