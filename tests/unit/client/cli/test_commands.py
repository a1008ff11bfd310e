"""Output and exit codes of the commands, against a stand-in for the gateway."""

from __future__ import annotations

import json
import sys

import pytest

from chordwise.cli import run
from compose.localstack.places import ROOT, StackFolder
from pipeline.database.worker_heartbeats import DiskSpace, ProcessSign, ProcessState
from pipeline.maintenance import doctor as diagnosis
from tests.support.servers.gateway_stub import KEY, Reply, problem, serve
from workers.names import Queue
from workers.roles import ROLE_OF

SIGN = ProcessSign(host="a", name="ingest@a", serves=("ingest",))


@pytest.fixture
def stub(monkeypatch, tmp_path):
    """A server, the environment that names it, and an empty current directory."""
    with serve() as running:
        monkeypatch.setenv("CHORDWISE_URL", running.url)
        monkeypatch.setenv("CHORDWISE_API_KEY", KEY)
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.delenv("COLUMNS", raising=False)
        monkeypatch.chdir(tmp_path)
        yield running


@pytest.fixture
def call(stub, capsys):
    """Run a command; gives its exit status, standard output and standard error."""

    def calling(*arguments: object) -> tuple[int, str, str]:
        status = run([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return calling


class DescribeIngest:
    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "kb").mkdir()
        (tmp_path / "kb" / "a.md").write_text("# A")
        (tmp_path / "kb" / "photo.png").write_bytes(b"x")
        (tmp_path / "kb" / "x.jsonl").write_text('{"doc_id": "d1", "text": "one"}\n{"doc_id": "d2", "text": "two"}\n')
        return tmp_path / "kb"

    def it_sends_everything_and_says_how_to_follow(self, call, stub, folder):
        status, out, err = call("ingest", folder, "--namespace", "kb", "--type", "manual", "--tag", "a", "--tag", "b")
        assert (status, err) == (0, "")
        assert "3 documents accepted as 2 jobs: job-1, job-2" in out
        assert "chordwise jobs job-2 --watch" in out
        assert "1 file of other kinds skipped: " in out
        assert stub.documents["kb"]["d1"] == {"document_id": "d1", "text": "one", "type": "manual", "tags": ["a", "b"]}

    def it_fails_with_the_reason_when_a_document_did(self, call, tmp_path):
        (tmp_path / "x.jsonl").write_text('{"id": "d1", "text": "bad"}\n{"id": "d2", "text": "good"}')
        status, out, err = call("ingest", tmp_path / "x.jsonl", "-n", "kb", "--wait")
        assert status == 1
        assert "1 succeeded, 1 failed" in out
        assert err == "chordwise: d1: there is no text\nchordwise: 1 of 2 documents were not ingested\n"

    def it_names_every_failure_beside_a_bad_line(self, call, tmp_path):
        bad = "".join(f'{{"id": "d{number}", "text": "bad"}}\n' for number in range(3))
        (tmp_path / "x.jsonl").write_text(bad + 'not json\n{"id": "d9", "text": "good"}\n[1]\n')
        status, _, err = call("ingest", tmp_path / "x.jsonl", "-n", "kb", "--wait")
        assert status == 1
        assert [line.removeprefix("chordwise: ").split("/")[-1] for line in err.splitlines()] == [
            "x.jsonl:4 is not a JSON object",
            "x.jsonl:6 is not a JSON object",
            *(f"d{number}: there is no text" for number in range(3)),
            "3 of 4 documents were not ingested; 2 lines could not be read; everything else was sent",
        ]

    def it_bounds_the_list_and_counts_the_rest(self, call, tmp_path):
        (tmp_path / "x.jsonl").write_text("not json\n" * 30)
        status, _, err = call("ingest", tmp_path / "x.jsonl", "-n", "kb")
        assert (status, len(err.splitlines())) == (1, 22)
        assert "chordwise: and 10 more (all of them with --json)" in err

    def it_sends_the_good_lines_and_names_the_bad_one(self, call, stub, tmp_path):
        (tmp_path / "x.jsonl").write_text('{"id": "d1", "text": "t"}\nnot json\n')
        status, _, err = call("ingest", "x.jsonl", "-n", "kb")
        assert (status, list(stub.documents["kb"])) == (1, ["d1"])
        assert err.splitlines() == [
            "chordwise: x.jsonl:2 is not a JSON object",
            "chordwise: 1 line could not be read; everything else was sent",
        ]

    def it_names_the_jobs_accepted_before_a_failure(self, call, stub, folder):
        stub.next += [Reply(status=202, body={"job_id": "j1", "total": 2}), problem(413, "too_large", "too large")]
        status, _, err = call("ingest", folder, "-n", "kb")
        assert status == 1
        assert err == "chordwise: too large (413 too_large); accepted before and still running: j1\n"

    def it_sends_the_rest_when_no_document_of_a_request_can_be_taken(self, call, stub, folder):
        stub.next += [
            problem(
                422,
                "invalid_document",
                "None of the 2 documents can be taken.",
                errors=[{"pointer": f"/documents/{number}/text", "detail": "is required"} for number in range(2)],
            )
        ]
        status, out, err = call("ingest", folder, "-n", "kb", "--wait")
        assert status == 1
        assert "1 succeeded, 0 failed" in out
        assert err.splitlines() == [
            "chordwise: d1: /text is required",
            "chordwise: d2: /text is required",
            "chordwise: 2 documents cannot be taken; everything else was sent",
        ]

    def it_ends_when_the_request_itself_is_refused(self, call, stub, folder):
        wrong = [{"pointer": "/namespace", "detail": "is too long"}]
        stub.next += [problem(422, "invalid_request", "The namespace is too long.", errors=wrong)]
        status, _, err = call("ingest", folder, "-n", "kb")
        assert (status, len(err.splitlines()), len(stub.received)) == (1, 1, 1)

    @pytest.mark.parametrize("wrong", [["no-such-file"], ["https://a.example/", "--priority", "soon"]])
    def it_refuses_what_is_not_there(self, call, wrong):
        assert call("ingest", *wrong, "-n", "kb")[0] == 2

    def it_prints_one_json_document(self, call, folder):
        _, out, _ = call("ingest", folder, "-n", "kb", "--json")
        assert [job["job_id"] for job in json.loads(out)["jobs"]] == ["job-1", "job-2"]

    def it_names_at_most_twenty_copies(self, call, stub, folder):
        copies = [{"ordinal": n, "document_id": f"副本{n}", "duplicate_of": "原件"} for n in range(25)]
        stub.items = {"job-1": copies}
        _, out, _ = call("ingest", folder, "-n", "kb")
        lines = [line for line in out.splitlines() if "same bytes" in line]
        assert (len(lines), lines[0]) == (20, "副本0 has the same bytes as 原件")
        assert "and 5 more (all of them with --json)" in out

    def it_ends_well_where_copies_cannot_be_looked_up(self, call, stub, folder):
        stub.next += [Reply(status=202, body={"job_id": "j1", "total": 2}), Reply(status=202, body={"job_id": "j2"})]
        stub.next += [problem(422, "unknown_parameter", "there is no parameter duplicates")]
        status, out, _ = call("ingest", folder, "-n", "kb")
        assert status == 0
        assert "copies are not known: there is no parameter duplicates" in out

    def it_has_nothing_to_do_in_an_empty_folder(self, call, tmp_path):
        (tmp_path / "empty").mkdir()
        status, _, err = call("ingest", "empty", "-n", "kb")
        assert (status, err) == (1, "chordwise: there is nothing to ingest: 0 files found\n")


class DescribeJobs:
    @pytest.fixture(autouse=True)
    def ingested(self, call, tmp_path):
        (tmp_path / "x.jsonl").write_text('{"id": "d1", "text": "bad"}\n{"id": "d2", "text": "good"}')
        call("ingest", "x.jsonl", "-n", "kb")

    def it_lists_the_latest(self, call):
        status, out, _ = call("jobs")
        assert status == 0
        assert out.splitlines()[1].split()[:6] == ["job-1", "partly_failed", "1/2", "1", "1", "1.5"]

    @pytest.mark.parametrize("columns", ["40", "79", "80", "109"])
    def it_fits_the_list_to_the_terminal(self, call, monkeypatch, columns):
        monkeypatch.setenv("COLUMNS", columns)
        _, out, _ = call("jobs")
        assert max(map(len, out.splitlines())) <= int(columns)

    def it_describes_one_with_its_errors(self, call):
        status, out, err = call("jobs", "job-1")
        assert (status, err) == (0, "")
        assert "2: 1 succeeded, 1 failed, 0 cancelled" in out
        assert "empty_document" in out

    def it_says_what_is_not_there(self, call):
        assert call("jobs", "nope") == (1, "", "chordwise: there is no such job (404 not_found)\n")


class DescribeVerify:
    def it_fails_on_drift_and_is_content_once_it_is_repaired(self, call, stub):
        stub.drift = {"missing": 1, "orphaned": 2, "stale": 3}
        status, out, err = call("verify", "--namespace", "kb")
        assert status == 1
        assert out.split()[-7:] == ["kb", "0", "0", "0", "1", "2", "3"]
        assert err == ("chordwise: the stores differ (1 missing, 2 orphaned, 3 stale); run chordwise verify --repair\n")
        status, out, _ = call("verify", "--repair")
        assert status == 0
        assert "repaired 6" in out

    def it_says_what_a_repair_withheld_and_what_confirms_it(self, call, stub):
        stub.drift, stub.withheld = {"missing": 0, "orphaned": 400, "stale": 0}, 400
        status, _, err = call("verify", "--repair")
        assert status == 1
        assert "400 vectors and rows of chunks were not deleted" in err
        assert "verify --repair --delete-share 1.0" in err
        status, out, _ = call("verify", "--repair", "--delete-share", "1.0")
        assert (status, "repaired 400" in out) == (0, True)

    @pytest.mark.parametrize("arguments", [["--delete-share", "1"], ["--repair", "--delete-share", "1.5"]])
    def it_takes_no_share_without_a_repair_or_above_everything(self, call, arguments):
        assert call("verify", *arguments)[0] == 2

    def it_prints_one_json_document_also_on_drift(self, call, stub):
        stub.drift = {"missing": 1, "orphaned": 0, "stale": 0}
        status, out, _ = call("verify", "--json")
        assert (status, json.loads(out)["missing"]) == (1, 1)
        repaired = json.loads(call("verify", "--repair", "--json")[1])
        assert (repaired["missing"], repaired["repaired"]) == (0, 1)


class DescribeTheOperatorsKey:
    """One rule for every command about the whole installation; commands about a tenant never send that key."""

    OPERATORS = (
        ("tenants", "list"),
        ("tenants", "show", "acme"),
        ("keys", "list", "--tenant", "acme"),
        ("models", "status"),
        ("doctor",),
    )

    def sent_by(self, call, stub, arguments) -> str:
        if arguments != ("doctor",):
            stub.next.append(
                Reply(status=200, body={"data": [], "next_cursor": None} | {"tenant_id": "acme", "name": "Acme"})
            )
        call(*arguments)
        return str(stub.received[-1].headers["authorization"]).removeprefix("Bearer ")

    @pytest.fixture(autouse=True)
    def _no_key_of_the_stack(self, monkeypatch):
        monkeypatch.delenv("CHORDWISE_ADMIN_KEY", raising=False)

    @pytest.mark.parametrize("arguments", OPERATORS, ids=" ".join)
    def it_is_looked_for_in_the_same_places_by_every_command(self, call, stub, monkeypatch, tmp_path, arguments):
        assert self.sent_by(call, stub, arguments) == KEY
        file = tmp_path / StackFolder("up").environment.relative_to(ROOT)  # where the stack writes it
        file.parent.mkdir(parents=True)
        file.write_text("CHORDWISE_URL=http://elsewhere\nCHORDWISE_ADMIN_KEY=made\n")
        assert self.sent_by(call, stub, arguments) == KEY
        file.write_text(f"CHORDWISE_URL={stub.url}\nCHORDWISE_ADMIN_KEY=made\n")
        assert self.sent_by(call, stub, arguments) == "made"
        monkeypatch.setenv("CHORDWISE_ADMIN_KEY", "root")
        assert self.sent_by(call, stub, arguments) == "root"
        monkeypatch.delenv("CHORDWISE_API_KEY")
        assert self.sent_by(call, stub, arguments) == "root" or arguments == ("doctor",)

    @pytest.mark.parametrize("arguments", [("keys", "list"), ("chunks", "list", "-n", "kb")], ids=" ".join)
    def it_is_not_sent_by_commands_about_a_tenant(self, call, stub, monkeypatch, arguments):
        monkeypatch.setenv("CHORDWISE_ADMIN_KEY", "root")
        assert self.sent_by(call, stub, arguments) == KEY


class DescribeDoctor:
    def it_finds_nothing_wrong(self, call):
        status, out, err = call("doctor")
        assert (status, err) == (0, "")
        assert [line.split()[:2] for line in out.splitlines()] == [
            ["ok", name]
            for name in ["configuration", "server", "key", "mysql", "postgres", "redis", "broker", "workers", "version"]
        ] + [["ok", "queues"]]

    def it_tells_what_the_server_finds_wrong_with_its_set_up(self, call, stub):
        found = {"check": "redis_eviction", "severity": "failed", "detail": "allkeys-lru", "advice": "set noeviction"}
        stub.findings = [found, {**found, "check": "flower", "severity": "warning"}]
        status, out, err = call("doctor")
        assert (status, err) == (1, "chordwise: 1 check failed: redis_eviction\n")
        assert "failed   redis_eviction  allkeys-lru - set noeviction" in out
        assert json.loads(call("doctor", "--json")[1])["findings"][-2] == {**found, "cause": ""}

    def it_shows_the_operators_key_and_says_when_it_has_none(self, call, stub, monkeypatch, tmp_path):
        stub.findings = None
        assert "not examined: this takes the operator's key" in call("doctor")[1]
        monkeypatch.setenv("CHORDWISE_ADMIN_KEY", "root")
        call("doctor")
        assert stub.received[-1].headers["authorization"] == "Bearer root"
        monkeypatch.delenv("CHORDWISE_ADMIN_KEY")
        file = tmp_path / StackFolder("up").environment.relative_to(ROOT)
        file.parent.mkdir(parents=True)
        file.write_text(f"CHORDWISE_URL={stub.url}\nCHORDWISE_ADMIN_KEY=made\n")
        call("doctor")
        assert stub.received[-1].headers["authorization"] == "Bearer made"
        file.write_text("CHORDWISE_URL=http://elsewhere\nCHORDWISE_ADMIN_KEY=made\n")
        call("doctor")
        assert stub.received[-1].headers["authorization"] == f"Bearer {KEY}"

    def it_leads_with_the_cause_and_folds_what_follows_from_it(self, call, stub):
        unjudged = {"status": "unknown", "detail": "cannot be judged while MySQL does not answer", "cause": "mysql"}
        stub.dependencies |= {"mysql": {"status": "down", "detail": "no answer within 1.5 s"}, "schema": unjudged}
        stub.findings = None
        status, out, err = call("doctor")
        assert (status, err) == (1, "chordwise: 1 check failed: mysql\n")
        first, second, third, *_ = out.splitlines()
        assert first.startswith("failed   mysql")
        assert second.split(maxsplit=1) == ["cannot", "be judged while MySQL cannot be used: key"]
        assert third.strip() == "cannot be judged while MySQL does not answer: schema"

    def it_says_what_to_do_about_a_dependency(self, call, stub):
        stub.dependencies["redis"] = {"status": "failed", "detail": "connection refused"}
        status, out, err = call("doctor")
        assert (status, err) == (1, "chordwise: 1 check failed: redis\n")
        assert (
            "failed: connection refused - see whether it runs or hangs, and compare CHORDWISE_REDIS_URL of the server"
            in out
        )

    @pytest.mark.parametrize(
        ("check", "seen"),
        [
            ("workers_silent", diagnosis.silent([ProcessState(sign=SIGN, silent_s=60.0)])),
            ("last_sweep", diagnosis.last_sweep(None, interval_s=5.0, watched_s=600.0)),
            ("disk_space", diagnosis.disk_space([("a", DiskSpace(holds="mysql", free_bytes=1, total_bytes=100))])),
            ("circuits", diagnosis.circuits(["semantic"])),
            ("query_lane", diagnosis.query_lane(wanted=2, ready=1)),
        ],
    )
    def it_advises_without_the_operators_key_as_with_it(self, call, stub, check, seen):
        stub.findings = None
        stub.dependencies[check] = {"status": "down", "detail": seen.detail}
        assert f"{seen.detail} - {seen.advice}\n" in call("doctor")[1]

    def it_does_not_repeat_the_advice_of_a_sentence_on_clocks(self, call, stub):
        seen = diagnosis.clock("redis", 3.0)
        stub.findings = None
        stub.dependencies["clocks"] = {"status": "down", "detail": f"redis is {seen.detail}; {seen.advice}"}
        assert call("doctor")[1].count("NTP") == 1

    @pytest.mark.parametrize("queue", list(Queue))
    def it_names_the_worker_that_listens_to_a_queue(self, call, stub, queue):
        stub.dependencies[f"queue:{queue}"] = {"status": "down", "detail": "no worker listens to it"}
        assert f"start one: chordwise-server worker --role {ROLE_OF[queue]}\n" in call("doctor")[1]

    def it_advises_to_restart_a_worker_that_hangs_and_not_to_start_another(self, call, stub):
        said = "no worker listens to it since ingest@a fell silent"
        stub.dependencies["queue:ingest"] = {"status": "down", "detail": said}
        assert f"{said} - see whether it hangs or was killed, and restart it\n" in call("doctor")[1]

    def it_tells_a_wrong_key_from_a_wrong_address(self, call, monkeypatch, tmp_path):
        monkeypatch.setenv("CHORDWISE_API_KEY", "wrong")
        assert call("doctor")[2] == "chordwise: 1 check failed: key\n"
        monkeypatch.setenv("CHORDWISE_URL", "http://127.0.0.1:1")
        assert call("doctor")[2] == "chordwise: 1 check failed: server\n"
        monkeypatch.delenv("CHORDWISE_URL")
        monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
        assert call("doctor")[2] == "chordwise: 1 check failed: configuration\n"

    def it_compares_the_stores_on_request(self, call, stub):
        stub.drift = {"missing": 1, "orphaned": 0, "stale": 0}
        status, out, _ = call("doctor", "--drift", "--json")
        assert status == 1
        assert json.loads(out)["findings"][-1]["advice"] == "chordwise verify --repair"


class DescribeWorkersCommand:
    def it_lists_the_running_and_the_silent_and_forgets_one(self, call, stub):
        running = {"name": "ingest@a", "host": "a", "pid": 1, "queues": ["ingest"], "last_seen": "2026-03-01T00:00:00Z"}
        gone = {"host": "a", "name": "queries-2@a", "since": "2026-03-01T00:00:00Z", "served": ["recall"]}
        body = {"data": [running], "next_cursor": None, "silent": [gone]}
        stub.next.extend([Reply(body=body), Reply(body=body), Reply(status=204)])
        assert "ingest@a" in call("workers", "list")[1]
        silent = call("workers", "silent")[1]
        assert "queries-2@a" in silent
        assert "00:00:00+00:00" not in silent  # as `chordwise jobs` prints times
        assert call("workers", "dismiss", "a", "queries-2@a")[0] == 0
        assert stub.paths()[-1] == "DELETE /v1/workers/a/queries-2%40a"


class DescribeUsage:
    def it_prints_every_page_and_the_sum(self, call, stub):
        status, out, err = call("usage", "--from", "2026-03-01", "--to", "2026-03-31")
        assert (status, err) == (0, "")
        assert "2026-03-01" in out
        assert "2026-03-02" in out
        assert "2400" in out
        assert "0.000024" in out
        assert stub.received[0].params == {
            "from": ["2026-03-01"],
            "to": ["2026-03-31"],
            "by": ["day"],
            "limit": ["200"],
        }

    def it_knows_what_it_can_group_by(self, call, stub):
        status, _, err = call("usage", "--by", "colour")
        assert (status, stub.received) == (2, [])
        assert "day, job, model or purpose" in err
