"""The console's empty, slow and failing states."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route, expect

from tests.support.corpora.console import MANUAL, hand_in


class DescribeFailures:
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

    @pytest.mark.thorough
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
    @pytest.mark.thorough
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

    @pytest.mark.thorough
    def it_says_that_nothing_was_found(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        page = made.open("playground")
        page.get_by_label("Method").first.select_option("full_text")
        page.get_by_label("Question").fill("zzyzx quux")
        page.keyboard.press("Enter")
        expect(page.locator(".side-result").first.get_by_text("No results")).to_be_visible()
