"""The console's empty, slow and failing states."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from pipeline.database.unit_of_work import unit_of_work
from pipeline.tenants.tenant_store import ApiKeys
from tests.conftest import make_tenant
from tests.support.corpora.console import MANUAL, hand_in
from tests.support.repository.console_pages import PAGES

VIEWS = {
    "overview": "v1/metrics/history",
    "jobs": "v1/jobs",
    "dead-letters": "v1/dead-letters",
    "documents": "v1/documents",
    "playground": "v1/namespaces",
    "alignment": "v1/namespaces",
    "health": "v1/metrics",
}
PROBLEM = {
    "type": "urn:chordwise:problem:store_unavailable",
    "title": "A dependency does not answer",
    "status": 503,
    "detail": "MySQL does not answer.",
    "code": "store_unavailable",
    "request_id": "b7a1c5d2-0000-4000-8000-000000000000",
}


BUG = PROBLEM | {
    "type": "urn:chordwise:problem:internal_error",
    "title": "An unexpected error",
    "status": 500,
    "detail": "The request failed.",
    "code": "internal_error",
}
READS_NOTHING = {"find", "preview", "transfer", "upload"}  # before the user has typed something


def refuse(route: Route) -> None:
    route.fulfill(status=503, content_type="application/problem+json", body=json.dumps(PROBLEM))


class DescribeFailures:
    @pytest.mark.thorough  # every page shows one below, and test_console_documents the detail
    @pytest.mark.refused
    def it_shows_a_problem_whole_in_every_view_and_tries_again(self, console):
        made = console()
        page = made.open("upload")
        for view, path in VIEWS.items():
            page.route(re.compile(rf"/{path}(\?|$)"), refuse)
            page.goto(f"{made.url}#/{view}")
            alert = page.get_by_role("alert").filter(has_text="store_unavailable").first
            expect(alert).to_contain_text("MySQL does not answer.")
            expect(alert).to_contain_text(PROBLEM["request_id"])
            page.unroute_all()
            alert.get_by_role("button", name="Try again").click()
            expect(page.get_by_role("alert")).to_have_count(0)

    @pytest.mark.refused
    def it_says_when_nobody_answers(self, console):
        made = console()
        made.page.clock.install()
        page = made.open("jobs")
        expect(page.get_by_text("No jobs yet")).to_be_visible()
        page.route("**/v1/jobs*", lambda route: route.abort())
        page.clock.fast_forward("00:05")
        expect(page.get_by_role("alert")).to_contain_text("cannot be reached")  # at the next look, by itself
        expect(page.get_by_role("alert")).to_contain_text("was read earlier")
        page.unroute_all()
        page.get_by_role("button", name="Try again").click()
        expect(page.get_by_role("alert")).to_have_count(0)

    @pytest.mark.refused
    def it_keeps_a_draft_that_somebody_else_overtook(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        page = made.open("documents/kb/reset")
        page.get_by_role("button", name="Edit: 1").click()
        page.get_by_label("Chunk text").fill("My words.")
        chunk = made.client.get("/v1/chunks", params={"namespace": "kb"}).json()["data"][0]
        made.client.put("/v1/chunks", json={"chunks": [{"chunk_id": chunk["chunk_id"], "text": "Theirs."}]})
        page.get_by_role("button", name="Save").click()
        page.get_by_role("button", name="Load the current version").click()
        expect(page.get_by_label("Chunk text")).to_have_value("My words.")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Chunk saved.")).to_be_visible()

    @pytest.mark.refused
    def it_leaves_when_the_key_is_revoked(self, console):
        made = console()
        page = made.open("upload")
        page.route("**/v1/jobs*", lambda route: route.fulfill(status=401, body="{}"))
        page.goto(f"{made.url}#/jobs")
        expect(page.get_by_text("The key is no longer valid.")).to_be_visible()
        assert page.evaluate("sessionStorage.length") == 0

    def it_names_what_an_answer_lost(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        page = made.open("playground")

        def lose(route: Route) -> None:
            answer = route.fetch()
            body = answer.json()
            lost = [{"part": "semantic", "code": "circuit_open", "detail": "was left alone"}]
            body["stats"] |= {"degraded": True, "degradations": lost}
            route.fulfill(response=answer, json=body)

        page.route("**/v1/rag/debug", lose)
        page.get_by_label("Question").fill("reset")
        page.keyboard.press("Enter")
        expect(page.get_by_text("circuit_open").first).to_be_visible()
        expect(page.locator(".summary .badge").first).to_have_text("Degraded")


class DescribeNothing:
    def it_says_what_to_do_in_every_empty_view(self, console):
        made = console()
        page = made.open("jobs")
        said = {
            "jobs": "No jobs yet",
            "dead-letters": "No dead letters",
            "documents": "No documents here",
            "playground": "There are no documents to search yet",
            "traces": "No queries yet",
            "alignment": "There is no namespace to compare yet",
        }
        for view, sentence in said.items():
            page.goto(f"{made.url}#/{view}")
            expect(page.get_by_text(sentence).first).to_be_visible()

    def it_says_that_nothing_was_found(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        page = made.open("playground")
        page.get_by_label("Method").first.select_option("full_text")
        page.get_by_label("Question").fill("zzyzx quux")
        page.keyboard.press("Enter")
        expect(page.locator(".side-result").first.get_by_text("No results")).to_be_visible()


class DescribeSlowAnswers:
    def it_shows_that_it_waits_and_then_that_it_takes_long(self, console):
        made = console()
        made.page.clock.install()
        page = made.open("upload")
        held: list[Route] = []
        page.route(re.compile(r"/v1/jobs\?"), lambda route: held.append(route))
        page.goto(f"{made.url}#/jobs")
        expect(page.locator("[aria-busy=true] .skeleton").first).to_be_visible()
        page.clock.fast_forward("00:03")
        expect(page.get_by_text("This is taking longer than usual")).to_be_visible()
        for route in held:
            route.continue_()
        expect(page.get_by_text("No jobs yet")).to_be_visible()


class Traffic:
    """The requests of a tab to the API: held back, refused, or let through. The session's own check always passes."""

    def __init__(self, page: Page) -> None:
        self.held: list[Route] = []
        self.way = "through"
        page.route(re.compile(r"/v1/(?!keys/current)"), self._take)

    def _take(self, route: Route) -> None:
        if self.way == "held":
            self.held.append(route)
        elif self.way == "refused":
            route.fulfill(status=500, content_type="application/problem+json", body=json.dumps(BUG))
        else:
            route.continue_()

    def release(self) -> None:
        self.way = "through"
        while self.held:
            self.held.pop().continue_()


@pytest.fixture
def every_page(console, use) -> Any:
    """A tab that may open every page, with its traffic."""
    tenant_id, _ = make_tenant(use)
    with unit_of_work(use.mysql) as work:
        key = ApiKeys(work.connection, tenant_id).issue("console", ("read", "write", "admin", "operator")).secret
    made = console(key=key)
    hand_in(made.client, MANUAL)
    made.page.clock.install()
    page = made.open("nowhere")
    return page, Traffic(page)


class DescribeEveryPage:
    @pytest.mark.parametrize(
        "pages",
        [PAGES[::2], pytest.param(PAGES[1::2], marks=pytest.mark.thorough)],
        ids=["every other", "those between"],
    )
    @pytest.mark.refused  # a namespace without a dictionary
    def it_shows_that_it_waits_and_then_its_content(self, every_page, pages):
        page, traffic = every_page
        for view in pages:
            traffic.way = "held"
            page.evaluate("view => { location.hash = `#/${view}`; }", view)
            expect(page.locator(f"nav [href='#/{view}'][aria-current]")).to_have_count(1)
            page.get_by_role("main").get_by_role("heading", level=1).wait_for()
            if view not in READS_NOTHING:
                expect(page.locator("main [aria-busy=true]").first, view).to_be_visible()
                page.clock.fast_forward("00:03")
                expect(page.get_by_text("This is taking longer than usual").first, view).to_be_visible()
            traffic.release()
            expect(page.locator("main [aria-busy=true]"), view).to_have_count(0)
            expect(page.get_by_role("alert"), view).to_have_count(0)

    @pytest.mark.parametrize(
        "pages",
        [PAGES[::2], pytest.param(PAGES[1::2], marks=pytest.mark.thorough)],
        ids=["every other", "those between"],
    )
    @pytest.mark.refused
    def it_shows_a_failure_and_tries_again(self, every_page, pages):
        page, traffic = every_page
        for view in pages:
            if view in READS_NOTHING:
                continue
            traffic.way = "refused"
            page.evaluate("view => { location.hash = `#/${view}`; }", view)
            expect(page.locator(f"nav [href='#/{view}'][aria-current]")).to_have_count(1)
            alert = page.get_by_role("main").get_by_role("alert").first
            expect(alert, view).to_contain_text("internal_error")
            expect(alert, view).to_contain_text(BUG["request_id"])
            traffic.way = "through"
            again = page.get_by_role("main").get_by_role("button", name="Try again")
            expect(again.first, view).to_be_visible()
            again.evaluate_all("buttons => buttons.forEach((button) => button.click())")
            expect(page.get_by_role("alert"), view).to_have_count(0)
