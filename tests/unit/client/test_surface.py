"""Both clients are one surface, and between them and the interface nothing is left out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from chordwise import AsyncChordwise, Chordwise, ProblemError
from chordwise.api.archive_files import ArchiveWriter
from tests.support.repository.described_codes import document
from tests.support.servers.gateway_stub import KEY, GatewayStub, problem, serve

FILE = "FILE"  # stands for the path of a file that is there; the others likewise
FILES = "FILES"
ARCHIVE = "ARCHIVE"
OUT = "OUT"

# Every method with arguments that make it send something.
CALLS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "activate_profile": (["p", 2], {"share": 0.5}),
    "add_webhook": (["https://example.com"], {}),
    "api_source": (["crm"], {}),
    "api_sources": ([], {}),
    "audit": ([], {"action": "search", "since": "2026-01-01T00:00:00Z"}),
    "batch_results": (["b"], {"after": 3}),
    "cancel_batch": (["b"], {}),
    "cancel_job": (["j"], {}),
    "cancel_query": (["q"], {}),
    "change_documents": ([["d"]], {"namespace": "kb", "add_tags": ["t"]}),
    "chunks": ([], {"namespace": "kb", "enabled": True}),
    "create_key": (["n"], {"scopes": ["read"]}),
    "create_tenant": (["t"], {"name": "T"}),
    "current_key": ([], {}),
    "dead_letter": (["l"], {}),
    "dead_letters": ([], {"reason": "bug"}),
    "delete_batch": (["b"], {}),
    "delete_api_source": (["crm"], {}),
    "delete_chunks": ([["c"]], {}),
    "delete_dictionary": ([], {"namespace": "kb"}),
    "delete_document": (["d"], {"namespace": "kb"}),
    "delete_documents": ([["d"]], {"namespace": "kb"}),
    "set_readers": ([["group:hr"]], {"namespace": "kb", "document_ids": ["d"]}),
    "set_default_readers": ([["group:hr"]], {"namespace": "kb"}),
    "delete_entities": ([["e"]], {"namespace": "kb"}),
    "delete_experiment": (["x"], {}),
    "delete_namespace": (["kb"], {}),
    "delete_profile": (["p"], {}),
    "delete_source": (["甲/1"], {"namespace": "kb"}),
    "dictionary": ([], {}),
    "disable_tenant": (["t"], {}),
    "doctor": ([], {}),
    "document": (["d/1"], {"namespace": "kb"}),
    "document_text": (["d"], {"namespace": "kb"}),
    "documents": ([], {"namespace": "kb"}),
    "drop_dead_letter": (["l"], {}),
    "edit_chunks": ([[{"chunk_id": "c", "text": "t"}]], {}),
    "enable_tenant": (["t"], {}),
    "disable_webhook": (["w"], {}),
    "enable_webhook": (["w"], {}),
    "entities": (["kb"], {"as_of": 3}),
    "erase_tenant": (["t"], {}),
    "events": (["j"], {}),
    "example_statistics": ([], {"namespace": "kb"}),
    "examples_template": ([], {}),
    "experiment": (["x"], {}),
    "experiment_results": (["x"], {}),
    "experiments": ([], {}),
    "export": (["kb", OUT], {}),
    "extend_dictionary": ([], {"stop_words": ["a"]}),
    "feedback": (["q", "good"], {"chunk_id": "c"}),
    "feedback_given": ([], {"rating": "bad"}),
    "find": (["pump"], {"namespace": "kb"}),
    "generations": (["d"], {"namespace": "kb"}),
    "health": ([], {}),
    "import_archive": ([ARCHIVE], {"namespace": "kb", "again": True}),
    "import_examples": ([FILE], {"namespace": "kb"}),
    "ingest": ([{"document_id": "d", "text": "t"}], {"namespace": "kb"}),
    "ingest_files": ([FILES], {"namespace": "kb"}),
    "job": (["j"], {}),
    "job_items": (["j"], {"status": "failed"}),
    "jobs": ([], {}),
    "judgments": ([], {"namespace": "kb"}),
    "key": (["k"], {"tenant_id": "t"}),
    "keys": ([], {}),
    "migrations": ([], {}),
    "name_chunks": ([["c"]], {}),
    "namespace_fields": (["kb"], {}),
    "namespaces": ([], {}),
    "original": (["d"], {"namespace": "kb"}),
    "page_image": (["d", 1], {"namespace": "kb"}),
    "pause_job": (["j"], {}),
    "preview": ([{"text": "t"}], {}),
    "profile": (["p"], {}),
    "profile_versions": (["p"], {}),
    "profiles": ([], {}),
    "put_entities": ([[{"entity_id": "e", "name": "n"}]], {"namespace": "kb"}),
    "query": (["x"], {"namespace": "kb", "request_id": "r-1", "fresh": True}),
    "query_batch": (["b"], {}),
    "query_many": ([["x"]], {"namespace": "kb"}),
    "query_result": (["q"], {"timeout": 3}),
    "quotas": ([], {}),
    "redeliver": (["w", "d"], {}),
    "remove_webhook": (["w"], {}),
    "replay": (["q", {"top_k": 3}], {}),
    "replay_dead_letter": (["l"], {}),
    "replay_dead_letters": ([], {"code": "c"}),
    "resume_job": (["j"], {}),
    "retry_job": (["j"], {}),
    "revoke_key": (["k"], {}),
    "rollback": (["d"], {"namespace": "kb", "if_match": '"e"'}),
    "rollback_profile": (["p"], {}),
    "rotate_key": (["k"], {"overlap_seconds": 60}),
    "rotate_webhook": (["w"], {}),
    "server_version": ([], {}),
    "set_tenant_quotas": (["t"], {"documents": 5}),
    "confirm_source": (["s"], {"namespace": "kb"}),
    "follow_source": (["s3://b/k"], {"namespace": "kb", "rules": [{"path": "hr/"}], "secret": {"key": "k"}}),
    "pause_source": (["s"], {"namespace": "kb"}),
    "resume_source": (["s"], {"namespace": "kb"}),
    "run_source": (["s"], {"namespace": "kb"}),
    "source": (["s"], {"namespace": "kb"}),
    "similar_documents": (["d"], {"namespace": "kb"}),
    "sources": ([], {"namespace": "kb", "kind": "url"}),
    "start_migration": ([], {"provider": "openai", "model": "m", "dimension": 8}),
    "steer_migration": ([3, "switch"], {}),
    "store_api_source": (["crm", {"url": "https://example.com"}], {}),
    "store_dictionary": ([], {"synonyms": [["a", "b"]]}),
    "store_experiment": (["x", {"arms": []}], {"active": False}),
    "store_profile": (["p", {"top_k": 3}], {}),
    "submit_queries": ([["x", {"id": "a", "query_text": "y"}]], {"namespace": "kb", "top_k": 3}),
    "submit_query": (["x"], {"namespace": "kb", "top_k": 3}),
    "take_back": (["f"], {}),
    "tenant": (["t"], {}),
    "tenant_quota_use": (["t"], {}),
    "tenant_quotas": (["t"], {}),
    "tenants": ([], {}),
    "test_webhook": (["w"], {}),
    "trace": (["q"], {}),
    "traces": ([], {"mark": "slow", "since": "2026-01-01T00:00:00Z"}),
    "try_api_source": (["crm", "x"], {"namespace": "kb"}),
    "usage": ([], {"by": "model"}),
    "verify": (["kb"], {}),
    "verify_examples": (["j"], {}),
    "wait": (["j"], {}),
    "webhook": (["w"], {}),
    "webhook_deliveries": (["w"], {"state": "dead"}),
    "webhook_delivery": (["w", "d"], {}),
    "webhooks": ([], {}),
    "why_not": (["q", "c"], {}),
    "workers": ([], {}),
    "silent_processes": ([], {}),
    "dismiss_process": (["a", "queries-2@a"], {}),
    "stream_answer": (["q"], {"timeout": 5}),
    "write_answer": (["q"], {"timeout": 5}),
}

# Operations that no method asks for, and why.
WITHOUT_A_METHOD = {
    "GET /healthz": "for probes",
    "GET /v1/metrics": "for Prometheus",
    "GET /v1/metrics/history": "for the console",
    "GET /v1/audit/export": "audit(limit=None) gives the same",
    "GET /v1/documents/{document_id}/chunks": "chunks(document_id=…) gives the same",
    "GET /v1/admin/embedding-migrations/{number}": "migrations() gives all of them",
    "POST /v1/admin/embedding-migrations/{number}/abort": "steer_migration sends it as it sends switch",
    "POST /v1/admin/embedding-migrations/{number}/compare": "steer_migration, likewise",
    "POST /v1/admin/embedding-migrations/{number}/finish": "steer_migration, likewise",
    "POST /v1/admin/embedding-migrations/{number}/rollback": "steer_migration, likewise",
    "GET /v1/queries/{query_id}/events": "query_result(timeout=…) waits for the same",
    "GET /v1/keys/{key_id}": "key(), here for another tenant's; likewise what follows",
    "GET /v1/tenants/{tenant_id}/keys": "keys(tenant_id=…)",
    "POST /v1/tenants/{tenant_id}/keys": "create_key(tenant_id=…)",
    "POST /v1/tenants/{tenant_id}/keys/{key_id}/rotate": "rotate_key(tenant_id=…)",
    "DELETE /v1/tenants/{tenant_id}/keys/{key_id}": "revoke_key(tenant_id=…)",
    "POST /v1/rag/query": "query() is the same",
    "POST /v1/rag/debug": "query(trace=True) is the same",
    "POST /internal/recall/test": "query(trace=True) is the same",
}
ELSEWHERE = ("/openai/", "/dify/", "/mcp", "/console")  # other dialects have clients of their own


@pytest.fixture(scope="module")
def operations() -> set[str]:
    paths = document()["paths"]
    methods = {"get", "put", "post", "delete", "patch"}
    found = {f"{method.upper()} {path}" for path, each in paths.items() for method in each if method in methods}
    return {each for each in found if not each.partition(" ")[2].startswith(ELSEWHERE)}


@pytest.fixture(scope="module")
def stub() -> Iterator[GatewayStub]:
    with serve() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the requests."""
    made = tmp_path_factory.mktemp("sent")
    (made / "a.json").write_text("[]")
    archive = ArchiveWriter(made / "made.chordwise", "kb")
    archive.add(b"a part", {"documents": 1, "chunks": 1}, None)
    archive.finish()
    return made


def arguments(name: str, folder: Path) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with real paths in them."""
    real: dict[str, Any] = {
        FILES: [folder / "a.json"],
        FILE: folder / "a.json",
        ARCHIVE: folder / "made.chordwise",
        OUT: folder / f"out-{name}",
    }
    positional, named = CALLS[name]
    return [real.get(str(each), each) for each in positional], named


async def requests_of(make: Any, name: str, stub: GatewayStub, folder: Path) -> list[tuple[Any, ...]]:
    """Return the requests that a method of a client sends to an empty server, without what is different each time."""
    stub.received.clear()
    stub.next.extend([problem(404, "not_found", "nothing here")] * 5)
    positional, named = arguments(name, folder)
    client = make(stub.url, KEY)
    with suppress(ProblemError):
        made = getattr(client, name)(*positional, **named)
        if name in ("events", "stream_answer"):
            made = anext(made) if hasattr(made, "__anext__") else next(made)
        if inspect.isawaitable(made):
            await made
    if inspect.isawaitable(closing := client.close()):
        await closing
    stub.next.clear()
    wanted = ("prefer", "cache-control", "x-request-id", "if-match", "accept")
    return [
        (
            each.method,
            each.path,
            each.params,
            {header: each.headers.get(header) for header in wanted},
            re.sub(rb"[0-9a-f]{32}", b"boundary", each.body),
        )
        for each in stub.received
    ]


class DescribeBothClients:
    def it_is_one_surface(self):
        assert surface(AsyncChordwise) == surface(Chordwise)
        assert set(surface(Chordwise)) == {*CALLS, "close"}

    @pytest.mark.parametrize("name", sorted(CALLS))
    async def it_sends_the_same(self, name, stub, folder):
        sent = await requests_of(Chordwise, name, stub, folder)
        assert sent
        assert await requests_of(AsyncChordwise, name, stub, folder) == sent

    async def it_leaves_nothing_of_the_interface_out(self, stub, operations, folder):
        asked: dict[str, list[str | None]] = {}
        for name in CALLS:
            sent = await requests_of(Chordwise, name, stub, folder)
            asked[name] = [operation(each[0], each[1], operations) for each in sent]
        assert {name for name, found in asked.items() if None in found} == {"server_version"}  # it asks /openapi.json
        covered = {each for found in asked.values() for each in found if each}
        without = set(WITHOUT_A_METHOD)
        assert (operations - covered - without, without - operations, covered & without) == (set(), set(), set())


def surface(kind: type) -> dict[str, list[tuple[str, Any, Any, Any]]]:
    """Every public method with its parameters: names, kinds, defaults and types."""
    return {
        name: [
            (each.name, each.kind, each.default, each.annotation)
            for each in inspect.signature(function).parameters.values()
        ]
        for name, function in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def operation(method: str, path: str, operations: set[str]) -> str | None:
    """The operation that a request is, the most literal of those that fit."""
    fitting = [each for each in operations if re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", each), f"{method} {path}")]
    return min(fitting, key=lambda each: each.count("{"), default=None)
