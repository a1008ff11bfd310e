"""Answers in words in the playground, while a language model writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.support.clients.operating import eventually
from tests.support.servers.openai_answers import says, streams
from tests.support.stacks.model_stack import EXPAND, Served, model_stack

WRITE = "作答员"  # a word of the prompt
SENTENCE = "Hold the button for ten seconds [1]. "


@pytest.fixture(scope="module")
def served(settings: Settings, use: Resources, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for the file."""
    with model_stack(settings, use, tmp_path_factory.mktemp("writing"), redis_database=8) as found:
        yield found


def slowly(served: Served, text: str, *, most_events: int | None = None) -> None:
    reply = json.dumps({"found": True, "answer": text})
    served.model.by_prompt = {EXPAND: says("[]"), WRITE: streams(reply, pause_s=0.15, most_events=most_events)}


@pytest.fixture
def side(console, served) -> Locator:
    """The result of a question, before an answer is written."""
    key = served.client.headers["authorization"].removeprefix("Bearer ")
    page = console(key=key, url=str(served.client.base_url).rstrip("/")).open("playground")
    page.get_by_label("Question").fill("how do I reset the router?")
    page.get_by_role("button", name="Ask", exact=True).click()
    found = page.locator(".side-result").first
    expect(found.get_by_role("button", name="Write an answer")).to_be_visible()
    return found


class DescribeWriting:
    @pytest.mark.thorough  # test_console_playground shows a written answer with its citations
    def it_shows_the_text_as_it_grows_and_links_citations_once_they_are_checked(self, served, side):
        slowly(served, SENTENCE * 4 + "It is blue [42].")
        side.get_by_role("button", name="Write an answer").click()
        written = side.locator(".written")
        expect(written).to_contain_text("Hold the button")
        expect(written).not_to_contain_text("It is blue")
        expect(written.get_by_role("button", name="Hit 1")).to_have_count(0)
        expect(written.get_by_role("button", name="Hit 1")).to_have_count(4)
        expect(written).to_contain_text("Removed citations of passages that do not exist: [42]")
        expect(written.get_by_role("button", name="Write again")).to_be_visible()

    @pytest.mark.thorough
    def it_stops_and_keeps_the_text_so_far(self, served, side):
        slowly(served, SENTENCE * 60)
        side.get_by_role("button", name="Write an answer").click()
        written = side.locator(".written")
        expect(written).to_contain_text("Hold the button")
        written.get_by_role("button", name="Stop").click()
        expect(written).to_contain_text("Stopped. The citations of this text are not checked.")
        expect(written).to_contain_text("Hold the button")
        eventually(lambda: served.model.under_way == 0, within_s=5)
        slowly(served, SENTENCE)
        written.get_by_role("button", name="Write again").click()
        expect(written.get_by_role("button", name="Hit 1")).to_have_count(1)
        expect(written).not_to_contain_text("Stopped")

    @pytest.mark.thorough  # test_console_playground shows the sentence for a failure; test_written_answers, a broken stream
    def it_names_the_loss_when_the_model_breaks_off(self, served, side):
        slowly(served, SENTENCE * 4, most_events=6)
        side.get_by_role("button", name="Write an answer").click()
        written = side.locator(".written")
        expect(written).to_contain_text("There is no written answer")
        expect(written).not_to_contain_text("Hold the button")
