"""A namespace out of one tenant and into another, as a user does it: over HTTP, with the client, on the command line."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import random
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import httpx
import pytest

from chordwise import Chordwise, InvalidInput
from tests.conftest import gateway, make_tenant
from tests.support.clients.commands import called
from tests.support.clients.gateway_client import problem
from tests.support.corpora.documents import document, search, until_indexed, upload

PART = "application/vnd.chordwise.part"
WORDS = ["pump", "valve", "gasket", "rotor", "bearing", "seal", "shaft", "flange", "nozzle", "水泵的阀门"]
QUESTIONS = ["how is the pump reset", "gasket of the rotor", "水泵", "bearing 7", "flange pressure"]


@pytest.fixture
def key(use) -> str:
    return make_tenant(use)[1]


@pytest.fixture
def other_key(use) -> str:
    return make_tenant(use)[1]


def documents(count: int) -> list[dict]:
    """Texts of which no two score alike, and few enough for every channel to recall all of them: equal scores are
    ordered by chunk ids, and those of a copy are others."""
    draw = random.Random(20)
    rare = ["".join(draw.choices("bcdfglmnprst", k=3)) + draw.choice("aeiou") for _ in range(400)]

    def section(number: int, word: str) -> str:
        words = " ".join(draw.choices(rare, k=draw.randint(60, 90)) + [word] * draw.randint(1, 4))
        return f"# {word} {number}\n\nThe {word} {draw.choice(WORDS)} {words}."

    return [
        document(
            f"doc/{number}",
            "\n\n".join(section(number, word) for word in WORDS),
            title=f"Manual {number}",
            tags=["a"],
            metadata={"n": number},
            source={"media_type": "text/markdown", "uri": f"file:{number}.md"},
        )
        for number in range(count)
    ]


def digest(body: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"


def send(client: httpx.Client, body: bytes, *, number: int = 1, namespace: str = "copy", **headers: str):
    sent = {"Content-Type": PART, "Content-Digest": digest(body), **headers}
    return client.put(f"/v1/namespaces/{namespace}/imports/an-import/parts/{number}", content=body, headers=sent)


def command(key: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return called(*arguments, **{"CHORDWISE_API_KEY": key, **more})


def told(answer: dict) -> list[tuple]:
    """All there is to a hit but its ids and the moment at which it was shown."""
    return [
        (
            *(chunk[name] for name in ("document_id", "title", "text", "source")),
            {name: value for name, value in chunk["metadata"].items() if name != "updated_at"},
        )
        for chunk in answer["chunks"]
    ]


def scores(answer: dict) -> list[float]:
    return [chunk["score"] for chunk in answer["chunks"]]


def compare(one: httpx.Client, other: httpx.Client, first: str, second: str) -> None:
    until_indexed(one, first)
    until_indexed(other, second)
    for question in QUESTIONS:
        copied, original = search(other, second, question), search(one, first, question)
        assert told(copied) == told(original)
        assert scores(copied) == pytest.approx(scores(original), abs=1e-6)
        assert len(copied["chunks"]) == 10


class DescribeTheCommandLine:
    @pytest.mark.parametrize("name", [pytest.param("archive", marks=pytest.mark.thorough), "archive.chordwise"])
    def it_moves_a_namespace_to_another_tenant_with_identical_answers(self, name, key, other_key, tmp_path):
        path = str(tmp_path / name)
        with gateway(key) as one, gateway(other_key) as other:
            upload(one, "kb", documents(9))
            chunks = one.get("/v1/chunks", params={"namespace": "kb", "limit": 5}).json()["data"]
            changes = [
                {"chunk_id": chunks[0]["chunk_id"], "text": "The turnip is edited by hand."},
                {"chunk_id": chunks[1]["chunk_id"], "enabled": False},
            ]
            assert one.put("/v1/chunks", json={"chunks": changes}).status_code == 200
            done = command(key, "export", "--namespace", "kb", path)
            assert (done.returncode, done.stderr) == (0, "")
            done = command(other_key, "import", path, "--namespace", "copy", "--wait")
            assert (done.returncode, done.stderr) == (0, "")
            assert "vectors kept" in done.stdout
            compare(one, other, "kb", "copy")
            assert "turnip" in search(other, "copy", "the turnip")["chunks"][0]["text"]
            [kept] = other.get("/v1/documents", params={"namespace": "copy", "limit": 1}).json()["data"]
            assert {**kept["source"], "uri": "file:0.md", "media_type": "text/markdown"} == kept["source"]
            off = other.get("/v1/chunks", params={"namespace": "copy", "limit": 5}).json()["data"][1]
            assert off["enabled"] is False
            verified = other.post("/v1/verify", json={"namespaces": ["copy"]}).json()
            wrong = ("missing", "orphaned", "stale", "misplaced", "miscounted", "leftover", "statistics")
            assert {verified[each] for each in wrong} == {0}
            again = command(other_key, "import", path, "--namespace", "copy", "--wait")
            assert again.returncode == 0
            assert "0 parts sent" in again.stdout

    def it_names_the_part_that_is_damaged_and_sends_nothing(self, key, other_key, tmp_path):
        path = tmp_path / "archive"
        with gateway(key) as one, gateway(other_key) as other:
            upload(one, "kb", documents(3))
            assert command(key, "export", "-n", "kb", str(path)).returncode == 0
            part = path / "part-00001.zip"
            body = bytearray(part.read_bytes())
            body[len(body) // 2] ^= 1
            part.write_bytes(body)
            done = command(other_key, "import", str(path), "-n", "copy")
            assert done.returncode == 1
            assert "part-00001.zip is damaged: its SHA-256 is" in done.stderr
            assert other.get("/v1/jobs").json()["data"] == []

    def it_refuses_a_manifest_that_was_changed_and_one_that_is_not_complete(self, key, tmp_path):
        path = tmp_path / "archive"
        with gateway(key) as one:
            upload(one, "kb", documents(1))
        command(key, "export", "-n", "kb", str(path))
        manifest = path / "manifest.json"
        whole = manifest.read_text()
        manifest.write_text(whole.replace('"documents": 1', '"documents": 2'))
        assert "manifest.json is damaged" in command(key, "import", str(path), "-n", "copy").stderr
        manifest.unlink()
        assert command(key, "import", str(path), "-n", "copy").returncode == 1


class DescribeAnInterruption:
    def it_is_gone_on_with_at_both_ends(self, key, other_key, tmp_path, monkeypatch):
        path = tmp_path / "archive"
        url = os.environ["CHORDWISE_URL"]
        with gateway(key) as one, gateway(other_key) as other:
            upload(one, "kb", documents(9))
            self._kill_after(key, "export", 2, path, "kb")
            manifest = json.loads((path / "manifest.json").read_text())
            assert not manifest["complete"]
            kept = [(path / part["name"]).read_bytes() for part in manifest["parts"]]
            with Chordwise(url, key) as client:
                found = client.export("kb", path)
            assert (found.documents, found.complete) == (9, True)
            assert [(path / part.name).read_bytes() for part in found.parts[: len(kept)]] == kept
            self._kill_after(other_key, "import", 2, path, "copy")
            place = f"/v1/namespaces/copy/imports/{found.archive_id}"
            arrived = other.get(place).json()["parts"]
            assert 2 <= len(arrived) <= len(found.parts)
            with Chordwise(url, other_key) as client:
                imported = client.import_archive(path, namespace="copy")
                assert imported.sent == len(found.parts) - len(arrived)
                done = client.wait(imported.ingestion, timeout=60)
            assert (done.status, done.total, done.succeeded) == ("succeeded", 9, 9)
            assert [part["part"] for part in other.get(place).json()["parts"]] == [p.number for p in found.parts]
            compare(one, other, "kb", "copy")

    def _kill_after(self, key: str, what: str, parts: int, path: Path, namespace: str) -> None:
        """Export or import in a process that is killed with signal 9 after so many parts."""
        script = (
            "import os, signal, sys\n"
            "from chordwise import Chordwise\n"
            "from chordwise.transport import Call\n"
            "seen = 0\n"
            "def told(_):\n"
            "    global seen\n"
            "    seen += 1\n"
            f"    if seen == {parts}: os.kill(os.getpid(), signal.SIGKILL)\n"
            "with Chordwise() as client:\n"
            "    send = client._send\n"
            "    def small(call):\n"
            "        if call.path.endswith('/export'):\n"
            "            import dataclasses\n"
            "            call = dataclasses.replace(call, params=(*call.params, ('limit', '2')))\n"
            "        return send(call)\n"
            "    client._send = small\n"
        )
        script += (
            f"    client.export({namespace!r}, {str(path)!r}, on_progress=told)\n"
            if what == "export"
            else f"    client.import_archive({str(path)!r}, namespace={namespace!r}, on_progress=told)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "CHORDWISE_API_KEY": key}, timeout=60, check=False
        )
        assert done.returncode == -9

    def it_exports_a_damaged_part_again(self, key, tmp_path):
        path = tmp_path / "archive"
        with gateway(key) as one:
            upload(one, "kb", documents(2))
        with Chordwise(os.environ["CHORDWISE_URL"], key) as client:
            client.export("kb", path)
            whole = (path / "part-00001.zip").read_bytes()
            (path / "part-00001.zip").write_bytes(whole[:-100])
            client.export("kb", path)
            assert (path / "part-00001.zip").read_bytes() == whole
            with pytest.raises(InvalidInput, match="holds namespace kb"):
                client.export("another", path)


class DescribeParts:
    @pytest.fixture
    def part(self, client) -> bytes:
        upload(client, "kb", documents(2))
        answer = client.get("/v1/namespaces/kb/export")
        assert (answer.status_code, answer.headers["content-type"]) == (200, PART)
        assert answer.headers["content-digest"] == digest(answer.content)
        assert "next-cursor" not in answer.headers
        return answer.content

    def it_can_be_read_with_everyday_tools(self, part):
        with zipfile.ZipFile(io.BytesIO(part)) as opened:
            header = json.loads(opened.read("header.json"))
            described = [json.loads(line) for line in opened.read("documents.jsonl").splitlines()]
            chunks = [json.loads(line) for line in opened.read("chunks.jsonl").splitlines()]
            vectors = opened.read("vectors.f16")
        assert [each["document_id"] for each in described] == ["doc/0", "doc/1"]
        assert header["chunks"] == len(chunks) == sum(each["chunks"] for each in described)
        assert len(vectors) == header["vectors"] * header["dimension"] * 2

    def it_goes_on_where_the_cursor_says(self, client, part):
        first = client.get("/v1/namespaces/kb/export", params={"limit": 1})
        assert first.headers["chordwise-counts"].startswith("documents=1, ")
        second = client.get("/v1/namespaces/kb/export", params={"limit": 1, "cursor": first.headers["next-cursor"]})
        assert "next-cursor" not in second.headers
        problem(client.get("/v1/namespaces/kb/export", params={"cursor": "x"}), 422, "invalid_cursor")

    def it_is_taken_once(self, client, part):
        accepted = send(client, part)
        assert (accepted.status_code, accepted.json()["status"]) == (202, "accepted")
        assert accepted.headers["location"] == f"/v1/jobs/{accepted.json()['job_id']}"
        again = send(client, part)
        assert (again.status_code, again.json()["job_id"]) == (200, accepted.json()["job_id"])
        other = client.get("/v1/namespaces/kb/export", params={"limit": 1}).content
        problem(send(client, other), 409, "import_part_differs")
        assert client.delete("/v1/namespaces/copy/imports/an-import").status_code == 204
        assert send(client, other).status_code == 202

    def it_is_refused_when_it_is_damaged_or_no_part(self, client, part):
        flipped = bytearray(part)
        flipped[len(flipped) // 2] ^= 255
        problem(send(client, bytes(flipped), **{"Content-Digest": digest(part)}), 422, "digest_mismatch")
        problem(send(client, bytes(flipped)), 422, "damaged_part")
        problem(send(client, part[:-30]), 422, "damaged_part")
        problem(send(client, b"no part"), 422, "damaged_part")
        problem(send(client, part, **{"Content-Digest": ""}), 422, "invalid_request")
        problem(send(client, part, **{"Content-Type": "application/zip"}), 415, "unsupported_media_type")
        problem(client.get("/v1/namespaces/copy/imports/an-import"), 404, "import_not_found")

    def it_belongs_to_its_tenant(self, client, part, other_key):
        send(client, part)
        with gateway(other_key) as stranger:
            problem(stranger.get("/v1/namespaces/kb/export"), 404, "namespace_not_found")
            problem(stranger.get("/v1/namespaces/copy/imports/an-import"), 404, "import_not_found")
            problem(stranger.delete("/v1/namespaces/copy/imports/an-import"), 404, "import_not_found")

    def it_is_the_only_way_in_for_packed_documents(self, client, part):
        packed = "application/vnd.chordwise.document"
        sent = client.post("/v1/files", data={"namespace": "copy"}, files=[("file", ("a.bin", part, packed))])
        problem(sent, 415, "unsupported_media_type")
        body = {**document("a", "x"), "source": {"media_type": packed}}
        problem(client.post("/v1/documents", json={"namespace": "copy", "documents": [body]}), 422, "invalid_document")

    def it_never_shows_a_document_in_part_while_it_is_imported(self, client, part):
        wanted = {}
        for number in range(2):
            place = f"/v1/documents/doc%2F{number}/chunks"
            wanted[f"doc/{number}"] = len(client.get(place, params={"namespace": "kb", "limit": 200}).json()["data"])
        job = send(client, part).json()["job_id"]
        ends = time.monotonic() + 30
        while client.get(f"/v1/jobs/{job}").json()["finished_at"] is None and time.monotonic() < ends:
            listed = client.get("/v1/documents", params={"namespace": "copy"}).json()["data"]
            assert all(each["chunks"] in (0, wanted[each["document_id"]]) for each in listed)
        listed = client.get("/v1/documents", params={"namespace": "copy"}).json()["data"]
        assert {each["document_id"]: each["chunks"] for each in listed} == wanted
