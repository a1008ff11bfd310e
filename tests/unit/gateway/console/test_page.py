"""The console's files, without a browser: what is vendored, what is said in which language, what is never in them."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from fastapi import FastAPI

from api_gateway.app import create_app
from api_gateway.console.page import FOLDER, POLICY, files
from pipeline.errors import Misconfigured
from pipeline.settings import load
from tests.support.repository.project import PROJECT
from workers.names import Queue, TaskName

MODULES = sorted(FOLDER.glob("js/**/*.js"))
SOURCES = {path: path.read_text(encoding="utf-8") for path in MODULES}
VENDORED = json.loads((FOLDER / "vendor/vendored.json").read_text(encoding="utf-8"))

# Words for codes of the server, looked up by `word("status", code)`, and keys put together: `t(`stage.${stage}`)`.
_KEY = re.compile(r"""(?:\bt\(|label=\$\{t\()\s*["']([\w.-]+)["']""")
_PUT_TOGETHER = re.compile(r"\bt\(`([\w.]+?)\$\{")
_BY_CODE = re.compile(r"""\bword\(["'](\w+)["']""")
_IMPORT = re.compile(r"""(?:from\s+|import\s+|import\()["']([^"']+)["']""")
_SERVED = {Path(name).suffix for name in files()}
_STATIC = re.compile(r"""(?:from|import)\s+["']([^"']+)["']""")
_BARE = re.compile(r"""["']((?:nav|signin)\.[\w-]+)["']""")


def table(language: str) -> dict[str, str]:
    groups = json.loads(files()[f"messages/{language}.json"].body)
    return {f"{group}.{name}": text for group, words in groups.items() for name, text in words.items()}


def used() -> tuple[set[str], tuple[str, ...]]:
    """Keys that stand in the modules, and beginnings of those put together at run time."""
    text = "\n".join(SOURCES.values())
    beginnings = {*_PUT_TOGETHER.findall(text), *(f"{group}." for group in _BY_CODE.findall(text))}
    return {*_KEY.findall(text), *_BARE.findall(text)}, tuple(beginnings)


@pytest.fixture(scope="module")
def app() -> FastAPI:
    return create_app(load({"flower_url": "https://flower.example/"}))


@pytest.fixture
async def client(app):
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as made:
        yield made


class DescribeMessages:
    def it_has_the_same_keys_in_both_languages(self):
        assert table("en").keys() == table("zh").keys()

    def it_fills_the_same_blanks_in_both_languages(self):
        english, chinese = table("en"), table("zh")
        blanks = re.compile(
            r"\{(\w+)(?::\w+(?: \w+)?\|\w+(?: \w+)?)?\}"
        )  # with the noun in the singular and in the plural
        assert [
            key for key in english if sorted(blanks.findall(english[key])) != sorted(blanks.findall(chinese[key]))
        ] == []

    def it_has_every_word_that_is_used(self):
        keys, _ = used()
        assert keys - table("en").keys() == set()

    def it_has_no_word_that_nobody_uses(self):
        keys, beginnings = used()
        assert [key for key in table("en") if key not in keys and not key.startswith(beginnings)] == []

    def it_says_nothing_that_is_not_in_the_tables(self):
        # Text between tags, or in an attribute that is read out: letters that no ${…} gave.
        spoken = re.compile(
            r">\s*([A-Z][a-z]+(?: [a-z]+)*)\s*<|(?:aria-label|title|placeholder)=\"([^\"$]*[a-z]{3}[^\"$]*)\""
        )
        found = {match[0] for text in SOURCES.values() for match in spoken.finditer(text)}
        assert {each for each in found if "Chordwise" not in each} - {'placeholder="manual, v2"'} == set()


class DescribeFiles:
    @pytest.mark.parametrize("entry", VENDORED, ids=lambda entry: entry["file"])
    def it_vendors_what_the_package_holds_save_for_the_named_edits(self, entry):
        text = (FOLDER / "vendor" / entry["file"]).read_text(encoding="utf-8")
        assert hashlib.sha256(text.encode()).hexdigest() == entry["sha256_here"]
        for edit in entry["edits"]:
            text = text.replace(edit["to"], edit["from"])
        assert hashlib.sha256(text.encode()).hexdigest() == entry["sha256_there"]

    def it_names_the_licence_of_everything_vendored(self):
        licences = {path.name for path in FOLDER.glob("vendor/LICENSE-*.txt")}
        assert licences == {f"LICENSE-{entry['package']}.txt" for entry in VENDORED}

    @pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
    def it_imports_only_what_is_there(self, path: Path):
        named = _IMPORT.findall(SOURCES[path])
        assert [each for each in named if not (path.parent / each).is_file()] == []

    @pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
    def it_makes_no_markup_from_strings(self, path: Path):
        assert (
            re.findall(r"innerHTML|outerHTML|dangerouslySet|insertAdjacentHTML|\beval\(|new Function", SOURCES[path])
            == []
        )

    def it_keeps_every_file_of_ours_short(self):
        ours = [
            path
            for path in FOLDER.rglob("*")
            if path.suffix in {".js", ".css", ".json"} and path.parent.name != "vendor"
        ]
        assert [path.name for path in ours if len(path.read_text(encoding="utf-8").splitlines()) >= 300] == []

    def it_has_no_script_or_style_in_the_page_itself(self):
        page = (FOLDER / "index.html").read_text(encoding="utf-8")
        assert re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|https?://", page) == []

    def it_loads_the_modules_of_the_first_view_at_once(self):
        page = (FOLDER / "index.html").read_text(encoding="utf-8")
        named = re.findall(r'(?:modulepreload" href|type="module" src)="([^"]+)"', page)
        first = {FOLDER / "js/main.js", FOLDER / "js/views/overview.js"}
        for _ in MODULES:
            first |= {
                (path.parent / name).resolve() for path in first for name in _STATIC.findall(path.read_text("utf-8"))
            }
        assert sorted(named) == sorted(path.relative_to(FOLDER).as_posix() for path in first)

    def it_stays_small(self):
        assert sum(len(file.compressed) for name, file in files().items() if not name.endswith(".txt")) < 400_000

    @pytest.mark.parametrize("language", ["en", "zh"])
    def it_has_a_word_for_every_queue_and_task(self, language):
        expected = {f"queue.{name}" for name in Queue} | {f"task.{name}" for name in TaskName}
        assert expected - table(language).keys() == set()

    def it_names_every_group_of_messages_once(self):
        for language in ("en", "zh"):
            groups = [
                group
                for path in FOLDER.glob(f"messages/{language}/*.json")
                for group in json.loads(path.read_text(encoding="utf-8"))
            ]
            assert len(groups) == len(set(groups))

    def it_is_part_of_the_package(self):
        patterns = PROJECT["tool"]["setuptools"]["package-data"]["api_gateway"]
        packaged = {path for pattern in patterns for path in FOLDER.parent.glob(pattern) if path.is_file()}
        read = {path for path in FOLDER.rglob("*") if path.suffix in _SERVED and path.is_file()}
        assert len(read) > len(files()) / 2
        assert read <= packaged


class DescribeServing:
    async def it_leads_from_the_root_to_the_console(self, client):
        answer = await client.get("/")
        assert (answer.status_code, answer.headers["location"]) == (307, "console/")
        assert (
            urljoin("https://example.com/search/", answer.headers["location"]) == "https://example.com/search/console/"
        )

    async def it_leads_to_the_page(self, client):
        answer = await client.get("/console")
        assert (answer.status_code, answer.headers["location"]) == (307, "console/")
        page = await client.get("/console/")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["content-security-policy"] == POLICY
        assert "unsafe" not in POLICY

    @pytest.mark.parametrize("name", files())
    async def it_serves_every_file_and_knows_when_it_has_not_changed(self, client, name):
        answer = await client.get(f"/console/{name}")
        assert answer.content == files()[name].body
        assert answer.headers["content-encoding"] == "gzip"
        plain = await client.get(f"/console/{name}", headers={"Accept-Encoding": "identity"})
        assert (plain.content, plain.headers.get("content-encoding")) == (answer.content, None)
        again = await client.get(f"/console/{name}", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")

    @pytest.mark.parametrize("page", ["/console/", "/docs"])
    async def it_names_files_that_a_browser_keeps_for_ever(self, client, page):
        text = (await client.get(page)).text
        own = re.findall(r'(?:href|src)="([^"]+\.(?:css|js|svg))"', text)
        assert len(own) > 5
        for name in own:
            answer = await client.get(urljoin(page, name))
            assert (answer.status_code, "immutable" in answer.headers["cache-control"]) == (200, True)

    async def it_gives_a_page_of_an_earlier_version_the_present_files(self, client):
        answer = await client.get("/console/assets/0123456789abcdef/js/main.js")
        assert answer.content == files()["js/main.js"].body
        assert answer.headers["cache-control"] == "no-cache"

    @pytest.mark.parametrize(
        "path",
        [
            "nothing.js",
            "assets/0123456789abcdef/nothing.js",
            "assets/js",
            "../app.py",
            "%2e%2e/app.py",
            "..%2fapp.py",
            "vendor/",
            "js//main.js",
            "vendor/README.md",
            "\\app.py",
        ],
    )
    async def it_serves_nothing_else(self, client, path):
        answer = await client.get(f"/console/{path}")
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"

    async def it_needs_no_key_for_the_page_and_one_for_everything_in_it(self, client):
        config = (await client.get("/console/config.json")).json()
        assert config["flower_url"] == "https://flower.example/"
        assert config["limits"]["document_bytes"] <= config["limits"]["body_bytes"]
        assert {".pdf", ".md"} <= set(config["limits"]["suffixes"])
        assert config["language_model"] is False
        assert (await client.get("/v1/keys/current")).status_code == 401

    def it_refuses_a_link_that_is_none(self):
        with pytest.raises(Misconfigured, match="CHORDWISE_FLOWER_URL"):
            load({"flower_url": "javascript:alert(1)"})
