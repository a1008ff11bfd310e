"""The overview, in both languages: what needs a person, the traffic over time, and the workers for an operator."""

from __future__ import annotations

import json
import re
import time

import pytest
from playwright.sync_api import expect

from pipeline.database.unit_of_work import unit_of_work
from pipeline.resources import Resources
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import gateway, make_tenant
from tests.support.corpora.console import fail_one

_ENGLISH = ("en-GB", "Query latency", "24 hours", "95 %", "Workers")
_CHINESE = ("zh-CN", "查询延迟", "24 小时", "P95", "Worker")
_LANGUAGES = pytest.mark.parametrize(
    "words", [pytest.param(_ENGLISH, marks=pytest.mark.thorough), _CHINESE], ids=["en", "zh"]
)
_STEPS = 60


def _history(step_s: int) -> str:
    """A history in which the latest minute had 12 queries a second and a p95 of 345 ms."""
    end = int(time.time()) // step_s * step_s
    names = ("queries_per_s", "p50_ms", "p95_ms", "p99_ms", "failed_share", "degraded_share", "empty_share")
    others = ("chunks_per_s", "tokens_per_s", "query_wait_s", "ingest_wait_s", "waiting_documents", "dead_letters")
    sizes = ("mysql_bytes", "postgres_bytes", "redis_bytes", "keyword_index_bytes")
    series: dict[str, list[float | None]] = {name: [None] * _STEPS for name in (*names, *others, *sizes)}
    series["queries_per_s"] = [*range(_STEPS - 1), 12]
    series["p95_ms"][-1] = 345.0
    at = [end - step_s * (_STEPS - 1 - number) for number in range(_STEPS)]
    return json.dumps({"range": "1h", "step_s": step_s, "at": at, "series": series})


class DescribeOverview:
    @_LANGUAGES
    def it_draws_the_figures_of_the_gateway(self, console, pictures, words):
        locale, latency, day, p95, _ = words
        made = console(locale=locale)
        answer = {"content_type": "application/json", "body": _history(60)}
        made.page.route("**/v1/metrics/history*", lambda route: route.fulfill(**answer))
        page = made.open()
        chart = page.locator("figure").filter(has_text=latency)
        expect(chart.get_by_role("listitem").filter(has_text=p95)).to_contain_text("345 ms")
        expect(page.locator("figure").first).to_contain_text("12")
        expect(page.locator("figure canvas")).to_have_count(2)  # the others have no figures and say so
        with page.expect_request(re.compile(r"range=24h$")):
            page.get_by_label(day).click()  # check() asks before figures that just arrived are drawn
        expect(page.get_by_label(day)).to_be_checked()
        expect(page.locator("figure canvas")).to_have_count(2)
        assert not made.scrolls_sideways()
        if pictures:
            page.screenshot(path=pictures / f"overview-{locale}.png", full_page=True)

    @pytest.mark.parametrize("width", [360, pytest.param(1360, marks=pytest.mark.thorough)])
    def it_reads_the_real_history_of_this_installation(self, console, width):
        made = console(width=width)
        page = made.open("overview")
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        expect(page.locator("figure")).to_have_count(8)
        expect(page.locator("figure").filter(has_text="Disk and memory")).to_contain_text(re.compile(r"\d (MB|kB|GB)"))
        assert not made.scrolls_sideways()
        assert made.client.get("/v1/metrics/history", params={"range": "2h"}).status_code == 422

    @pytest.mark.thorough
    def it_reads_of_all_figures_those_it_shows(self, console):
        made = console()
        with made.page.expect_response(re.compile(r"/v1/metrics\?")) as answered:
            made.open("overview")
        assert len(answered.value.body()) < 4000
        assert [address for address in made.addresses if address.endswith("/v1/metrics")] == []


class DescribeAGatewayThatAnswersLate:
    @pytest.mark.thorough
    def it_is_said_to_be_silent_and_nobody_to_have_aborted_anything(self, console):
        made = console()
        made.page.route("**/readyz", lambda _: None)
        attention = made.open("overview").locator("section[aria-labelledby=attention]")
        expect(attention.get_by_role("alert")).to_contain_text("no_connection")
        expect(attention).not_to_contain_text("abort")


class DescribeWorkers:
    @_LANGUAGES
    def it_lists_them_for_an_operator(self, console, use: Resources, words):
        tenant_id, _ = make_tenant(use)
        with unit_of_work(use.mysql) as work:
            key = Tenants(work.connection, tenant_id).issue_key("operator", scopes=("read", "operator"))
        made = console(locale=words[0], key=key)
        page = made.open("overview")
        table = page.get_by_role("table", name=words[4])
        listed = made.client.get("/v1/workers").json()["data"]
        assert {"ingest", "recall"} <= {queue for worker in listed for queue in worker["queues"]}
        for worker in listed:
            expect(table).to_contain_text(worker["name"])

    @pytest.mark.parametrize(
        ("locale", "failed", "well"),
        [
            pytest.param("en-GB", "of all tenants: ", "Nothing needs attention", marks=pytest.mark.thorough),
            ("zh-CN", "所有租户共有", "一切正常，无需处理"),
        ],
    )
    def it_counts_the_dead_letters_of_all_tenants_for_an_operator(self, console, use: Resources, locale, failed, well):
        with gateway(make_tenant(use)[1]) as client:
            fail_one(client)
        tenant_id, _ = make_tenant(use)
        with unit_of_work(use.mysql) as work:
            key = Tenants(work.connection, tenant_id).issue_key("operator", scopes=("read", "operator"))
        made = console(key=key, locale=locale)
        page = made.open("overview")
        expect(page.locator(".attention li").filter(has_text=failed)).to_be_visible()
        expect(page.get_by_text(well)).to_have_count(0)

    @pytest.mark.thorough
    def it_shows_none_to_others(self, console):
        made = console()
        page = made.open("overview")
        expect(page.locator("figure").first).to_be_visible()
        expect(page.get_by_role("table")).to_have_count(0)
        assert made.client.get("/v1/workers").status_code == 403
