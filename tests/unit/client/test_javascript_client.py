"""The JavaScript client: current with the OpenAPI description, and its transport against a stand-in for the gateway."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chordwise
from clients.generate_javascript import FOLDER, code, operations, type_of, types
from tests.support.clients.node import node
from tests.support.repository.described_codes import document
from tests.support.servers.gateway_stub import KEY, GatewayStub, Reply, problem, serve


class DescribeGeneratedFiles:
    def it_is_current(self) -> None:
        stale = "run make client-js"
        assert (FOLDER / "operations.js").read_text(encoding="utf-8") == code(document()), stale
        assert (FOLDER / "operations.d.ts").read_text(encoding="utf-8") == types(document()), stale

    def it_has_a_method_for_every_operation(self) -> None:
        methods = {"get", "put", "post", "delete"}
        there = sum(len(methods & set(each)) for path, each in document()["paths"].items() if path.startswith("/v1/"))
        made = operations(document())
        assert len({operation.name for operation in made if operation.answer != "stream"}) == there
        assert [operation.name for operation in made if operation.answer == "stream"] == ["streamAnswerQuery"]

    def it_packs_every_file_under_the_projects_version(self) -> None:
        package = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
        assert package["version"] == chordwise.__version__
        assert {*package["files"], "package.json"} == {path.name for path in FOLDER.iterdir() if path.is_file()}

    @pytest.mark.parametrize(
        ("schema", "written"),
        [
            ({"$ref": "#/components/schemas/Job"}, "Job"),
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
            ({"type": "array", "items": {"enum": ["a", "b"]}}, '("a" | "b")[]'),
            ({"type": "object", "additionalProperties": {"type": "number"}}, "Record<string, number>"),
            ({"type": "array", "prefixItems": [{"type": "integer"}, {"const": "x"}]}, '[number, "x"]'),
            ({"type": "string", "format": "binary"}, "Blob | NamedFile"),
            ({}, "unknown"),
        ],
    )
    def it_writes_types(self, schema: dict[str, Any], written: str) -> None:
        assert type_of(schema) == written

    def it_refuses_two_operations_of_one_name(self) -> None:
        operation = {"responses": {"200": {}}}
        with pytest.raises(ValueError, match="getThing"):
            operations({"paths": {"/v1/thing": {"get": operation}, "/v1/admin/thing": {"get": operation}}})


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Run lines of JavaScript with a `client` of the stub; gives the values that they pass to `say`."""
    with serve() as stub:

        def running(lines: str, *, prepare: Callable[[GatewayStub], None] = lambda stub: None) -> list[Any]:
            prepare(stub)
            program = tmp_path / "program.mjs"
            program.write_text(
                f"import {{ Chordwise }} from {json.dumps((FOLDER / 'index.js').as_uri())};\n"
                f"const client = new Chordwise({{ url: {json.dumps(stub.url)}, apiKey: {json.dumps(KEY)} }});\n"
                "const say = (value) => console.log(JSON.stringify(value ?? null));\n"
                "const fault = (call) => call.then(() => null, (error) =>"
                " ({ name: error.name, ...error, message: error.message }));\n"
                f"{lines}\n"
            )
            ran = node(program, cwd=tmp_path)
            assert ran.returncode == 0, ran.stderr
            return [json.loads(line) for line in ran.stdout.splitlines()]

        running.stub = stub  # type: ignore[attr-defined]
        yield running


def queue(*replies: Reply) -> Callable[[GatewayStub], None]:
    return lambda stub: stub.next.extend(replies)


BUSY = problem(429, "rate_limited", "too many", retry_after=0)


class DescribeTransport:
    def it_turns_problem_details_into_an_error(self, run):
        refusal = problem(
            422, "invalid", "is not valid", request_id="r-7", errors=[{"pointer": "/a", "detail": "is bad"}]
        )
        (error,) = run("say(await fault(client.getJob('x')));", prepare=queue(refusal))
        assert (error["name"], error["status"], error["code"], error["requestId"]) == (
            "ProblemError",
            422,
            "invalid",
            "r-7",
        )
        assert error["message"] == "is not valid: /a is bad (422 invalid)"
        assert error["errors"][0]["pointer"] == "/a"

    @pytest.mark.parametrize("status", [429, 503])
    def it_tries_again_after_the_time_that_the_server_names(self, run, status):
        late = Reply(status=status, body={"code": "later", "detail": "later"}, headers={"Retry-After": "1"})
        took, entries = run(
            "const began = Date.now(); const page = await client.listNamespaces();"
            "say(Date.now() - began); say(page.data);",
            prepare=queue(late),
        )
        assert 1_000 <= took < 20_000  # a loaded machine is late
        assert entries == []
        assert len(run.stub.received) == 2

    def it_gives_up_on_a_pause_that_is_too_long_and_after_the_retries(self, run):
        hour = Reply(status=503, body={"code": "away", "detail": "away"}, headers={"Retry-After": "3600"})
        (error,) = run("say(await fault(client.listNamespaces()));", prepare=queue(hour))
        assert (error["code"], error["retryAfterMs"]) == ("away", 3_600_000)
        (error,) = run(
            "say(await fault(client.listNamespaces({}, { retries: 1 })));",
            prepare=queue(*[problem(503, "away", "away")] * 5),
        )
        assert len(run.stub.received) == 3

    def it_repeats_what_creates_something_under_one_key_and_nothing_else(self, run):
        run("await client.ingestDocuments({ namespace: 'kb', documents: [] });", prepare=queue(Reply(drop=True)))
        first, second = (request.headers["idempotency-key"] for request in run.stub.received)
        assert first == second
        run.stub.received.clear()
        (error,) = run("say(await fault(client.request('POST', '/v1/jobs')));", prepare=queue(Reply(drop=True)))
        assert error["name"] == "ConnectionFailed"
        assert len(run.stub.received) == 1

    def it_ends_at_the_deadline_and_by_the_callers_signal(self, run):
        busy = [Reply(status=503, body={"code": "away", "detail": "x"}, headers={"Retry-After": "30"})] * 2
        deadline, aborted = run(
            "say(await fault(client.listNamespaces({}, { timeoutMs: 1500 })));"
            "const controller = new AbortController(); setTimeout(() => controller.abort(), 1000);"
            "say(await fault(client.listNamespaces({}, { signal: controller.signal })));",
            prepare=queue(*busy),
        )
        assert deadline["code"] == aborted["code"] == "away"  # the refusal says more than that time is up

    def it_sends_files_fields_and_parameters(self, run):
        run(
            "await client.uploadFiles({ namespace: 'kb', tags: ['a', 'b'], metadata: { k: 1 },"
            " file: [{ name: '茶.md', data: 'Tee' }, new Blob(['x'])] });"
            "const chosen = new File(['y'], 'r.txt');"  # as of a chosen folder
            "Object.defineProperty(chosen, 'webkitRelativePath', { value: 'a/r.txt' });"
            "await client.uploadFiles({ namespace: 'kb', file: [chosen] });"
            "await client.listJobs({ status: ['queued', 'failed'], limit: 3 });"
            "await fault(client.getDocument('a/b c', { namespace: 'kb' }, { requestId: 'r-1', ifMatch: '\"e\"' }));"
        )
        upload, of_a_folder, listing, single = run.stub.received
        assert [filename for name, filename, _, _ in of_a_folder.parts() if name == "file"] == ["a/r.txt"]
        parts = [(name, filename, content) for name, filename, _, content in upload.parts()]
        assert ("file", "茶.md", b"Tee") in parts
        assert ("metadata", None, b'{"k":1}') in parts
        assert listing.params == {"status": ["queued", "failed"], "limit": ["3"]}
        assert single.path == "/v1/documents/a%2Fb%20c"
        assert (single.headers["x-request-id"], single.headers["if-match"]) == ("r-1", '"e"')

    def it_follows_events_across_a_broken_connection(self, run):
        stream = {"Content-Type": "text/event-stream"}
        first = Reply(
            body='retry: 10\n\nid: 1\nevent: progress\ndata: {"total":\ndata: 2}\n\nid: 2\nevent: prog', headers=stream
        )
        second = Reply(body=': ping\r\n\r\nid: 2\r\nevent: finished\r\ndata: {"total":2}\r\n\r\n', headers=stream)
        events = run("for await (const event of client.followJob('j')) say(event);", prepare=queue(first, second))
        assert events == [
            {"event": "progress", "id": "1", "data": {"total": 2}},
            {"event": "finished", "id": "2", "data": {"total": 2}},
        ]
        assert run.stub.received[1].headers["last-event-id"] == "1"

    def it_streams_a_written_answer_once(self, run):
        stream = {"Content-Type": "text/event-stream"}
        body = 'id: 5\nevent: text\ndata: {"delta":"Hold "}\n\n'
        whole = Reply(body=body + 'id: finished\nevent: finished\ndata: {"text":"Hold it."}\n\n', headers=stream)
        failed = Reply(
            body=body + 'event: error\ndata: {"status":503,"code":"away","detail":"No."}\n\n', headers=stream
        )
        broken = Reply(body=body, headers=stream)
        said = run(
            "for (let turn = 0; turn < 3; turn += 1) try {"
            "  for await (const { event } of client.streamAnswerQuery('q', {})) say(event);"
            "} catch (error) { say(error.code ?? error.name); }",
            prepare=queue(whole, failed, broken),
        )
        assert said == ["text", "finished", "text", "away", "text", "ConnectionFailed"]
        assert [request.body for request in run.stub.received] == [b"{}"] * 3

    def it_reads_every_page_and_waits_for_jobs_and_queries(self, run):
        def prepare(stub: GatewayStub) -> None:
            stub.documents["kb"] = {f"d{number}": {"document_id": f"d{number}", "text": "tea"} for number in range(5)}
            stub.late_queries = True

        said = run(
            "for await (const each of client.items((params) => client.listDocuments(params), { namespace: 'kb', limit: 2 }))"
            " say(each.document_id);"
            "say((await client.ask({ query_text: 'tea', namespaces: ['kb'], top_k: 1 })).chunks.length);"
            "const job = await client.ingestDocuments({ namespace: 'kb', documents: [{ text: 'x' }] });"
            "say((await client.waitForJob(job)).status);",
            prepare=prepare,
        )
        assert said == ["d0", "d1", "d2", "d3", "d4", 1, "succeeded"]
