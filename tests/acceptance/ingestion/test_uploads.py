"""Files as people have them: in many encodings, with titles over tables, too large, sent again."""

from __future__ import annotations

import base64
import os
from typing import Any

import httpx
import pytest

from chordwise.cli import run
from tests.conftest import gateway, make_tenant

HANT = "編號,狀態,說明\nK-17,正常,設備狀態：舵機正常，請檢查。\n"
HANS = "编号,状态,说明\nK-17,正常,设备状态：舵机正常，请检查。\n"
ENGLISH = "number,state,note\nK-17,“normal”,the servo’s supply is checked — 5 °C\n"


def sent(client: httpx.Client, namespace: str, *files: tuple[str, bytes, str], **fields: str) -> dict[str, Any]:
    parts = [("file", file) for file in files]
    answer = client.post("/v1/files", data={"namespace": namespace, **fields}, files=parts)
    assert answer.status_code == 202, answer.text
    job: dict[str, Any] = client.get(answer.headers["location"], params={"wait": 30}).json()
    return job


def source_of(client: httpx.Client, namespace: str, document_id: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/v1/documents/{document_id}", params={"namespace": namespace}).json()["source"]
    return found


def text_of(client: httpx.Client, namespace: str, document_id: str) -> str:
    answer = client.get(f"/v1/documents/{document_id}/chunks", params={"namespace": namespace})
    return "\n".join(chunk["text"] for chunk in answer.json()["data"])


class DescribeEncodings:
    def it_is_shown_on_the_document_and_the_item(self, client, namespace):
        texts = {"big5": (HANT, "big5"), "gb18030": (HANS, "gb18030"), "windows-1252": (ENGLISH, "cp1252")}
        files = [(f"{name}.csv", text.encode(codec), "text/csv") for name, (text, codec) in texts.items()]
        job = sent(client, namespace, *files)
        assert job["status"] == "succeeded"
        items = client.get(f"/v1/jobs/{job['job_id']}/items").json()["data"]
        for (name, (text, _)), item in zip(texts.items(), items, strict=True):
            source = source_of(client, namespace, f"{name}.csv")
            assert (source["encoding"], source["encoding_warning"]) == (name, None)
            assert 0.93 <= source["encoding_probability"] <= 1
            assert text.splitlines()[1].split(",", 2)[2] in text_of(client, namespace, f"{name}.csv")
            assert (item["encoding"], item["encoding_probability"]) == (name, source["encoding_probability"])

    def it_is_taken_from_the_request(self, client, namespace):
        text, charset = "舵機", "big5"
        body = text.encode(charset)
        sent(client, namespace, ("part.txt", body, f"text/plain; charset={charset}"))
        sent(client, namespace, ("field.txt", body, "text/plain"), charset=charset)
        content = {"bytes": base64.b64encode(body).decode(), "filename": "body.txt", "charset": charset}
        answer = client.post("/v1/documents", json={"namespace": namespace, "documents": [{"source": content}]})
        client.get(answer.headers["location"], params={"wait": 30})
        for document_id in ("part.txt", "field.txt", "body.txt"):
            assert text_of(client, namespace, document_id) == text
        preview = client.post("/v1/chunks/preview", json={"document": {"source": content}}).json()
        assert preview["chunks"][0]["text"] == text
        assert preview["encoding"]["name"] == source_of(client, namespace, "body.txt")["encoding"]

    def it_warns_of_a_charset_that_does_not_fit(self, client, namespace):
        job = sent(client, namespace, ("a.csv", HANT.encode("big5"), "text/csv; charset=gb18030"))
        warning = source_of(client, namespace, "a.csv")["encoding_warning"]
        assert "declared charset 'gb18030'" in warning
        (item,) = client.get(f"/v1/jobs/{job['job_id']}/items").json()["data"]
        assert item["encoding_warning"] == warning

    def it_refuses_an_unknown_charset(self, client, namespace):
        content = {"bytes": "YQ==", "filename": "a.txt", "charset": "klingon"}
        answer = client.post("/v1/documents", json={"namespace": namespace, "documents": [{"source": content}]})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "/documents/0/source/charset"


class DescribeSizes:
    @pytest.mark.thorough
    def it_takes_a_document_of_megabytes_and_names_the_setting_in_a_refusal(self, client, namespace):
        line = "维修手册：每次启动前检查舵机。Check the servo before every start.\n\n".encode()
        job = sent(client, namespace, ("large.txt", line * (2_000_000 // len(line)), "text/plain"))
        assert (job["status"], job["errors"]) == ("succeeded", [])
        job = sent(
            client, namespace, ("huge.txt", b"x " * (17 * 1024 * 1024), "text/plain"), ("a.txt", b"a", "text/plain")
        )
        assert (job["succeeded"], job["failed"]) == (1, 1)
        assert "CHORDWISE_MAX_DOCUMENT_BYTES" in job["errors"][0]["detail"]


class DescribeTheCommandLine:
    @pytest.fixture
    def folder(self, tmp_path, monkeypatch, use):
        for name, text in (("安装.md", "# 安装\n\n按住按钮。"), ("guide.txt", "Hold the button."), ("plan.dwg", "x")):
            (tmp_path / name).write_text(text, encoding="utf-8")
        key = make_tenant(use)[1]
        with gateway(key) as client:
            monkeypatch.setenv("CHORDWISE_URL", str(client.base_url))
        monkeypatch.setenv("CHORDWISE_API_KEY", key)
        return tmp_path

    def it_names_skipped_files_and_counts_unchanged_ones_apart(self, folder, capsys):
        assert run(["ingest", str(folder), "--namespace", "kb", "--wait"]) == 0
        first = capsys.readouterr().out
        assert "2 succeeded, 0 failed" in first
        assert f"1 file of other kinds skipped: {folder / 'plan.dwg'}" in first
        (folder / "guide.txt").write_text("Hold the button for five seconds.", encoding="utf-8")
        assert run(["ingest", str(folder), "--namespace", "kb", "--wait"]) == 0
        assert "1 succeeded, 1 unchanged, 0 failed" in capsys.readouterr().out
        assert run(["ingest", str(folder), "--namespace", "kb", "--wait", "--on-conflict", "skip"]) == 0
        assert "0 succeeded, 2 skipped (there already), 0 failed" in capsys.readouterr().out

    def it_reads_files_and_json_lines_in_the_encoding_that_is_named(self, folder, capsys):
        text, charset = "舵机状态正常", "gb18030"
        sent_folder = folder / "sent"
        sent_folder.mkdir()
        (sent_folder / "state.txt").write_bytes(text.encode(charset))
        (sent_folder / "lines.jsonl").write_bytes(f'{{"id": "line", "text": "{text}"}}\n'.encode(charset))
        assert run(["ingest", str(sent_folder), "--namespace", charset]) == 1
        assert (
            "lines.jsonl cannot be read: it is not UTF-8; name its encoding with --charset" in capsys.readouterr().err
        )
        assert run(["ingest", str(sent_folder), "--namespace", charset, "--wait", "--charset", charset]) == 0
        said = capsys.readouterr()
        assert "2 succeeded, 0 failed" in said.out
        with gateway(os.environ["CHORDWISE_API_KEY"]) as client:
            assert {text_of(client, charset, name) for name in ("state.txt", "line")} == {text}
        assert run(["ingest", str(sent_folder), "--namespace", charset, "--charset", "klingon"]) == 2

    def it_warns_of_a_file_whose_encoding_is_not_sure(self, folder, capsys):
        sent_folder = folder / "sent"
        sent_folder.mkdir()
        (sent_folder / "short.txt").write_bytes("舵機".encode("big5"))
        (sent_folder / "sure.txt").write_text("舵機", encoding="utf-8")
        assert run(["ingest", str(sent_folder), "--namespace", "kb", "--wait"]) == 0
        warned = capsys.readouterr().err.splitlines()
        assert [line for line in warned if line.startswith("chordwise: ")] == [
            line for line in warned if line.startswith("chordwise: short.txt: the encoding is not sure")
        ]
        assert any("short.txt" in line for line in warned)
