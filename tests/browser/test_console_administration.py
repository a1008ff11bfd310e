"""Keys, tenants, webhooks, usage and audit: as the tenant's administrator and as the operator sees them."""

from __future__ import annotations

import csv
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from pipeline.administration.manage_tenants import issue_key
from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.corpora.console import MANUAL, OTHERS, hand_in


@pytest.fixture
def operator_key(use: Resources) -> str:
    """A key of a tenant of its own with every scope."""
    tenant, _ = make_tenant(use)
    return issue_key(tenant, use, "night shift", ("read", "write", "admin", "operator"), principals=("*",)).secret


def secret_in(page: Page) -> str:
    """The secret that the page shows once, as its copy button reads."""
    return page.locator(".secret code").inner_text()


class DescribeKeys:
    def it_issues_rotates_and_revokes(self, console):
        made = console()
        page = made.open("keys")
        page.get_by_role("button", name="Create a key").click()
        page.get_by_label("Name", exact=True).fill("importer")
        page.get_by_label("Write: upload").check()
        page.get_by_role("button", name="Create a key").click()
        expect(page.get_by_role("heading", name="The new key: importer")).to_be_visible()
        key = secret_in(page)
        with gateway(key) as client:
            assert client.get("/v1/keys/current").json()["scopes"] == ["read", "write"]
            page.get_by_role("button", name="I have stored it").click()
            assert key not in page.content()

            page.get_by_role("button", name="Rotate: importer").click()
            page.get_by_label("Both keys work for").select_option("1 hour")
            page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
            expect(page.get_by_role("heading", name="The new key: importer")).to_be_visible()
            assert secret_in(page) != key
            assert client.get("/v1/keys/current").status_code == 200  # the overlap

        listed = made.client.get("/v1/keys").json()["data"]
        old = next(each for each in listed if each["replaced_by"])
        page.get_by_role("row").filter(has_text=old["key_id"]).get_by_role("button", name="Revoke").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(page.get_by_role("row").filter(has_text=old["key_id"])).to_contain_text("Revoked")
        assert made.client.get(f"/v1/keys/{old['key_id']}").json()["state"] == "revoked"

    @pytest.mark.thorough
    @pytest.mark.refused
    def it_names_the_fault_beside_the_field(self, console):
        page = console().open("keys")
        page.get_by_role("button", name="Create a key").click()
        page.get_by_label("Name", exact=True).fill("密钥 🔑")
        page.get_by_label("Read: search").uncheck()
        page.get_by_label("Expires").fill("2020-01-01")
        page.get_by_role("button", name="Create a key").click()
        expect(page.get_by_label("Expires")).to_have_attribute("aria-invalid", "true")
        expect(page.locator(".fault")).to_have_count(2)  # no scope, and a day in the past

    @pytest.mark.thorough
    @pytest.mark.refused
    def it_signs_out_whoever_revokes_the_own_key(self, console):
        made = console()
        page = made.open("keys")
        page.get_by_role("row").filter(has_text="this session").get_by_role("button", name="Revoke").click()
        expect(page.get_by_role("dialog")).to_contain_text("you will be signed out")
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(page.get_by_text("The key is no longer valid")).to_be_visible()

    @pytest.mark.thorough
    def it_is_not_there_for_a_key_that_only_reads(self, console, use):
        tenant, _ = make_tenant(use)
        made = console(key=issue_key(tenant, use, "reader", ("read",), principals=("*",)).secret)
        page = made.open("usage")
        navigation = page.get_by_role("navigation")
        expect(navigation.get_by_role("link", name="Usage and cost")).to_be_visible()
        for name in ("API keys", "Webhooks", "Audit", "Tenants", "Model migration"):
            expect(navigation.get_by_role("link", name=name, exact=True)).to_have_count(0)


class DescribeTenants:
    def it_makes_limits_disables_and_erases_one(self, console, operator_key):
        made = console(key=operator_key)
        name = f"acme-{datetime.now(UTC):%H%M%S%f}"
        page = made.open("tenants")
        page.get_by_role("button", name="Create a tenant").click()
        page.get_by_label("Id", exact=True).fill(name)
        page.get_by_label("Name", exact=True).fill("Acme Ltd.")
        page.get_by_role("button", name="Create a tenant").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)

        page.get_by_label("Documents", exact=True).last.fill("50")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("meter", name="Documents", exact=True)).to_have_attribute("aria-valuetext", "0 of 50")
        assert made.client.get(f"/v1/tenants/{name}/quotas").json()["documents"] == 50

        page.get_by_role("tab", name="API keys").click()
        page.get_by_role("button", name="Create a key").click()
        page.get_by_label("Name", exact=True).fill("first")
        page.get_by_label("Write: upload").check()
        page.get_by_role("button", name="Create a key").click()
        with gateway(secret_in(page)) as theirs:
            hand_in(theirs, {**MANUAL, "title": "A secret of theirs"})
            page.get_by_role("tab", name="Quotas").click()
            expect(page.get_by_role("meter", name="Documents", exact=True)).to_have_attribute(
                "aria-valuetext", "1 of 50"
            )
            assert "A secret of theirs" not in page.content()
            page.get_by_role("button", name="Disable").click()
            page.get_by_role("dialog").get_by_role("button", name="Disable").click()
            expect(page.locator(".badge").first).to_have_text("Disabled")

        page.get_by_role("tab", name="Erase").click()
        erase = page.get_by_role("tabpanel").get_by_role("button", name="Erase")
        page.get_by_label(f"Type {name} to confirm").fill(name[:-1])
        expect(erase).to_be_disabled()
        page.get_by_label(f"Type {name} to confirm").fill(name)
        erase.click()
        page.get_by_role("dialog").get_by_role("button", name="Erase").click()
        expect(page.get_by_role("status").filter(has_text="Everything is erased")).to_be_visible(timeout=60_000)
        assert made.client.get(f"/v1/tenants/{name}").status_code == 404

    @pytest.mark.thorough
    @pytest.mark.refused
    def it_refuses_an_id_that_is_none_or_taken(self, console, operator_key, use):
        taken, _ = make_tenant(use)
        page = console(key=operator_key).open("tenants")
        page.get_by_role("button", name="Create a tenant").click()
        page.get_by_label("Name", exact=True).fill("Another")
        page.get_by_label("Id", exact=True).fill("Größe & Maß")
        page.get_by_role("button", name="Create a tenant").click()
        expect(page.get_by_label("Id", exact=True)).to_have_attribute("aria-invalid", "true")
        page.get_by_label("Id", exact=True).fill(taken)
        page.get_by_role("button", name="Create a tenant").click()
        expect(page.get_by_role("alert")).to_contain_text("tenant_exists")


class DescribeWebhooks:
    def it_sends_a_test_and_shows_what_became_of_it(self, console):
        made = console()
        page = made.open("webhooks")
        expect(page.get_by_text("No webhooks")).to_be_visible()
        page.get_by_role("button", name="Add a webhook").click()
        page.get_by_label("URL").fill("http://127.0.0.1:9/hook")
        page.get_by_role("button", name="Add a webhook").click()
        expect(page.locator(".secret code")).to_have_text(re.compile("^whsec_"))
        page.get_by_role("button", name="I have stored it").click()
        page.get_by_role("link", name="http://127.0.0.1:9/hook").click()
        page.get_by_role("button", name="Send a test").click()
        row = page.get_by_role("table", name="Deliveries").get_by_role("row").nth(1)
        expect(row).to_contain_text("Given up")  # nobody listens on port 9
        row.get_by_role("button", name="Body").click()
        expect(page.locator("pre.context")).to_contain_text('"type": "webhook.test"')
        row.get_by_role("button", name="Send again").click()
        expect(page.get_by_text("It is sent again.")).to_be_visible()

        page.get_by_role("button", name="Disable").click()
        expect(page.get_by_text("The webhook is no longer called.")).to_be_visible()
        assert made.client.get("/v1/webhooks").json()["data"][0]["disabled_reason"] == "requested"
        page.get_by_role("button", name="Enable").click()
        expect(page.get_by_role("button", name="Disable")).to_be_visible()

        page.get_by_role("button", name="Change secret").click()
        page.get_by_role("dialog").get_by_role("button", name="Change secret").click()
        expect(page.locator(".secret code")).to_have_text(re.compile("^whsec_"))
        page.get_by_role("button", name="Remove").click()
        page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        expect(page.get_by_text("No webhooks")).to_be_visible()
        assert made.client.get("/v1/webhooks").json()["data"] == []

    @pytest.mark.thorough
    @pytest.mark.refused
    def it_names_an_address_that_may_not_be_called(self, console):
        page = console().open("webhooks")
        page.get_by_role("button", name="Add a webhook").click()
        page.get_by_label("URL").fill("http://169.254.169.254/latest")
        page.get_by_role("button", name="Add a webhook").click()
        expect(page.get_by_label("URL")).to_have_attribute("aria-invalid", "true")


class DescribeUsage:
    def it_shows_tokens_by_day_and_kind_and_gives_them_as_csv(self, console, tmp_path: Path):
        made = console()
        hand_in(made.client, MANUAL, *OTHERS)
        total = made.client.get("/v1/usage").json()["total"]
        assert total["tokens"] > 0
        page = made.open("usage")
        card = page.locator(".card").filter(has_text="Tokens").first
        expect(card.locator(".card-number")).to_have_text(f"{total['tokens']:,}")
        expect(page.locator(".chart canvas").first).to_be_visible()
        expect(page.get_by_role("table", name="Breakdown")).to_contain_text("Ingestion")
        expect(page.get_by_role("meter", name="Documents", exact=True)).to_have_attribute("aria-valuenow", "4")

        page.get_by_role("radio", name="Model").check()
        with page.expect_download() as download:
            page.get_by_role("button", name="Download CSV").click()
        download.value.save_as(tmp_path / "usage.csv")
        [row] = csv.DictReader((tmp_path / "usage.csv").read_text(encoding="utf-8-sig").splitlines())
        assert int(row["tokens"]) == total["tokens"]

        page.get_by_role("radio", name="Between").check()
        page.get_by_label("From", exact=True).fill("2026-02-01")
        page.get_by_label("To", exact=True).fill("2026-01-01")
        expect(page.get_by_text("The first day is after the last one.")).to_be_visible()
        page.get_by_label("To", exact=True).fill("2026-02-02")
        expect(page.get_by_text("No model was used in this period")).to_be_visible()


class DescribeTheAudit:
    def it_lists_by_action_and_key_and_exports(self, console, tmp_path: Path, use):
        made = console()
        made.page.add_init_script("delete window.showSaveFilePicker")  # its dialog belongs to the system
        hand_in(made.client, MANUAL)
        tenant = made.client.get("/v1/keys/current").json()["tenant_id"]
        with gateway(issue_key(tenant, use, "importer", ("read", "write"), principals=("*",)).secret) as other:
            hand_in(other, OTHERS[0])
        page = made.open("audit")
        table = page.get_by_role("table", name="Audit")
        expect(table.get_by_role("row").filter(has_text="Documents uploaded")).to_have_count(2)
        page.get_by_label("Action").select_option("Documents uploaded")
        expect(table.get_by_role("row")).to_have_count(3)
        page.get_by_label("Key", exact=True).select_option(_option(page, "importer"))
        expect(table.get_by_role("row")).to_have_count(2)
        expect(table).to_contain_text("importer")
        with page.expect_download() as download:
            page.get_by_role("button", name="Export as JSON lines").click()
        download.value.save_as(tmp_path / "audit.jsonl")
        [row] = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
        assert (row["action"], row["actor"]["key_name"]) == ("ingest", "importer")
        page.get_by_label("Action").select_option("Document deleted")
        expect(page.get_by_text("Nothing in this selection")).to_be_visible()


def _option(page: Page, beginning: str) -> str:
    """The whole label of the option that begins so."""
    return page.locator("option").filter(has_text=re.compile(f"^{beginning}")).inner_text()
