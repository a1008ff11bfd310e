"""Answers that a language model writes from the hits of a query, through the gateway, with workers as the stack starts
them."""

from __future__ import annotations

import json
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from chordwise import Chordwise
from chordwise.cli import run
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import problem
from tests.support.clients.operating import eventually
from tests.support.corpora.documents import document, finished, search, upload
from tests.support.corpora.formats import pdf
from tests.support.servers.openai_answers import hangs, refused, says, streams
from tests.support.servers.openai_server import tokens_in
from tests.support.stacks.model_stack import EXPAND, Served, model_stack

WRITE = "作答员"  # a word of the prompt
QUESTION = "how do I reset the router? call 13812345678"


@pytest.fixture(scope="module")
def served(settings: Settings, use: Resources, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for the file."""
    with model_stack(settings, use, tmp_path_factory.mktemp("writing"), redis_database=7) as found:
        yield found


@pytest.fixture(scope="module")
def manuals(served: Served) -> str:
    """A namespace with a PDF file of two pages and a Chinese text, cut into sentences that are read with their neighbours."""
    pages = pdf(
        "The pump is blue. It stands in the hall.", "The valve closes to the right. Oil the bearing once a year."
    )
    texts = "水泵是蓝色的。阀门向右关闭。轴承每年加一次油。"
    form = {"namespace": "manuals", "chunking": json.dumps({"strategy": "window", "window": 1})}
    files = [("file", ("pump.pdf", pages)), ("file", ("水泵.txt", texts.encode()))]
    with gateway(served.client.headers["Authorization"].removeprefix("Bearer ")) as client:
        job = client.post("/v1/files", data=form, files=files).raise_for_status().json()
        assert finished(client, job["job_id"])["status"] == "succeeded"
    return "manuals"


@pytest.fixture
def query_id(served: Served) -> str:
    served.model.requests.clear()
    served.model.by_prompt = {EXPAND: says("[]")}
    return str(search(served.client, "kb", QUESTION, enable_rerank=False)["query_id"])


def replies(served: Served, text: str, *, found: bool = True) -> None:
    served.model.by_prompt[WRITE] = says(json.dumps({"found": found, "answer": text}, ensure_ascii=False))


STREAM = {"Accept": "text/event-stream"}


def said(text: str) -> str:
    return json.dumps({"found": True, "answer": text}, ensure_ascii=False)


@contextmanager
def streamed(client: httpx.Client, query_id: str, **body: object) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
    """The events of an answer as they come; leaving the block closes the connection."""
    with client.stream("POST", f"/v1/queries/{query_id}/answer", json=body, headers=STREAM) as answer:
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        yield events_in(answer.iter_lines())


def events_in(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def used(client: httpx.Client) -> dict[str, Any]:
    """The usage of answers so far."""
    rows = client.get("/v1/usage", params={"by": "purpose"}).json()["data"]
    return next((row for row in rows if row["key"] == "answer"), {"requests": 0, "tokens": 0, "cost": 0})


def write(client: httpx.Client, query_id: str, **body: object) -> dict[str, Any]:
    answer = client.post(f"/v1/queries/{query_id}/answer", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


class DescribeWrittenAnswers:
    def it_cites_the_passages_of_the_query(self, served, query_id):
        replies(served, "Hold the button for ten seconds [1].")
        written = write(served.client, query_id)
        assert (written["status"], written["found"], written["degraded"]) == ("succeeded", True, False)
        assert written["text"] == "Hold the button for ten seconds [1]."
        [citation] = written["citations"]
        answer = served.client.get(f"/v1/queries/{query_id}").json()
        assert citation["chunk_id"] == answer["chunks"][0]["chunk_id"]
        assert citation["document_id"] == "button"

    def it_sends_the_question_and_the_passages_masked(self, served, query_id):
        replies(served, "So [1].")
        write(served.client, query_id)
        [sent] = [body for body in served.model.seen("chat") if WRITE in body["messages"][0]["content"]]
        told = sent["messages"][1]["content"]
        assert "Hold the button for ten seconds" in told
        assert ("[phone]" in told, "13812345678" in told) == (True, False)

    @pytest.mark.parametrize(
        ("question", "document_id", "page", "beside"),
        [
            ("Where does the valve close?", "pump.pdf", 2, "Oil the bearing once a year."),
            ("阀门向哪边关闭？", "水泵.txt", None, "轴承每年加一次油。"),
        ],
        ids=["English", "Chinese"],
    )
    @pytest.mark.parametrize("asked", [{}, {"context": {}}], ids=["without context", "with context"])
    def it_reads_surroundings_and_cites_pages(self, served, manuals, asked, question, document_id, page, beside):
        served.model.requests.clear()
        served.model.by_prompt = {EXPAND: says("[]")}
        found = search(served.client, manuals, question, top_k=1, enable_rerank=False, **asked)
        [hit] = found["chunks"]
        assert ("context" in found, beside in hit["text"]) == ("context" in asked, False)
        replies(served, "It closes to the right [1].")
        [citation] = write(served.client, found["query_id"])["citations"]
        assert citation["chunk_id"] == hit["chunk_id"]
        assert (citation["document_id"], citation["page"]) == (document_id, page)
        [sent] = [body for body in served.model.seen("chat") if WRITE in body["messages"][0]["content"]]
        assert beside in sent["messages"][1]["content"]

    def it_removes_citations_of_passages_that_do_not_exist(self, served, query_id):
        replies(served, "Hold the button [1]. It is blue [42].")
        written = write(served.client, query_id)
        assert (written["text"], written["dropped_markers"]) == ("Hold the button [1]. It is blue.", ["[42]"])

    def it_withholds_a_text_that_cites_nothing(self, served, query_id):
        replies(served, "The router is reset by prayer [42].")
        written = write(served.client, query_id)
        assert (written["status"], written["text"]) == ("failed", None)
        assert [lost["code"] for lost in written["degradations"]] == ["uncited_reply"]

    def it_says_that_the_passages_hold_no_answer(self, served, query_id):
        replies(served, "The passages do not say.", found=False)
        written = write(served.client, query_id)
        assert (written["status"], written["found"], written["citations"]) == ("succeeded", False, [])

    @pytest.mark.parametrize(
        ("failure", "code"),
        [
            (refused(429), "rate_limited"),
            (says("Sorry, no."), "unusable_reply"),
            (hangs(), "writer_unavailable"),
        ],
        ids=["429", "nonsense", "hangs"],
    )
    def it_names_the_loss_when_the_model_fails(self, served, query_id, failure, code):
        served.model.by_prompt[WRITE] = failure
        written = write(served.client, query_id, deadline_ms=1000)
        assert (written["status"], written["text"], written["degraded"]) == ("failed", None, True)
        assert [(lost["part"], lost["code"]) for lost in written["degradations"]] == [("write", code)]

    def it_asks_no_model_without_passages(self, served):
        served.model.requests.clear()
        served.model.by_prompt = {EXPAND: says("[]")}
        found = search(
            served.client,
            "kb",
            "zzyzx",
            enable_rerank=False,
            retrieve={"method": "full_text"},
            fallback={"enabled": False},
        )
        assert found["chunks"] == []
        written = write(served.client, found["query_id"])
        assert [lost["code"] for lost in written["degradations"]] == ["no_passages"]
        assert [body for body in served.model.seen("chat") if WRITE in body["messages"][0]["content"]] == []


class DescribeUsage:
    def it_is_counted_by_model_and_purpose(self, served, query_id):
        replies(served, "Hold the button [1].")
        before = used(served.client)
        write(served.client, query_id)
        eventually(lambda: used(served.client)["requests"] == before["requests"] + 1, within_s=5)
        [sent] = [body for body in served.model.seen("chat") if WRITE in body["messages"][0]["content"]]
        tokens = tokens_in([message["content"] for message in sent["messages"]])
        assert used(served.client)["tokens"] - before["tokens"] > tokens
        [row] = [
            row
            for row in served.client.get("/v1/usage", params={"by": "model"}).json()["data"]
            if row["key"] == "a-language-model"
        ]
        purposes = served.client.get("/v1/usage", params={"by": "purpose"}).json()["data"]
        of_model = [each["cost"] for each in purposes if each["key"] in ("answer", "understand", "rerank")]
        assert row["cost"] == pytest.approx(sum(of_model))
        assert used(served.client)["cost"] > before["cost"]

    def it_counts_a_reply_that_breaks_off_and_none_for_a_refusal(self, served, query_id):
        before = used(served.client)
        served.model.by_prompt[WRITE] = refused(429)
        write(served.client, query_id)
        served.model.by_prompt[WRITE] = streams(said("Hold the button [1]."), most_events=3)
        write(served.client, query_id)
        eventually(lambda: used(served.client)["requests"] > before["requests"], within_s=5)
        assert used(served.client)["requests"] == before["requests"] + 1

    def it_takes_nothing_from_the_quota_of_embedded_tokens(self, served, query_id):
        quota = served.client.get("/v1/quotas").json()["tokens"]["used"]
        before = used(served.client)
        replies(served, "Hold the button [1].")
        write(served.client, query_id)
        eventually(lambda: used(served.client) != before, within_s=5)
        assert served.client.get("/v1/quotas").json()["tokens"]["used"] == quota


class DescribeStreams:
    def it_sends_the_text_as_it_is_written_and_then_the_checked_answer(self, served, query_id):
        text = "Hold the button for ten seconds [1]. It is blue [42]."
        served.model.by_prompt[WRITE] = streams(said(text), pause_s=0.1)
        with streamed(served.client, query_id) as events:
            names, deltas, times = [], "", []
            for name, data in events:
                names.append(name)
                times.append(time.monotonic())
                deltas += data.get("delta", "")
        assert (names[-1], set(names[:-1])) == ("finished", {"text"})
        assert len(names) > 4
        assert times[-1] - times[0] > 0.4
        assert text.startswith(deltas)
        assert deltas
        assert data["text"] == "Hold the button for ten seconds [1]. It is blue."
        assert ([each["marker"] for each in data["citations"]], data["dropped_markers"]) == (["[1]"], ["[42]"])

    def it_reaches_client_and_command_line(self, served, query_id, monkeypatch, capsys):
        served.model.by_prompt[WRITE] = streams(said("Hold the button for ten seconds [1]."), pause_s=0.05)
        key = served.client.headers["Authorization"].removeprefix("Bearer ")
        with Chordwise(str(served.client.base_url), key) as client:
            *parts, last = client.stream_answer(query_id)
        assert len(parts) > 1
        assert last.answer is not None
        assert (last.answer.text, last.answer.citations[0].marker) == ("Hold the button for ten seconds [1].", "[1]")
        assert "Hold the button for ten seconds [1].".startswith("".join(part.delta for part in parts))
        monkeypatch.setenv("CHORDWISE_URL", str(served.client.base_url))
        monkeypatch.setenv("CHORDWISE_API_KEY", key)
        assert run(["query", QUESTION, "-n", "kb", "--no-rerank", "--answer"]) == 0
        assert "Hold the button for ten seconds [1].\n[1] " in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("failure", "code"),
        [
            (refused(500), "writer_unavailable"),
            (streams('{"found": true, "answer": "Hold the button [1]."}', most_events=5), "writer_unavailable"),
            (streams('{"found": true, "answer": "Hold it [1]."}', pause_s=0.9), "writer_unavailable"),
        ],
        ids=["500", "stops in the middle", "too slow"],
    )
    def it_ends_with_the_reason_when_the_model_fails(self, served, query_id, failure, code):
        served.model.by_prompt[WRITE] = failure
        with streamed(served.client, query_id, deadline_ms=1000) as events:
            name, written = list(events)[-1]
        assert (name, written["status"], written["text"]) == ("finished", "failed", None)
        assert [lost["code"] for lost in written["degradations"]] == [code]

    def it_stops_the_model_when_the_caller_leaves(self, served, query_id):
        hanging = served.model.under_way  # requests of earlier tests, which never end
        served.model.by_prompt[WRITE] = streams(said("word " * 200 + "[1]."), pause_s=0.1)
        with streamed(served.client, query_id) as events:
            assert next(iter(events))[0] == "text"
            assert served.model.under_way == hanging + 1
        eventually(lambda: served.model.under_way == hanging, within_s=5)

    def it_reports_a_problem_in_an_event_once_the_stream_has_begun(self, served, query_id):
        suspended = served.asking
        suspended.send_signal(signal.SIGSTOP)
        try:
            with streamed(served.client, query_id, deadline_ms=2000) as events:
                [(name, found)] = list(events)
        finally:
            suspended.send_signal(signal.SIGCONT)
        assert (name, found["status"], found["code"]) == ("error", 503, "worker_unavailable")

    def it_refuses_before_the_stream_begins(self, served):
        answer = served.client.post(f"/v1/queries/{uuid.uuid4()}/answer", json={}, headers=STREAM)
        problem(answer, 404, "query_not_found")


class DescribeRefusals:
    def it_refuses_unknown_queries_and_wrong_deadlines(self, served, query_id):
        gone = served.client.post(f"/v1/queries/{uuid.uuid4()}/answer", json={})
        problem(gone, 404, "query_not_found")
        wrong = served.client.post(f"/v1/queries/{query_id}/answer", json={"deadline_ms": 90_000})
        assert [error["pointer"] for error in problem(wrong, 422, "invalid_request")["errors"]] == ["/deadline_ms"]

    def it_needs_a_language_model(self, use):
        _, key = make_tenant(use)
        with gateway(key) as client:
            upload(client, "kb", [document("button", "Hold the button for ten seconds to reset the router.")])
            found = search(client, "kb", "reset the router")
            problem(client.post(f"/v1/queries/{found['query_id']}/answer", json={}), 409, "no_language_model")
