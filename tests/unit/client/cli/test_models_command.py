"""Requests, output and exit codes of ``chordwise models``, against a stand-in for the gateway."""

from __future__ import annotations

import json

import pytest

from chordwise.cli import run
from tests.support.servers.gateway_stub import KEY, Reply, problem, serve

MOVE = {
    "number": 3,
    "source": 2,
    "provider": "openai",
    "model": "bge-m3",
    "dimension": 1024,
    "state": "ready",
    "active": False,
    "progress": {"tenants": 2, "tenants_done": 2, "chunks_total": 10, "chunks": 10, "embedded": 12},
    "behind": 1,
    "missing": 0,
}
COMPARED = {
    "queries": 4,
    "judged": 4,
    "overlap": 0.625,
    "ndcg_active": 0.5,
    "ndcg_target": 0.75,
    "passed": True,
    "k": 10,
}


@pytest.fixture
def stub(monkeypatch, tmp_path):
    with serve() as running:
        monkeypatch.setenv("CHORDWISE_URL", running.url)
        monkeypatch.setenv("CHORDWISE_API_KEY", KEY)
        monkeypatch.delenv("CHORDWISE_ADMIN_KEY", raising=False)
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.chdir(tmp_path)
        yield running


@pytest.fixture
def call(stub, capsys):
    def calling(*arguments: object) -> tuple[int, str, str]:
        status = run(["models", *(str(argument) for argument in arguments)])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return calling


def listed(*moves: dict) -> Reply:
    return Reply(status=200, body={"data": list(moves)})


class DescribeModels:
    def it_begins_a_move_with_the_operators_key(self, call, stub, monkeypatch):
        monkeypatch.setenv("CHORDWISE_ADMIN_KEY", "an-operator")
        stub.next.append(Reply(status=202, body=MOVE | {"state": "backfilling"}))
        status, out, err = call("migrate", "--provider", "openai", "--model", "bge-m3", "--dimension", 1024)
        assert (status, err) == (0, "")
        assert "backfilling" in out
        [sent] = stub.received
        assert sent.headers["authorization"] == "Bearer an-operator"
        assert sent.json() == {"provider": "openai", "model": "bge-m3", "dimension": 1024, "service": "default"}

    def it_tells_how_far_the_latest_is(self, call, stub):
        stub.next.append(listed(MOVE, MOVE | {"number": 2, "state": "finished"}))
        status, out, _ = call("status")
        assert status == 0
        assert "3, from space 2" in out
        assert "10 of 10 chunks, 2 of 2 tenants in this pass; 12 embedded" in out
        assert "1 document" in out

    def it_compares_with_a_file_and_shows_what_came_out(self, call, stub, tmp_path):
        asked = [{"tenant_id": "acme", "namespaces": ["kb"], "query_text": n} for n in "ab"]
        (tmp_path / "golden.jsonl").write_text("\n".join(map(json.dumps, asked)) + "\n\n")
        stub.next += [listed(MOVE), Reply(status=200, body=MOVE | {"comparison": COMPARED})]
        status, out, _ = call("compare", "--queries", "golden.jsonl", "--max-ndcg-loss", "0.1")
        assert status == 0
        assert "passed; overlap@10 0.625 of 4 queries, nDCG 0.500 → 0.750" in out
        assert stub.received[-1].json() == {"queries": asked, "max_ndcg_loss": 0.1}

    def it_exits_with_1_when_the_new_model_does_not_pass(self, call, stub):
        verdict = COMPARED | {"passed": False, "reason": "overlap@10 is 0.1, below 0.5"}
        stub.next += [listed(MOVE), Reply(status=200, body=MOVE | {"comparison": verdict})]
        status, _, err = call("compare", 3)
        assert (status, "overlap@10 is 0.1, below 0.5" in err) == (1, True)
        assert stub.received[-1].json() == {"sample": 50}

    @pytest.mark.parametrize("what", ["switch", "rollback", "finish", "abort"])
    def it_steers(self, call, stub, what):
        stub.next += [listed(MOVE), Reply(status=200, body=MOVE | {"state": "after"})]
        status, out, _ = call(what, 3, "--json")
        assert (status, json.loads(out)["state"]) == (0, "after")
        assert stub.received[-1].path == f"/v1/admin/embedding-migrations/3/{what}"

    def it_says_why_it_cannot(self, call, stub):
        stub.next += [listed(MOVE), problem(409, "not_compared", "the models have not been compared yet")]
        status, _, err = call("switch")
        assert (status, err) == (1, "chordwise: the models have not been compared yet (409 not_compared)\n")
        stub.next.append(listed())
        status, _, err = call("rollback")
        assert (status, err) == (1, "chordwise: no model migration was ever started here\n")

    def it_names_a_file_it_cannot_read(self, call, tmp_path):
        (tmp_path / "golden.jsonl").write_text("not json")
        status, _, err = call("compare", "--queries", "golden.jsonl")
        assert (status, "golden.jsonl cannot be read as JSON Lines" in err) == (1, True)
