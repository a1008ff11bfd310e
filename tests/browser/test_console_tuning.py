"""The pages that change retrieval: profiles, experiments, feedback, evaluation."""

from __future__ import annotations

import json
import random

import pytest
from playwright.sync_api import Page, expect

from chordwise.evaluation.measures import ndcg, percentile, recall, reciprocal_rank
from chordwise.evaluation.significance import paired
from tests.support.corpora.console import MANUAL, OTHERS, hand_in


def save(page: Page, name: str = "Save") -> None:
    """Press the button and wait for the answer to the PUT."""
    with page.expect_response(lambda answer: answer.request.method == "PUT"):
        page.get_by_role("button", name=name, exact=True).click()


class DescribeProfiles:
    @pytest.mark.refused
    def it_stores_versions_tries_one_compares_them_and_rolls_back(self, console):
        made = console()
        page = made.open("profiles")
        page.get_by_role("link", name="New profile").click()
        page.get_by_label("Name", exact=True).fill("manuals")
        page.get_by_label("Hits to return").fill("5")
        page.get_by_label("Strategy").select_option("rrf")
        save(page, "Store as a new version")
        expect(page.get_by_role("heading", level=1)).to_have_text("manuals")
        stored = made.client.get("/v1/profiles/manuals").json()
        assert stored["config"] == {"top_k": 5, "retrieve": {"fusion": {"strategy": "rrf"}}}

        page.get_by_label("Half-life in days").fill("7")
        page.get_by_label("Hits to return").fill("5000")
        page.get_by_label("Hits to return").evaluate("e => e.removeAttribute('max')")
        save(page, "Store as a new version")  # the server refuses it beside the field
        expect(page.locator(".field").filter(has=page.get_by_label("Hits to return"))).to_contain_text("1000")
        page.get_by_label("Hits to return").fill("")
        page.get_by_label("Share of the queries").fill("0.25")
        save(page, "Store as a new version")
        expect(page.get_by_text("version 2, 25%").first).to_be_visible()

        page.get_by_role("tab", name="Versions").click()
        differences = page.get_by_role("table", name="Differences")
        expect(differences.get_by_role("row").filter(has_text="top_k")).to_contain_text("5")
        expect(differences).to_contain_text("half_life_days")
        page.get_by_role("button", name="Activate: 2").click()
        page.get_by_role("dialog").get_by_role("button", name="Activate").click()
        expect(page.get_by_text("Version 2 is in use")).to_be_visible()
        assert made.client.get("/v1/profiles/manuals").json()["config_version"] == 2
        page.get_by_role("button", name="Roll back").click()
        page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
        expect(page.get_by_text("Rolled back.")).to_be_visible()
        assert made.client.get("/v1/profiles/manuals").json()["config_version"] == 1
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.get_by_role("table", name="Profiles")).not_to_contain_text("manuals")

    @pytest.mark.thorough
    def it_keeps_settings_that_the_form_does_not_show(self, console):
        made = console()
        config = {
            "retrieve": {"ladder": {}, "channels": {"keyword": {"pool": 70, "weight": 0.5}}},
            "lane": "in_process",
        }
        made.client.put("/v1/profiles/manuals", json={"config": config})
        page = made.open("profiles/manuals")
        page.get_by_label("Weight of the keyword channel").fill("")
        page.get_by_label("All as JSON").check()
        config["retrieve"]["channels"]["keyword"].pop("weight")
        assert json.loads(page.get_by_label("Configuration (JSON)").input_value()) == config
        page.get_by_label("Configuration (JSON)").fill(json.dumps({**config, "top_k": 3}))
        page.get_by_label("Usual settings").check()
        expect(page.get_by_label("Hits to return")).to_have_value("3")
        save(page, "Store as a new version")
        assert made.client.get("/v1/profiles/manuals").json()["config"] == {**config, "top_k": 3}

    @pytest.mark.thorough
    @pytest.mark.refused
    @pytest.mark.parametrize("keep", ["Take theirs", "Replace it with mine"])
    def it_shows_what_somebody_else_stored_meanwhile_as_a_choice(self, console, keep):
        made = console()
        made.client.put("/v1/profiles/manuals", json={"config": {"top_k": 5}})
        page = made.open("profiles/manuals")
        page.get_by_label("Hits to return").fill("7")
        made.client.put("/v1/profiles/manuals", json={"config": {"top_k": 9}})
        save(page, "Store as a new version")
        conflict = page.get_by_role("alert").filter(has_text="Another person has changed this record")
        expect(conflict.get_by_role("row").filter(has_text="top_k")).to_contain_text("9")
        conflict.get_by_role("button", name=keep).click()
        expect(conflict).to_have_count(0)
        expect(page.get_by_label("Hits to return")).to_have_value("9" if keep == "Take theirs" else "7")
        assert made.client.get("/v1/profiles/manuals").json()["config"]["top_k"] == (9 if keep == "Take theirs" else 7)

    @pytest.mark.thorough
    @pytest.mark.refused
    def it_overwrites_no_profile_of_the_same_name(self, console):
        made = console()
        made.client.put("/v1/profiles/manuals", json={"config": {"top_k": 5}})
        page = made.open("profiles/+")
        page.get_by_label("Name", exact=True).fill("manuals")
        save(page, "Store as a new version")
        expect(page.get_by_text("This name exists already")).to_be_visible()
        assert made.client.get("/v1/profiles/manuals").json()["config_version"] == 1


class DescribeExperiments:
    @pytest.mark.refused
    def it_stores_arms_shows_results_and_ends(self, console):
        made = console()
        page = made.open("experiments")
        expect(page.get_by_text("No experiments yet")).to_be_visible()
        page.get_by_role("link", name="New experiment").click()
        page.get_by_label("Name", exact=True).fill("weights")
        second = page.get_by_role("group", name="Arms 2")
        second.get_by_label("Overrides (JSON)").fill('{"retrieve": {"bogus": 1}}')
        save(page)
        expect(second).to_contain_text("/retrieve/bogus")
        second.get_by_label("Overrides (JSON)").fill('{"top_k": 3}')
        second.get_by_label("Share").fill("3")
        save(page)
        expect(page.get_by_text("No results yet")).to_be_visible()
        arms = made.client.get("/v1/experiments/weights").json()["experiment"]["arms"]
        assert [(arm["name"], arm["share"], arm.get("overrides")) for arm in arms] == [
            ("control", 1, None),
            ("treatment", 3, {"top_k": 3}),
        ]
        page.get_by_role("button", name="End", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="End").click()
        expect(page.locator(".heading .badge")).to_have_text("Stopped")
        assert made.client.get("/v1/experiments/weights").json()["active"] is False

    @pytest.mark.thorough
    def it_draws_the_ratings_of_each_arm(self, console):
        made = console()
        made.client.put("/v1/experiments/weights", json={"experiment": {"arms": [{"name": "a"}, {"name": "b"}]}})
        shown = {"searches": 40, "failed": 1, "empty": 2, "degraded": 4, "cached": 0, "mean_latency_ms": 31.5}
        rated = {"good": 9, "bad": 3, "clicks": 5, "queries": 12, "sessions": 10, "mean_click_place": 1.5}
        body = json.dumps({"experiment_id": "weights", "buckets": [{"bucket": "a", **shown, **rated}]})
        made.page.route(
            "**/experiments/weights/results", lambda route: route.fulfill(body=body, content_type="application/json")
        )
        row = made.open("experiments/weights").get_by_role("row").filter(has_text="9 good, 3 bad, 5 clicks")
        expect(row).to_contain_text("4 (10%)")
        assert row.locator(".good").bounding_box()["width"] == pytest.approx(
            3 * row.locator(".bad").bounding_box()["width"], rel=0.05
        )


def rate(made, text: str, document_id: str, rating: str = "good") -> None:
    query = made.client.post("/v1/rag/query", json={"query_text": text, "namespaces": ["kb"]}).json()
    body = {"rating": rating, "document_id": document_id}
    assert made.client.post(f"/v1/queries/{query['query_id']}/feedback", json=body).status_code == 201


class DescribeFeedback:
    def it_filters_withdraws_and_downloads_judgments(self, console):
        made = console()
        hand_in(made.client, MANUAL, *OTHERS)
        rate(made, "reset the router", "reset")
        rate(made, "wireless walls", "power", "bad")
        page = made.open("feedback")
        table = page.get_by_role("table", name="Ratings")
        expect(table.get_by_role("row")).to_have_count(3)
        page.get_by_label("Rating", exact=True).select_option("bad")
        expect(table.get_by_role("row")).to_have_count(2)
        table.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.get_by_text("No feedback yet")).to_be_visible()
        page.get_by_role("tab", name="Judgments").click()
        expect(page.get_by_role("table", name="Judgments")).to_contain_text("relevant")
        with page.expect_download() as given:
            page.get_by_role("button", name="Download golden.jsonl").click()
        (judged,) = [json.loads(line) for line in given.value.path().read_text("utf-8").splitlines()]
        assert (judged["query_text"], judged["relevant"]) == ("reset the router", {"reset": 2})


class DescribeEvaluation:
    def it_measures_a_change_with_the_judgments_and_stores_it(self, console, pictures):
        made = console()
        hand_in(made.client, MANUAL, *OTHERS)
        for text, document_id in (("reset button", "reset"), ("wireless walls", "wifi"), ("adapter", "power")):
            rate(made, text, document_id)
        page = made.open("evaluation")
        page.get_by_label("Changes to the second way").fill('{"retrieve": {"method": "full_text"}}')
        page.get_by_role("button", name="Measure", exact=True).click()
        expect(page.get_by_role("heading", name="Measured on 3 questions")).to_be_visible()
        expect(page.get_by_role("row").filter(has_text="nDCG@10")).to_contain_text("1.0000")
        expect(page.get_by_text("No significant difference")).to_be_visible()
        if pictures:
            page.screenshot(path=pictures / "evaluation.png", full_page=True)
        page.get_by_role("button", name="Store the changes in default").click()
        page.get_by_role("dialog").get_by_role("button", name="Save").click()
        expect(page.get_by_text("A version of default is stored.")).to_be_visible()
        head = made.client.get("/v1/profiles/default").json()
        assert (head["trial_version"], head["trial_share"]) == (2, 0.1)
        newest = made.client.get("/v1/profiles/default/versions").json()["data"][0]
        assert newest["config"] == {"retrieve": {"method": "full_text"}}
        page.reload()
        expect(page.get_by_text("A trial is under way in default")).to_be_visible()
        expect(page.get_by_role("button", name="Measure", exact=True)).to_be_disabled()

    @pytest.mark.thorough
    def it_names_faulty_lines_of_a_file_and_can_be_cancelled(self, console, tmp_path):
        made = console()
        hand_in(made.client, MANUAL)
        page = made.open("evaluation")
        page.get_by_label("From a file").check()
        lines = [{"query_text": f"reset {number}", "relevant": {"reset": 2}} for number in range(40)]
        faulty = tmp_path / "faulty.jsonl"
        faulty.write_text('{"query_text": "x"}\nnot json\n', "utf-8")
        golden = tmp_path / "golden.jsonl"
        golden.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
        page.get_by_label("File of judgments").set_input_files(faulty)
        expect(page.get_by_text("Faulty lines: 1")).to_be_visible()
        expect(page.get_by_role("button", name="Measure", exact=True)).to_be_disabled()
        page.get_by_label("File of judgments").set_input_files(golden)
        page.route("**/v1/rag/query", lambda route: None)  # never answered
        page.get_by_role("button", name="Measure", exact=True).click()
        expect(page.get_by_text("0 / 80")).to_be_visible()
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("button", name="Measure", exact=True)).to_be_enabled()

    @pytest.mark.thorough
    def it_says_how_to_get_judgments(self, console):
        made = console()
        hand_in(made.client, MANUAL)
        page = made.open("evaluation")
        page.get_by_role("button", name="Measure", exact=True).click()
        expect(page.get_by_text("No judged questions")).to_be_visible()

    def it_computes_the_measures_of_the_client(self, console):
        page = console().open("jobs")
        draw = random.Random(7)
        cases = []
        for _ in range(40):
            ids = [f"d{number}" for number in range(30)]
            draw.shuffle(ids)
            grades = {f"d{draw.randrange(40)}": draw.randrange(4) for _ in range(draw.randrange(6))}
            cases.append([ids[: draw.randrange(30)], grades])
        runs = [[draw.random() for _ in range(size)] for size in (9, 9, 60, 60)]
        script = """async ([cases, runs]) => {
          const m = await import("./js/measures.js");
          return [cases.map(([r, g]) => [m.ndcg(r, g), m.reciprocalRank(r, g), m.recall(r, g)]),
            m.paired(runs[0], runs[1]), m.paired(runs[2], runs[3]), m.percentile(runs[2], 95)];
        }"""
        measured, few, many, p95 = page.evaluate(script, [cases, runs])
        for (ranking, grades), figures in zip(cases, measured, strict=True):
            expected = [ndcg(ranking, grades), reciprocal_rank(ranking, grades), recall(ranking, grades)]
            assert figures == pytest.approx(expected)
        assert p95 == percentile(runs[2], 95)
        for figures, result in ((few, paired(runs[0], runs[1])), (many, paired(runs[2], runs[3]))):
            assert figures["difference"] == pytest.approx(result.difference)
            assert figures["error"] == pytest.approx(result.error)
            assert (figures["better"], figures["worse"]) == (result.better, result.worse)
            assert figures["p"] == pytest.approx(result.p, abs=0.02)  # beyond 12 differences both draw at random
        assert few["p"] == pytest.approx(paired(runs[0], runs[1]).p)
