"""README and the pages that show commands or requests: all of it is done as it stands there, by a new tenant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chordwise.cli import run
from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.corpora.documents import begun, document, search, upload
from tests.support.repository.guides import README, blocks
from tests.support.repository.reading import Reader
from tests.support.servers.business_api import business_api, says

_LOADS = "\npython -c 'from pipeline.settings import load; load()'\n"
_IMPORTS = "import json, zipfile\nimport numpy as np\n"
CRM = {"result": {"rows": [{"id": "7", "name": "Returns", "summary": "Within thirty days.", "relevance": 0.9}]}}


@pytest.fixture
def reader(use: Resources, tmp_path: Path) -> Reader:
    return Reader(tmp_path, make_tenant(use)[1])


@pytest.fixture
def tea(reader: Reader) -> str:
    """The id of a query that found the reader's one document, in kb."""
    with gateway(reader.key) as client:
        upload(client, "kb", [document("tea", "Green tea is brewed with water of eighty degrees.")])
        return str(search(client, "kb", "water for green tea")["query_id"])


def shell(page: str) -> list[str]:
    return [block.text for block in blocks(page, "sh")]


def it_is_used_as_the_readme_says_from_any_folder(use, tmp_path):
    reader = Reader(tmp_path, make_tenant(use)[1], elsewhere=True)
    make, use, curl, servers, models = shell(README)
    assert "compose/local.py up" in reader.types(make, knowing=False)
    shown = reader.types(use, knowing=False)
    assert "2 succeeded, 0 failed" in shown
    assert '"text":"绿茶用八十度的水冲泡。"' in reader.types(curl, knowing=False)
    [program] = blocks(README, "python")
    assert " both " in reader.runs(program.text)
    assert "compose/local.py up" in reader.types(servers + _LOADS, knowing=False)
    reader.types(
        "export CHORDWISE_MYSQL_URL=mysql+pymysql://a/b CHORDWISE_POSTGRES_URL=postgresql+psycopg://a/b\n"
        + models
        + _LOADS
    )


@pytest.mark.thorough
def it_completes_in_shells(reader):
    (reader.home / ".config/fish/completions").mkdir(parents=True)
    [completion] = shell("docs/cli.md")
    reader.types(f"{completion}complete -p chordwise\n")
    assert "chordwise" in (reader.home / ".config/fish/completions/chordwise.fish").read_text()


@pytest.mark.thorough
def it_measures_by_what_users_said(reader, tea):
    said, measured = shell("docs/evaluation.md")
    with gateway(reader.key) as client:
        [hit] = client.get(f"/v1/queries/{tea}").json()["chunks"]
    reader.types(f"QUERY={tea}\n{said.replace('…', hit['chunk_id'])}")
    export, evaluate, tune, compare = measured.splitlines()
    reader.types(f"{export}\n{evaluate}")
    assert json.loads((reader.folder / "before.jsonl").read_text().splitlines()[0])["documents"] == ["tea"]
    assert tune.split()[1] == "tune"  # on one question: nothing is better, which it says, and stores nothing
    reader.types(tune, status=1)
    assert compare.split()[1:3] == ["models", "compare"]
    reader.types(compare, status=1)  # nothing is being moved, and a tenant may not ask


@pytest.mark.thorough
def it_keeps_a_library(reader):
    [commands] = shell("docs/example-library.md")
    shown = reader.types(f"chordwise examples template book.xlsx\n{commands}")
    assert "4 of 4 rows searchable" in shown


@pytest.mark.thorough
def it_moves_a_namespace(reader, tea):
    [commands] = shell("docs/portability.md")
    reader.types(f"{commands}tar -xf kb.chordwise\n")
    [program] = blocks("docs/portability.md", "python")
    assert reader.runs(f"{_IMPORTS}{program.text}print(len(vectors))") == "1\n"


def it_asks_many_questions(reader, tea):
    questions = [{"id": "en", "query_text": "water for green tea"}, {"id": "zh", "query_text": "绿茶"}]
    (reader.folder / "questions.jsonl").write_text("\n".join(json.dumps(each) for each in questions))
    [command] = shell("docs/query-batches.md")
    assert "2 questions in answers.jsonl" in reader.types(command)
    first, second = (json.loads(line) for line in (reader.folder / "answers.jsonl").read_text().splitlines())
    assert (first["id"], first["answer"]["chunks"][0]["document_id"], second["id"]) == ("en", "tea", "zh")


def it_stores_a_profile(reader):
    [command] = shell("docs/profiles.md")
    assert json.loads(reader.types(command))["config"]["top_k"] == 5


@pytest.mark.thorough
def it_asks_channels(reader, tea):
    query, faq, source = (block.text for block in blocks("docs/channels.md", "json"))
    with gateway(reader.key) as client, business_api() as crm:
        crm.answers["/search"] = says(CRM)
        # The stack has no CHORDWISE_API_SECRETS: a text of one's own stands for the secret.
        described = json.loads(
            source.replace("https://crm.example.com", crm.url).replace('{"from": "crm"}', '"Bearer x"')
        )
        stored = client.put("/v1/api-sources/crm", json=described)
        assert stored.status_code in (200, 201), stored.text
        pairs = json.loads(faq)
        upload(client, pairs["namespace"], pairs["documents"], chunking=pairs["chunking"])
        asked = json.loads(query.replace("…", "How do I return something?"))
        answer = client.post("/v1/queries", json=asked, headers={"Prefer": "wait=20"}).json()
        assert "Within thirty days." in [hit["text"] for hit in answer["chunks"]]
        assert {"faq", "api"} <= set(answer["stats"]["hits"])


@pytest.mark.thorough
def it_weighs_fields(reader, tea):
    [block] = blocks("docs/keyword-search.md", "json")
    with gateway(reader.key) as client:
        assert search(client, "kb", "green tea", **json.loads(block.text))["chunks"]


def it_does_what_is_named_in_passing(reader, tea, monkeypatch, capsys):
    """Commands in the text that no block shows and no other test runs; tests/unit/test_documented_commands.py finds gaps."""
    monkeypatch.chdir(reader.folder)
    monkeypatch.setenv("CHORDWISE_API_KEY", reader.key)

    def said(*words: str) -> dict[str, Any]:
        capsys.readouterr()
        assert run([*words, "--json"]) == 0, (words, capsys.readouterr().err)
        return dict(json.loads(capsys.readouterr().out))

    assert run(["query", "water for green tea", "-n", "kb", "--trace", "--json"]) == 0
    asked = json.loads(capsys.readouterr().out)
    chunk = asked["chunks"][0]["chunk_id"]
    assert run(["trace", asked["query_id"]]) == 0
    assert run(["why-not", asked["query_id"], chunk]) == 0
    assert run(["traces", "--mark", "requested"]) == 0
    assert run(["feedback", "add", tea, "good", "--chunk", chunk]) == 0
    assert run(["usage"]) == 0
    assert run(["doctor", "--drift"]) == 0
    with gateway(reader.key) as client:
        job = begun(client, "many", 400)
    assert run(["jobs", job, "--pause"]) == 0
    assert run(["jobs", job, "--resume"]) == 0
    key = said("keys", "create", "importer")["key_id"]
    assert run(["keys", "revoke", key]) == 0
