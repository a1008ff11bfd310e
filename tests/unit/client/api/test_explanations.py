"""How client and command line ask why an answer is as it is."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from chordwise import Chordwise, InvalidInput, ProblemError
from chordwise.api.explanations import Trace
from chordwise.cli import run
from chordwise.cli.query_command import show_trace
from chordwise.records import decode
from tests.support.servers.gateway_stub import KEY, Reply, problem, serve

TRACE = {
    "query_id": "query-1",
    "explained": ["1. d1: keyword found it at place 1 with 7.2, adding 0.7000. Its score is 0.9000."],
    "channels": {
        "keyword": {"status": "ok", "hits": [{"rank": 1, "chunk_id": "c1", "score": 7.2}]},
        "semantic": {"status": "failed", "code": "circuit_open", "hits": []},
    },
    "stages": [
        {"stage": "fuse", "round": 1, "hits": [{"chunk_id": "c1"}, {"chunk_id": "c2"}]},
        {"stage": "rerank", "round": 1, "hits": [{"chunk_id": "c1"}]},
    ],
    "drops": [{"chunk_id": "c2", "stage": "rerank", "reason": "below_rerank_threshold", "value": 0.1, "limit": 0.4}],
    "returned": ["c1"],
    "timings_ms": {"total": 20.25, "keyword": 5.0, "fuse": 0.5, "context": 1.0},
    "degradations": [{"part": "semantic", "code": "circuit_open", "detail": "the breaker is \x1b[31mopen"}],
    "remarks": ["rerank stays on"],
    "from_the_future": 1,
}
WHY = {
    "chunk_id": "c2",
    "document_id": "d2",
    "stage": "recall",
    "reason": "beyond_pool",
    "detail": "No channel recalled it.",
    "value": 0.3,
    "limit": 0.5,
    "channels": {"semantic": {"status": "ok", "score": 0.3, "rank": None, "cutoff": 0.5, "recalled": 100}},
    "replayed": True,
}
ANSWER = {"query_id": "query-2", "status": "succeeded", "chunks": [], "stats": {}}
REPLAY = {
    "query_id": "query-2",
    "of": "query-1",
    "difference": {"overlap": 0.5, "same_order": False, "plan": [{"pointer": "/top_k"}], "moved": [{"chunk_id": "c1"}]},
    "answer": ANSWER,
}


@pytest.fixture
def stub(monkeypatch, tmp_path):
    with serve() as running:
        monkeypatch.setenv("CHORDWISE_URL", running.url)
        monkeypatch.setenv("CHORDWISE_API_KEY", KEY)
        monkeypatch.delenv("COLUMNS", raising=False)
        monkeypatch.chdir(tmp_path)
        yield running


class DescribeTheClient:
    def it_asks_why_not(self, stub):
        stub.next += [Reply(body=WHY), problem(404, "chunk_not_found", "There is no such chunk.")]
        with Chordwise() as client:
            found = client.why_not("q", "c2")
            with pytest.raises(ProblemError) as refused:
                client.why_not("q", "c3")
        assert (found.stage, found.reason, found.value, found.limit) == ("recall", "beyond_pool", 0.3, 0.5)
        assert found.replayed
        assert stub.received[0].json() == {"chunk_id": "c2"}
        assert (refused.value.status, refused.value.code) == (404, "chunk_not_found")

    def it_replays_with_other_settings(self, stub):
        stub.next.append(Reply(body=REPLAY))
        with Chordwise() as client:
            found = client.replay("query-1", {"top_k": 3})
            with pytest.raises(InvalidInput):
                client.replay("query-1", {"top_k": object()})
        assert stub.paths() == ["POST /v1/queries/query-1/replay"]
        assert stub.received[0].json() == {"plan": {"top_k": 3}}
        assert (found.of, found.answer.query_id, found.difference.overlap) == ("query-1", "query-2", 0.5)
        assert found.difference.plan == ({"pointer": "/top_k"},)


class DescribeTheCommands:
    def it_shows_sentences_channels_and_steps(self, stub, capsys):
        stub.next.append(Reply(body=TRACE))
        assert run(["trace", "query-1"]) == 0
        out = capsys.readouterr().out
        lines = [line.split() for line in out.splitlines()]
        assert out.startswith("1. d1: keyword found it at place 1")
        assert ["keyword", "ok", "1", "5.0"] in lines
        assert ["semantic", "circuit_open", "0"] in lines
        assert ["fuse", "2", "0.5"] in lines
        assert ["rerank", "1", "1", "below", "rerank", "threshold"] in lines
        assert ["context", "1.0"] in lines
        assert ["total", "20.2"] in lines
        assert "lost: semantic, the breaker is [31mopen" in out
        assert "rerank stays on" in out
        assert "chunk_id" not in out

    def it_lists_kept_traces_with_their_questions(self, stub, capsys):
        entry = {
            "query_id": "query-1",
            "asked_at": "2026-01-02T03:04:05Z",
            "text": "how to \x1b[31mreset",
            "namespaces": ["kb"],
            "profile": "default",
            "marks": ["slow", "degraded"],
            "total_ms": 1234.5,
            "chunks": 3,
        }
        stub.next.append(Reply(body={"data": [entry], "next_cursor": None}))
        assert run(["traces", "--mark", "slow", "-n", "kb", "--limit", "5"]) == 0
        line = next(line for line in capsys.readouterr().out.splitlines() if "query-1" in line)
        assert "\x1b" not in line
        assert "slow, degraded" in line
        assert line.split()[-2:] == ["3", "1234.5"]
        assert stub.received[0].params == {"mark": ["slow"], "namespace": ["kb"], "limit": ["5"]}

    def it_shows_the_same_below_an_answer(self, stub, capsys):
        stub.next += [Reply(body=ANSWER), Reply(body=TRACE)]
        assert run(["query", "x", "-n", "kb", "--trace"]) == 0
        out = capsys.readouterr().out
        assert TRACE["explained"][0] in out.replace("\n", " ")
        assert "chordwise why-not query-2 CHUNK_ID" in out
        assert "{" not in out

    def it_says_why_not(self, stub, capsys):
        stub.next.append(Reply(body=WHY))
        assert run(["why-not", "query-1", "c2"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "recall: No channel recalled it."
        assert lines[2].split() == ["semantic", "ok", "0.3", "-", "0.5", "100"]
        assert "run again" in lines[3]

    @pytest.mark.parametrize(
        ("arguments", "body"), [(["trace", "q"], TRACE), (["why-not", "q", "c2"], WHY)], ids=["trace", "why-not"]
    )
    def it_prints_json_as_it_came(self, stub, capsys, arguments, body):
        stub.next.append(Reply(body=body))
        assert run([*arguments, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == body

    def it_fails_with_a_sentence(self, stub, capsys):
        stub.next.append(problem(404, "trace_not_kept", "The query was not asked with trace: true."))
        assert run(["trace", "q"]) == 1
        said = "chordwise: The query was not asked with trace: true (404 trace_not_kept)\n"
        assert capsys.readouterr().err == said

    @pytest.mark.parametrize("width", [30, 60, 120])
    def it_fits_the_width(self, width):
        console = Console(width=width, color_system=None, markup=False, emoji=False, highlight=False)
        with console.capture() as capture:
            show_trace(decode(Trace, TRACE), console)
        assert max(map(len, capture.get().splitlines())) <= width
