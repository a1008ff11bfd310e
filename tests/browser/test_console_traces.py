"""Query traces as an operator of a tenant uses them: find the query, see where its time went, run it again."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from playwright.sync_api import expect

from pipeline.database.unit_of_work import unit_of_work
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import make_tenant
from tests.support.corpora.console import MANUAL, hand_in

EMPTY = {"query_text": "zzyzx quux", "namespaces": ["kb"], "retrieve": {"method": "full_text"}}


def asked(client: Any, **changed: Any) -> str:
    """Ask a question whose trace is kept, and return its id once it is listed."""
    query_id = client.post("/v1/rag/query", json={**EMPTY, **changed}).json()["query_id"]
    for _ in range(100):
        if query_id in client.get("/v1/traces").text:
            return str(query_id)
        time.sleep(0.05)
    raise AssertionError("the trace is not listed")


class DescribeTheList:
    @pytest.mark.parametrize(
        ("locale", "width", "mark", "nothing"),
        [
            pytest.param("en-GB", 1360, "No result", "No kept trace matches", marks=pytest.mark.thorough),
            ("zh-CN", 360, "无结果", "没有符合条件的追踪"),
        ],
    )
    def it_shows_questions_and_filters_them(self, console, locale, width, mark, nothing):
        made = console(locale=locale, width=width)
        hand_in(made.client, MANUAL)
        query_id = asked(made.client)
        asked(made.client, query_text="reset", trace=True, retrieve={"method": "hybrid"})
        page = made.open("traces")
        row = page.get_by_role("row").filter(has_text="zzyzx quux")
        expect(row).to_contain_text(query_id[:8])
        expect(row.locator(".badge")).to_have_text([mark])
        expect(page.get_by_role("link", name="reset")).to_be_visible()
        choices = page.locator("select")
        choices.nth(0).select_option("empty")
        expect(page.get_by_role("link", name="reset")).to_have_count(0)
        expect(row).to_be_visible()
        choices.nth(1).select_option("kb")
        choices.nth(2).select_option("1h")
        expect(row).to_be_visible()
        choices.nth(0).select_option("failed")
        expect(page.get_by_text(nothing)).to_be_visible()
        assert not made.scrolls_sideways()

    @pytest.mark.thorough
    def it_names_wrong_input_beside_its_field(self, console):
        page = console().open("traces")
        page.get_by_label("Query id").fill("<b>查询</b> 1")
        page.get_by_role("button", name="Open trace").click()
        expect(page.get_by_label("Query id")).to_have_attribute("aria-invalid", "true")
        expect(page.get_by_text("This is not a query id")).to_be_visible()
        page.get_by_label("Profile").fill("默认")
        expect(page.get_by_text("A profile's name has letters")).to_be_visible()
        page.get_by_label("Profile").fill("")
        page.get_by_label("Asked").select_option("span")
        page.get_by_label("From").fill("2026-02-02T10:00")
        page.get_by_label("Until").fill("2026-02-01T10:00")
        expect(page.get_by_text("This is before the beginning")).to_be_visible()

    @pytest.mark.thorough
    def it_shows_a_key_that_only_reads_the_queries_of_its_tab(self, console, use):
        tenant_id, _ = make_tenant(use)
        with unit_of_work(use.mysql) as work:
            key = Tenants(work.connection, tenant_id).issue_key("reads", scopes=("read",))
        page = console(key=key).open("traces")
        expect(page.get_by_role("heading", name="Queries in this tab")).to_be_visible()
        expect(page.get_by_role("tab")).to_have_count(0)


class DescribeATrace:
    @pytest.mark.parametrize(
        ("locale", "width"), [pytest.param("en-GB", 1360, marks=pytest.mark.thorough), ("zh-CN", 360)]
    )
    def it_draws_the_run_over_time(self, console, pictures, locale, width):
        made = console(locale=locale, width=width)
        hand_in(made.client, MANUAL)
        query_id = asked(made.client, query_text="reset", trace=True, retrieve={"method": "hybrid"})
        spans = made.client.get(f"/v1/queries/{query_id}/trace").json()["timeline"]
        page = made.open(f"traces/{query_id}")
        timeline = page.locator(".timeline")
        whole = max(each["start_ms"] + each["ms"] for each in spans)
        for kind in ("queue", "store", "callback", "gateway"):
            expect(timeline.locator(f"i.{kind}")).to_have_count(sum(each["kind"] == kind for each in spans))
        callback = next(each for each in spans if each["kind"] == "callback")
        track, bar = (timeline.locator(each).bounding_box() for each in (".time-track:has(i.callback)", "i.callback"))
        assert (bar["x"] - track["x"]) / track["width"] == pytest.approx(callback["start_ms"] / whole, abs=0.02)
        assert not made.scrolls_sideways()
        if pictures:
            page.screenshot(path=pictures / f"trace-{width}.png", full_page=True)

    @pytest.mark.thorough
    @pytest.mark.refused
    def it_offers_a_replay_where_there_is_no_trace(self, console, use):
        made = console()
        hand_in(made.client, MANUAL)
        query_id = asked(made.client)
        use.redis.delete(f"{made.client.get('/v1/keys/current').json()['tenant_id']}:trace:{query_id}")
        page = made.open(f"traces/{query_id}")
        expect(page.get_by_text("This query has no trace")).to_be_visible()
        page.get_by_label("Parts of the plan").fill("[1]")
        page.get_by_role("button", name="Replay").click()
        expect(page.get_by_role("alert")).to_contain_text("Write a JSON object")
        page.get_by_label("Parts of the plan").fill("{}")
        page.get_by_role("button", name="Replay").click()
        expect(page.get_by_text("The order is the same")).to_be_visible()
        page.get_by_role("link", name=re.compile("^Trace [0-9a-f]{8}")).click()
        expect(page.locator(".timeline")).to_be_visible()

    @pytest.mark.thorough
    @pytest.mark.refused
    def it_names_an_unknown_query(self, console):
        page = console().open("traces/6b2f1c1e-0000-4000-8000-000000000000")
        expect(page.get_by_role("alert")).to_contain_text("query_not_found")


class DescribeWorkers:
    @pytest.mark.thorough
    def it_shows_what_a_worker_runs_and_for_how_long(self, console, use):
        tenant_id, _ = make_tenant(use)
        with unit_of_work(use.mysql) as work:
            tenants = Tenants(work.connection, tenant_id)
            key = tenants.issue_key("operator", scopes=("read", "write", "operator"))
        made = console(key=key)
        page = made.open("health")
        table = page.get_by_role("table", name="Workers")
        expect(table.get_by_role("row").filter(has_text="ingest@").first).to_be_visible()
        long = " ".join(f"Sentence {number} about pumps." for number in range(20_000))
        documents = [{"document_id": f"d{number}", "text": long} for number in range(20)]
        handed_in = made.client.post("/v1/documents", json={"namespace": "kb", "documents": documents}).json()
        expect(table).to_contain_text(re.compile(r"Batch of documents \d"))
        made.client.post(f"/v1/jobs/{handed_in['job_id']}/cancel").raise_for_status()  # megabytes are left
