"""Sources as entities: listed, counted and deleted over HTTP, by the client and on the command line."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from chordwise import AsyncChordwise, Chordwise, ProblemError
from chordwise.cli import run
from pipeline.database.unit_of_work import unit_of_work
from pipeline.records import TenantId
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import ended, pointers, problem, send
from tests.support.corpora.documents import assert_whole, document, found_documents, search, upload
from tests.support.corpora.formats import docx, paragraph, pdf, xlsx

LINES = "\n".join(
    json.dumps({"id": f"line-{number}", "text": text}, ensure_ascii=False)
    for number, text in enumerate(("The pump starts.", "阀门关闭后水泵停止。", "The gasket leaks."))
)


@pytest.fixture
def owner(use) -> tuple[TenantId, str]:
    return make_tenant(use)


@pytest.fixture
def key(owner) -> str:
    return owner[1]


def not_found(response: httpx.Response) -> bool:
    """Whether the answer is that there is no such source. `problem` cannot compare paths beyond ASCII."""
    return (response.status_code, response.json()["code"]) == (404, "source_not_found")


@pytest.fixture
def client(key) -> Iterator[httpx.Client]:
    with gateway(key) as found:
        yield found


def sources(client: httpx.Client, namespace: str, **params: Any) -> dict[str, dict[str, Any]]:
    """The sources of every page, by their addresses or ids."""
    found: dict[str, dict[str, Any]] = {}
    cursor = None
    while True:
        asked = {"namespace": namespace, "limit": 2, **params, **({"cursor": cursor} if cursor else {})}
        page = client.get("/v1/sources", params=asked).raise_for_status().json()
        assert not found.keys() & {each["source_id"] for each in page["data"]}
        found |= {each["uri"] or each["source_id"]: each for each in page["data"]}
        if (cursor := page["next_cursor"]) is None:
            return found


def source_of(client: httpx.Client, namespace: str, document_id: str) -> dict[str, Any]:
    answer = client.get(f"/v1/documents/{document_id}", params={"namespace": namespace})
    return dict(answer.raise_for_status().json()["source"])


def uploaded(client: httpx.Client, namespace: str, *files: tuple[str, bytes]) -> dict[str, Any]:
    sent = [("file", file) for file in files]
    return ended(client, client.post("/v1/files", data={"namespace": namespace}, files=sent))


class DescribeKinds:
    def it_tells_how_documents_arrived(self, client, namespace):
        job = uploaded(
            client,
            namespace,
            ("手册.txt", "水泵的维护手册。".encode("gb18030") * 20),
            ("report.pdf", pdf("First page of the report", "Second page of the report")),
            ("lines.jsonl", LINES.encode()),
        )
        assert job["succeeded"] == 5, job
        swan = base64.b64encode(docx(paragraph("The swan sings."))).decode()
        upload(
            client,
            namespace,
            [
                document("inline", "Nobody says where this came from."),
                {"document_id": "swan", "source": {"bytes": swan, "filename": "swan.docx"}},
            ],
        )
        book = xlsx({"qa": [["user_input", "agent_response"], ["感冒吃什么药", "多喝水"], ["How?", "So."]]})
        sheet = client.post("/v1/examples", data={"namespace": namespace}, files={"file": ("书.xlsx", book)})
        ended(client, sheet)

        found = sources(client, namespace)
        kinds = {name: (each["kind"], each["documents"], each["media_type"]) for name, each in found.items()}
        assert kinds.pop(source_of(client, namespace, "inline")["source_id"]) == ("text", 1, "text/plain")
        assert {name: kind[:2] for name, kind in kinds.items()} == {
            "手册.txt": ("file", 1),
            "report.pdf": ("file", 1),
            "lines.jsonl": ("file", 3),
            "swan.docx": ("bytes", 1),
            "书.xlsx": ("sheet", 2),
        }
        assert kinds["lines.jsonl"][2] == "application/jsonl"
        assert kinds["report.pdf"][2] == "application/pdf"
        assert found["手册.txt"]["encoding"] == "gb18030"
        assert (found["report.pdf"]["page_start"], found["report.pdf"]["page_end"]) == (1, 2)
        assert found["lines.jsonl"]["statuses"]["succeeded"] == found["lines.jsonl"]["chunks"] == 3
        assert set(sources(client, namespace, kind="sheet")) == {"书.xlsx"}
        assert set(sources(client, namespace, followed="false")) == set(found)
        assert not sources(client, namespace, followed="true")

    def it_describes_each_document_s_source(self, client, namespace):
        uploaded(client, namespace, ("lines.jsonl", LINES.encode()), ("报告.pdf", pdf("One", "Two", "Three")))
        line, report = source_of(client, namespace, "line-1"), source_of(client, namespace, "报告.pdf")
        assert (line["kind"], line["uri"], line["media_type"]) == ("file", "lines.jsonl", "text/plain")
        assert (report["kind"], report["uri"], report["media_type"]) == ("file", "报告.pdf", "application/pdf")
        assert (report["page_start"], report["page_end"], report["encoding"]) == (1, 3, None)
        params = {"namespace": namespace, "source_id": line["source_id"]}
        listed = client.get("/v1/documents", params=params).json()["data"]
        assert [each["document_id"] for each in listed] == ["line-0", "line-1", "line-2"]
        chunks = client.get("/v1/chunks", params=params).json()["data"]
        assert {chunk["source_id"] for chunk in chunks} == {line["source_id"]}
        assert [chunk["document_id"] for chunk in chunks] == ["line-0", "line-1", "line-2"]
        with_document = client.get("/v1/chunks", params={**params, "document_id": "报告.pdf"}).json()["data"]
        assert with_document == []


class DescribeIds:
    def it_gives_a_repeated_upload_the_same_id(self, client, namespace):
        first = document("a", "The pump.", source={"uri": "file:泵.md", "media_type": "text/markdown"})
        upload(client, namespace, [first, document("none", "Nothing is known of this.")])
        before = source_of(client, namespace, "a"), source_of(client, namespace, "none")
        job = upload(client, namespace, [first, document("none", "Nothing is known of this.")])
        assert job["outcomes"] == {"unchanged": 2}
        assert (source_of(client, namespace, "a"), source_of(client, namespace, "none")) == before
        upload(client, namespace, [document("b", "The valve.", source={"uri": "file:泵.md"})])
        assert source_of(client, namespace, "b")["source_id"] == before[0]["source_id"]
        assert sources(client, namespace)["file:泵.md"]["documents"] == 2

    def it_differs_between_namespaces_and_tenants(self, use, client, namespace):
        one = document("a", "The pump.", source={"uri": "file:a.md"})
        with gateway(make_tenant(use)[1]) as other:
            for reader, place in ((client, namespace), (client, f"{namespace}-2"), (other, namespace)):
                upload(reader, place, [one])
            ids = {
                source_of(reader, place, "a")["source_id"]
                for reader, place in ((client, namespace), (client, f"{namespace}-2"), (other, namespace))
            }
            assert len(ids) == 3
            mine = source_of(client, namespace, "a")["source_id"]
            for method in ("GET", "DELETE"):
                asked = other.request(method, f"/v1/sources/{mine}", params={"namespace": namespace})
                problem(asked, 404, "source_not_found")
        assert sources(client, namespace)["file:a.md"]["documents"] == 1

    def it_takes_an_id_from_the_sender(self, client, namespace):
        rows = [
            document(f"行-{number}", f"第{number}行的内容。", source={"source_id": "账本/2026"}) for number in range(3)
        ]
        upload(client, namespace, rows)
        found = client.get("/v1/sources/账本%2F2026", params={"namespace": namespace}).json()
        assert (found["source_id"], found["documents"], found["uri"]) == ("账本/2026", 3, None)

    def it_moves_an_unchanged_document_to_its_new_source(self, client, namespace):
        upload(client, namespace, [document("a", "The pump.")])
        before = source_of(client, namespace, "a")["source_id"]
        job = upload(client, namespace, [document("a", "The pump.", source={"source_id": "ledger"})])
        assert job["outcomes"] == {"unchanged": 1}
        assert source_of(client, namespace, "a")["source_id"] == "ledger"
        assert set(sources(client, namespace)) == {"ledger"}
        problem(client.get(f"/v1/sources/{before}", params={"namespace": namespace}), 404, "source_not_found")

    def it_follows_a_document_that_is_replaced(self, client, namespace):
        upload(client, namespace, [document("a", "The pump.", source={"uri": "old.txt"})])
        upload(client, namespace, [document("a", "水泵。", source={"uri": "新.txt"})])
        assert set(sources(client, namespace)) == {"新.txt"}


class DescribeDeletion:
    def it_takes_every_document_of_the_source_and_no_other(self, use, owner, client, namespace):
        rows = [
            document(
                f"d{number:03}",
                f"Sentence {number} about the pelican. 鹈鹕的第{number}句。",
                source={"source_id": "全部"},
            )
            for number in range(230)
        ]
        upload(client, namespace, [*rows, document("other", "The pelican stays. 鹈鹕留下。")])
        assert client.get("/v1/sources/全部", params={"namespace": namespace}).json()["chunks"] == 230
        answer = client.delete("/v1/sources/全部", params={"namespace": namespace})
        assert answer.json() == {"source_id": "全部", "namespace": namespace, "documents": 230}
        assert [found_documents(search(client, namespace, text)) for text in ("pelican", "鹈鹕")] == [["other"]] * 2
        assert [each["documents"] for each in sources(client, namespace).values()] == [1]
        assert not_found(client.delete("/v1/sources/全部", params={"namespace": namespace}))
        assert_whole(client, namespace, documents=1, chunks=1)
        with unit_of_work(use.mysql) as work:
            auditor = Tenants(work.connection, owner[0]).issue_key("auditor", scopes=("admin",))
        with gateway(auditor) as reader:
            [noted] = reader.get("/v1/audit", params={"action": "source_delete"}).json()["data"]
        assert (noted["ids"], noted["count"], noted["namespaces"]) == (["全部"], 230, [namespace])

    def it_takes_what_failed_or_is_on_its_way(self, client, namespace):
        broken = {"bytes": "JVBERi0xLjQKbm8=", "media_type": "application/pdf", "source_id": "损坏"}
        job = ended(client, send(client, namespace, {"document_id": "broken", "source": broken}))
        assert job["failed"] == 1
        assert sources(client, namespace) == {}
        found = client.get("/v1/sources/损坏", params={"namespace": namespace}).json()
        assert (found["documents"], found["statuses"]["failed"], found["chunks"]) == (1, 1, 0)
        assert client.delete("/v1/sources/损坏", params={"namespace": namespace}).json()["documents"] == 1

    def it_needs_the_scope_write(self, use, owner, client, namespace):
        upload(client, namespace, [document("a", "The pump.", source={"source_id": "s"})])
        with unit_of_work(use.mysql) as work:
            reading = Tenants(work.connection, owner[0]).issue_key("reader", scopes=("read",))
        with gateway(reading) as reader:
            assert reader.get("/v1/sources/s", params={"namespace": namespace}).status_code == 200
            problem(reader.delete("/v1/sources/s", params={"namespace": namespace}), 403, "insufficient_scope")


class DescribeBadInput:
    def it_names_what_is_wrong(self, client, namespace):
        kind = client.get("/v1/sources", params={"namespace": namespace, "kind": "纸"})
        assert pointers(problem(kind, 422, "invalid_request")) == ["/kind"]
        assert pointers(problem(client.get("/v1/sources"), 422, "invalid_request")) == ["/namespace"]
        for unknown in ("none", "没有", "x" * 65):
            assert not_found(client.get(f"/v1/sources/{unknown}", params={"namespace": namespace}))
        sent = send(client, namespace, {"text": "t", "source": {"source_id": "x" * 65}})
        assert pointers(problem(sent, 422, "invalid_document")) == ["/documents/0/source/source_id"]
        cursor = client.get("/v1/sources", params={"namespace": namespace, "cursor": "nonsense"})
        assert cursor.status_code == 422


class DescribeTheClient:
    def it_lists_shows_and_deletes(self, key, client, namespace):
        upload(client, namespace, [document("a", "The pump. 水泵。", source={"uri": "泵.md"})])
        with Chordwise(api_key=key) as chordwise:
            [found] = chordwise.sources(namespace=namespace, kind="text")
            assert (found.uri, found.documents, found.statuses["succeeded"]) == ("泵.md", 1, 1)
            assert chordwise.source(found.source_id, namespace=namespace) == found
            [one] = chordwise.documents(namespace=namespace, source_id=found.source_id)
            assert one.source.source_id == found.source_id
            [chunk] = chordwise.chunks(namespace=namespace, source_id=found.source_id)
            assert chunk.source_id == found.source_id

        async def delete() -> int:
            async with AsyncChordwise(api_key=key) as waiting:
                assert await waiting.sources(namespace=namespace) == [found]
                return (await waiting.delete_source(found.source_id, namespace=namespace)).documents

        assert asyncio.run(delete()) == 1
        with Chordwise(api_key=key) as chordwise, pytest.raises(ProblemError, match="There is no source"):
            chordwise.delete_source(found.source_id, namespace=namespace)

    def it_works_on_the_command_line(self, key, client, namespace, monkeypatch, capsys):
        monkeypatch.setenv("CHORDWISE_API_KEY", key)
        upload(client, namespace, [document("a", "水泵。", source={"source_id": "甲"}), document("b", "The pump.")])
        assert run(["sources", "list", "--namespace", namespace, "--json"]) == 0
        assert len(json.loads(capsys.readouterr().out)["data"]) == 2
        assert run(["sources", "show", "甲", "--namespace", namespace]) == 0
        assert "1: 1 succeeded" in capsys.readouterr().out
        assert run(["documents", "list", "--namespace", namespace, "--source-id", "甲"]) == 0
        assert "a" in capsys.readouterr().out
        assert run(["sources", "delete", "甲", "--namespace", namespace]) == 0
        assert capsys.readouterr().out.strip() == "deleted with 1 document"
        assert run(["sources", "delete", "甲", "--namespace", namespace]) == 1
        assert "There is no source '甲' in this namespace" in capsys.readouterr().err
        assert run(["sources", "list", "--namespace", namespace, "--kind", "paper"]) == 2


class DescribeArchives:
    def it_brings_sources_into_another_namespace(self, key, client, namespace, tmp_path):
        uploaded(client, namespace, ("lines.jsonl", LINES.encode()), ("报告.pdf", pdf("One", "Two")))
        upload(client, namespace, [document("own", "水泵。", source={"source_id": "甲", "uri": "a.md"})])
        before, copy = sources(client, namespace), f"{namespace}-copy"
        with Chordwise(api_key=key) as chordwise:
            chordwise.export(namespace, tmp_path / "archive")
            chordwise.wait(chordwise.import_archive(tmp_path / "archive", namespace=copy).ingestion)
        after = sources(client, copy)
        told = ("kind", "uri", "media_type", "documents", "chunks", "page_start", "page_end")
        assert {name: [each[field] for field in told] for name, each in after.items()} == {
            name: [each[field] for field in told] for name, each in before.items()
        }
        assert after["a.md"]["source_id"] == "甲"
        again = uploaded(client, copy, ("lines.jsonl", LINES.encode()))
        assert again["succeeded"] == 3
        assert sources(client, copy)["lines.jsonl"]["documents"] == 3
