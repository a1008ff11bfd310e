"""The page on permissions shows documents, commands and a token that work."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chordwise import Chordwise
from chordwise.cli import run
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.repository.guides import blocks
from tests.support.repository.project import ROOT

PAGE = (ROOT / "docs/permissions.md").read_text(encoding="utf-8")
Says = Callable[..., Any]
SIGNING = "chordwise keys create backend --signs-tokens"
OF_A_GROUP = "chordwise keys create NAME --principal group:hr"
CHANGING = "chordwise documents readers group:hr --namespace kb --source-id handbook"


@pytest.fixture
def namespace() -> str:
    return f"kb-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def tenant_key(use: Resources, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    tenant, key = make_tenant(use)
    monkeypatch.setenv("CHORDWISE_API_KEY", key)
    return tenant, key


@pytest.fixture
def client(tenant_key: tuple[str, str]) -> Iterator[Chordwise]:
    with Chordwise(os.environ["CHORDWISE_URL"], tenant_key[1]) as found:
        yield found


@pytest.fixture
def says(capsys: pytest.CaptureFixture[str]) -> Says:
    def say(*arguments: str) -> Any:
        capsys.readouterr()
        assert run([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return say


def found(key: str, namespace: str) -> set[str]:
    with Chordwise(os.environ["CHORDWISE_URL"], key) as asking:
        return {hit.document_id for hit in asking.query("Where is the canteen?", namespaces=[namespace]).chunks}


class DescribeThePage:
    def it_shows_the_commands_that_are_run_below(self):
        for command in (SIGNING, OF_A_GROUP, CHANGING):
            assert f"`{command}`" in PAGE

    def it_shows_documents_with_readers_and_a_token_that_reads_them(self, tenant_key, client, says, namespace):
        [block] = blocks("docs/permissions.md", "json")
        body = json.loads(block.text)
        documents = [{**each, "text": f"The canteen is beside {each['document_id']}."} for each in body["documents"]]
        client.wait(client.ingest(documents, namespace=namespace))
        key = says("keys", "create", "backend", "--signs-tokens")
        assert found(key["api_key"], namespace) == {"canteen"}
        [python] = blocks("docs/permissions.md", "python")
        code = python.text.replace("chordwise:acme:0123456789abcdef", f"chordwise:{tenant_key[0]}:{key['key_id']}")
        names: dict[str, Any] = {"token_secret": key["token_secret"]}
        exec(code, names)
        assert found(names["token"], namespace) == {"canteen", "salaries"}

    def it_shows_a_key_of_a_group(self, client, says, namespace, tmp_path: Path):
        (tmp_path / "plan.md").write_text("The canteen is on the third floor.")
        says("ingest", str(tmp_path / "plan.md"), "--namespace", namespace, "--reader", "group:hr", "--wait")
        key = says("keys", "create", "NAME", "--principal", "group:hr")
        assert key["principals"] == ["group:hr"]
        assert found(key["api_key"], namespace) == {"plan.md"}

    def it_shows_how_readers_are_changed(self, client, says, namespace):
        client.wait(
            client.ingest(
                [{"document_id": "leave", "text": "The canteen closes at two.", "source": {"source_id": "handbook"}}],
                namespace=namespace,
            )
        )
        stranger = client.create_key("a stranger").api_key
        assert found(stranger, namespace) == {"leave"}
        changed = says("documents", "readers", "group:hr", "--namespace", namespace, "--source-id", "handbook")
        assert changed["documents"] == 1
        assert found(stranger, namespace) == set()
        assert says("documents", "readers", "public", "--namespace", namespace, "--document", "leave")["documents"] == 1
        assert found(stranger, namespace) == {"leave"}
        says("documents", "readers", "group:hr", "--namespace", namespace, "--default")
        client.wait(client.ingest([{"document_id": "new", "text": "The canteen opens at ten."}], namespace=namespace))
        assert found(stranger, namespace) == {"leave"}
