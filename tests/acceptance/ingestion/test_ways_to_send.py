"""Ways to send files: folders with equal names, names in every spelling, kinds, links; and every warning in every place."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from chordwise import Chordwise
from chordwise.cli import run
from tests.conftest import gateway, make_tenant
from tests.support.corpora.formats import docx, paragraph, pdf, xlsx


def upload(client: httpx.Client, *files: tuple[str, bytes], **fields: str) -> dict[str, Any]:
    parts = [("file", (name, body, "application/octet-stream")) for name, body in files]
    answer = client.post("/v1/files", data={"namespace": "kb", **fields}, files=parts)
    assert answer.status_code == 202, answer.text
    job: dict[str, Any] = client.get(answer.headers["location"], params={"wait": 30}).json()
    return job


def stored(client: httpx.Client) -> dict[str, str]:
    """Every document with its text."""
    documents = client.get("/v1/documents", params={"namespace": "kb", "limit": 200}).json()["data"]
    ids = [document["document_id"] for document in documents]
    return {document_id: text_of(client, document_id) for document_id in ids}


def text_of(client: httpx.Client, document_id: str) -> str:
    path = f"/v1/documents/{quote(document_id, safe='')}/chunks"
    chunks = client.get(path, params={"namespace": "kb"}).json()["data"]
    return "\n".join(chunk["text"] for chunk in chunks)


class DescribeTheCommandLine:
    @pytest.fixture
    def client(self, monkeypatch, use):
        key = make_tenant(use)[1]
        with gateway(key) as client:
            monkeypatch.setenv("CHORDWISE_URL", str(client.base_url))
            monkeypatch.setenv("CHORDWISE_API_KEY", key)
            yield client

    @pytest.fixture
    def ingest(self, client, capsys):
        def ingesting(*arguments: object) -> tuple[int, str, str]:
            status = run(["ingest", *map(str, arguments), "--namespace", "kb", "--wait"])
            printed = capsys.readouterr()
            return status, printed.out, printed.err

        return ingesting

    def it_keeps_files_of_equal_names_in_two_folders_apart_over_several_requests(self, client, ingest, tmp_path):
        for folder in ("a", "b"):
            (tmp_path / folder / "docs").mkdir(parents=True)
            for number in range(101):  # 202 files are two requests
                (tmp_path / folder / "docs" / f"f{number:03}.md").write_text(f"Word {folder}{number} of {folder}.")
        status, out, _ = ingest(tmp_path / "a", tmp_path / "b")
        assert (status, "202 succeeded, 0 failed" in out) == (0, True)
        assert "2 files have the name docs/f000.md: sent as a/docs/f000.md, b/docs/f000.md" in out
        (counts,) = client.get("/v1/namespaces").json()["data"]
        assert counts["documents"] == 202
        assert text_of(client, "a/docs/f007.md") == "Word a7 of a."
        status, out, _ = ingest(tmp_path / "b", tmp_path / "a")
        assert (status, "202 unchanged, 0 failed" in out) == (0, True)

    def it_sends_a_name_that_is_not_utf_8_under_an_escaped_one(self, client, ingest, tmp_path):
        (tmp_path / "ok.txt").write_text("plain words")
        Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), b"\xba\xcd\xce\xac.txt"))).write_text("other words")
        status, out, err = ingest(tmp_path)
        assert (status, err, "2 succeeded" in out) == (0, "", True)
        assert "%BA%CD%CE%AC.txt: sent as %BA%CD%CE%AC.txt" in out
        assert stored(client) == {"%BA%CD%CE%AC.txt": "other words", "ok.txt": "plain words"}
        assert "2 unchanged" in ingest(tmp_path)[1]

    def it_names_links_and_a_name_with_a_quotation_mark_arrives(self, client, ingest, tmp_path):
        folder = tmp_path / "kb"
        folder.mkdir()
        (folder / 'the "new" plan.txt').write_text("words")
        (tmp_path / "secret.txt").write_text("secret")
        (folder / "out.txt").symlink_to("../secret.txt")
        (folder / "gone.txt").symlink_to("nothing")
        status, out, _ = ingest(folder)
        assert status == 0
        assert f"{folder}/out.txt is a link to a file outside the folder, skipped" in out
        assert f"{folder}/gone.txt is a link to nothing, skipped" in out
        assert list(stored(client)) == ['the "new" plan.txt']

    def it_takes_texts_of_every_kind_as_they_are_and_others_as_the_hint_says(self, client, ingest, tmp_path, capsys):
        code = "def f(x):\n    return [\n        x,\n    ]"
        for name in ("run.py", "app.log", "film.srt", "set.yaml", "page.xml", "make.sql", "LICENSE"):
            (tmp_path / name).write_text(code)
        (tmp_path / "words.unheard").write_text("# Unheard\n\nof")
        status, out, _ = ingest(tmp_path)
        assert (status, "7 succeeded, 0 failed" in out) == (0, True)
        assert f"1 file of other kinds skipped: {tmp_path}/words.unheard" in out
        assert set(stored(client).values()) == {code}
        assert run(["ingest", str(tmp_path / "words.unheard"), "--namespace", "kb", "--wait"]) == 1
        assert "--parser-hint" in capsys.readouterr().err
        status, out, _ = ingest(tmp_path / "words.unheard", "--parser-hint", "md")
        assert (status, text_of(client, "words.unheard")) == (0, "Unheard\n\nof")
        status, _, err = ingest(tmp_path / "words.unheard", "--parser-hint", "klingon")
        assert (status, "parser_hint" in err) == (1, True)

    def it_shows_each_warning_here_on_the_job_and_on_the_document(self, client, ingest, tmp_path, capsys):
        (tmp_path / "page.html").write_text("<p>Seen words.</p><p style='display:none'>Hidden.</p>")
        (tmp_path / "row.csv").write_text('name,note\nPump,"24 wide\nValve,new\n')
        (tmp_path / "plain.txt").write_text("words")
        warnings = {
            "page.html": "1 elements that the page does not show were left out",
            "row.csv": "a quote in line 2 is never closed or has text after it",
        }
        status, _, err = ingest(tmp_path)
        assert status == 0
        lines = sorted(line for line in err.splitlines() if line.startswith("chordwise: "))
        assert lines == [f"chordwise: {name}: {warning}" for name, warning in sorted(warnings.items())]
        (job,) = client.get("/v1/jobs").json()["data"]
        items = client.get(f"/v1/jobs/{job['job_id']}/items", params={"warned": True}).json()["data"]
        assert {item["document_id"]: item["pages_warning"] for item in items} == warnings
        assert run(["jobs", job["job_id"]]) == 0
        assert sorted(line for line in capsys.readouterr().err.splitlines() if line) == lines
        for name, warning in warnings.items():
            document = client.get(f"/v1/documents/{name}", params={"namespace": "kb"}).json()
            assert document["source"]["pages_warning"] == warning
            assert run(["documents", "show", name, "--namespace", "kb"]) == 0
            assert warning in " ".join(capsys.readouterr().out.split())
        (tmp_path / "page.html").write_text("<p>New words.</p><p style='display:none'>Hidden.</p>")
        status, out, _ = ingest(tmp_path / "page.html", "--json")
        assert [each["warning"] for each in json.loads(out)["warnings"]] == [warnings["page.html"]]

    def it_keeps_files_of_equal_names_apart_in_python(self, client, tmp_path):
        for folder in ("a", "b"):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "r.txt").write_text(folder)
        (tmp_path / "a" / "link.txt").symlink_to("nothing")
        with Chordwise(str(client.base_url), os.environ["CHORDWISE_API_KEY"]) as ours:
            for send in (ours.ingest, ours.ingest_files):
                done = ours.wait(send([tmp_path / "b", tmp_path / "a"], namespace="kb"))
                assert (done.succeeded, done.renamed) == (2, {"r.txt": ("a/r.txt", "b/r.txt")})
                assert [each.reason for each in done.left_out] == ["is a link to nothing"]
            (tmp_path / "words.unheard").write_text("of every kind")
            (tmp_path / "lines.jsonl").write_text('{"text": "of a line"}')
            done = ours.wait(ours.ingest(tmp_path, namespace="other", parser_hint="txt"))
            assert (done.succeeded, {each.path for each in done.left_out}) == (4, {f"{tmp_path}/a/link.txt"})
        assert stored(client) == {"a/r.txt": "a", "b/r.txt": "b"}


class DescribeNamesInForms:
    def it_makes_one_document_of_a_composed_and_a_decomposed_name(self, client):
        upload(client, ("Übung.txt", b"one"))
        upload(client, ("U\u0308bung.txt", b"two"))
        assert stored(client) == {"Übung.txt": "two"}

    def it_keeps_two_files_of_one_name_in_either_order(self, client):
        files = [("r.txt", b"first"), ("r.txt", b"second")]
        upload(client, *files)
        once = stored(client)
        upload(client, *files[::-1])
        assert stored(client) == once
        assert sorted(once.values()) == ["first", "second"]


class DescribeKinds:
    def it_reads_a_file_whose_name_says_something_else(self, client):
        job = upload(
            client,
            ("report.docx", pdf("Words of a page.")),
            ("table.xls", xlsx({"Sheet": [["name", "price"], ["Pump", "4"]]})),
            ("export.xls", b"<html><body><table><tr><td>Valve</td><td>9</td></tr></table></body></html>"),
            ("letter.pdf", docx(paragraph("Words of a letter."))),
            ("lines.json", b'{"a": "first line"}\n{"a": "second line"}\n'),
            ("bom.json", b'\xef\xbb\xbf{"a": "marked"}'),
        )
        assert (job["status"], job["errors"]) == ("succeeded", [])
        found = stored(client)
        for name, words in (
            ("report.docx", "Words of a page."),
            ("table.xls", "price: 4"),
            ("export.xls", "Valve"),
            ("letter.pdf", "Words of a letter."),
            ("lines.json", "second line"),
            ("bom.json", "marked"),
        ):
            assert words in found[name]

    def it_says_in_one_sentence_what_to_do_with_another(self, client):
        advice = {
            "a.zip": "unpack it and send its files",
            "a.doc": "save it as .docx, .pdf or .html",
            "a.unheard": "name that in parser_hint (--parser-hint)",
        }
        job = upload(client, ("ok.txt", b"words"), *((name, b"\x00\x01") for name in advice))
        assert (job["succeeded"], {error["code"] for error in job["errors"]}) == (1, {"unsupported_media_type"})
        said = {error["document_id"]: error["detail"] for error in job["errors"]}
        assert all(sentence in said[name] for name, sentence in advice.items())
