"""A move of the installation to another embedding model, steered from the page on databases of its own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import expect

from pipeline.administration.manage_tenants import issue_key
from pipeline.maintenance.migrate_schema import upgrade
from pipeline.records import Namespace
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import make_tenant, scratch_databases
from tests.support.stacks.corner import Corner
from tests.support.stacks.model_moves import fill, run, state
from tests.support.stacks.processes import environment_of, free_port, process, wait_for_http


class Installation(NamedTuple):
    """Databases with twenty documents, and a gateway without workers: the test makes each step of theirs."""

    url: str
    key: str
    use: Resources


@pytest.fixture
def installation(settings: Settings, tmp_path: Path) -> Iterator[Installation]:
    """A move concerns the whole installation, so it gets one."""
    with scratch_databases(settings) as fresh:
        own = Resources(fresh)
        upgrade(own.mysql, own.postgres, fresh)
        tenant, _ = make_tenant(own)
        fill(Corner(own, tenant, Namespace("kb")))
        key = issue_key(tenant, own, "night shift", ("read", "admin", "operator"), principals=("*",)).secret
        port = free_port()
        environment = environment_of(fresh, redis_url=fresh.redis_url.get_secret_value(), port=port)
        with process("api_gateway", log=tmp_path / "gateway.log", ending=signal.SIGKILL, **environment):
            wait_for_http(f"http://127.0.0.1:{port}/healthz", seconds=90)
            yield Installation(f"http://127.0.0.1:{port}", key, own)
        own.close()


class DescribeAModelMigration:
    @pytest.mark.thorough
    @pytest.mark.refused
    def it_goes_there_back_and_to_the_end(self, console, installation: Installation, pictures):
        use = installation.use
        page = console(key=installation.key, url=installation.url).open("migration")
        expect(page.get_by_text("No earlier migrations")).to_be_visible()
        page.get_by_label("Provider").select_option("Local model")
        page.get_by_label("Model", exact=True).fill("no-such-model")
        page.get_by_label("Dimension").fill("128")
        page.get_by_role("button", name="Start").click()
        page.get_by_role("dialog").get_by_role("button", name="Start").click()
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("wordllama-l2-supercat")
        page.get_by_role("button", name="Cancel").click()

        page.get_by_label("Model", exact=True).fill("wordllama-l2-supercat")
        page.get_by_role("button", name="Start").click()
        page.get_by_role("dialog").get_by_role("button", name="Start").click()
        expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuetext", "0 of 20 chunks")
        assert state(use, 2) == "backfilling"
        run(use, 2)
        expect(page.get_by_text("Every visible chunk has a vector of the new model.")).to_be_visible()

        page.get_by_role("button", name="Switch").click()
        page.get_by_role("dialog").get_by_role("button", name="Switch").click()
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("not_compared")
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Compare").click()
        page.get_by_label("Questions with judgments").fill('{"tenant_id": "x"}\nnot JSON')
        page.get_by_role("button", name="Compare").last.click()
        expect(page.get_by_label("Questions with judgments")).to_have_attribute("aria-invalid", "true")
        expect(page.get_by_role("alert")).to_contain_text("Line 2 is not JSON")
        page.get_by_label("Questions with judgments").fill("")
        page.get_by_role("button", name="Compare").last.click()
        comparison = page.get_by_role("region", name="Comparison of both models")
        expect(comparison).to_contain_text("The new model passes")
        if pictures:
            page.screenshot(path=pictures / "migration.png", full_page=True)

        page.get_by_role("button", name="Switch").click()
        page.get_by_role("dialog").get_by_role("button", name="Switch").click()
        expect(page.get_by_text("Switched", exact=True).first).to_be_visible()
        assert (state(use, 2), use.spaces.live(fresh=True).active.number) == ("switched", 2)
        page.get_by_role("button", name="Go back").click()
        page.get_by_role("dialog").get_by_role("button", name="Go back").click()
        expect(page.get_by_role("button", name="Abort")).to_be_visible()
        assert use.spaces.live(fresh=True).active.number == 1
        page.get_by_role("button", name="Switch").click()
        page.get_by_role("dialog").get_by_role("button", name="Switch").click()
        page.get_by_role("button", name="Finish").click()
        expect(page.get_by_role("dialog")).to_contain_text("there is no way back")
        page.get_by_role("dialog").get_by_role("button", name="Finish").click()
        expect(page.get_by_text("The old vectors are being deleted.").first).to_be_visible()
        assert state(use, 2) == "finishing"
