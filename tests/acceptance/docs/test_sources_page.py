"""The page on sources shows commands, rules and a package that work."""

from __future__ import annotations

import json
import os
import shlex
import tomllib
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chordwise import Chordwise
from chordwise.cli import run
from pipeline.resources import Resources
from pipeline.sources.entry import GROUP, Entry
from tests.conftest import make_tenant
from tests.support.repository.guides import blocks
from tests.support.servers.web_server import WebServer, page, publish

Says = Callable[..., Any]
SITE = "https://docs.example.com/"


@pytest.fixture
def namespace() -> str:
    return f"kb-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def client(use: Resources, monkeypatch: pytest.MonkeyPatch) -> Iterator[Chordwise]:
    _, key = make_tenant(use)
    monkeypatch.setenv("CHORDWISE_API_KEY", key)
    with Chordwise(os.environ["CHORDWISE_URL"], key) as found:
        yield found


@pytest.fixture
def site() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


def says(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


class DescribeThePage:
    def it_follows_a_site_by_its_commands(self, client, namespace, site, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        [rules] = blocks("docs/sources.md", "json")
        (tmp_path / "rules.json").write_text(rules.text)
        publish(site, "tea.md", "hr/pay.md", "hr/drafts/x.md", "pump.md")
        [block] = blocks("docs/sources.md", "sh")
        lines = [
            shlex.split(line.replace(SITE, site.url()).replace("--namespace kb", f"--namespace {namespace}"))
            for line in block.text.splitlines()
        ]
        add, listing, show, again, pause, resume, remove = (line[1:] for line in lines)
        added = says(capsys, *add)
        assert client.wait(added["followed"]["job_id"], timeout=60).status == "succeeded"
        assert [row["source_id"] for row in says(capsys, *listing)["data"]] == ["docs"]
        shown = says(capsys, *show)
        assert (shown["documents"], shown["followed"]["run"]["skipped"]) == (3, 1)
        document = client.document("hr-pay", namespace=namespace)
        assert (document.tags, document.metadata) == (("handbook", "hr"), {"team": "hr"})
        publish(site, "tea.md")
        assert client.wait(says(capsys, *again)["job_id"], timeout=60).status == "succeeded"
        assert says(capsys, *show)["followed"]["held_removals"] == 2
        capsys.readouterr()
        assert run(["sources", "confirm", "docs", "--namespace", namespace, "--json"]) == 0
        assert client.wait(json.loads(capsys.readouterr().out)["job_id"], timeout=60).status == "succeeded"
        assert says(capsys, *show)["documents"] == 1
        assert says(capsys, *pause)["followed"]["next_run_at"] is None
        assert says(capsys, *resume)["followed"]["next_run_at"] is not None
        assert says(capsys, *remove)["documents"] == 0
        assert client.document("tea.md", namespace=namespace).source.source_id == "docs"

    def it_tells_people_the_same(self, client, namespace, site, capsys):
        publish(site, "tea.md")
        url = site.url("/sitemap.xml")
        run(["sources", "add", url, "--namespace", namespace, "--every", "2h", "--id", "docs"])
        assert "following as source docs; its first run is job " in capsys.readouterr().out
        followed = client.source("docs", namespace=namespace).followed
        client.wait(followed.job_id, timeout=60)
        run(["sources", "show", "docs", "--namespace", namespace])
        shown = capsys.readouterr().out
        assert "every 2h" in shown
        assert "1 listed, 1 added" in shown
        assert "added tea.md: new" in shown
        run(["sources", "add", url, "--namespace", namespace, "--every", "soon"])
        assert "must be a number with s, m, h or d, such as 90d" in capsys.readouterr().err
        run(["sources", "delete", "docs", "--namespace", namespace])
        assert "deleted with 1 document" in capsys.readouterr().out


class DescribeThePackage:
    def it_reads_a_wiki(self, site):
        [block] = blocks("docs/sources.md", "python")
        names: dict[str, Any] = {"__name__": "acme_wiki"}
        exec(compile(block.text, "docs/sources.md", "exec"), names)
        listing = [{"title": "Tea", "revision": 3}]
        site.pages["/space/pages?after="] = page(json.dumps(listing).encode(), media_type="application/json")
        site.pages["/space/pages?after=Tea"] = page(b"[]", media_type="application/json")
        site.pages["/space/pages/Tea"] = page(b"Green tea.", media_type="text/plain")
        reader = names["open_wiki"](site.url("/space").replace("http:", "wiki:"), {"scheme": "http"})
        assert list(reader.entries()) == [Entry(path="Tea.md", version="3")]
        assert reader.read("Tea.md", 100) == b"Green tea."

    def it_is_found_in_the_group_that_is_read(self):
        [block] = blocks("docs/sources.md", "toml")
        assert tomllib.loads(block.text)["project"]["entry-points"] == {GROUP: {"wiki": "acme_wiki:open_wiki"}}
