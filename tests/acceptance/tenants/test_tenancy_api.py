"""Tenants and their keys as an operator and an administrator handle them: over HTTP, in Python, on the command line."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from api_gateway.http.auth import FRESH_S
from chordwise import AsyncChordwise, Chordwise, ProblemError
from chordwise.cli import run
from pipeline.database.unit_of_work import unit_of_work
from pipeline.tenants.accounts import hashed, key_id_of
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import pointers, problem

URL = os.environ.get("CHORDWISE_URL", "")
SOON_S = FRESH_S + 1.0  # as documented


@pytest.fixture
def tenant_id() -> str:
    return f"acme-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def says(capsys) -> Callable[..., str]:
    """Return the output of a command that must succeed."""

    def command(*arguments: str, code: int = 0) -> str:
        assert run(arguments) == code, capsys.readouterr()
        return str(capsys.readouterr().out)

    return command


def made(client: httpx.Client, **fields: object) -> dict[str, str]:
    answer = client.post("/v1/keys", json={"name": "a key", "scopes": ["read"], **fields})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def status(key: str) -> int:
    with gateway(key) as client:
        return client.get("/v1/namespaces").status_code


def wait_for_status(key: str, wanted: int, *, within_s: float = SOON_S) -> None:
    """Ask with a key until the gateway answers with this status. Fails after ``within_s``."""
    ends = time.monotonic() + within_s
    with gateway(key) as client:
        while (answered := client.get("/v1/namespaces").status_code) != wanted:
            assert time.monotonic() < ends, f"{answered} and not {wanted} after {within_s} s"
            time.sleep(0.05)


class DescribeTheQuotasOfATenant:
    def it_has_the_installations_until_it_is_given_its_own(self, operator, tenant_id, settings):
        assert operator.post("/v1/tenants", json={"tenant_id": tenant_id, "name": "Acme"}).status_code == 201
        own = operator.get(f"/v1/tenants/{tenant_id}/quotas").json()
        assert set(own.values()) == {None}
        key = operator.post(f"/v1/tenants/{tenant_id}/keys", json={"name": "k", "scopes": ["read", "write"]}).json()
        with gateway(key["api_key"]) as client:
            holding = client.get("/v1/quotas").json()
            assert operator.get(f"/v1/tenants/{tenant_id}/quotas/use").json() == holding
            assert client.get(f"/v1/tenants/{tenant_id}/quotas/use").status_code == 403
            assert {name: quota["limit"] for name, quota in holding.items()} == {
                "documents": settings.quota_documents,
                "chunks": settings.quota_chunks,
                "queued": settings.quota_queued,
                "tokens": settings.quota_tokens,
                "answer_bytes": settings.quota_answer_bytes,
            }
            assert all(quota["limit"] for quota in holding.values())

            changed = operator.put(f"/v1/tenants/{tenant_id}/quotas", json={"documents": 1, "tokens": 0}).json()
            assert (changed["documents"], changed["tokens"], changed["chunks"]) == (1, 0, None)
            documents = [{"document_id": name, "text": "A pump."} for name in "ab"]
            refused = client.post("/v1/documents", json={"namespace": "kb", "documents": documents})
            assert problem(refused, 403, "quota_exceeded")["quota"] == {"name": "documents", "limit": 1, "used": 2}
            assert client.get("/v1/quotas").json()["tokens"]["limit"] is None

    def it_may_be_made_with_its_own(self, operator, tenant_id):
        sent = {"tenant_id": tenant_id, "name": "Acme", "quotas": {"requests_per_minute": 60}}
        assert operator.post("/v1/tenants", json=sent).status_code == 201
        assert operator.get(f"/v1/tenants/{tenant_id}/quotas").json()["requests_per_minute"] == 60

    def it_is_changed_on_the_command_line(self, says, tenant_id, monkeypatch):
        monkeypatch.setenv("CHORDWISE_API_KEY", os.environ["CHORDWISE_ADMIN_KEY"])
        says("tenants", "create", tenant_id, "--no-key")
        says("tenants", "quotas", tenant_id, "--set", "documents=500", "--set", "queued=0")
        shown = json.loads(says("tenants", "quotas", tenant_id, "--set", "documents=", "--json"))
        assert (shown["documents"], shown["queued"]) == (None, 0)
        assert "no limit" in says("tenants", "quotas", tenant_id)
        says("tenants", "quotas", tenant_id, "--set", "pages=3", code=2)

    def it_takes_no_wrong_numbers(self, operator, tenant_id):
        operator.post("/v1/tenants", json={"tenant_id": tenant_id, "name": "Acme"})
        refused = operator.put(f"/v1/tenants/{tenant_id}/quotas", json={"documents": -1, "pages": 3})
        assert pointers(problem(refused, 422, "invalid_request")) == ["/documents", "/pages"]


class DescribeATenant:
    def it_is_made_listed_shut_out_and_let_in_again(self, operator, tenant_id):
        created = operator.post("/v1/tenants", json={"tenant_id": tenant_id, "name": "Acme"})
        assert (created.status_code, created.headers["Location"]) == (201, f"/v1/tenants/{tenant_id}")
        problem(operator.post("/v1/tenants", json={"tenant_id": tenant_id, "name": "x"}), 409, "tenant_exists")
        key = operator.post(f"/v1/tenants/{tenant_id}/keys", json={"name": "first", "scopes": ["admin", "read"]}).json()
        assert status(key["api_key"]) == 200
        assert operator.post(f"/v1/tenants/{tenant_id}/disable").json()["disabled_at"]
        wait_for_status(key["api_key"], 401)
        assert operator.post(f"/v1/tenants/{tenant_id}/enable").json()["disabled_at"] is None
        wait_for_status(key["api_key"], 200)
        with gateway(key["api_key"]) as client:
            actions = [row["action"] for row in client.get("/v1/audit").json()["data"]]
            assert actions == ["tenant_enable", "tenant_disable", "key_issue", "tenant_create"]

    def it_is_found_in_pages(self, operator, use):
        mine = {make_tenant(use)[0] for _ in range(3)}
        seen, cursor = set(), None
        while True:
            page = operator.get("/v1/tenants", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
            seen |= {each["tenant_id"] for each in page["data"]}
            if (cursor := page["next_cursor"]) is None:
                break
        assert mine <= seen

    @pytest.mark.parametrize("wrong", ["", "Acme", "a_b", "-a", "a" * 64, "a\n", "chordwise"])
    def it_has_an_id_that_fits_into_a_key(self, operator, wrong):
        refused = operator.post("/v1/tenants", json={"tenant_id": wrong, "name": "x"})
        assert pointers(problem(refused, 422, "invalid_request")) == ["/tenant_id"]

    def it_is_shown_to_operators_only(self, client, use):
        tenant = make_tenant(use)[0]
        for path in ("/v1/tenants", f"/v1/tenants/{tenant}", f"/v1/tenants/{tenant}/keys", "/v1/tenants/never-was"):
            problem(client.get(path), 403, "insufficient_scope")


class DescribeAKey:
    def it_is_shown_once_and_stored_as_a_hash(self, client, use):
        key = made(client, name="importer", scopes=["write", "read"])
        assert (key["scopes"], key["state"], key["name"]) == (["read", "write"], "active", "importer")
        shown = client.get(f"/v1/keys/{key['key_id']}").json()
        assert "api_key" not in shown
        assert shown == {name: value for name, value in key.items() if name not in ("api_key", "token_secret")}
        assert key["api_key"] not in client.get("/v1/keys").text + client.get("/v1/audit").text
        secret = key["api_key"].rpartition("_")[2]
        with use.mysql.connect() as connection:
            rows = connection.exec_driver_sql("SELECT * FROM api_keys WHERE name = 'importer'").all()
        assert rows
        assert secret not in str(rows)

    def it_ends_within_seconds_of_its_revocation(self, client):
        key = made(client)
        assert status(key["api_key"]) == 200
        assert client.delete(f"/v1/keys/{key['key_id']}").status_code == 204
        wait_for_status(key["api_key"], 401)
        assert client.delete(f"/v1/keys/{key['key_id']}").status_code == 204
        assert client.get(f"/v1/keys/{key['key_id']}").json()["state"] == "revoked"

    def it_ends_when_it_was_to_end(self, client):
        ends = datetime.now(UTC) + timedelta(seconds=2)
        key = made(client, expires_at=ends.isoformat())
        assert status(key["api_key"]) == 200
        wait_for_status(key["api_key"], 401, within_s=2 + SOON_S)
        assert client.get(f"/v1/keys/{key['key_id']}").json()["state"] == "expired"
        past = {"name": "x", "scopes": ["read"], "expires_at": "2020-01-01T00:00:00Z"}
        assert pointers(problem(client.post("/v1/keys", json=past), 422, "invalid_request")) == ["/expires_at"]

    def it_is_rotated_with_an_overlap(self, client):
        old = made(client, name="importer", scopes=["read", "write"])
        path = f"/v1/keys/{old['key_id']}"
        new = client.post(f"{path}/rotate", json={"overlap_seconds": 2}).json()
        assert (new["name"], new["scopes"]) == ("importer", ["read", "write"])
        assert (status(old["api_key"]), status(new["api_key"])) == (200, 200)
        assert client.get(path).json()["replaced_by"] == new["key_id"]
        problem(client.post(f"{path}/rotate", json={}), 409, "key_not_rotatable")
        wait_for_status(old["api_key"], 401, within_s=2 + SOON_S)
        assert status(new["api_key"]) == 200

    def it_tells_when_it_was_used(self, client):
        key = made(client)
        assert client.get(f"/v1/keys/{key['key_id']}").json()["last_used_at"] is None
        before = datetime.now(UTC) - timedelta(seconds=1)
        assert status(key["api_key"]) == 200
        used = client.get(f"/v1/keys/{key['key_id']}").json()["last_used_at"]
        assert before <= datetime.fromisoformat(used) <= datetime.now(UTC)

    @pytest.mark.parametrize("scopes", [[], ["operator"], ["read", "root"], "read"])
    def it_cannot_be_given_more_than_there_is_to_give(self, client, scopes):
        refused = client.post("/v1/keys", json={"name": "x", "scopes": scopes})
        assert pointers(problem(refused, 422, "invalid_request"))[0].startswith("/scopes")

    def it_is_not_an_operators_for_whoever_administers_the_tenant(self, use):
        tenant, admin = make_tenant(use)
        with unit_of_work(use.mysql) as work:
            operators = Tenants(work.connection, tenant).issue_key("operator", ("admin", "operator"))
        path = f"/v1/keys/{key_id_of(hashed(operators))}"
        with gateway(admin) as client:
            problem(client.post(f"{path}/rotate", json={}), 403, "insufficient_scope")
            problem(client.delete(path), 403, "insufficient_scope")
        with gateway(operators) as client:
            assert client.post(f"{path}/rotate", json={}).json()["scopes"] == ["admin", "operator"]


class DescribeTheCommands:
    def it_takes_a_tenant_through_its_life(self, says, tenant_id, monkeypatch, tmp_path):
        operators = os.environ["CHORDWISE_ADMIN_KEY"]
        monkeypatch.setenv("CHORDWISE_API_KEY", operators)
        created = json.loads(says("tenants", "create", tenant_id, "--name", "Acme", "--json"))
        assert tenant_id in says("tenants", "list")
        assert "active" in says("tenants", "show", tenant_id)
        assert says("tenants", "create", tenant_id, code=1) == ""
        monkeypatch.setenv("CHORDWISE_API_KEY", created["key"]["api_key"])
        assert tenant_id in says("keys", "show")
        key = json.loads(says("keys", "create", "importer", "-s", "read", "-s", "write", "--expires", "90d", "--json"))
        assert key["scopes"] == ["read", "write"]
        rotated = json.loads(says("keys", "rotate", key["key_id"], "--overlap", "1h", "--json"))
        assert rotated["api_key"] != key["api_key"]
        assert says("keys", "revoke", key["key_id"]) == "revoked\n"
        assert key["key_id"] not in says("keys", "list")
        assert key["key_id"] in says("keys", "list", "--all")
        assert "key_rotate" in says("audit", "--action", "key_rotate")
        assert says("audit", "-o", str(tmp_path / "audit.jsonl")).startswith("5 rows")
        assert len((tmp_path / "audit.jsonl").read_text().splitlines()) == 5
        says("keys", "create", "x", "-s", "root", code=2)
        says("keys", "create", "x", "--expires", "soon", code=2)
        monkeypatch.setenv("CHORDWISE_API_KEY", operators)
        assert "disabled" in says("tenants", "disable", tenant_id)
        assert "active" in says("tenants", "enable", tenant_id)
        assert rotated["key_id"] in says("keys", "list", "--tenant", tenant_id)
        assert "mysql.api_keys" in says("tenants", "erase", tenant_id, "--yes")
        assert says("tenants", "show", tenant_id, code=1) == ""

    def it_lists_the_workers_and_dismisses_no_process_that_is_not_silent(self, says):
        assert "ingest@" in says("workers", "list")
        says("workers", "silent")
        says("workers", "dismiss", "no-host", "nobody", code=1)


class DescribeTheClients:
    async def it_is_the_same_in_both(self, use):
        _, key = make_tenant(use)
        with Chordwise(URL, key) as client:
            made_here = client.create_key("reader")
            assert (made_here.scopes, client.current_key().name) == (("read",), "test")
            shown = client.key(made_here.key_id)
        async with AsyncChordwise(URL, key) as waiting:
            assert await waiting.key(made_here.key_id) == shown
            await waiting.revoke_key(made_here.key_id)
            assert [each.state for each in await waiting.keys()] == ["revoked", "active"]
            with pytest.raises(ProblemError):
                await waiting.tenants()
            assert {row.action for row in await waiting.audit()} == {"key_issue", "key_revoke"}
