"""The medical example library: four tables imported from one workbook, thresholds, and queries of several tables.

The local model's similarities are not those of m3e. The tests therefore check the rule on the numbers in each query's
trace, and that each of its cases occurs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from chordwise import Chordwise, ProblemError
from chordwise.example_step import EXAMPLE_NAMESPACES
from chordwise.prompting import NO_EXAMPLES, format_for_prompt, retrieved_examples
from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import pointers, problem
from tests.support.corpora.documents import finished
from tests.support.corpora.medical_examples import COFFEE, HEADER, SHEETS, ask

# A question, the threshold of 0.7, 0.6, 0.5 where it ends with the examples above, and whether five reach it.
THRESHOLDS = [
    ("血压高时少喝咖啡，可以喝淡茶，血压高怎么办，可以跑步，最近一周血压怎么样，早上血压记录", 0.7, True),
    (COFFEE, 0.6, True),
    ("血压高怎么办", 0.5, True),
    ("早上好", 0.5, False),
]


def trace_of(client: httpx.Client, answer: dict[str, Any]) -> dict[str, Any]:
    return dict(client.get(f"/v1/queries/{answer['query_id']}/trace").raise_for_status().json())


def similarities(client: httpx.Client, answer: dict[str, Any]) -> dict[str, float]:
    """Return the semantic channel's similarities, before any threshold."""
    return {hit["chunk_id"]: hit["score"] for hit in trace_of(client, answer)["channels"]["semantic"]["hits"]}


def put_examples(client: httpx.Client, table: str, rows: list[tuple[str, str, str]]) -> None:
    category = table.removesuffix("_examples")
    sent = [{"user_input": asked, "agent_response": said, "quality_grade": grade} for asked, said, grade in rows]
    accepted = client.post("/v1/examples", json={"namespace": table, "examples": {category: sent}})
    assert accepted.status_code == 202, accepted.text
    finished(client, accepted.json()["job_id"])


class DescribeTheImport:
    def it_puts_each_sheet_of_one_workbook_into_its_own_table(self, library):
        stored = {each["namespace"]: each["documents"] for each in library.client.get("/v1/namespaces").json()["data"]}
        assert stored == {"qa_examples": 6, "record_examples": 2, "query_examples": 2, "greeting_examples": 2}
        for table in EXAMPLE_NAMESPACES:
            documents = library.client.get("/v1/documents", params={"namespace": table}).json()["data"]
            assert {each["type"] for each in documents} == {table.removesuffix("_examples")}

    def it_tells_each_wrong_row_and_takes_the_others(self, library):
        assert library.told.returncode == 1
        assert library.told.stderr.splitlines()[0] == (
            "sheet record_examples, row 4, column quality_grade: must be 优秀, 良好, 一般 or empty, not “很好”"
        )
        assert "2 of 2 rows searchable, 2 of 2 found by their own words" in library.told.stdout
        assert {table: [str(error) for error in each.errors] for table, each in library.imported.items()} == {
            "qa_examples": ["sheet qa_examples, row 8, column agent_response: is empty, and is required"],
            "query_examples": [],
            "greeting_examples": [],
        }

    def it_counts_rows_grades_and_tags(self, library):
        with Chordwise(os.environ["CHORDWISE_URL"], library.key) as client:
            seen = client.import_examples(library.book, namespace="qa_examples", dry_run=True)
        rows = {name: (each.read, each.accepted, each.refused, each.blank) for name, each in seen.statistics.items()}
        assert rows == {
            "total": (14, 12, 2, 1),
            "qa": (7, 6, 1, 0),
            "record": (3, 2, 1, 0),
            "query": (2, 2, 0, 1),
            "greeting": (2, 2, 0, 0),
        }
        assert seen.statistics["qa"].grades == {"优秀": 3, "": 1, "一般": 1, "良好": 1}
        assert seen.statistics["qa"].tags["高血压"] == 2

    def it_reads_the_same_from_json(self, library):
        named = [
            {name: dict(zip(HEADER, row, strict=True)) for name, row in enumerate(rows)} for rows in SHEETS.values()
        ]
        book = {table: list(rows.values()) for table, rows in zip(SHEETS, named, strict=True)}
        body = {"namespace": "qa_examples", "examples": book}
        answer = library.client.post("/v1/examples", params={"dry_run": True}, json=body).json()
        total = answer["statistics"]["total"]
        assert (total["read"], total["accepted"], total["refused"], total["blank"]) == (14, 12, 2, 1)

    def it_keeps_notes_out_of_the_library(self, library):
        for table in EXAMPLE_NAMESPACES:
            stored = library.client.get("/v1/documents", params={"namespace": table}).text
            shown = library.client.get("/v1/chunks", params={"namespace": table}).text
            assert "备注" not in stored + shown

    def it_searches_the_question_and_the_answer_as_one_text(self, library):
        [chunk] = [
            each
            for each in library.client.get("/v1/chunks", params={"namespace": "qa_examples"}).json()["data"]
            if each["text"].startswith("感冒")
        ]
        assert chunk["text"] == "感冒了吃什么药？ 多喝水， 注意休息。", "white space is tidied, both stand in one text"
        answer = ask(library.client, chunk["text"])
        assert answer["chunks"][0]["chunk_id"] == chunk["chunk_id"]
        assert answer["chunks"][0]["sources"][0]["score"] == pytest.approx(1.0, abs=2e-3)

    def it_never_stores_a_similarity(self, use, library):
        columns = "SELECT count(*) FROM information_schema.columns WHERE lower(column_name) LIKE '%similarity%'"
        for engine in (use.mysql, use.postgres):
            with engine.connect() as connection:
                assert connection.execute(text(columns)).scalar_one() == 0
        first, second = (ask(library.client, question)["chunks"] for question in (COFFEE, "血压高怎么办"))
        seen = [{each["chunk_id"]: each["sources"][0]["score"] for each in chunks} for chunks in (first, second)]
        both = seen[0].keys() & seen[1].keys()
        assert both
        assert all(seen[0][chunk_id] != seen[1][chunk_id] for chunk_id in both), "it belongs to the query"


class DescribeTheThresholds:
    @pytest.mark.parametrize(("question", "threshold", "enough"), THRESHOLDS)
    def it_steps_down_from_0_7_over_0_6_to_0_5_until_there_are_five(self, library, question, threshold, enough):
        answer = ask(library.client, question)
        recalled = similarities(library.client, answer)
        expected = next(
            (step for step in (0.7, 0.6, 0.5) if sum(score >= step for score in recalled.values()) >= 5), 0.5
        )
        reached = {chunk_id for chunk_id, score in recalled.items() if score >= expected}
        assert {chunk["chunk_id"] for chunk in answer["chunks"]} == reached
        assert answer["stats"]["ladder"] == {"threshold": threshold, "hits": len(reached), "enough": enough}
        assert expected == threshold, "the examples were chosen so that every threshold is reached"
        assert (len(reached) >= 5) is enough

    def it_gives_nothing_rather_than_what_is_below_the_last_one(self, library):
        answer = ask(library.client, "卫星发射火箭")
        assert max(similarities(library.client, answer).values()) < 0.5
        assert (answer["chunks"], answer["context"]["text"]) == ([], "")
        assert answer["stats"]["degraded"] is False
        assert format_for_prompt({"retrieved_examples": retrieved_examples(answer)}) == {
            "retrieved_examples": NO_EXAMPLES
        }


@pytest.fixture(scope="module")
def crowded(use: Resources) -> Iterator[httpx.Client]:
    """Six examples a table that hardly differ, two of each grade."""
    with gateway(make_tenant(use)[1]) as client:
        for place, table in enumerate(EXAMPLE_NAMESPACES):
            rows = [
                (f"血压高怎么办{'？' * (1 + place)}{'。' * number}", "先休息十分钟再量一次血压。", grade)
                for number, grade in enumerate(("优秀", "优秀", "良好", "良好", "一般", "一般"))
            ]
            put_examples(client, table, rows)
        yield client


class DescribeSeveralTables:
    QUESTION = "血压高怎么办？ 先休息十分钟再量一次血压。"

    def it_recalls_five_of_each_and_returns_fifteen_at_most(self, crowded):
        answer = ask(crowded, self.QUESTION)
        recalled = trace_of(crowded, answer)["channels"]["semantic"]["hits"]
        namespace_of = {
            chunk["chunk_id"]: table
            for table in EXAMPLE_NAMESPACES
            for chunk in crowded.get("/v1/chunks", params={"namespace": table}).json()["data"]
        }
        assert Counter(namespace_of[hit["chunk_id"]] for hit in recalled) == dict.fromkeys(EXAMPLE_NAMESPACES, 5)
        assert 0 < len(answer["chunks"]) <= 15
        scores = [chunk["score"] for chunk in answer["chunks"]]
        slack = 0.02 * max(scores)
        assert all(later <= earlier + slack for earlier, later in pairwise(scores))

    def it_leaves_out_fair_ones_only_when_more_than_fifteen_are_there_before_the_cut(self, crowded):
        answer = ask(crowded, self.QUESTION)
        assert "一般" not in {chunk["metadata"]["quality_grade"] for chunk in answer["chunks"]}
        drops = [each for each in trace_of(crowded, answer)["drops"] if each["stage"] == "quality"]
        assert {(each["reason"], each["value"], each["limit"]) for each in drops} == {("worst_grade", 20, 15)}
        three = ask(crowded, self.QUESTION, EXAMPLE_NAMESPACES[:3])
        assert len(three["chunks"]) == 15
        assert "一般" in {chunk["metadata"]["quality_grade"] for chunk in three["chunks"]}

    def it_prefers_the_better_grade_then_the_newer_on_near_ties(self, use):
        with gateway(make_tenant(use)[1]) as client:
            said = "先休息十分钟再量一次血压。"

            def put(asked: str, grade: str) -> None:
                put_examples(client, "qa_examples", [(asked, said, grade)])

            def order() -> list[str]:
                near = {"selection": {"quality": {"near_tie": 0.1}}}
                answer = ask(client, f"血压高怎么办 {said}", ["qa_examples"], retrieve=near)
                scores = [chunk["score"] for chunk in answer["chunks"]]
                assert max(scores) - min(scores) < 0.1 * max(scores), "they are near-ties"
                return [chunk["metadata"]["user_input"] for chunk in answer["chunks"]]

            put_examples(
                client, "qa_examples", [("谢谢", "再见", "一般")]
            )  # so that scores reach down to what is unlike
            for asked, grade in (("血压高怎么办？", "优秀"), ("血压高怎么办！", "良好"), ("血压高怎么办。", "良好")):
                put(asked, grade)
            assert order() == ["血压高怎么办？", "血压高怎么办。", "血压高怎么办！"]
            put("血压高怎么办！", "优秀")  # better now, and newer than the other one of its grade
            assert order() == ["血压高怎么办！", "血压高怎么办？", "血压高怎么办。"]

    def it_searches_only_the_tables_that_are_named(self, library):
        answer = ask(library.client, COFFEE, ["record_examples", "query_examples"])
        assert {chunk["namespace"] for chunk in answer["chunks"]} <= {"record_examples", "query_examples"}

    def it_names_a_table_that_does_not_exist(self, library):
        body = {"query_text": COFFEE, "namespaces": ["qa_examples", "old_examples"], "profile": "medical_examples"}
        assert pointers(problem(library.client.post("/v1/queries", json=body), 404, "namespace_not_found")) == [
            "/namespaces/1"
        ]
        with Chordwise(os.environ["CHORDWISE_URL"], library.key) as client, pytest.raises(ProblemError) as refused:
            client.query(COFFEE, namespaces=["old_examples"], profile="medical_examples")
        assert (refused.value.status, refused.value.code) == (404, "namespace_not_found")

    def it_goes_on_without_a_table_that_was_never_filled(self, use):
        """Three of the four tables are there: the others are searched, and what is missing is named."""
        with gateway(make_tenant(use)[1]) as client:
            for table in ("qa_examples", "record_examples", "query_examples"):
                put_examples(client, table, [(COFFEE, f"少喝咖啡（{table}）。", "优秀")])
            answer = ask(client, COFFEE)
            assert {chunk["namespace"] for chunk in answer["chunks"]} == set(EXAMPLE_NAMESPACES[:3])
            losses = [(each["part"], each["code"]) for each in answer["stats"]["degradations"]]
            assert (answer["stats"]["degraded"], losses) == (True, [("namespaces", "namespace_not_found")])
            assert "greeting_examples" in answer["stats"]["degradations"][0]["detail"]
            put_examples(client, "greeting_examples", [("早上好", "早上好！", "优秀")])
            assert ask(client, COFFEE)["stats"]["degraded"] is False, "it is there now"

    @pytest.mark.parametrize("namespaces", [["qa_examples"], ["greeting_examples", "query_examples"]])
    def it_names_the_tables_if_none_of_them_is_there(self, use, namespaces):
        with gateway(make_tenant(use)[1]) as client:
            body = {"query_text": "a headache", "namespaces": namespaces, "profile": "medical_examples"}
            refused = problem(client.post("/v1/rag/query", json=body), 404, "namespace_not_found")
            assert pointers(refused) == [f"/namespaces/{place}" for place in range(len(namespaces))]

    @pytest.mark.parametrize("wrong", [0, -1, "five", 2.5])
    def it_refuses_a_number_for_each_table_that_is_none(self, library, wrong):
        channels = {"semantic": {"options": {"per_namespace": wrong}}}
        body = {"query_text": COFFEE, "namespaces": ["qa_examples"], "retrieve": {"channels": channels}}
        found = problem(library.client.post("/v1/queries", json=body), 422, "invalid_request")
        assert pointers(found) == ["/retrieve/channels/semantic/options/per_namespace"]
