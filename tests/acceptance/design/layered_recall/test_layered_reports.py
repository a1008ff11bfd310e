"""Layered recall: reranking, lost channels, statistics, evaluation and masking, over HTTP and on the command line."""

from __future__ import annotations

import json
import uuid

import pytest

from tests.support.clients.commands import called
from tests.support.clients.operating import audited, eventually, figure
from tests.support.corpora.documents import document, found_documents, upload
from tests.support.corpora.pump_library import KB, PATIENT, asked
from tests.support.stacks.stack_logs import told


def chordwise(key: str, *words: str) -> str:
    ran = called(*words, CHORDWISE_API_KEY=key)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


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
        retrieve = {"channels": {**off, "api": {"options": {"source": "nowhere"}}}}
        answer = asked(library, "水泵轴承", retrieve=retrieve, context={})
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
        answer = asked(library, "水泵轴承温度", enable_rerank=True, context={})
        stats = answer["stats"]
        returned = [
            max(chunk["sources"], key=lambda each: (each["contribution"], each["rank"] is not None))["channel"]
            for chunk in answer["chunks"]
        ]
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

    @pytest.mark.thorough
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

    @pytest.mark.thorough
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
