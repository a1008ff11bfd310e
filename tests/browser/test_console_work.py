"""Work in the console on the real stack, from signing in to the explanation of an answer."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import gateway, make_tenant
from tests.support.corpora.console import MANUAL, OTHERS, fail_one, hand_in


def tab(page: Page, name: str, *, side: int = 0) -> None:
    page.locator(".side-result").nth(side).get_by_role("tab", name=name).click()


class DescribeTheMainJob:
    def it_signs_in_uploads_and_answers(self, console):
        made = console()
        page = made.page
        page.goto(made.url)
        page.get_by_label("API key").fill("cw_nobody_" + "0" * 48)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("invalid_api_key")
        page.get_by_label("API key").fill(made.key)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        made.errors.clear()  # the refused key is logged by the browser itself
        page.get_by_role("link", name="Playground").click()
        expect(page.get_by_text("There are no documents to search yet")).to_be_visible()

        page.get_by_role("link", name="Upload", exact=True).click()
        page.locator("input[type=file][multiple]").set_input_files(
            [
                {"name": "reset.md", "mimeType": "text/markdown", "buffer": f"# Reset\n\n{MANUAL['text']}".encode()},
                {"name": "broken.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.4 no"},
            ]
        )
        page.get_by_label("Namespace").fill("handbook")
        page.get_by_role("button", name="Upload", exact=True).click()
        expect(page.get_by_text("Partly failed", exact=True)).to_be_visible()
        expect(page.get_by_text("cut off or damaged")).to_be_visible()

        page.get_by_role("link", name="Playground").click()
        page.get_by_label("Question").fill("how do I reset the router?")
        page.keyboard.press("Enter")
        expect(page.locator(".side-result")).to_have_count(1)
        page.get_by_label("Compare two ways").check()
        page.get_by_role("button", name="Ask", exact=True).click()
        expect(page.locator(".side-result")).to_have_count(2)
        expect(page.locator(".side-result").nth(0).locator(".hit").first).to_contain_text("reset button")
        expect(page.locator(".side-result").nth(1).locator(".hit").first).to_contain_text("reset button")
        assert made.key not in page.evaluate("JSON.stringify({...localStorage}) + document.cookie + location.href")

        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("API key")).to_be_visible()
        assert page.evaluate("sessionStorage.length") == 0


class DescribeSigningOut:
    def it_leaves_nothing_to_whoever_signs_in_next(self, console, use):
        made = console()
        hand_in(made.client, MANUAL)
        tenant, key = make_tenant(use)
        with gateway(key) as client:
            hand_in(client, MANUAL)
        page = made.page
        page.goto(f"{made.url}#/playground")
        page.get_by_label("API key").fill(made.key)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_label("Question").fill("how do I reset the router?")
        page.keyboard.press("Enter")
        expect(page.locator(".side-result .hit").first).to_contain_text("reset button")
        page.get_by_role("link", name="Traces").click()
        page.get_by_role("link", name="Playground").click()
        expect(page.get_by_label("Question")).to_have_value("how do I reset the router?")

        page.get_by_role("button", name="Sign out").click()
        asked: list[str] = []
        page.on("request", lambda sent: asked.append(sent.url))
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator(".tenant")).to_contain_text(tenant)
        expect(page.get_by_label("Question")).to_have_value("")
        expect(page.locator(".side-result")).to_have_count(0)
        page.get_by_role("link", name="Traces").click()
        page.get_by_role("tab", name="Queries in this tab").click()  # beside it, the tenant's kept traces and its audit
        expect(page.get_by_role("tabpanel").get_by_text("No queries yet")).to_be_visible()
        assert [url for url in asked if url.endswith("/v1/rag/debug")] == []


class DescribeJobs:
    def it_shows_failures_and_offers_a_retry_only_where_it_can_help(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        job = fail_one(made.client)
        page = made.open("jobs")
        expect(page.get_by_role("row")).to_have_count(3)
        page.get_by_role("link", name=job["job_id"][:8]).click()
        expect(page.get_by_role("heading", name="Failures (1)")).to_be_visible()
        expect(page.locator(".panel").filter(has_text="malformed_document")).to_contain_text("damaged")

        page.get_by_role("link", name="Dead letters").first.click()
        expect(page.get_by_text("upload a corrected document under this id")).to_be_visible()
        assert re.search(r"opened\s+The same", page.get_by_role("cell").filter(has_text="malformed").inner_text())
        expect(page.get_by_role("button", name="Retry")).to_have_count(0)
        page.get_by_role("button", name="Delete: broken.pdf").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.get_by_text("Dead letter deleted.")).to_be_visible()
        expect(page.get_by_text("No dead letters")).to_be_visible()
        assert made.client.get("/v1/dead-letters").json()["data"] == []

    @pytest.mark.thorough
    def it_follows_pauses_and_cancels_a_job(self, console):
        made = console()
        # More batches than there are workers, so that some wait when it is paused: else it may end all the same.
        documents = [
            {"document_id": f"d{n}", "text": f"Note {n}. " + "Words of a longer text. " * 100} for n in range(320)
        ]
        started = made.client.post(
            "/v1/documents", json={"namespace": "kb", "priority": "bulk", "documents": documents}
        )
        job_id = started.json()["job_id"]
        made.client.post(f"/v1/jobs/{job_id}/pause")
        page = made.open(f"jobs/{job_id}")
        expect(page.get_by_text("Paused").first).to_be_visible()
        page.get_by_role("button", name="Resume").click()
        # Nothing is pressed from here on: the rest arrives by itself.
        expect(page.get_by_role("progressbar").first).to_have_attribute("aria-valuenow", "320", timeout=60_000)
        expect(page.locator(".badge").first).to_have_text("Succeeded")


class DescribeDocuments:
    def it_edits_a_chunk_under_its_etag(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        page = made.open("documents")
        page.get_by_role("link", name="Resetting the router").click()
        page.get_by_role("button", name="Edit: 1").click()
        page.get_by_label("Chunk text").fill("Hold the reset button for ten seconds.")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Chunk saved.")).to_be_visible()
        chunk = made.client.get("/v1/chunks", params={"namespace": "kb"}).json()["data"][0]
        assert chunk["text"] == "Hold the reset button for ten seconds."

        page.get_by_role("button", name="Hide: 1").click()
        expect(page.get_by_text("Hidden from searches")).to_be_visible()
        assert made.client.get("/v1/chunks", params={"namespace": "kb"}).json()["data"][0]["enabled"] is False

    @pytest.mark.thorough
    def it_goes_back_to_the_generation_before(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        hand_in(made.client, {**MANUAL, "text": "Pull the plug."})
        page = made.open("documents/kb/reset")
        expect(page.get_by_text("Pull the plug.")).to_be_visible()
        page.get_by_role("tab", name="Generations").click()
        page.get_by_role("button", name="Roll back: 1").click()
        page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
        expect(page.locator(".badge").first).to_have_text("Succeeded")
        chunk = made.client.get("/v1/chunks", params={"namespace": "kb"}).json()["data"][0]
        assert chunk["text"] == MANUAL["text"]

    @pytest.mark.thorough
    def it_previews_chunks_without_storing_any(self, console):
        made = console()
        page = made.open("preview")
        page.get_by_role("textbox", name="Text").fill("First sentence here. Second sentence there. Third one.")
        page.get_by_label("Chunking").select_option("window")
        page.get_by_role("button", name="Preview").click()
        expect(page.locator(".piece")).to_have_count(3)
        assert made.client.get("/v1/documents").json()["data"] == []


class DescribeRetrieval:
    def it_shows_where_an_answer_comes_from(self, console):
        made = console()
        hand_in(made.client, MANUAL, *OTHERS)
        page = made.open("playground")
        page.get_by_label("Question").fill("reset button")
        page.get_by_label("Half-life (days)").first.fill("30")
        page.get_by_role("button", name="Ask", exact=True).click()
        first = page.locator(".side-result").first
        expect(first.locator(".hit").first).to_contain_text("Resetting the router")
        expect(first.locator(".bar .part.keyword").first).to_be_visible()
        tab(page, "Channels")
        expect(first.get_by_role("region", name="Keyword").locator(".raw li").first).to_contain_text(
            re.compile(r"\d\.\d{3}")
        )
        tab(page, "Stages")
        first.get_by_role("radio", name="Time decay").check()
        expect(first.get_by_role("table", name="Time decay").get_by_role("row").nth(1)).to_contain_text("Resetting")
        tab(page, "Context")
        expect(first.locator("pre.context")).to_contain_text("Hold the reset button")
        tab(page, "Timing")
        timing = first.get_by_role("table", name="Timing")
        expect(timing.locator("i.callback")).to_be_visible()
        expect(timing.locator("i.keyword")).to_be_visible()

        tab(page, "Why not?")
        first.get_by_label("Which document do you miss?").fill("power supply")
        first.get_by_role("button", name=re.compile("Use only the adapter")).click()
        expect(first.get_by_role("status").filter(has_text="Power supply")).to_be_visible()

        first.get_by_role("link", name=re.compile("Trace")).click()
        expect(page.locator(".question")).to_have_text("reset button")
        page.get_by_role("tab", name="Replay").click()
        page.get_by_role("button", name="Replay").click()
        expect(page.get_by_text(re.compile("of the chunks in both"))).to_be_visible()

    def it_shows_nothing_of_another_tenant(self, console):
        theirs, mine = console(), console()
        job = hand_in(theirs.client, {**MANUAL, "title": "A secret of theirs"})
        page = mine.open(f"jobs/{job['job_id']}")
        expect(page.get_by_role("alert")).to_contain_text("job_not_found")
        page.goto(f"{mine.url}#/documents/kb/reset")
        expect(page.get_by_role("alert").first).to_contain_text("document_not_found")
        assert "secret" not in page.content()
        mine.errors.clear()  # both answers are 404, as they have to be


class DescribeOperation:
    def it_compares_the_stores_and_shows_health(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        page = made.open("alignment")
        page.get_by_role("button", name="Verify").click()
        expect(page.get_by_text("Both stores agree")).to_be_visible()
        page.get_by_role("link", name="Health").click()
        # The machine's own disk may be nearly full, and then the page says so.
        expect(page.get_by_text(re.compile(r"Everything answers|do not work: Disk space$"))).to_be_visible()
        expect(page.get_by_role("region", name="Queues")).to_contain_text("Ingestion")
        expect(page.get_by_role("link", name=re.compile("Flower"))).to_have_attribute("href", re.compile("^http"))
