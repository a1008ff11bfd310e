"""``chordwise tune``, the floors of eval, and ``chordwise feedback``, against a stand-in whose answers are known."""

from __future__ import annotations

import json

import pytest

from chordwise.api.chunks import Chunk
from chordwise.cli import run
from chordwise.cli.quality.feedback_command import joined
from tests.support.clients.answered import answered
from tests.support.servers.gateway_stub import KEY, Reply, serve

PLAN = {
    "retrieve": {
        "method": "hybrid",
        "channels": {"keyword": {"weight": 0.7, "pool": 100}, "semantic": {"weight": 0.3, "pool": 100}},
        "fusion": {"strategy": "weighted", "normalisation": "min_max", "k": 60, "gate": None},
    }
}
PROFILE = {"name": "default", "config_version": 1, "built_in": True, "config": {"top_k": 7}, "plan": PLAN}


class Scripted:
    """The stub with profiles and feedback beside what it has."""

    def __init__(self, stub):
        self.stored: list[dict] = []
        self.profile = dict(PROFILE)
        plain = stub.reply

        def reply(request):
            if request.path.startswith("/v1/profiles/"):
                stub.received.append(request)
                if request.method == "PUT":
                    self.stored.append({"name": request.path.rpartition("/")[2], **request.json()})
                    return Reply(status=201, body={**self.profile, "name": "tuned", "trial_version": 2})
                return Reply(body=self.profile)
            return plain(request)

        stub.reply = reply


@pytest.fixture
def stub(monkeypatch, tmp_path):
    with serve() as running:
        monkeypatch.setenv("CHORDWISE_URL", running.url)
        monkeypatch.setenv("CHORDWISE_API_KEY", KEY)
        monkeypatch.chdir(tmp_path)
        running.documents["kb"] = {"right": {"document_id": "right", "text": "red fox"}}
        yield running


@pytest.fixture
def scripted(stub):
    return Scripted(stub)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "judged"
    made.mkdir()
    write(made, "", [f"q{n}" for n in range(26)])
    return made


def write(folder, part, ids):
    lines = [json.dumps({"query_id": each, "text": f"question {each}"}) for each in ids]
    (folder / f"queries{part}.jsonl").write_text("\n".join(lines))
    (folder / f"qrels{part}.tsv").write_text("".join(f"{each}\tright\t1\n" for each in ids))


def answering(better):
    """Answers with the right document first where ``better`` says so of the request, else third."""

    def answer(body):
        place = 1 if better(body) else 3
        ids = ["wrong", "worse", "worst"]
        ids[place - 1] = "right"
        chunks = [{"chunk_id": each, "document_id": each, "namespace": "kb"} for each in ids]
        return {"chunks": chunks, "stats": {}}

    return answer


def by_rank(body):
    return body.get("retrieve", {}).get("fusion", {}).get("strategy") == "rrf"


class DescribeTune:
    def it_chooses_what_is_better_and_stores_it_over_the_profile(self, stub, scripted, folder, capsys):
        stub.answer = answering(by_rank)
        assert run(["tune", str(folder), "-n", "kb", "--store", "tuned", "--share", "0.25", "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["chosen"]["strategy"] == "rrf"
        assert (report["held_out"]["default_ndcg@10"], report["held_out"]["chosen_ndcg@10"]) == (0.5, 1.0)
        assert report["held_out"]["p"] < 0.01
        assert report["queries_from"] == "split"
        [stored] = scripted.stored
        assert (stored["name"], stored["share"]) == ("tuned", 0.25)
        assert stored["config"] == {"top_k": 7, "retrieve": report["overrides"]["retrieve"]}
        assert "held-out nDCG@10 0.5000 to 1.0000" in stored["note"]
        assert report["stored"]["versions"] == {"active": 1, "trial": 2}

    def it_stores_nothing_that_is_not_better(self, stub, scripted, folder, capsys):
        stub.answer = answering(lambda _body: True)
        assert run(["tune", str(folder), "-n", "kb", "--store", "tuned"]) == 1
        printed = capsys.readouterr()
        assert "nothing is stored: nothing was better" in printed.err
        assert scripted.stored == []
        assert run(["tune", str(folder), "-n", "kb", "--limit", "25"]) == 0

    def it_tunes_on_training_queries_only_where_there_are_any(self, stub, scripted, folder, capsys):
        write(folder, "_train", [f"t{n}" for n in range(30)] + ["q1"])  # q1 is held out, whoever put it there
        stub.answer = answering(by_rank)
        assert run(["tune", str(folder), "-n", "kb", "--limit", "25", "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["queries_from"], report["tuning"]["queries"], report["held_out"]["queries"]) == ("train", 25, 25)
        asked = stub.asked
        main = [body for body in asked if " q" in body["query_text"]]
        assert len(main) == 50
        assert {body["profile"] for body in asked} == {"default"}
        assert len({json.dumps(body.get("retrieve"), sort_keys=True) for body in main}) == 2

    def it_asks_for_a_namespace_and_a_profile_that_can_be_tuned(self, stub, scripted, folder, capsys):
        assert run(["tune", str(folder), "-n", "nobody"]) == 1
        scripted.profile = {**PROFILE, "trial_version": 2, "trial_share": 0.5}
        assert run(["tune", str(folder), "-n", "kb"]) == 1
        alone = {"retrieve": {**PLAN["retrieve"], "method": "semantic"}}
        scripted.profile = {**PROFILE, "plan": alone}
        assert run(["tune", str(folder), "-n", "kb"]) == 1
        err = capsys.readouterr().err
        assert all(each in err for each in ("has no documents", "trial under way", "nothing to tune"))


class DescribeEvalUnderAProfile:
    def it_asks_as_the_profile_would(self, stub, scripted, folder, capsys):
        stub.answer = answering(lambda _body: True)
        scripted.profile = {**PROFILE, "plan": {"retrieve": {**PLAN["retrieve"], "method": "semantic"}}}
        assert run(["eval", str(folder), "-n", "kb", "--profile", "mine", "--limit", "2", "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert set(report["results"]) == {"semantic", "fused", "reranked"}
        asked = stub.asked
        assert {body["profile"] for body in asked} == {"mine"}
        assert sum("retrieve" not in body for body in asked) == 4

    def it_fails_below_a_floor_and_says_which(self, stub, folder, capsys):
        stub.answer = answering(lambda body: body["enable_rerank"])
        floors = ["--min-ndcg", "0.6", "--min-ndcg", "reranked=0.9"]
        assert run(["eval", str(folder), "-n", "kb", "--json", *floors]) == 1
        printed = capsys.readouterr()
        assert printed.err == "chordwise: nDCG@10 of fused is 0.5000, below 0.6\n"
        assert json.loads(printed.out)["missed"] == ["nDCG@10 of fused is 0.5000, below 0.6"]
        assert run(["eval", str(folder), "-n", "kb", "--min-ndcg", "0.5"]) == 0
        for wrong in ("high", "sideways=0.5", "fused="):
            assert run(["eval", str(folder), "-n", "kb", "--min-ndcg", wrong]) == 2

    def it_compares_two_runs(self, stub, folder, tmp_path, capsys):
        for name, better in (("a", True), ("b", False)):
            stub.answer = answering(lambda _body, better=better: better)
            assert run(["eval", str(folder), "-n", "kb", "--per-query", str(tmp_path / name)]) == 0
        capsys.readouterr()
        assert run(["eval", "--compare", str(tmp_path / "a"), str(tmp_path / "b"), "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        fused = next(row for row in rows if (row["way"], row["measure"]) == ("fused", "ndcg@10"))
        assert (fused["difference"], fused["worse"], fused["queries"]) == (-0.5, 26, 26)
        assert fused["p"] < 0.001
        assert run(["eval", "--compare", str(tmp_path / "a"), str(tmp_path / "b"), "--max-loss", "0.1"]) == 1
        assert "nDCG@10 of keyword fell by 0.5000" in capsys.readouterr().err
        assert run(["eval", str(folder), "--compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 2
        assert run(["eval", "-n", "kb"]) == 2

    def it_needs_no_corpus_where_the_documents_are(self, stub, folder, capsys):
        assert run(["eval", str(folder), "-n", "kb", "--limit", "1"]) == 0
        assert run(["eval", str(folder), "-n", "empty", "--limit", "1"]) == 1
        assert "judged has no corpus.jsonl" in capsys.readouterr().err


class DescribeFeedback:
    def it_says_what_a_hit_was_worth(self, stub, capsys):
        given = {"feedback_id": "f1", "query_id": "q1", "rating": "good", "namespace": "kb", "document_id": "d1"}
        stub.next.append(Reply(status=201, body={**given, "place": 3}))
        assert run(["feedback", "add", "q1", "good", "--document", "d1", "--note", "yes"]) == 0
        assert capsys.readouterr().out == "good: kb/d1, place 3\n"
        assert stub.paths() == ["POST /v1/queries/q1/feedback"]
        assert stub.received[0].json() == {"rating": "good", "document_id": "d1", "note": "yes"}
        assert run(["feedback", "add", "q1", "great", "--document", "d1"]) == 2
        assert run(["feedback", "add", "q1", "good"]) == 2

    def it_writes_a_collection_of_every_page(self, stub, tmp_path, capsys):
        def judged(number, **relevant):
            known = {
                "query_id": f"k{number}",
                "query_text": f"question {number}",
                "tenant_id": "t",
                "namespaces": ["kb"],
            }
            return {**known, "relevant": relevant, "votes": {}}

        stub.next += [
            Reply(body={"data": [judged(1, d1=2, d2=0)], "next_cursor": "more"}),
            Reply(body={"data": [judged(2, d1=0), judged(3, d3=1)], "next_cursor": None}),
        ]
        assert run(["feedback", "export", str(tmp_path / "out"), "-n", "kb", "--min-votes", "2"]) == 0
        assert "2 queries, 3 judgments" in capsys.readouterr().out
        assert [request.params.get("min_votes") for request in stub.received] == [["2.0"], ["2.0"]]
        assert (tmp_path / "out" / "qrels.tsv").read_text() == "k1\td1\t2\nk1\td2\t0\nk3\td3\t1\n"
        golden = [json.loads(line) for line in (tmp_path / "out" / "golden.jsonl").read_text().splitlines()]
        assert golden[1] == {
            "tenant_id": "t",
            "namespaces": ["kb"],
            "query_text": "question 3",
            "relevant": {"d3": 1},
        }
        assert not (tmp_path / "out" / "corpus.jsonl").exists()
        stub.next.append(Reply(body={"data": [judged(2, d1=0)], "next_cursor": None}))
        assert run(["feedback", "export", str(tmp_path / "none"), "-n", "kb"]) == 1

    def it_puts_a_text_together_of_overlapping_chunks(self):
        text = "One two three. Four five six."
        cuts = [(0, 14), (8, 20), (15, 29), (0, 29)]
        chunks = [
            answered(Chunk, chunk_id=f"{n}", document_id="d", source_id="s", text=text[a:b], start=a, end=b)
            for n, (a, b) in enumerate(cuts)
        ]
        assert joined(chunks) == text
        assert joined(chunks[:2]) == "One two three.\n Four "
        assert joined([]) == ""
