"""Both clients over a real connection to a stand-in for the gateway."""

from __future__ import annotations

import inspect
import re
import socket

import pytest

from chordwise import (
    AsyncChordwise,
    Chordwise,
    ConnectionFailed,
    Document,
    InvalidInput,
    NotConfigured,
    ProblemError,
    Timeout,
    UnexpectedAnswer,
)
from tests.support.servers.gateway_stub import KEY, Reply, problem, serve


@pytest.fixture
def stub(monkeypatch):
    with serve() as running:
        monkeypatch.setenv("CHORDWISE_URL", running.url)
        monkeypatch.setenv("CHORDWISE_API_KEY", KEY)
        yield running


@pytest.fixture
def client(stub):
    with Chordwise() as opened:
        yield opened


class DescribeChordwise:
    def it_reads_the_environment_and_says_who_it_is(self, stub, client):
        client.jobs()
        headers = stub.received[0].headers
        assert headers["authorization"] == f"Bearer {KEY}"
        assert re.fullmatch(r"chordwise-python/\d+\.\d+.*", headers["user-agent"])

    def it_does_not_start_without_a_server(self, monkeypatch):
        monkeypatch.delenv("CHORDWISE_URL", raising=False)
        with pytest.raises(NotConfigured, match="CHORDWISE_URL"):
            Chordwise()

    def it_ingests_waits_and_finds(self, stub, client):
        stub.looks_until_done = 2
        sent = client.ingest([Document(document_id="d1", text="hello 世界"), {"text": "other"}], namespace="kb")
        assert (sent.total, sent.done) == (2, False)
        done = client.wait(sent)
        assert (done.status, done.succeeded, client.wait(sent.job_id).succeeded) == ("succeeded", 2, 2)
        result = client.query("hello", namespace="kb", top_k=3)
        assert [hit.document_id for hit in result.chunks] == ["d1"]
        assert (result.chunks[0].text, result.chunks[0].sources[0].channel) == ("hello 世界", "keyword")
        assert result.stats.latency_ms["total"] == 3.5

    def it_takes_paths_of_files_folders_and_json_lines(self, stub, client, tmp_path):
        (tmp_path / "sub").mkdir()
        (tmp_path / "sub" / "字.md").write_text("# 一", encoding="utf-8")
        (tmp_path / "x.jsonl").write_text('{"id": "a", "text": "t"}\n{"id": "b", "text": "t"}\n')
        seen: list[int] = []
        sent = client.ingest(
            [tmp_path],
            namespace="kb",
            tags=["x"],
            chunking={"max_tokens": 50},
            on_progress=lambda state: seen.append(state.total),
        )
        assert (sent.total, seen) == (3, [2, 3])
        assert [request.path for request in stub.received] == ["/v1/documents", "/v1/files"]
        assert stub.documents["kb"]["a"]["tags"] == ["x"]
        fields = {name: content.decode() for name, file, _, content in stub.received[1].parts() if file is None}
        assert fields == {"namespace": "kb", "tags": '["x"]', "chunking": '{"max_tokens": 50}'}
        assert stub.received[1].parts()[-1][1:] == ("sub/字.md", "text/markdown", "# 一".encode())

    def it_sends_json_lines_as_a_file_when_told_so(self, stub, client, tmp_path):
        (tmp_path / "x.jsonl").write_text("{}")
        client.ingest_files([tmp_path], namespace="kb", parser_hint="jsonl")
        assert stub.paths() == ["POST /v1/files"]
        assert ("parser_hint", None, "text/plain", b"jsonl") in stub.received[0].parts()

    def it_splits_what_is_too_much_for_one_request(self, client):
        sent = client.ingest(({"document_id": str(n), "text": "t"} for n in range(1500)), namespace="kb")
        assert ([job.total for job in sent.jobs], client.wait(sent).succeeded) == ([1000, 500], 1500)

    def it_makes_nothing_of_nothing(self, stub, client):
        assert client.wait(client.ingest([], namespace="kb")).status == "succeeded"
        assert stub.received == []

    def it_returns_failed_documents_as_part_of_the_job(self, client):
        done = client.wait(client.ingest([{"text": "bad"}, {"text": "good"}], namespace="kb"))
        assert (done.status, done.failed, done.errors[0].code) == ("partly_failed", 1, "empty_document")

    def it_reports_an_unready_server_instead_of_raising(self, stub, client):
        stub.dependencies["redis"] = {"status": "failed", "detail": "connection refused"}
        health = client.health()
        assert (health.ready, health.dependencies["redis"].detail) == (False, "connection refused")
        assert health.dependencies["mysql"].ok
        assert client.server_version() == "0.2.0"

    def it_raises_problems_with_all_their_facts(self, stub, client):
        stub.next.append(problem(422, "validation_failed", "no", errors=[{"pointer": "/a", "detail": "b"}]))
        with pytest.raises(ProblemError) as caught:
            client.query("x", namespace="kb")
        assert (caught.value.code, caught.value.errors[0]["pointer"]) == ("validation_failed", "/a")

    def it_tries_again_when_the_server_is_briefly_away(self, stub, client):
        stub.next += [Reply(drop=True), problem(503, "unavailable", "later"), problem(429, "rate_limited", "slow")]
        assert client.jobs() == []
        assert len(stub.received) == 4

    def it_does_not_create_twice(self, stub, client):
        stub.next.append(problem(503, "unavailable", "later"))
        with pytest.raises(ProblemError, match="later"):
            client.ingest([{"text": "without an id"}], namespace="kb")
        assert len(stub.received) == 1

    def it_recognises_that_nobody_listens(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
            with Chordwise(url, "secret", retries=0) as client, pytest.raises(ConnectionFailed, match=url) as caught:
                client.jobs()
        assert "secret" not in str(caught.value)

    def it_recognises_a_server_that_never_answers(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            with Chordwise(url, "k", timeout=0.2) as client, pytest.raises(Timeout, match="no answer came in time"):
                client.jobs()

    @pytest.mark.parametrize("body", ["<html>", [], {"data": 5}])
    def it_recognises_an_answer_of_something_else(self, stub, client, body):
        stub.next.append(Reply(body=body))
        with pytest.raises(UnexpectedAnswer):
            client.jobs()

    def it_says_what_was_accepted_before_a_path_that_is_not_there(self, stub, client, tmp_path):
        with pytest.raises(InvalidInput, match="no file or folder") as caught:
            client.ingest([{"document_id": "d", "text": "t"}, tmp_path / "nothing"], namespace="kb")
        assert [job.job_id for job in caught.value.accepted] == list(stub.jobs)
        assert len(stub.jobs) == 1

    def it_refuses_input_before_sending(self, stub, client, tmp_path):
        with pytest.raises(InvalidInput):
            client.ingest([tmp_path / "nothing"], namespace="kb")
        assert stub.received == []


class DescribeAsyncChordwise:
    def it_has_the_same_methods_with_the_same_parameters(self):
        def methods(kind: type) -> dict[str, list[str]]:
            members = inspect.getmembers(kind, inspect.isfunction)
            return {
                name: list(inspect.signature(function).parameters)
                for name, function in members
                if not name.startswith("_")
            }

        assert methods(AsyncChordwise) == methods(Chordwise)
