"""Namespaces, documents, profiles, experiments, words and quotas on the command line, against the real gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chordwise import Chordwise
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.clients.commands import called
from tests.support.clients.operating import eventually

TEA = "Tea comes from a shrub. Green tea is brewed with water of eighty degrees. Black tea needs boiling water."


@pytest.fixture
def key(use: Resources) -> str:
    return make_tenant(use)[1]


@pytest.fixture
def run(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run a command as a new tenant; gives its output, as JSON where ``--json`` is among the words."""
    monkeypatch.chdir(tmp_path)

    def running(*words: str, code: int = 0) -> Any:
        done = called(*words, CHORDWISE_API_KEY=key)
        assert done.returncode == code, done.stdout + done.stderr
        text = done.stderr if code else done.stdout
        return json.loads(text) if "--json" in words and not code else text

    return running


@pytest.fixture
def kb(run, tmp_path: Path) -> Path:
    folder = tmp_path / "kb"
    folder.mkdir()
    (folder / "tea.md").write_text(f"# Tea\n\n{TEA}")
    (folder / "coffee.md").write_text("# Coffee\n\nFilter coffee is brewed with water of ninety-four degrees.")
    run("ingest", "kb", "-n", "kb", "--wait")
    return folder


class DescribeNamespaces:
    def it_lists_shows_and_deletes_them(self, run, kb):
        assert [row["namespace"] for row in run("namespaces", "list", "--json")["data"]] == ["kb"]
        assert "documents  2" in run("namespaces", "show", "kb")
        assert "there is no namespace" in run("namespaces", "show", "other", code=1)
        assert "deleted with 2 documents" in run("namespaces", "delete", "kb", "--yes")
        assert run("namespaces", "list", "--json")["data"] == []


class DescribeDocuments:
    def it_shows_and_deletes_them(self, run, kb):
        shown = run("documents", "show", "tea.md", "-n", "kb")
        assert "title" in shown
        assert "Tea" in shown
        assert run("documents", "delete", "tea.md", "gone", "-n", "kb", "--json", code=1) == ""
        assert [row["document_id"] for row in run("documents", "list", "-n", "kb", "--json")["data"]] == ["coffee.md"]
        assert run("documents", "delete", "coffee.md", "-n", "kb") == "coffee.md deleted\n"

    def it_ingests_them_again(self, run, kb):
        assert "name the documents" in run("documents", "reingest", "-n", "kb", code=2)
        assert run("documents", "reingest", "tea.md", "-n", "kb", "--wait") == "1 of 1 document ingested again\n"
        assert run("documents", "reingest", "-n", "kb", "--all", "--wait") == "2 of 2 documents ingested again\n"
        listed = run("documents", "list", "-n", "kb", "--json")["data"]
        # Nothing has changed since tea.md was read again, so its third upload is left out.
        assert {row["document_id"]: row["generation"] for row in listed} == {"coffee.md": 2, "tea.md": 2}
        assert "accepted as job" in run("documents", "reingest", "coffee.md", "-n", "kb")
        assert "gone: there is no" in run("documents", "reingest", "tea.md", "gone", "-n", "kb", "--wait", code=1)
        assert "1 document from gone on" in run("documents", "reingest", "gone", "-n", "kb", code=1)
        assert run("documents", "reingest", "-n", "other", "--all") == "No searchable documents.\n"

    @pytest.mark.thorough
    def it_keeps_edited_chunks_unless_it_may_discard_them(self, run, kb):
        chunk = run("chunks", "list", "-n", "kb", "--document", "tea.md", "--json")["data"][0]["chunk_id"]
        run("chunks", "disable", chunk)
        assert "discard_edits" in run("documents", "reingest", "tea.md", "-n", "kb", code=1)
        discarded = run("documents", "reingest", "tea.md", "-n", "kb", "--discard-edits", "--wait")
        assert discarded == "1 of 1 document ingested again\n"

    @pytest.mark.thorough
    def it_downloads_the_upload_or_its_text(self, run, kb, tmp_path):
        assert "tea.md" in run("documents", "download", "tea.md", "-n", "kb")
        assert (tmp_path / "tea.md").read_text() == (kb / "tea.md").read_text()
        assert "exists" in run("documents", "download", "tea.md", "-n", "kb", code=1)
        run("documents", "download", "tea.md", "-n", "kb", "--output", "tea.txt", "--text")
        assert TEA in (tmp_path / "tea.txt").read_text()
        (tmp_path / "tea.md").write_text("other")
        assert run("documents", "download", "tea.md", "-n", "kb", "--force", "--json")["bytes"] > 50
        assert TEA in run("documents", "download", "tea.md", "-n", "kb", "--output", "-")

    @pytest.mark.thorough
    def it_takes_the_first_digits_of_an_id_that_the_server_made(self, run, key):
        with Chordwise(api_key=key) as client:
            client.wait(client.ingest([{"text": TEA, "title": "Tea"}], namespace="kb"), timeout=60)
            (document,) = client.documents(namespace="kb")
        assert document.document_id in run("documents", "show", document.document_id[:8], "-n", "kb")


class DescribeIngestion:
    def it_names_what_was_unchanged_and_what_was_skipped(self, run, kb):
        (kb / "tea.md").write_text("# Tea\n\nWhite tea.")
        (kb / "photo.png").write_bytes(b"\x89PNG")
        said = run("ingest", "kb", "-n", "kb", "--wait")
        assert "unchanged, not ingested again: coffee.md" in said
        assert "photo.png" in said
        assert "there already, skipped: coffee.md, tea.md" in run(
            "ingest", "kb", "-n", "kb", "--wait", "--on-conflict", "skip"
        )
        sent = run("ingest", "kb", "-n", "kb", "--wait", "--json")
        assert sorted(sent["unchanged"]) == ["coffee.md", "tea.md"]


class DescribeQueries:
    def it_shows_confidence_and_the_sentence_that_fits(self, run, kb):
        said = run("query", "how hot is the water for green tea", "-n", "kb", "-k", "1")
        assert "confidence" in said.splitlines()[0]
        assert "… Green tea is brewed with water of eighty" in said

    @pytest.mark.parametrize("text", ["green tea", "绿茶"])
    def it_uses_the_profile_that_is_named(self, run, kb, text):
        answer = run("query", text, "-n", "kb", "--profile", "default", "--json")
        assert answer["stats"]["profile"] == "default"
        assert "no-such-profile" in run("query", text, "-n", "kb", "--profile", "no-such-profile", code=1)

    @pytest.mark.thorough
    def it_takes_the_first_digits_of_a_job_and_of_a_query(self, run, kb):
        (job,) = run("jobs", "--json")["data"]
        assert job["job_id"] in run("jobs", job["job_id"][:8])
        answer = run("query", "green tea", "-n", "kb", "--trace", "--json")
        eventually(lambda: run("audit", "--action", "search", "--json")["data"])  # it is written after the answer
        assert run("trace", answer["query_id"][:8], "--json")["query_id"] == answer["query_id"]
        assert "no such job" in run("jobs", "00000000", code=1)

    def it_lists_the_traces_that_were_kept(self, run, kb):
        answer = run("query", "green tea", "-n", "kb", "--trace", "--json")
        kept = eventually(lambda: run("traces", "--mark", "requested", "--json")["data"])
        assert [trace["query_id"] for trace in kept] == [answer["query_id"]]
        assert run("traces", "-n", "other") == "No traces.\n"


class DescribeProfiles:
    def it_stores_tries_activates_and_deletes_versions(self, run, tmp_path):
        (tmp_path / "five.json").write_text('{"top_k": 5}')
        assert "version 1 is active" in run("profiles", "store", "mine", "five.json", "--note", "fewer")
        (tmp_path / "seven.json").write_text('{"top_k": 7}')
        assert "version 2 is tried on 10%" in run("profiles", "store", "mine", "seven.json", "--share", "0.1")
        assert "version 2 is active" in run("profiles", "activate", "mine", "2")
        assert '"top_k": 7' in run("profiles", "show", "mine", "--plan")
        assert [row["config_version"] for row in run("profiles", "versions", "mine", "--json")["data"]] == [2, 1]
        assert "version 1 is active" in run("profiles", "rollback", "mine")
        assert "mine" in {row["name"] for row in run("profiles", "list", "--json")["data"]}
        assert run("profiles", "delete", "mine") == "deleted\n"
        assert "five.json must hold" not in run("profiles", "store", "mine", "absent.json", code=1)


class DescribeExperiments:
    def it_stores_shows_and_deletes_them(self, run, tmp_path):
        arms = [{"name": "control", "share": 1}, {"name": "more", "share": 1, "overrides": {"top_k": 20}}]
        (tmp_path / "arms.json").write_text(json.dumps({"arms": arms}))
        assert run("experiments", "store", "e1", "arms.json", "--inactive") == "stored with the arms control, more\n"
        assert run("experiments", "list", "--json")["data"][0]["active"] is False
        assert '"more"' in run("experiments", "show", "e1")
        run("experiments", "results", "e1", "--json")
        assert run("experiments", "delete", "e1") == "deleted\n"


class DescribeTheDictionary:
    def it_adds_replaces_and_deletes_words(self, run, tmp_path):
        assert "1 synonyms" in run("dictionary", "add", "--synonyms", "高血压，hypertension", "-n", "kb")
        run("dictionary", "add", "--stop-word", "请问", "--phrase", "slow query log", "-n", "kb")
        words = run("dictionary", "show", "-n", "kb", "--json")
        assert (words["synonyms"], words["stop_words"]) == ([["高血压", "hypertension"]], ["请问"])
        (tmp_path / "words.json").write_text('{"phrases": ["green tea"]}')
        assert "0 synonyms, 0 stop words, 1 phrases" in run("dictionary", "store", "words.json", "-n", "kb")
        assert run("dictionary", "delete", "-n", "kb") == "deleted\n"

    @pytest.mark.thorough
    def it_loses_no_words_of_two_writers(self, key):
        with Chordwise(api_key=key) as client:
            for word in ("one", "two", "three"):
                client.extend_dictionary(namespace="kb", stop_words=[word])
            assert client.dictionary(namespace="kb").stop_words == ("one", "two", "three")


def test_quotas_are_shown_with_their_use(run, kb):
    assert run("quotas", "--json")["documents"]["used"] == 2
    assert "documents" in run("quotas")
