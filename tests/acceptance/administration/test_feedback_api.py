"""Feedback through the gateway: from an answer to judgments that eval and tune measure by."""

from __future__ import annotations

import json
import os
import uuid

import pytest
from sqlalchemy import text

from chordwise import Chordwise, ProblemError
from chordwise.cli import run
from pipeline.maintenance.erase import erase_tenant
from tests.conftest import gateway, make_tenant

TEXTS = {
    "oil": "The pump needs fresh oil every month.",
    "filter": "The pump has a filter below the lid.",
    "noise": "A noise from the pump is a worn bearing.",
    "sea": "Whales live in the sea.",
}


@pytest.fixture
def corpus(client, namespace):
    documents = [{"document_id": name, "text": body} for name, body in TEXTS.items()]
    job = client.post("/v1/documents", json={"namespace": namespace, "documents": documents}).json()["job_id"]
    assert client.get(f"/v1/jobs/{job}", params={"wait": 30}).json()["status"] == "succeeded"
    return namespace


def asked(client, namespace, question="pump oil", **fields):
    answer = client.post("/v1/rag/query", json={"query_text": question, "namespaces": [namespace], **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def rated(client, query_id, **said):
    return client.post(f"/v1/queries/{query_id}/feedback", json=said)


def judged(client, namespace, **params):
    page = client.get("/v1/feedback/judgments", params={"namespace": namespace, **params}).json()
    return {each["query_text"]: each["relevant"] for each in page["data"]}


class DescribeGivingFeedback:
    def it_keeps_what_is_needed_of_the_query(self, client, corpus):
        answer = asked(client, corpus, session_id="s1")
        second = answer["chunks"][1]
        given = rated(client, answer["query_id"], rating="good", chunk_id=second["chunk_id"], note="just so")
        assert given.status_code == 201
        body = given.json()
        assert (body["place"], body["score"], body["source"]) == (2, second["score"], second["source"])
        assert (body["document_id"], body["namespace"]) == (second["document_id"], corpus)
        assert (body["query_text"], body["namespaces"], body["session_id"]) == ("pump oil", [corpus], "s1")
        assert (body["profile"], body["config_version"]) == ("default", 1)
        assert body["request_id"] == given.headers["X-Request-ID"]
        assert client.get("/v1/feedback").json()["data"] == [body]

    def it_counts_the_same_once_and_different_words_each(self, client, corpus):
        answer = asked(client, corpus)
        chunk = answer["chunks"][0]["chunk_id"]
        first = rated(client, answer["query_id"], rating="good", chunk_id=chunk)
        again = rated(client, answer["query_id"], rating="good", chunk_id=chunk, note="still")
        assert (first.status_code, again.status_code) == (201, 200)
        assert again.json()["feedback_id"] == first.json()["feedback_id"]
        assert (again.json()["note"], again.json()["created_at"]) == ("still", first.json()["created_at"])
        for said in ({"rating": "bad"}, {"rating": "click"}, {"rating": "good", "session_id": "somebody else"}):
            assert rated(client, answer["query_id"], chunk_id=chunk, **said).status_code == 201
        assert len(client.get("/v1/feedback").json()["data"]) == 4
        # Whoever changes his mind back is heard, though he says nothing new.
        assert judged(client, corpus)["pump oil"] == {answer["chunks"][0]["document_id"]: 2}
        assert rated(client, answer["query_id"], rating="bad", chunk_id=chunk).status_code == 200
        assert judged(client, corpus)["pump oil"] == {answer["chunks"][0]["document_id"]: 0}

    def it_hears_of_what_the_answer_missed(self, client, corpus):
        answer = asked(client, corpus, top_k=1)
        missed = next(name for name in TEXTS if name != answer["chunks"][0]["document_id"])
        given = rated(client, answer["query_id"], rating="good", document_id=missed)
        assert (given.status_code, given.json()["place"]) == (201, None)
        unopened = rated(client, answer["query_id"], rating="click", document_id=missed)
        assert (unopened.status_code, unopened.json()["code"]) == (404, "rated_not_found")

    def it_refuses_what_says_nothing(self, client, corpus):
        answer = asked(client, corpus)
        for said in (
            {"rating": "good"},
            {"rating": "good", "chunk_id": "a", "document_id": "b"},
            {"rating": "great", "chunk_id": "a"},
            {"rating": "good", "chunk_id": ""},
            {"rating": "good", "chunk_id": "a", "stars": 5},
        ):
            assert rated(client, answer["query_id"], **said).status_code == 422, said

    def it_does_not_find_what_is_not_there(self, client, corpus):
        answer = asked(client, corpus)
        for said in ({"chunk_id": str(uuid.uuid4())}, {"document_id": "nobody"}):
            refused = rated(client, answer["query_id"], rating="bad", **said)
            assert (refused.status_code, refused.json()["code"]) == (404, "rated_not_found")
        for query_id in (str(uuid.uuid4()), "x"):
            refused = rated(client, query_id, rating="bad", document_id="oil")
            assert (refused.status_code, refused.json()["code"]) == (404, "query_not_found")
        assert client.get("/v1/feedback", params={"since": "yesterday"}).status_code == 422
        assert client.get("/v1/feedback", params={"cursor": "x"}).status_code == 422

    def it_pages_and_filters_and_takes_back(self, client, corpus):
        answer = asked(client, corpus)
        for hit in answer["chunks"][:3]:
            rated(client, answer["query_id"], rating="click", chunk_id=hit["chunk_id"])
        first = client.get("/v1/feedback", params={"limit": 2}).json()
        rest = client.get("/v1/feedback", params={"limit": 2, "cursor": first["next_cursor"]}).json()
        assert [len(first["data"]), len(rest["data"]), rest["next_cursor"]] == [2, 1, None]
        moments = [each["created_at"] for each in first["data"] + rest["data"]]
        assert moments == sorted(moments, reverse=True)
        later = client.get("/v1/feedback", params={"since": first["data"][0]["created_at"]}).json()["data"]
        assert later == first["data"][:1]
        assert client.get("/v1/feedback", params={"rating": "good"}).json()["data"] == []
        gone = f"/v1/feedback/{later[0]['feedback_id']}"
        assert client.delete(gone).status_code == 204
        assert client.delete(gone).status_code == 404
        assert len(client.get("/v1/feedback").json()["data"]) == 2


class DescribeTwoTenants:
    def it_shows_nobody_the_feedback_of_another(self, client, corpus, use):
        answer = asked(client, corpus)
        chunk = answer["chunks"][0]["chunk_id"]
        given = rated(client, answer["query_id"], rating="good", chunk_id=chunk).json()
        other, key = make_tenant(use)
        with gateway(key) as elsewhere:
            refused = rated(elsewhere, answer["query_id"], rating="bad", chunk_id=chunk)
            assert (refused.status_code, refused.json()["code"]) == (404, "query_not_found")
            claimed = rated(client, answer["query_id"], rating="bad", chunk_id=chunk, tenant_id=other)
            assert claimed.status_code == 403
            assert elsewhere.get("/v1/feedback").json()["data"] == []
            assert judged(elsewhere, corpus) == {}
            assert elsewhere.delete(f"/v1/feedback/{given['feedback_id']}").status_code == 404
            assert elsewhere.get("/v1/experiments/ranking/results").status_code == 404
        assert client.get("/v1/feedback").json()["data"] == [given]

    def it_is_erased_with_its_tenant(self, use):
        tenant, key = make_tenant(use)
        with gateway(key) as mine:
            documents = [{"document_id": "oil", "text": TEXTS["oil"]}]
            job = mine.post("/v1/documents", json={"namespace": "kb", "documents": documents}).json()["job_id"]
            mine.get(f"/v1/jobs/{job}", params={"wait": 30})
            assert rated(mine, asked(mine, "kb")["query_id"], rating="good", document_id="oil").status_code == 201
        erased = erase_tenant(tenant, use)
        assert erased.erased["mysql.feedback"] == 1
        with use.mysql.connect() as connection:
            left = text("SELECT COUNT(*) FROM feedback WHERE tenant_id = :tenant")
            assert connection.execute(left, {"tenant": tenant}).scalar_one() == 0


class DescribeJudgments:
    def it_forgets_documents_that_are_gone_and_namespaces_with_them(self, client, corpus):
        answer = asked(client, corpus)
        for name in ("oil", "filter"):
            rated(client, answer["query_id"], rating="good", document_id=name)
        assert judged(client, corpus) == {"pump oil": {"oil": 2, "filter": 2}}
        assert client.delete("/v1/documents/oil", params={"namespace": corpus}).status_code == 204
        assert judged(client, corpus) == {"pump oil": {"filter": 2}}
        assert client.delete(f"/v1/namespaces/{corpus}").status_code in (200, 204)
        assert client.get("/v1/feedback").json()["data"] == []

    def it_weighs_clicks_less_and_pages_through_questions(self, client, corpus):
        for number in range(3):
            answer = asked(client, corpus, f"pump {number}")
            rated(client, answer["query_id"], rating="click", chunk_id=answer["chunks"][0]["chunk_id"])
        assert judged(client, corpus) == {}
        assert len(judged(client, corpus, min_votes=0.5)) == 3
        cursor, found = None, []
        for _ in range(3):
            params = {"namespace": corpus, "min_votes": 0.5, "limit": 1, **({"cursor": cursor} if cursor else {})}
            page = client.get("/v1/feedback/judgments", params=params).json()
            cursor, found = page["next_cursor"], found + page["data"]
        assert cursor is None
        assert sorted(each["query_text"] for each in found) == ["pump 0", "pump 1", "pump 2"]


class DescribeAnExperiment:
    def it_counts_what_people_thought_of_each_arm(self, client, corpus):
        arms = [{"name": "control"}, {"name": "short", "overrides": {"top_k": 2}}]
        assert client.put("/v1/experiments/length", json={"experiment": {"arms": arms}}).status_code == 200
        empty = client.get("/v1/experiments/length/results").json()["buckets"]
        assert [(each["bucket"], each["queries"], each["mean_click_place"]) for each in empty] == [
            ("control", 0, None),
            ("short", 0, None),
        ]
        expected = {name: {"good": 0, "click": 0} for name in ("control", "short")}
        for session in range(8):
            answer = asked(client, corpus, experiment_id="length", session_id=f"s{session}")
            bucket = answer["stats"]["experiment_bucket"]
            place = 2 if bucket == "short" else 1
            rated(client, answer["query_id"], rating="click", chunk_id=answer["chunks"][place - 1]["chunk_id"])
            rated(client, answer["query_id"], rating="good", chunk_id=answer["chunks"][0]["chunk_id"])
            expected[bucket]["good"] += 1
        found = client.get("/v1/experiments/length/results").json()["buckets"]
        assert {each["bucket"]: each["good"] for each in found} == {name: n["good"] for name, n in expected.items()}
        places = {each["bucket"]: each["mean_click_place"] for each in found if each["clicks"]}
        assert places.items() <= {"control": 1.0, "short": 2.0}.items()
        assert all(each["queries"] == each["sessions"] == each["clicks"] for each in found)
        assert client.delete("/v1/experiments/length").status_code == 204
        assert client.get("/v1/experiments/length/results").status_code == 200


@pytest.mark.thorough
class DescribeTheWholeCircle:
    def it_measures_and_tunes_by_what_people_said(self, client, corpus, tmp_path, ran):
        with Chordwise(os.environ["CHORDWISE_URL"], key_of(client)) as python:
            for number, (name, body) in enumerate(TEXTS.items()):
                for words in (body, " ".join(body.split()[1:]), f"{body} {number}"):
                    answer = python.query(words, namespace=corpus)
                    given = python.feedback(answer, "good", document_id=name)
                    assert given.rating == "good"
            with pytest.raises(ProblemError):
                python.feedback(str(uuid.uuid4()), "good", document_id="oil")
            assert len(python.judgments(namespace=corpus)) == 12
            python.take_back(python.feedback(answer, "bad", document_id="oil"))
            assert len(python.feedback_given(limit=None)) == 12
        folder, answers = tmp_path / "judged", tmp_path / "run.jsonl"
        exported = ran("feedback", "export", folder, "-n", corpus, "--corpus", "--json")
        assert exported == {"queries": 12, "judgments": 12, "documents": 4, "left_out": 0}
        stood = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
        assert {each["doc_id"]: each["text"] for each in stood} == TEXTS
        golden = json.loads((folder / "golden.jsonl").read_text().splitlines()[0])
        assert set(golden) == {"tenant_id", "namespaces", "query_text", "relevant"}
        report = ran("eval", folder, "-n", corpus, "--per-query", answers, "--min-ndcg", "keyword=0.9", "--json")
        assert report["queries"] == 12
        assert len(answers.read_text().splitlines()) == 48
        same = ran("eval", "--compare", answers, answers, "--max-loss", "0", "--json")
        assert {row["difference"] for row in same["rows"]} == {0}
        ran("eval", folder, "-n", corpus, "--min-ndcg", "fused=1.01", "--limit", "1", "--json", fails=True)
        found = ran("tune", folder, "-n", corpus, "--store", "mine", "--json", fails=None)
        assert found["queries_from"] == "split"
        assert found["tuning"]["queries"] + found["held_out"]["queries"] == 12
        assert (found["stored"] is None) == (found["flaw"] is not None) == found["failed"]


@pytest.fixture
def ran(client, monkeypatch, capsys):
    """Runs a command, which fails or not (None: either), and gives what it printed as JSON, and whether it failed."""
    monkeypatch.setenv("CHORDWISE_API_KEY", key_of(client))

    def run_one(*arguments, fails=False):
        status = run([*map(str, arguments)])
        said = capsys.readouterr()
        assert fails is None or status == int(fails), said.err
        return {**json.loads(said.out), **({"failed": bool(status)} if fails is None else {})}

    return run_one


def key_of(client):
    return client.headers["Authorization"].removeprefix("Bearer ")
