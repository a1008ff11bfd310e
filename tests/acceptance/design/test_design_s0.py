"""Layered recall on MySQL and pgvector: what that design asks for, with its own figures, through the public API."""

from __future__ import annotations

import itertools
import json
import math
import statistics
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pipeline.models.local_embedder import LocalEmbedder
from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.commands import called
from tests.support.clients.operating import audited, eventually, figure
from tests.support.corpora.documents import document, found_documents, search, upload
from tests.support.stacks.stack_logs import told

KB = "kb"
PATIENT = {"keyword": {"timeout_ms": 2000}, "semantic": {"timeout_ms": 2000}}  # a busy machine is no defect
NO_RERANK = {"enabled": False}
LIBRARY = [
    document(
        "pump",
        "离心水泵启动前应当灌满引水，并检查轴承温度。",
        title="水泵操作规程",
        author="李雷",
        type="manual",
        tags=["水泵", "操作"],
        published_at="2025-01-10T00:00:00Z",
    ),
    document(
        "repair",
        "水泵振动过大时应当停机检修，更换磨损的轴承。",
        title="检修记录",
        author="韩梅梅",
        type="note",
        tags=["水泵", "检修"],
        published_at="2025-06-01T00:00:00Z",
    ),
    document(
        "boiler",
        "锅炉水位低于下限时立即停炉，不得向炉内补水。",
        title="锅炉安全",
        author="李雷",
        type="manual",
        tags=["锅炉"],
        published_at="2026-02-01T00:00:00Z",
    ),
    document(
        "english",
        "The centrifugal pump must be primed before it is started.",
        title="Pump guide",
        author="Green",
        type="manual",
        tags=["pump"],
        published_at="2026-03-01T00:00:00Z",
    ),
]


@pytest.fixture(scope="module")
def tenant_id_and_key(use) -> tuple[str, str]:
    return make_tenant(use)


@pytest.fixture(scope="module")
def tenant_id(tenant_id_and_key) -> str:
    return str(tenant_id_and_key[0])


@pytest.fixture(scope="module")
def key(tenant_id_and_key) -> str:
    return str(tenant_id_and_key[1])


@pytest.fixture(scope="module")
def library(key) -> Iterator[httpx.Client]:
    """The gateway, for a tenant with four documents. No test changes them."""
    with gateway(key) as found:
        assert upload(found, KB, LIBRARY)["status"] == "succeeded"
        yield found


def asked(client: httpx.Client, text: str, *, namespace: str = KB, **fields: Any) -> dict[str, Any]:
    """The answer, of channels that may take their time."""
    retrieve = {"channels": PATIENT, **fields.pop("retrieve", {})}
    return search(client, namespace, text, fresh=True, retrieve=retrieve, deadline_ms=8000, **fields)


def fused(client: httpx.Client, text: str, **fusion: Any) -> dict[str, Any]:
    """The answer in the fused order as the formula alone makes it."""
    return asked(client, text, retrieve={"fusion": {"feedback": False, **fusion}}, rerank=NO_RERANK)


def of_channel(answer: dict[str, Any], channel: str) -> list[dict[str, Any]]:
    return [each for chunk in answer["chunks"] for each in chunk["sources"] if each["channel"] == channel]


def chordwise(key: str, *words: str) -> str:
    ran = called(*words, CHORDWISE_API_KEY=key)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


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
            assert answer["chunks"][0]["source"] == loud

    def it_gives_a_chunk_once_with_every_source_and_names_the_strongest(self, library):
        answer = fused(library, "水泵轴承温度", strategy="rrf")
        ids = [chunk["chunk_id"] for chunk in answer["chunks"]]
        assert len(set(ids)) == len(ids)
        merged = [chunk for chunk in answer["chunks"] if len(chunk["sources"]) == 2]
        assert merged
        for chunk in merged:
            assert {each["channel"] for each in chunk["sources"]} == {"keyword", "semantic"}
            strongest = max(each["contribution"] for each in chunk["sources"])
            labelled = next(each for each in chunk["sources"] if each["channel"] == chunk["source"])
            assert labelled["contribution"] == strongest

    def it_lets_age_weigh_when_the_query_says_so(self, library):
        decay = {"shape": "half_life", "half_life_days": 365}
        plain = asked(library, "水泵轴承", rerank=NO_RERANK)
        aged = asked(library, "水泵轴承", retrieve={"time_decay": decay}, rerank=NO_RERANK)
        assert {chunk["decay"] for chunk in plain["chunks"]} == {None}
        decays = {chunk["document_id"]: chunk["decay"] for chunk in aged["chunks"]}
        assert decays["pump"] < decays["repair"] < decays["boiler"] < decays["english"] <= 1
        days = 142  # from pump's date to repair's
        assert decays["pump"] / decays["repair"] == pytest.approx(0.5 ** (days / 365), rel=1e-3)


class DescribeRerankAndExpansion:
    def it_reranks_what_was_fused_unless_it_is_switched_off(self, library):
        on = asked(library, "水泵轴承温度", enable_rerank=True)
        off = asked(library, "水泵轴承温度", enable_rerank=False)
        assert sorted(chunk["rerank"]["from_rank"] for chunk in on["chunks"]) == list(range(1, len(on["chunks"]) + 1))
        assert all(0 <= chunk["rerank"]["score"] <= 1 for chunk in on["chunks"])
        assert on["stats"]["latency_ms"]["rerank"] >= 0
        assert isinstance(on["stats"]["rerank_lift"], float)
        assert {chunk["rerank"] for chunk in off["chunks"]} == {None}
        assert "rerank" not in off["stats"]["latency_ms"]
        assert off["stats"]["rerank_lift"] is None
        before = [chunk["chunk_id"] for chunk in off["chunks"]]
        assert {chunk["chunk_id"]: chunk["rerank"]["from_rank"] for chunk in on["chunks"]} == {
            chunk_id: place for place, chunk_id in enumerate(before, start=1)
        }

    def it_expands_nothing_without_a_language_model_and_loses_nothing_by_it(self, library):
        asked_for, not_asked = (asked(library, "水泵轴承", enable_expand=wanted) for wanted in (True, False))
        assert asked_for["stats"]["expanded_queries"] == []
        assert not asked_for["stats"]["degraded"]
        assert found_documents(asked_for) == found_documents(not_asked)


class DescribeLosses:
    def it_answers_from_the_other_channels_and_names_the_one_that_is_lost(self, library):
        before = figure(library, "recall_degrade_count") or 0.0
        retrieve = {"channels": {**PATIENT, "api": {"options": {"source": "nowhere"}}}}
        answer = asked(library, "水泵轴承", retrieve=retrieve)
        assert "pump" in found_documents(answer)
        assert answer["stats"]["degraded"]
        [lost] = answer["stats"]["degradations"]
        assert (lost["part"], lost["code"]) == ("api", "api_source_not_found")
        assert lost["detail"]
        assert "api" not in answer["stats"]["hits"]
        eventually(lambda: (figure(library, "recall_degrade_count") or 0.0) > before)

    def it_gives_an_empty_list_and_a_warning_when_every_channel_is_lost(self, library):
        off = {name: {"weight": 0.0} for name in PATIENT}
        answer = asked(library, "水泵轴承", retrieve={"channels": {**off, "api": {"options": {"source": "nowhere"}}}})
        assert (answer["chunks"], answer["context"]["text"]) == ([], "")
        assert answer["stats"]["degraded"]
        assert [lost["part"] for lost in answer["stats"]["degradations"]] == ["api"]

    @pytest.mark.parametrize("left", ["keyword", "semantic"])
    def it_answers_from_one_channel_alone(self, library, left):
        weights = {name: {**PATIENT[name], "weight": float(name == left)} for name in PATIENT}
        answer = asked(library, "水泵轴承", retrieve={"channels": weights})
        assert set(answer["stats"]["hits"]) == {left}
        assert {chunk["source"] for chunk in answer["chunks"]} == {left}
        assert not answer["stats"]["degraded"]


class DescribeWhatIsTold:
    def it_says_in_stats_how_the_answer_came_about(self, library):
        answer = asked(library, "水泵轴承温度", enable_rerank=True)
        stats = answer["stats"]
        returned = [chunk["source"] for chunk in answer["chunks"]]
        assert stats["source_share"] == pytest.approx(
            {source: returned.count(source) / len(returned) for source in set(returned)}, abs=1e-3
        )
        assert set(stats["hits"]) == {"keyword", "semantic"}
        assert {"total", "keyword", "semantic", "fuse", "hydrate", "rerank", "context"} <= set(stats["latency_ms"])
        assert stats["latency_ms"]["total"] >= stats["latency_ms"]["rerank"]
        assert (stats["degraded"], stats["degradations"], stats["expanded_queries"]) == (False, [], [])

    def it_carries_the_request_id_to_answer_logs_and_audit(self, library, tenant_id):
        request_id = f"s0-{uuid.uuid4().hex[:12]}"
        body = {"query_text": "水泵检修", "namespaces": [KB]}
        response = library.post("/v1/rag/query", json=body, headers={"X-Request-ID": request_id})
        assert response.headers["X-Request-ID"] == request_id
        assert library.get("/healthz").headers["X-Request-ID"] not in ("", request_id)
        answer = response.json()
        [line] = told("query_answered", request_id=request_id)
        assert (line["tenant_id"], line["latency_ms"]) == (tenant_id, answer["stats"]["latency_ms"]["total"])
        assert (line["hits"], line["source_share"]) == (answer["stats"]["hits"], answer["stats"]["source_share"])
        channels = told("channel_answered", request_id=request_id, least=2)
        assert {each["channel"]: each["hits"] for each in channels} == answer["stats"]["hits"]
        assert "水泵" not in json.dumps([line, *channels], ensure_ascii=False)
        row = audited(library, request_id)
        assert (row["tenant_id"], row["namespaces"], row["count"]) == (tenant_id, [KB], len(answer["chunks"]))
        assert row["ids"] == found_documents(answer)
        assert row["detail"]["source_share"] == answer["stats"]["source_share"]
        assert row["detail"]["latency_ms"] == answer["stats"]["latency_ms"]["total"]

    @pytest.mark.parametrize(
        "name",
        [
            "chordwise_query_seconds_count",
            "chordwise_channel_hits_count",
            "chordwise_returned_chunks_total",
            "chordwise_rerank_lift_count",
            "chordwise_query_step_seconds_count",
            "recall_degrade_count",
        ],
    )
    def it_counts_latency_hits_lift_and_losses_in_metrics(self, library, name):
        asked(library, "锅炉水位", retrieve={"channels": {**PATIENT, "api": {"options": {"source": "nowhere"}}}})
        assert eventually(lambda: figure(library, name))

    def it_shows_scores_before_and_after_fusion_on_the_command_line(self, library, key):
        shown = chordwise(key, "query", "水泵轴承温度", "--namespace", KB, "--trace", "--rerank")
        for words in ("keyword #1", "semantic #1", "fused #1", "share:", "rerank lift:"):
            assert words in shown

    def it_measures_ndcg_and_mrr_before_and_after_fusion_and_rerank(self, key, tmp_path):
        texts = {"d1": "水泵启动前应当灌满引水。", "d2": "锅炉水位低于下限时停炉。", "d3": "阀门每月检查一次。"}
        corpus = [{"doc_id": name, "title": "", "text": text} for name, text in texts.items()]
        queries = [{"query_id": "q1", "text": "水泵启动"}, {"query_id": "q2", "text": "锅炉水位"}]
        for name, rows in (("corpus", corpus), ("queries", queries)):
            lines = (json.dumps(row, ensure_ascii=False) for row in rows)
            (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
        (tmp_path / "qrels.tsv").write_text("q1\td1\t1\nq2\td2\t1\n", encoding="utf-8")
        report = json.loads(chordwise(key, "eval", str(tmp_path), "--namespace", "judged", "--json"))
        results = report["results"]
        assert set(results) == {"keyword", "semantic", "fused", "reranked"}
        for way in ("keyword", "fused", "reranked"):
            assert (results[way]["ndcg@10"], results[way]["mrr@10"]) == (1.0, 1.0)

    @pytest.mark.parametrize(
        ("language", "texts", "question", "other"),
        [
            (
                "en",
                ["Prime the pump before it is started.", "Close the valve once a month.", "The boiler is cold."],
                "When is the pump primed before it is started?",
                "Which wine goes well with grilled salmon?",
            ),
            (
                "zh",
                ["水泵启动前应当灌满引水。", "锅炉水位低于下限时停炉。", "阀门每月检查一次。"],
                "水泵启动前应当灌满什么？",
                "红烧排骨要放多少酱油？",
            ),
        ],
    )
    def it_measures_how_reliable_confidence_is(self, key, tmp_path, language, texts, question, other):
        corpus = [{"doc_id": f"d{n}", "title": "", "text": text} for n, text in enumerate(texts)]
        (tmp_path / "corpus.jsonl").write_text("\n".join(json.dumps(row) for row in corpus), encoding="utf-8")
        (tmp_path / "queries.jsonl").write_text(json.dumps({"query_id": "q", "text": question}), encoding="utf-8")
        (tmp_path / "qrels.tsv").write_text("q\td0\t1\n", encoding="utf-8")
        others = tmp_path / "others.jsonl"
        lines = [{"language": language, "text": other}, {"language": "xx", "text": question}]
        others.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        name = f"reliable-{language}"
        shown = called(
            *("reliability", str(tmp_path), "--namespace", name, "--json"),
            *("--unanswerable", str(others), "--language", language),
            CHORDWISE_API_KEY=key,
        )
        assert shown.returncode == 0, shown.stderr
        found = json.loads(shown.stdout)
        assert (found["queries"], found["unanswerable"]) == (1, 1)
        assert found["thresholds"][1] == {"threshold": 0.4, "kept": 1.0, "refused": 1.0}
        assert found["ece_first"] == pytest.approx(1 - found["bins_first"][0]["confidence"], abs=1e-4)
        before, picture = tmp_path / "before.json", tmp_path / "reliability.svg"
        before.write_text(shown.stdout, encoding="utf-8")
        shown = called(
            "reliability",
            str(tmp_path),
            "-n",
            name,
            "--unanswerable",
            str(others),
            "--language",
            language,
            "--diagram",
            str(picture),
            "--beside",
            str(before),
            CHORDWISE_API_KEY=key,
        )
        drawn = picture.read_text(encoding="utf-8")
        assert drawn.count("1 queries, expected calibration error") == 2, "this collection and the one beside it"
        assert "threshold 0.40 keeps 100% of answerable questions" in shown.stdout


class DescribePrivacy:
    def it_masks_answers_where_the_profile_says_so(self, client, namespace):
        secret = "联系人电话13812345678，邮箱li.lei@example.com。"
        upload(client, namespace, [document("contact", f"水泵检修{secret}")])
        config = {"privacy": {"mask_answers": True}}
        assert client.put("/v1/profiles/masked", json={"config": config}).status_code == 201
        plain = asked(client, "水泵检修联系人", namespace=namespace)
        masked = asked(client, "水泵检修联系人", namespace=namespace, profile="masked")
        assert secret in plain["chunks"][0]["text"]
        everything = json.dumps(masked, ensure_ascii=False)
        assert "13812345678" not in everything
        assert "li.lei@example.com" not in everything
        assert masked["chunks"][0]["text"] == "水泵检修联系人电话[phone]，邮箱[email]。"
