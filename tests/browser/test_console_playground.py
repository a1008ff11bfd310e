"""The playground on the real stack: what it offers before asking, and what can be done with an answer."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.support.clients.operating import eventually
from tests.support.corpora.console import MANUAL, OTHERS, hand_in
from tests.support.corpora.formats import pdf, xlsx

QUESTION = "how do I reset the router?"
MARKED = {**MANUAL, "type": "manual", "tags": ["router"], "metadata": {"year": 2025, "draft": False}}
NOTE = {**OTHERS[0], "type": "note", "author": "Lin", "metadata": {"year": 2026}, "story_time": 7}
# The parts of names, between their separators, that stand on more than one line.
_BROKEN_PARTS = """(cells) => cells.flatMap((cell) => {
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  const broken = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(node);
    if (!node.data.includes(" ") && range.getClientRects().length > 1) broken.push(node.data);
  }
  return broken;
})"""
WRITTEN = {
    "query_id": "",
    "status": "succeeded",
    "found": True,
    "text": "Hold the button [1]. It takes five seconds [1].",
    "citations": [],
    "dropped_markers": ["[9]"],
    "model": "a-model",
    "latency_ms": 12.0,
    "degraded": False,
    "degradations": [],
}


def ask(page: Page, question: str = QUESTION) -> Locator:
    page.get_by_label("Question").fill(question)
    page.get_by_role("button", name="Ask", exact=True).click()
    side = page.locator(".side-result").first
    expect(side.get_by_role("tablist")).to_be_visible()
    return side


def open_tab(side: Locator, name: str) -> Locator:
    side.get_by_role("tab", name=name).click()
    return side.get_by_role("tabpanel")


class DescribeAsking:
    def it_offers_the_filters_that_the_documents_have(self, console):
        made = console()
        hand_in(made.client, MARKED, NOTE)
        page = made.open("playground")
        page.get_by_text("Filters", exact=True).click()
        expect(page.get_by_text("Values of 2 documents")).to_be_visible()
        page.get_by_label("Type").select_option(label="manual (1)")
        page.get_by_label("Value of year").fill("2025")
        page.get_by_label("Value of year").press("Enter")
        expect(page.get_by_role("button", name="year = 2025")).to_be_visible()
        with page.expect_request("**/v1/rag/debug") as sent:
            side = ask(page, "router signal")
        # The number stays a number, or the filter would fit nothing.
        assert json.loads(sent.value.post_data)["filters"] == {"type": "manual", "metadata": {"year": 2025}}
        expect(side.locator(".hit")).to_have_count(1)
        expect(side.locator(".hit")).to_contain_text("Resetting the router")

    def it_counts_the_values_of_the_answer_and_filters_by_those_that_are_pressed(self, console, pictures):
        made = console(height=1000)
        notes = [
            {
                "document_id": f"n{number}",
                "title": f"Router note {number} 路由器",
                "text": f"The router of room {number} was reset. {number} 号房间的路由器已重置。",
                "type": "note" if number % 3 else "手册",
                "tags": ["router", "网络"] if number % 2 else ["router"],
                "metadata": {"部门": ["运维", "客服"][number % 2], "year": 2024 + number % 3},
            }
            for number in range(24)
        ]
        hand_in(made.client, MARKED, *notes)
        counted = {"query_text": "router", "namespaces": ["kb"], "facets": ["type"]}
        eventually(lambda: "matches" in made.client.post("/v1/rag/query", json=counted).text)  # the index has them
        page = made.open("playground")
        page.get_by_text("Filters", exact=True).click()
        page.get_by_label("Facets").fill("type, tags, metadata.部门")
        side = ask(page, "router reset")
        facets = side.locator(".facets")
        expect(facets.get_by_role("button")).to_have_text(
            ["note 16", "手册 8", "manual 1", "router 25", "网络 12", "客服 12", "运维 12"]
        )
        expect(facets).to_contain_text("Counted over the 25 passages that match")
        if pictures:
            page.screenshot(path=pictures / "playground-facets.png")
        facets.get_by_role("button", name="手册").click()
        expect(facets.get_by_role("button", name="手册")).to_have_attribute("aria-pressed", "true")
        expect(facets.get_by_role("button")).to_have_text(["手册 8", "router 8", "网络 4", "客服 4", "运维 4"])
        facets.get_by_role("button", name="客服").click()
        expect(facets).to_contain_text("Counted over the 4 passages that match")
        expect(side.locator(".hit")).to_have_count(4)
        if pictures:
            page.screenshot(path=pictures / "playground-facets-pressed.png")
        page.reload()  # the address holds the filters
        expect(facets.get_by_role("button", name="客服")).to_have_attribute("aria-pressed", "true")
        facets.get_by_role("button", name="手册").click()
        expect(facets).to_contain_text("Counted over the 12 passages that match")

    def it_groups_the_hits_by_a_field_and_asks_for_one_group_alone(self, console, pictures):
        made = console(height=1000)
        notes = [
            {
                "document_id": f"n{number}",
                "title": f"Router note {number} 路由器",
                "text": f"The router of room {number} was reset. {number} 号房间的路由器已重置。",
                "metadata": {"部门": "客服" if number == 7 else "运维"},
            }
            for number in range(8)
        ]
        hand_in(made.client, *notes)
        page = made.open("playground")
        page.get_by_text("Filters", exact=True).click()
        page.get_by_label("Group by").fill("metadata.部门")
        side = ask(page, "router reset")
        groups = side.get_by_label("Grouped by 部门")
        expect(groups.locator(".facet")).to_have_count(2)
        for name, hits in (("运维", 3), ("客服", 1)):
            group = groups.locator(".facet").filter(has_text=name)
            expect(group.locator(".cite")).to_have_count(hits)
        page.reload()  # the address holds the field
        expect(groups.locator(".facet")).to_have_count(2)
        if pictures:
            page.screenshot(path=pictures / "playground-groups.png")
        groups.get_by_role("button", name="Ask for 运维 only").click()
        expect(side.locator(".hit")).to_have_count(5)
        expect(groups).to_have_count(0)
        page.locator("details.filters summary").click()
        expect(page.get_by_role("button", name="部门 = 运维")).to_be_visible()

    @pytest.mark.refused
    def it_takes_an_expression_and_says_where_it_is_wrong(self, console):
        made = console()
        hand_in(made.client, MARKED, NOTE)
        page = made.open("playground")
        page.get_by_text("Filters", exact=True).click()
        page.get_by_label("Expression").fill("year > and type:note")
        page.get_by_label("Question").fill(QUESTION)
        page.get_by_role("button", name="Ask", exact=True).click()
        expect(page.get_by_text("at character 8: expected a value, found and")).to_be_visible()
        page.get_by_label("Expression").fill("year > 2025 and not type:manual")
        side = ask(page, "router signal")
        expect(side.locator(".hit")).to_have_count(1)
        expect(side.locator(".facets").get_by_role("button", name="note 1")).to_be_visible()

    @pytest.mark.thorough
    def it_says_what_is_wrong_beside_the_field(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        page = made.open("playground")
        page.get_by_text("Filters", exact=True).click()
        page.get_by_label("Published from").fill("2026-02-01")
        page.get_by_label("Published until").fill("2026-01-01")
        expect(page.locator(".field", has=page.get_by_label("Published until"))).to_contain_text("before the first one")
        page.get_by_label("Question").fill("水" * 8001)
        expect(page.locator(".field", has=page.get_by_label("Question"))).to_contain_text("at most 8000 characters")
        expect(page.get_by_role("button", name="Ask", exact=True)).to_be_disabled()

    @pytest.mark.thorough
    def it_finds_every_namespace_and_says_the_limit(self, console):
        made = console(width=360)
        for number in range(39):
            text = {"document_id": "d", "text": f"Room {number} has a router."}
            made.client.post("/v1/documents", json={"namespace": f"room-{number:02}", "documents": [text]})
        hand_in(made.client, {"document_id": "d", "text": "Room 39 has a router."}, namespace="room-39")
        page = made.open("playground")
        expect(page.get_by_text("0 of 40 chosen")).to_be_visible()
        expect(page.get_by_text("A query searches at most 32 namespaces.")).to_be_visible()
        page.get_by_label("Search namespaces").fill("-39")
        page.get_by_label("room-39").check()
        side = ask(page, "router")
        expect(side.locator(".hit")).to_contain_text("Room 39")
        expect(page.get_by_label("Search namespaces")).to_be_hidden()  # the list would push the answer off the screen
        page.get_by_text("Namespaces", exact=False).and_(page.locator("summary")).click()
        expect(page.locator(".pick-list input")).to_have_count(40)
        for box in page.locator(".pick-list input").all()[:31]:
            box.check()
        expect(page.get_by_text("32 of 40 chosen")).to_be_visible()
        expect(page.get_by_label("room-35")).to_be_disabled()
        assert not made.scrolls_sideways()

    @pytest.mark.thorough
    def it_asks_again_from_the_questions_of_the_tab(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        page = made.open("playground")
        ask(page)
        ask(page, "light blinks")
        page.get_by_text("Asked in this tab").click()
        page.get_by_role("button", name=QUESTION).click()
        expect(page.get_by_label("Question")).to_have_value(QUESTION)
        expect(page.locator(".hit").first).to_contain_text("Resetting the router")

    def it_asks_what_the_address_says(self, console):
        made = console()
        hand_in(made.client, MARKED, NOTE)
        hand_in(made.client, OTHERS[1], namespace="other")
        page = made.open("playground")
        page.get_by_label("other", exact=True).uncheck()
        page.get_by_label("Fusion").select_option("rrf")
        page.get_by_label("Results").fill("3")
        page.get_by_text("Filters", exact=True).click()
        page.get_by_label("Value of year").fill("2025")
        page.get_by_label("Value of year").press("Enter")
        with page.expect_request("**/v1/rag/debug") as first:
            ask(page)
        asked = page.url
        page.get_by_role("button", name="year = 2025").click()
        page.get_by_label("Compare two ways").check()
        ask(page, "light blinks")
        expect(page.locator(".side-result")).to_have_count(2)

        # The second way may still be asked when the page goes back.
        with page.expect_request(
            lambda sent: "/v1/rag/debug" in sent.url and QUESTION in (sent.post_data or "")
        ) as back:
            page.go_back()
        assert json.loads(back.value.post_data) == json.loads(first.value.post_data)
        expect(page.get_by_label("Question")).to_have_value(QUESTION)
        expect(page.locator(".side-result")).to_have_count(1)
        page.get_by_role("link", name="Jobs").click()
        page.get_by_role("link", name="Playground").click()  # the question is still there
        expect(page).to_have_url(asked)
        page.reload()
        expect(page.locator(".hit").first).to_contain_text("Resetting the router")
        expect(page.get_by_label("Fusion")).to_have_value("rrf")
        expect(page.get_by_label("other", exact=True)).not_to_be_checked()
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("API key").wait_for()
        assert "router" not in page.url

        linked = console(key=made.key)
        with linked.page.expect_request("**/v1/rag/debug") as opened:
            linked.open(asked.partition("#/")[2])
        assert json.loads(opened.value.post_data) == json.loads(first.value.post_data)

    @pytest.mark.thorough
    def it_takes_no_more_from_an_address_than_the_form_can_hold(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        with made.page.expect_request("**/v1/rag/debug") as sent:
            made.open("playground?text=router&method=none&fusion=%22&metadata=%5B1&top_k=x")
        assert json.loads(sent.value.post_data) == {
            "query_text": "router",
            "namespaces": ["kb"],
            "profile": "default",
            "top_k": 5,
            "facets": ["type", "tags"],
            "context": {},
            "highlight": True,
        }
        expect(made.page.locator(".hit").first).to_contain_text("Resetting the router")


class DescribeAnswers:
    @pytest.mark.parametrize("width", [pytest.param(1280, marks=pytest.mark.thorough), 390])
    def it_names_file_and_place_and_breaks_no_name_inside_a_word(self, console, width):
        made = console(width=width)
        places = ("north", "south", "east")
        books = [f"warehouse_{place}_inventory_2026-final.xlsx" for place in places]
        files = [
            ("file", (name, xlsx({"Stock": [["pump"], [place]], "Prices": [["item", place], ["valve", "12"]]})))
            for name, place in zip(books, places, strict=True)
        ]
        files.append(("file", ("handbook.pdf", pdf("The pump is blue.", "The valve closes to the right."))))
        sent = made.client.post("/v1/files", data={"namespace": "kb"}, files=files).json()
        made.client.get(f"/v1/jobs/{sent['job_id']}", params={"wait": 30})
        page = made.open("playground?text=valve&results=10")
        origins = page.locator(".hit .origin")
        for name in books:
            expect(origins.filter(has_text=f"{name} · sheet Prices")).to_have_count(1)
        expect(origins.filter(has_text="page 2")).to_have_count(1)
        open_tab(page.locator(".side-result"), "Stages")
        expect(page.locator(".table .origin").filter(has_text=f"{books[0]} · sheet Prices")).to_be_visible()
        assert page.locator(".table-frame").evaluate("e => e.scrollWidth <= e.clientWidth")
        context = open_tab(page.locator(".side-result"), "Context")
        expect(context.get_by_text("sheet Prices").first).to_be_visible()
        page.goto(f"{made.url}#/documents/kb")
        expect(page.locator("tbody tr")).to_have_count(4)
        assert page.locator("tbody th").evaluate_all(_BROKEN_PARTS) == []

    @pytest.mark.thorough
    def it_shows_the_first_hit_on_the_first_screen_of_a_telephone(self, console):
        made = console(width=390, height=844)
        hand_in(made.client, MANUAL)
        for number in range(16):
            text = {"document_id": "d", "text": "Nothing of use."}
            made.client.post("/v1/documents", json={"namespace": f"another-team-{number:02}", "documents": [text]})
        page = made.open("playground")
        expect(page.get_by_text("17 of 17 chosen")).to_be_visible()
        ask(page)
        hit = page.locator(".hit").first
        expect(hit).to_contain_text("Resetting the router")
        assert page.evaluate("scrollY") == 0
        assert hit.locator(".passage").evaluate("e => e.getBoundingClientRect().top") < 844

    def it_draws_the_ranks_and_names_chunks_by_title_and_first_words(self, console):
        made = console()
        hand_in(made.client, MANUAL, *OTHERS)
        page = made.open("playground")
        page.get_by_label("Results").fill("2")
        side = ask(page)
        flow = open_tab(side, "Rank flow")
        expect(flow.locator("svg .flow-head").first).to_have_text("Keyword")
        expect(flow.locator("svg polyline")).to_have_count(2)
        expect(flow.locator(".flow-names li").first).to_contain_text(
            re.compile(r"Resetting the router.*Fused #1.*Returned #1", re.S)
        )
        semantic = open_tab(side, "Channels").get_by_role("region", name="Semantic")
        expect(semantic).to_contain_text("Power supply")
        expect(semantic).to_contain_text("Use only the adapter")
        left_out = open_tab(side, "Left out")
        left_out.locator("summary").first.click()
        expect(left_out).to_contain_text("Thick walls shorten the range")
        left_out.get_by_role("button", name="Why not?").first.click()
        expect(left_out.get_by_role("status")).to_contain_text("Required")
        ids = [
            chunk["chunk_id"][:8] for chunk in made.client.get("/v1/chunks", params={"namespace": "kb"}).json()["data"]
        ]
        assert [each for each in ids if each in left_out.inner_text()] == []

    @pytest.mark.thorough
    def it_explains_a_document_of_another_namespace(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        hand_in(made.client, OTHERS[1], namespace="other")
        page = made.open("playground")
        page.get_by_label("other", exact=True).uncheck()
        panel = open_tab(ask(page), "Why not?")
        panel.get_by_label("Namespace").select_option("other")
        panel.get_by_label("Which document do you miss?").fill("adapter")
        panel.get_by_role("button", name=re.compile("Use only the adapter")).click()
        expect(panel.get_by_role("status")).to_contain_text("in a namespace that was not searched")

    def it_says_that_the_documents_probably_hold_no_answer(self, console):
        made = console()
        hand_in(made.client, MANUAL, *OTHERS)
        page = made.open("playground")
        side = ask(page)
        expect(side.locator(".hit .scale").first).to_contain_text(re.compile(r"Score.\d"))
        expect(side.get_by_text("Probably not in your documents.")).to_have_count(0)
        side = ask(page, "which device won the signal award in spring?")
        expect(side.get_by_text("Probably not in your documents.")).to_be_visible()

    def it_stores_and_withdraws_a_rating(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        side = ask(made.open("playground"))
        good = side.locator(".hit").first.get_by_role("button", name="Relevant", exact=True)
        good.click()
        expect(good).to_have_attribute("aria-pressed", "true")
        [rating] = made.client.get("/v1/feedback").json()["data"]
        assert (rating["rating"], rating["document_id"], rating["query_text"]) == ("good", "reset", QUESTION)
        good.click()
        expect(good).to_have_attribute("aria-pressed", "false")
        assert made.client.get("/v1/feedback").json()["data"] == []

    @pytest.mark.thorough
    def it_gives_the_query_as_code_without_the_key(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        page = made.open("playground")
        panel = open_tab(ask(page, "who's resetting?"), "Reuse")
        expect(panel.locator("pre")).to_contain_text("who'\\''s resetting?")
        panel.get_by_role("radio", name="Python").check()
        expect(panel.locator("pre")).to_contain_text('namespaces=["kb"]')
        panel.get_by_role("radio", name="JavaScript").check()
        expect(panel.locator("pre")).to_contain_text("/v1/rag/query")
        assert made.key not in page.content()

    @pytest.mark.thorough
    def it_saves_a_side_as_a_profile_and_as_its_next_version(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        page = made.open("playground")
        page.get_by_label("Fusion").select_option("rrf")
        panel = open_tab(ask(page), "Reuse")
        panel.get_by_text("Save as a profile").click()
        panel.get_by_label("Name of the new profile").fill("my ranks")
        panel.get_by_role("button", name="Save").click()
        expect(panel.get_by_text("may hold 1 to 64 letters").first).to_be_visible()
        panel.get_by_label("Name of the new profile").fill("ranks")
        panel.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Saved as version 1 of ranks.")).to_be_visible()
        profile = made.client.get("/v1/profiles/ranks").json()
        assert (profile["config"]["retrieve"]["fusion"]["strategy"], profile["config"]["top_k"]) == ("rrf", 5)
        panel.get_by_label("Store in").select_option("ranks")
        panel.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Saved as version 2 of ranks.")).to_be_visible()
        made.errors.clear()  # the refused name is logged by the browser itself


class DescribeWrittenAnswers:
    @pytest.mark.thorough
    def it_is_offered_only_with_a_language_model(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        side = ask(made.open("playground"))
        expect(side.locator(".hit").first).to_be_visible()
        expect(side.get_by_role("button", name="Write an answer")).to_have_count(0)

    def it_shows_citations_that_lead_to_the_hits_and_names_a_loss(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        page = made.open("upload")
        page.route(
            "**/console/config.json", lambda route: route.fulfill(json={"flower_url": None, "language_model": True})
        )
        chunk = made.client.get("/v1/chunks", params={"namespace": "kb"}).json()["data"][0]
        citation = {**{name: chunk[name] for name in ("chunk_id", "document_id", "namespace")}, "marker": "[1]"}
        answers = [
            {**WRITTEN, "citations": [{**citation, "title": MANUAL["title"], "page": None}]},
            {**WRITTEN, "status": "failed", "text": None, "found": None, "citations": [], "dropped_markers": [],
             "degraded": True, "degradations": [{"part": "write", "code": "rate_limited", "detail": "429"}]},
        ]  # fmt: skip

        def stream(route: Route) -> None:
            finished = f"event: finished\ndata: {json.dumps(answers.pop(0))}\n\n"
            body = f'event: text\ndata: {{"delta": "It takes"}}\n\n{finished}'
            route.fulfill(body=body, content_type="text/event-stream")

        page.route("**/v1/queries/*/answer", stream)
        page.goto(f"{made.url}#/playground")
        side = ask(page)
        side.get_by_role("button", name="Write an answer").click()
        expect(side.locator(".written")).to_contain_text("It takes five seconds")
        expect(side.locator(".written")).to_contain_text("Removed citations of passages that do not exist: [9]")
        side.get_by_role("button", name="Hit 1").first.click()
        expect(side.locator(".hit").first).to_be_focused()
        side.get_by_role("button", name="Write again").click()
        expect(side.locator(".written")).to_contain_text("The language model is at its rate limit.")


class DescribeOutages:
    @pytest.mark.thorough
    @pytest.mark.refused
    def it_shows_failing_parts_where_they_are_and_goes_on(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        page = made.open("playground")

        def refuse(route: Route) -> None:
            body = json.dumps({"title": "A dependency does not answer", "status": 503, "code": "store_unavailable"})
            route.fulfill(status=503, content_type="application/problem+json", body=body)

        page.route("**/fields", refuse)
        page.get_by_text("Filters", exact=True).click()
        alert = page.locator(".filters").get_by_role("alert")
        expect(alert).to_contain_text("store_unavailable")
        page.unroute_all()
        alert.get_by_role("button", name="Try again").click()
        expect(page.get_by_text("Values of 1 document")).to_be_visible()
        page.route("**/v1/chunks/lookup", refuse)
        side = ask(page)
        expect(open_tab(side, "Channels").locator(".raw li").first).to_be_visible()
        page.unroute_all()

    @pytest.mark.thorough
    def it_shows_that_an_answer_takes_long(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        made.page.clock.install()
        page = made.open("playground")
        held: list[Route] = []
        page.route("**/v1/rag/debug", lambda route: held.append(route))
        page.get_by_label("Question").fill(QUESTION)
        page.keyboard.press("Enter")
        expect(page.locator(".side-result [aria-busy=true]")).to_be_visible()
        page.clock.fast_forward("00:03")
        expect(page.locator(".side-result")).to_contain_text("This is taking longer than usual")
        for route in held:
            route.continue_()
        expect(page.locator(".hit").first).to_be_visible()


class DescribeLooks:
    @pytest.mark.parametrize(
        ("width", "language"),
        [
            (360, "zh-CN"),
            pytest.param(1360, "zh-CN", marks=pytest.mark.thorough),
            pytest.param(360, "en-GB", marks=pytest.mark.thorough),
        ],
    )
    def it_fits_and_speaks_in_every_tab(self, console, width, language):
        made = console(width=width, locale=language)
        hand_in(made.client, MARKED, NOTE, *OTHERS[1:])
        page = made.open("playground")
        page.locator("main input[type=search]").first.fill(QUESTION)
        page.locator("main input[type=search]").first.press("Enter")
        page.locator(".filters summary").click()
        expect(page.locator(".filters .fields")).to_be_visible()
        tabs = page.locator(".side-result").get_by_role("tab")
        expect(tabs).to_have_count(9)
        for each in tabs.all():
            each.click()
            expect(page.get_by_role("tabpanel")).not_to_be_empty()
            assert not made.scrolls_sideways(), each.inner_text()
        untranslated = r"\b(?:ask|filter|flow|lost|play|rate|reuse|run|seen|sure|why|written)\.\w+"
        assert re.findall(untranslated, page.locator("main").inner_text()) == []
