"""A namespace as a file: exported and imported in the browser, interrupted, damaged, and read by the other tools."""

from __future__ import annotations

import io
import tarfile
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from chordwise import Chordwise
from chordwise.api.archive_files import ArchiveReader
from compose.localstack.distributions import unpack
from pipeline.administration.manage_tenants import issue_key
from tests.conftest import gateway, make_tenant
from tests.support.corpora.console import MANUAL, OTHERS, hand_in

NO_PICKER = "delete window.showSaveFilePicker"  # as in a browser without it; its dialog belongs to the system
# Stands for the dialog: the file that the user chose is one of the page's own storage.
PICKER = """window.showSaveFilePicker = async ({ suggestedName }) => {
  const folder = await navigator.storage.getDirectory();
  window.chosen = await folder.getFileHandle(suggestedName, { create: true });
  return window.chosen;
};"""
MANY = [{"document_id": f"d{n:03}", "title": f"Note {n}", "text": f"Note {n} speaks of pumps."} for n in range(600)]


@pytest.fixture(scope="module")
def key_of_many(use) -> str:
    """A key of a tenant with many documents."""
    _, key = make_tenant(use)
    with gateway(key) as client:
        hand_in(client, *MANY)
    return key


@pytest.fixture(scope="module")
def archive(key_of_many, tmp_path_factory) -> Path:
    """Two parts, exported by the client."""
    path = tmp_path_factory.mktemp("archive") / "kb.chordwise"
    with Chordwise(api_key=key_of_many) as chordwise:
        assert len(chordwise.export("kb", path).parts) == 2
    return path


def export(page: Page) -> None:
    page.get_by_role("region", name="Export", exact=True).get_by_label("Namespace").fill("kb")
    page.get_by_role("button", name="Export", exact=True).click()


def choose(page: Page, path: Path, *, into: str = "copy") -> None:
    page.get_by_label("Archive").set_input_files(path)
    page.get_by_label("Into namespace").fill(into)
    page.get_by_role("button", name="Import", exact=True).click()


def ids(client: Any, namespace: str) -> list[str]:
    page = client.get("/v1/documents", params={"namespace": namespace, "limit": 200}).json()
    return [each["document_id"] for each in page["data"]]


def changed(path: Path, tmp_path: Path, change: Any) -> Path:
    """Copy an archive, with its entries changed by ``change(name, content)``; None drops one."""
    copy = tmp_path / "changed.chordwise"
    with tarfile.open(path) as whole, tarfile.open(copy, "w") as other:
        for entry in whole:
            content = change(entry.name, whole.extractfile(entry).read())
            if content is not None:
                entry.size = len(content)
                other.addfile(entry, io.BytesIO(content))
    return copy


class DescribeExport:
    def it_makes_an_archive_that_every_tool_reads(self, console, tmp_path: Path):
        made = console()
        made.page.add_init_script(NO_PICKER)
        hand_in(made.client, MANUAL, *OTHERS)
        page = made.open("transfer")
        expect(page.get_by_text("at most 1.0 GB")).to_be_visible()
        with page.expect_download() as download:
            export(page)
        expect(page.get_by_role("status").filter(has_text="Done")).to_be_visible()
        path = tmp_path / download.value.suggested_filename
        assert path.name == "kb.chordwise"
        download.value.save_as(path)
        reader = ArchiveReader(path)
        reader.verify()
        assert (reader.manifest.documents, reader.manifest.namespace, reader.manifest.dimension) == (4, "kb", 256)
        reader.close()

        other = console()
        with Chordwise(api_key=other.key) as chordwise:
            chordwise.wait(chordwise.import_archive(path, namespace="copy").ingestion)
        assert sorted(ids(other.client, "copy")) == sorted(ids(made.client, "kb"))

    @pytest.mark.thorough
    def it_writes_while_it_receives_and_continues_where_it_stopped(self, console, key_of_many, tmp_path: Path):
        made = console(key=key_of_many)
        made.page.add_init_script(PICKER)
        page = made.open("transfer")
        expect(page.get_by_text("at any size")).to_be_visible()
        page.route("**/export?cursor=*", lambda route: route.fulfill(status=503, json={"status": 503, "title": "Away"}))
        export(page)
        expect(page.get_by_text("The server is busy or away; trying again.")).to_be_visible()
        expect(page.get_by_text("500 of 600 documents")).to_be_visible()
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_role("status").filter(has_text="Stopped")).to_be_visible()
        page.get_by_role("link", name="Jobs").first.click()  # the export does not depend on the view
        page.get_by_role("link", name="Export and import").click()
        page.unroute("**/export?cursor=*")
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("status").filter(has_text="Done")).to_be_visible()
        content = page.evaluate(
            """async () => {
              const reader = new FileReader();
              reader.readAsDataURL(await window.chosen.getFile());
              await new Promise((resolve) => { reader.onload = resolve; });
              return reader.result;
            }"""
        )
        (path := tmp_path / "streamed.chordwise").write_bytes(b64decode(content.partition(",")[2]))
        reader = ArchiveReader(path)
        reader.verify()
        assert (reader.manifest.documents, len(reader.manifest.parts)) == (600, 2)
        reader.close()
        made.errors.clear()  # the 503

    @pytest.mark.thorough
    @pytest.mark.refused
    def it_names_a_namespace_that_is_not_there(self, console):
        made = console()
        made.page.add_init_script(NO_PICKER)
        page = made.open("transfer")
        page.get_by_role("region", name="Export", exact=True).get_by_label("Namespace").fill("没有")
        page.get_by_role("button", name="Export", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("namespace_not_found")


class DescribeImport:
    @pytest.mark.refused
    def it_sends_only_what_has_not_arrived(self, console, archive):
        made = console()
        page = made.open("transfer")
        sent: list[str] = []
        page.on("request", lambda request: sent.append(request.url[-7:]) if request.method == "PUT" else None)
        page.route("**/parts/2?*", lambda route: route.abort())
        page.get_by_label("Archive").set_input_files(archive)
        expect(page.get_by_text("wordllama")).to_be_visible()
        choose(page, archive)
        expect(page.get_by_text("1 of 2 parts")).to_be_visible()
        expect(page.get_by_text("The server is busy or away; trying again.")).to_be_visible()
        page.unroute("**/parts/2?*")
        page.reload()  # with it goes all that the page knew
        sent.clear()
        choose(page, archive)
        expect(page.get_by_role("status").filter(has_text="Done")).to_be_visible()
        assert len(sent) == 1
        expect(page.get_by_text("All parts are ingested.")).to_be_visible(timeout=60_000)
        assert len(ids(made.client, "copy")) == 200  # of 600, the first page

    @pytest.mark.refused
    @pytest.mark.parametrize(
        ("change", "fault"),
        [
            (
                lambda name, content: content if name != "part-00001.zip" else content[:-1] + b"?",
                "part-00001.zip is damaged",
            ),
            *(
                pytest.param(*case, marks=pytest.mark.thorough)
                for case in (
                    (lambda name, content: None if name == "manifest.json" else content, "There is no manifest.json"),
                    (lambda name, content: content if name != "part-00002.zip" else None, "part-00002.zip is missing"),
                    (
                        lambda name, content: content.replace(b'"documents": 6', b'"documents": 7'),
                        "manifest.json is damaged",
                    ),
                    (
                        lambda name, content: content.replace(b'"version": 1', b'"version": 9'),
                        "The archive has version 9",
                    ),
                )
            ),
        ],
        ids=["damaged", "none", "missing", "manifest", "version"],
    )
    def it_names_what_is_wrong_with_an_archive(self, console, archive, tmp_path, change, fault):
        page = console().open("transfer")
        page.get_by_label("Archive").set_input_files(changed(archive, tmp_path, change))
        if page.get_by_label("Into namespace").or_(page.get_by_role("alert")).first.wait_for() or fault.startswith(
            "part"
        ):
            page.get_by_label("Into namespace").fill("copy")
            page.get_by_role("button", name="Import", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text(fault)

    @pytest.mark.thorough
    def it_names_a_file_that_is_none_or_cut_off(self, console, archive, tmp_path):
        page = console().open("transfer")
        (other := tmp_path / "notes.chordwise").write_text("我的笔记 " * 400)
        page.get_by_label("Archive").set_input_files(other)
        expect(page.get_by_role("alert")).to_contain_text("notes.chordwise is not an archive")
        (short := tmp_path / "short.chordwise").write_bytes(archive.read_bytes()[:-40_000])
        page.get_by_label("Archive").set_input_files(short)
        expect(page.get_by_role("alert")).to_contain_text("The archive ends within part-00002.zip")
        folder = tmp_path / "folder"
        unpack(archive, folder)
        page.get_by_label("Archive").set_input_files(sorted(folder.iterdir()))
        expect(page.get_by_label("Into namespace")).to_have_value("kb")

    @pytest.mark.thorough
    def it_is_not_offered_to_a_key_that_only_reads(self, console, use):
        tenant, _ = make_tenant(use)
        page = console(key=issue_key(tenant, use, "reader", ("read",), principals=("*",)).secret, locale="zh-CN").open(
            "transfer"
        )
        expect(page.get_by_text("此 API Key 只有读取权限，不能写入。")).to_be_visible()
        expect(page.get_by_label("归档文件")).to_have_count(0)
