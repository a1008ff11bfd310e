"""The pages of knowledge beside documents: curated answers, dictionary, API sources, example library, entities."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from pipeline.database.unit_of_work import unit_of_work
from pipeline.resources import Resources
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import make_tenant
from tests.support.clients.operating import eventually
from tests.support.corpora.console import MANUAL, hand_in
from tests.support.servers.business_api import reachable_business_api, says


def fill_in(page: Page, **texts: str) -> None:
    for label, text in texts.items():
        page.get_by_label(label.replace("_", " "), exact=True).fill(text)


@pytest.fixture
def read_only_key(use: Resources) -> str:
    tenant_id, _ = make_tenant(use)
    with unit_of_work(use.mysql) as work:
        return Tenants(work.connection, tenant_id).issue_key("reader", scopes=("read",))


class DescribeKnowledgePages:
    @pytest.mark.thorough
    @pytest.mark.refused
    def it_offers_a_reader_nothing_to_change(self, console, read_only_key):
        made = console(key=read_only_key)
        page = made.open("dictionary")
        expect(page.get_by_role("tab", name="Synonyms")).to_be_visible()
        expect(page.get_by_label("New entries")).to_have_count(0)
        expect(page.get_by_role("link", name="API sources")).to_have_count(0)
        page.goto(f"{made.url}#/profiles/support")
        expect(page.get_by_label("Hits to return")).to_be_disabled()
        expect(page.get_by_role("button", name="Store as a new version")).to_have_count(0)


class DescribeCuratedAnswers:
    def it_adds_pasted_pairs_names_faulty_lines_and_asks_the_channel(self, console):
        made = console()
        page = made.open("faq")
        page.get_by_label("Many", exact=True).check()
        page.get_by_label("Pairs, one a line").fill(
            "Opening hours?\tFrom nine to five.\nno answer here\n退款要多久？|五个工作日"
        )
        expect(page.get_by_text("are not added: 2")).to_be_visible()
        page.get_by_role("button", name="Add 2").click()
        table = page.get_by_role("table", name="Curated answers")
        expect(table.get_by_role("row").filter(has_text="Opening hours?")).to_contain_text("From nine to five.")
        expect(table).to_contain_text("五个工作日")
        expect(page.get_by_label("Pairs, one a line")).to_have_value("no answer here")
        trial = page.get_by_role("region", name="Ask the channel")
        trial.get_by_label("Question", exact=True).fill("opening hours")
        trial.get_by_role("button", name="Ask").click()
        expect(trial.get_by_role("listitem").first).to_contain_text("From nine to five.")
        table.get_by_role("row").filter(has_text="Opening").get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(table).not_to_contain_text("Opening hours?")


class DescribeDictionary:
    @pytest.mark.refused
    def it_adds_good_lines_names_the_faulty_ones_and_marks_synonyms(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        page = made.open("dictionary/kb")
        page.get_by_label("New entries").fill("button, knob, 按钮\nalone\n?!, …")
        page.get_by_role("button", name="Add", exact=True).click()
        expect(page.get_by_text("Line 2")).to_be_visible()
        expect(page.get_by_text("Line 3")).to_be_visible()
        expect(page.get_by_label("Namespace", exact=True).first).to_be_disabled()
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Dictionary saved")).to_be_visible()
        stored = made.client.get("/v1/dictionary", params={"namespace": "kb"}).json()
        assert stored["synonyms"] == [["button", "knob", "按钮"]]
        trial = page.get_by_role("region", name="Try a question")
        trial.get_by_label("Question", exact=True).fill("按钮")

        def is_marked() -> bool:
            with page.expect_response("**/v1/rag/query"):
                trial.get_by_role("button", name="Ask").click()
            return trial.locator("mark").count() > 0

        eventually(is_marked, within_s=20)  # every worker uses it within three seconds
        expect(trial.locator("mark").first).to_have_text("button")

    @pytest.mark.thorough
    @pytest.mark.refused
    def it_keeps_both_changes_of_two_people(self, console):
        made = console()
        address = {"params": {"namespace": "kb"}}
        made.client.put("/v1/dictionary", **address, json={"stop_words": ["please", "kindly"]})
        page = made.open("dictionary/kb")
        page.get_by_role("tab", name="Stop words").click()
        page.get_by_role("button", name="Delete: kindly").click()
        page.get_by_label("New entries").fill("thanks")
        page.get_by_role("button", name="Add", exact=True).click()
        made.client.put("/v1/dictionary", **address, json={"stop_words": ["please", "kindly", "dear"]})
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Another person has changed this record")).to_be_visible()
        page.get_by_role("button", name="Keep both changes").click()
        expect(page.get_by_text("Dictionary saved")).to_be_visible()
        stored = made.client.get("/v1/dictionary", **address).json()["stop_words"]
        assert sorted(stored) == ["dear", "please", "thanks"]


class DescribeApiSources:
    def it_stores_tries_and_changes_one_without_showing_its_secret(self, console):
        made = console()
        with reachable_business_api() as api:
            api.answers["/crm"] = says({"rows": [{"text": "The customer pays yearly."}, {"title": "no text"}]})
            page = made.open("api-sources")
            expect(page.get_by_text("No API sources yet")).to_be_visible()
            page.get_by_role("link", name="New API source").click()
            fill_in(page, Name="crm", Address=f"{api.url}/crm", List_of_items="/rows", Text="/text")
            page.get_by_role("button", name="Add a header").click()
            page.get_by_label("Header", exact=True).fill("X-Token")
            page.get_by_label("Value, never shown again").fill("s3cret")
            page.get_by_role("button", name="Save").click()
            expect(page.get_by_role("heading", level=1)).to_have_text("crm")
            trial = page.get_by_role("region", name="Try it")
            trial.get_by_label("Question", exact=True).fill("how do they pay")
            trial.get_by_label("Namespace").fill("kb")
            trial.get_by_role("button", name="Call it").click()
            expect(trial.get_by_role("listitem")).to_contain_text("The customer pays yearly.")
            expect(trial).to_contain_text("1 item left out")
            page.get_by_label("Most items").fill("3")
            with page.expect_response(lambda answer: answer.request.method == "PUT"):
                page.get_by_role("button", name="Save").click()
            assert made.client.get("/v1/api-sources/crm").json()["max_items"] == 3
            trial.get_by_role("button", name="Call it").click()
            expect(trial).to_contain_text("1 passage")
            assert [asked.headers.get("x-token") for asked in api.asked] == ["s3cret", "s3cret"]
            assert "s3cret" not in page.content()

    @pytest.mark.thorough
    @pytest.mark.refused
    def it_shows_faults_beside_their_fields(self, console):
        made = console()
        page = made.open("api-sources/+")
        fill_in(page, Name="crm", Address="http://10.0.0.1/x", Text="no pointer")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".field").filter(has=page.get_by_label("Text", exact=True))).to_contain_text("JSON Pointer")
        page.get_by_label("Parameters (JSON)").fill("{not json")
        expect(page.get_by_text("This is not JSON")).to_be_visible()


class DescribeExamples:
    def it_checks_a_book_imports_it_and_verifies_it(self, console, tmp_path):
        made = console()
        rows = [{"user_input": f"问题{number}怎么办？", "agent_response": "请咨询医生。"} for number in range(3)]
        book = tmp_path / "book.json"
        book.write_text(json.dumps({"qa_examples": [*rows, {"user_input": "", "agent_response": "x"}]}), "utf-8")
        page = made.open("examples")
        expect(page.get_by_text("No examples in this namespace")).to_be_visible()
        part = page.get_by_role("region", name="Import a book")
        part.get_by_role("button", name="Book").set_input_files(book)
        part.get_by_label("Namespace").fill("lib")
        part.get_by_role("button", name="Check only").click()
        expect(part.get_by_text("nothing was stored")).to_be_visible()
        expect(part.get_by_role("table", name="Refused")).to_contain_text("user_input")
        part.get_by_role("button", name="Import", exact=True).click()
        job = part.get_by_role("link", name="Open the job").get_attribute("href").rsplit("/", 1)[-1]
        made.client.get(f"/v1/jobs/{job}", params={"wait": 30})
        page.get_by_role("button", name="Verify").click()
        expect(page.get_by_text("3 / 3 (100%)")).to_be_visible()
        page.reload()
        expect(page.get_by_role("table", name="Stored examples")).to_contain_text("Questions and answers")
        with page.expect_download() as given:
            page.get_by_role("button", name="Download the template").click()
        assert given.value.suggested_filename == "examples-template.xlsx"
        assert given.value.path().read_bytes()[:2] == b"PK"

    @pytest.mark.thorough
    @pytest.mark.refused
    def it_names_the_rows_of_a_refused_book(self, console, tmp_path):
        made = console()
        book = tmp_path / "book.json"
        book.write_text(json.dumps({"qa_examples": [{"user_input": "", "agent_response": "x"}]}), "utf-8")
        part = made.open("examples").get_by_role("region", name="Import a book")
        part.get_by_role("button", name="Book").set_input_files(book)
        part.get_by_label("Namespace").fill("lib")
        part.get_by_role("button", name="Import", exact=True).click()
        expect(part.get_by_role("table", name="Refused")).to_contain_text("row 1")


class DescribeEntities:
    @pytest.mark.refused
    def it_writes_states_and_shows_those_of_a_story_time(self, console):
        made = console()
        page = made.open("entities")
        page.get_by_label("Namespace").fill("novel")
        for time, place in (("100", "北城"), ("900", "harbour")):
            page.get_by_role("button", name="Write a state").click()
            fill_in(page, Entity_id="lin", Name="林远", Story_time=time, State=json.dumps({"place": place}))
            page.get_by_role("button", name="Save").click()
            expect(page.get_by_role("table", name="Entities")).to_contain_text(place)
        page.get_by_label("As of story time").fill("500")
        expect(page.get_by_role("table", name="Entities")).to_contain_text("北城")
        page.get_by_role("button", name="Edit: lin").click()
        fill_in(page, State='{"place": ')
        expect(page.get_by_text("This is not JSON")).to_be_visible()
        fill_in(page, State="waits at the gate")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("table", name="Entities")).to_contain_text("waits at the gate")
        page.get_by_role("button", name="Edit: lin").click()
        expect(page.get_by_label("State", exact=True)).to_have_value("waits at the gate")
        fill_in(page, Entity_id=" bad ")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("white space").first).to_be_visible()
        page.get_by_role("button", name="Delete: lin").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.get_by_text("No entities here")).to_be_visible()
