"""The JavaScript client as npm unpacks it, in Node, against the real gateway."""

from __future__ import annotations

from pathlib import Path

import pytest

from compose.localstack.distributions import pack_javascript, unpack
from pipeline.database.unit_of_work import unit_of_work
from pipeline.resources import Resources
from pipeline.tenants.accounts import IMPERSONATE, SCOPES
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import make_tenant
from tests.support.clients.node import node
from tests.support.repository.guides import blocks
from tests.support.repository.project import ROOT

PAGE = "docs/javascript.md"
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package below node_modules, as `make dist` writes it; test_client_wheel runs the whole command."""
    folder = tmp_path_factory.mktemp("project")
    archive = pack_javascript(folder)
    assert f"npm install ./dist/{archive.name}\n" in (ROOT / PAGE).read_text(encoding="utf-8")
    unpack(archive, folder)
    (folder / "node_modules").mkdir()
    (folder / "package").rename(folder / "node_modules" / "chordwise-client")
    return folder


def it_runs_the_page(project: Path, use: Resources) -> None:
    program = project / "page.mjs"
    program.write_text("\n".join(block.text for block in blocks(PAGE, "js")))
    tenant_id, _ = make_tenant(use)
    with unit_of_work(use.mysql) as work:
        key = Tenants(work.connection, tenant_id).issue_key("of the page", (*SCOPES, IMPERSONATE))
    ran = node(program, cwd=project, CHORDWISE_API_KEY=key)
    assert ran.returncode == 0, ran.stderr
    assert "eighty degrees" in ran.stdout
    assert "owner [ 'cocoa.md', 'tea' ]" in ran.stdout
    assert "user:42 [ 'cocoa.md' ]" in ran.stdout
    assert "finished 1 1" in ran.stdout
    assert "404 document_not_found" in ran.stdout


@pytest.mark.thorough
def it_keeps_files_of_equal_names_apart_and_makes_one_document_of_two_normal_forms(
    project: Path, use: Resources
) -> None:
    program = project / "names.mjs"
    program.write_text(
        """import { Chordwise } from "chordwise-client";
        const client = new Chordwise();
        const namespace = "names";
        const send = async (...file) => client.waitForJob(await client.uploadFiles({ namespace, file }));
        const both = [{ name: "r.txt", data: "first" }, new File(["second"], "r.txt")];
        for (const file of [both, both.reverse()]) console.log((await send(...file)).succeeded);
        for (const name of ["U\u0308bung 报告.txt", "\u00dcbung 报告.txt"]) await send({ name, data: "words" });
        await send({ name: 'the "new" plan.txt', data: "words" });
        for await (const each of client.items((params) => client.listDocuments(params), { namespace }))
          console.log(each.document_id.normalize("NFC") === each.document_id, each.document_id);
        """,
        encoding="utf-8",
    )
    ran = node(program, cwd=project, CHORDWISE_API_KEY=make_tenant(use)[1])
    assert ran.returncode == 0, ran.stderr
    counts, ids = ran.stdout.splitlines()[:2], [line.removeprefix("true ") for line in ran.stdout.splitlines()[2:]]
    assert counts == ["2", "2"]
    assert [name for name in ids if not name.startswith("r.txt")] == ['the "new" plan.txt', "Übung 报告.txt"]
    assert len(ids) == 4


@pytest.mark.thorough
def it_runs_the_example(project: Path, use: Resources) -> None:
    example = project / "node_modules" / "chordwise-client" / "example.mjs"
    ran = node(example, cwd=project, CHORDWISE_API_KEY=make_tenant(use)[1])
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert "finished succeeded 2 of 2" in lines
    assert "document cocoa.md" in lines
    assert "refused 404 document_not_found example-1" in lines
    assert lines[-1] == "deleted 3"
