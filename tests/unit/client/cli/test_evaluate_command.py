"""``chordwise eval`` on a tiny judged collection, against a stand-in whose ranking is known."""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter

import pytest

from chordwise import InvalidInput
from chordwise.cli import run
from chordwise.evaluation.collection import read_collection
from tests.support.servers.gateway_stub import KEY, Reply, problem, serve

CORPUS = [
    {"doc_id": "both", "title": "", "text": "red fox"},
    {"doc_id": "half", "title": "red", "text": ""},
    {"doc_id": "none", "title": "blue whale", "text": "sea"},
    {"doc_id": "empty", "title": " ", "text": ""},
]
QUERIES = [{"query_id": "q1", "text": "red fox"}, {"query_id": "q2", "text": "whale"}, {"query_id": "q3", "text": "?"}]
QRELS = "q1\thalf\t2\nq1\tboth\t1\nq1\tgone\t0\nq2\tnone\t1\nq3\tboth\t0\n"
# q1 is answered both, half: gains 1 and 2 where 2 and 1 were possible. q2 is answered perfectly. q3 has nothing relevant.
NDCG = ((1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3)) + 1) / 2


@pytest.fixture
def folder(tmp_path):
    lines = "\n".join(json.dumps(document) for document in CORPUS)
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "corpus.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "tiny" / "queries.jsonl").write_text("\n".join(json.dumps(query) for query in QUERIES))
    (tmp_path / "tiny" / "qrels.tsv").write_text(QRELS)
    return tmp_path / "tiny"


@pytest.fixture
def stub(monkeypatch, tmp_path):
    with serve() as running:
        monkeypatch.setenv("CHORDWISE_URL", running.url)
        monkeypatch.setenv("CHORDWISE_API_KEY", KEY)
        monkeypatch.chdir(tmp_path)
        yield running


class DescribeEval:
    def it_ingests_asks_in_four_ways_and_measures(self, stub, folder, capsys):
        assert run(["eval", str(folder), "--namespace", "tiny", "--json"]) == 0
        printed = capsys.readouterr()
        report = json.loads(printed.out)
        assert printed.err == ""
        assert set(report["results"]) == {"keyword", "semantic", "fused", "reranked"}
        assert report["results"]["fused"] == {"ndcg@10": round(NDCG, 4), "mrr@10": 1.0, "recall@100": 1.0}
        assert (report["queries"], report["documents"], report["skipped_documents"]) == (2, 3, 1)
        assert (report["degraded"], report["failed"]) == (0, 0)
        assert 0 < report["latency_ms"]["p50"] <= report["latency_ms"]["p95"]

        asked = stub.asked
        ways = {(body["retrieve"]["method"], body["enable_rerank"]) for body in asked}
        assert ways == {("full_text", False), ("semantic", False), ("hybrid", False), ("hybrid", True)}
        assert (len(asked), {body["top_k"] for body in asked}) == (8, {100})
        assert stub.documents["tiny"]["half"]["text"] == "red"  # a title alone serves as text

    def it_does_not_ingest_again_and_shows_a_table(self, stub, folder, capsys):
        stub.documents["tiny"] = {"both": {"document_id": "both", "text": "red fox"}}
        assert run(["eval", str(folder), "-n", "tiny", "--limit", "1"]) == 0
        out = capsys.readouterr().out
        assert "tiny in tiny: 1 query, 1 documents (there before, though the collection has 3)" in out
        assert "nDCG@10" in out
        assert "1 empty document skipped" in out
        assert "POST /v1/documents" not in stub.paths()

    def it_counts_queries_without_an_answer_and_fails(self, stub, folder, capsys):
        stub.documents["tiny"] = {"both": {"document_id": "both", "text": "red fox"}}
        stub.answer = lambda body: {"status": "failed"} if body["query_text"] == "whale" else {"chunks": []}
        assert run(["eval", str(folder), "-n", "tiny", "--json"]) == 1
        printed = capsys.readouterr()
        assert json.loads(printed.out)["failed"] == 4
        assert printed.err == "chordwise: 4 queries had no answer, counted as 0\n"

    @pytest.mark.parametrize(("losing", "degraded"), [(2, 0), (3, 1)])
    def it_asks_again_for_an_answer_that_had_lost_something(self, stub, folder, capsys, losing, degraded):
        stub.documents["tiny"] = {"both": {"document_id": "both", "text": "red fox"}}
        asked = Counter()

        def answer(body):
            way = (body["query_text"], body["retrieve"]["method"], body["enable_rerank"])
            asked[way] += 1
            lost = way == ("whale", "hybrid", True) and asked[way] <= losing
            return {"chunks": [], "stats": {"degraded": lost}}

        stub.answer = answer
        assert run(["eval", str(folder), "-n", "tiny", "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["degraded"], sum(asked.values())) == (degraded, 7 + 3)

    def it_passes_on_what_the_server_says_about_a_document(self, stub, folder, capsys):
        errors = [{"pointer": "/documents/0/document_id", "detail": "at most 64 characters"}]
        stub.next += [problem(401, "unauthorized", "no")]
        assert run(["eval", str(folder), "-n", "tiny"]) == 1
        stub.next += [
            Reply(body={"data": []}),
            problem(422, "validation_failed", "The request is not valid", errors=errors),
        ]
        assert run(["eval", str(folder), "-n", "tiny"]) == 1
        assert "/documents/0/document_id at most 64 characters" in capsys.readouterr().err

    def it_stops_at_once_when_every_query_is_refused(self, stub, folder, capsys):
        stub.documents["tiny"] = {"both": {"document_id": "both", "text": "red fox"}}
        stub.answer = lambda body: {"status": 5}
        assert run(["eval", str(folder), "-n", "tiny"]) == 1
        assert capsys.readouterr().err.count("\n") == 1


class DescribeReadingACollection:
    @pytest.mark.parametrize(
        ("name", "content", "complaint"),
        [
            ("qrels.tsv", "q1 half 2", r"qrels\.tsv:1 is not query, document and grade"),
            ("qrels.tsv", "q1\thalf\tgood", r"qrels\.tsv:1 is not"),
            ("qrels.tsv", "", "no query with a relevant document"),
            ("queries.jsonl", '{"id": 1}', r"queries\.jsonl:1 is not a JSON object with query_id and text"),
            ("queries.jsonl", "[]", r"queries\.jsonl:1 is not"),
        ],
    )
    def it_names_the_line_at_fault(self, folder, name, content, complaint):
        (folder / name).write_text(content)
        with pytest.raises(InvalidInput, match=complaint):
            read_collection(folder)

    def it_names_the_file_that_is_missing(self, folder):
        (folder / "qrels.tsv").unlink()
        with pytest.raises(InvalidInput, match=r"no qrels\.tsv or qrels\.tsv\.gz"):
            read_collection(folder)
