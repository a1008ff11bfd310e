"""The medical example library (S2): four tables of examples from one workbook, asked at once, handed to an agent's prompt.

The local model's similarities are not those of m3e, so what is asserted is the rule, on the numbers that the trace of each
query gives, and that each of its cases occurs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import httpx
import pytest
from sqlalchemy import text

from chordwise import AsyncChordwise, Chordwise, ProblemError
from chordwise.agents.example_prompts import EXAMPLE_NAMESPACES, awith_examples, with_examples
from chordwise.api.examples import ExamplesImport
from chordwise.langgraph import RetrievalNode
from chordwise.prompting import NO_EXAMPLES, format_for_prompt, retrieved_examples
from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.commands import called
from tests.support.documents import document, finished, search, upload
from tests.support.formats import xlsx
from tests.support.gateway_client import pointers, problem

HEADER = ["user_input", "agent_response", "tags", "quality_grade", "notes"]
NOTE = "内部备注：待审核"
COFFEE = "血压高可以喝咖啡吗？"
SHEETS: dict[str, list[list[str]]] = {
    "qa_examples": [
        [COFFEE, "血压高时建议少喝咖啡，每天不超过一杯。", "健康咨询,高血压,普通咨询", "优秀", NOTE],
        ["血压高可以喝茶吗？", "可以喝淡茶，血压高时不要喝浓茶。", "健康咨询，高血压", "良好", ""],
        ["血压高可以跑步吗？", "血压控制稳定后可以慢跑。", "健康咨询", "一般", ""],
        ["血压高怎么办？", "先休息十分钟再量一次血压。", "症状询问", "优秀", ""],
        ["降压药可以饭后吃吗？", "可以，关键是每天固定时间。", "用药咨询", "优秀", ""],
        ["感冒了吃什么药？", "多喝水，  注意休息。", "用药咨询", "", ""],
        ["胸痛怎么办？", "", "安全边界场景", "优秀", ""],
    ],
    "record_examples": [
        ["记录一下，早上血压 150/95", "好的，已经记录早上血压 150/95。", "blood_pressure,完整", "优秀", ""],
        ["我今天吃了降压药", "已记录今天的用药。", "medication", "良好", ""],
        ["今天头晕", "已记录头晕症状。", "symptom", "很好", ""],
    ],
    "query_examples": [
        ["我最近一周的血压怎么样？", "最近一周平均血压 132/84。", "blood_pressure,最近一周", "优秀", ""],
        ["", "", "", "", "只有备注的一行"],
        ["这个月我吃了几次药？", "这个月记录了二十次用药。", "medication,这个月", "良好", ""],
    ],
    "greeting_examples": [
        ["早上好", "早上好！今天感觉怎么样？", "日常问候", "优秀", ""],
        ["谢谢，再见", "不客气，祝您健康。", "告别", "良好", ""],
    ],
}
# What is asked, and which rung of 0.7, 0.6, 0.5 it ends on with the examples above; whether five reach it.
RUNGS = [
    ("血压高时少喝咖啡，可以喝淡茶，血压高怎么办，可以跑步，最近一周血压怎么样，早上血压记录", 0.7, True),
    (COFFEE, 0.6, True),
    ("血压高怎么办", 0.5, True),
    ("早上好", 0.5, False),
]


class Library(NamedTuple):
    """The gateway with the key of the tenant that has the four tables; what the command said of one of them, and the
    client of the others."""

    client: httpx.Client
    key: str
    book: Path
    told: subprocess.CompletedProcess[str]
    imported: dict[str, ExamplesImport]


@pytest.fixture(scope="module")
def library(use: Resources, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    book = tmp_path_factory.mktemp("s2") / "提示词案例库.xlsx"
    book.write_bytes(xlsx({name: [HEADER, *rows] for name, rows in SHEETS.items()}))
    _, key = make_tenant(use)
    arguments = (book, "-n", "record_examples", "--category", "record", "--wait")
    told = called("import-examples", *arguments, CHORDWISE_API_KEY=key)
    with Chordwise(os.environ["CHORDWISE_URL"], key) as client:
        imported = {
            table: client.import_examples(book, namespace=table, category=table.removesuffix("_examples"))
            for table in EXAMPLE_NAMESPACES
            if table != "record_examples"
        }
        for each in imported.values():
            client.wait(str(each.job_id))
    with gateway(key) as client:
        yield Library(client, key, book, told, imported)


def ask(client: httpx.Client, question: str, namespaces: Any = EXAMPLE_NAMESPACES, **fields: Any) -> dict[str, Any]:
    return search(client, namespaces, question, profile="medical_examples", trace=True, **fields)


def trace_of(client: httpx.Client, answer: dict[str, Any]) -> dict[str, Any]:
    return dict(client.get(f"/v1/queries/{answer['query_id']}/trace").raise_for_status().json())


def similarities(client: httpx.Client, answer: dict[str, Any]) -> dict[str, float]:
    """What the semantic channel recalled, before any threshold."""
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
    @pytest.mark.parametrize(("question", "rung", "enough"), RUNGS)
    def it_steps_down_from_0_7_over_0_6_to_0_5_until_there_are_five(self, library, question, rung, enough):
        answer = ask(library.client, question)
        recalled = similarities(library.client, answer)
        expected = next(
            (step for step in (0.7, 0.6, 0.5) if sum(score >= step for score in recalled.values()) >= 5), 0.5
        )
        reached = {chunk_id for chunk_id, score in recalled.items() if score >= expected}
        assert {chunk["chunk_id"] for chunk in answer["chunks"]} == reached
        assert answer["stats"]["ladder"] == {"threshold": rung, "hits": len(reached), "enough": enough}
        assert expected == rung, "the examples were chosen so that every rung is reached"
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


@pytest.fixture(scope="module")
def agent(library: Library) -> Iterator[Chordwise]:
    """The Python client of the library's tenant, as an agent has it."""
    with Chordwise(os.environ["CHORDWISE_URL"], library.key) as found:
        yield found


class DescribeTheStepOfTheAgent:
    def it_hands_on_examples_in_the_agreed_form(self, agent):
        before = {"query_text": COFFEE, "keywords": ["咖啡"], "other": 1}
        after = with_examples(agent, before)
        assert {name: after[name] for name in before} == before
        first = after["retrieved_examples"][0]
        assert list(first) == ["content", "similarity", "source", "metadata"]
        assert first["content"] == f"用户：{COFFEE}\n助手：血压高时建议少喝咖啡，每天不超过一杯。"
        assert first["source"] == "qa_examples"
        assert all(0.0 <= each["similarity"] <= 1.0 for each in after["retrieved_examples"])
        metadata = first["metadata"]
        assert (metadata["tags"], metadata["quality_grade"]) == (["健康咨询", "高血压", "普通咨询"], "优秀")
        assert (metadata["type"], metadata["user_input"]) == ("qa", COFFEE)
        assert metadata["updated_at"]

    def it_asks_with_the_keywords_beside_the_question(self, agent):
        plain = with_examples(agent, {"query_text": "可以吗？", "keywords": []})
        enhanced = with_examples(agent, {"query_text": "可以吗？", "keywords": ["降压药", "饭后"]})
        same = agent.query("可以吗？ 降压药 饭后", namespaces=EXAMPLE_NAMESPACES, profile="medical_examples")
        # A process that holds the vectors sums in another order than PostgreSQL does.
        assert enhanced["retrieved_examples"] == [
            {**each, "similarity": pytest.approx(each["similarity"], abs=1e-5)} for each in retrieved_examples(same)
        ]
        assert enhanced["retrieved_examples"][0]["metadata"]["user_input"] == "降压药可以饭后吃吗？"
        assert enhanced["retrieved_examples"] != plain["retrieved_examples"]

    def it_falls_back_to_what_the_user_said(self, agent):
        for empty in ({}, {"query_text": ""}, {"query_text": None, "keywords": None}, None):
            after = with_examples(agent, empty, user_message=COFFEE)
            assert after["retrieved_examples"][0]["metadata"]["user_input"] == COFFEE

    def it_never_stops_the_agent(self, agent):
        asked = {"query_text": COFFEE, "keywords": []}
        assert with_examples(agent, asked, namespaces=["old_examples"]) == {**asked, "retrieved_examples": []}
        assert with_examples(agent, {}, user_message="") == {"retrieved_examples": []}
        with Chordwise("http://127.0.0.1:9", "cw_nobody", retries=0) as nobody:
            after = with_examples(nobody, asked)
        assert after["retrieved_examples"] == []
        assert format_for_prompt(after)["retrieved_examples"] == NO_EXAMPLES

    def it_fills_the_placeholder_of_the_prompt(self, library, agent):
        after = with_examples(agent, {"query_text": COFFEE})
        prompt = "参考示例：\n{retrieved_examples}".format(**format_for_prompt(after))
        assert prompt.startswith(f"参考示例：\n示例1：\n用户：{COFFEE}\n助手：")
        assert prompt.count("用户：") == len(after["retrieved_examples"])
        context = ask(library.client, COFFEE)["context"]["text"]
        assert context.startswith(f"用户：{COFFEE}\n助手：")


class DescribeItsTime:
    def it_answers_within_500_ms_once_it_is_warm(self, library):
        ask(library.client, "预热")
        taken = []
        for number in range(7):
            began = time.perf_counter()
            search(library.client, EXAMPLE_NAMESPACES, f"血压 {150 + number} 怎么办", profile="medical_examples")
            taken.append(time.perf_counter() - began)
        assert statistics.median(taken) < 0.5

    def it_answers_several_at_once_as_it_does_one_by_one(self, library):
        questions = [
            f"血压高可以喝{drink}吗" for drink in ("咖啡", "绿茶", "红茶", "牛奶", "白酒", "豆浆", "可乐", "汤")
        ]
        fresh = {"Cache-Control": "no-cache", "Prefer": "wait=10"}

        def found(question: str) -> tuple[list[str], float]:
            body = {"query_text": question, "namespaces": list(EXAMPLE_NAMESPACES), "profile": "medical_examples"}
            began = time.perf_counter()
            answer = library.client.post("/v1/queries", json=body, headers=fresh).json()
            assert (answer["status"], answer["stats"]["degradations"]) == ("succeeded", [])
            return [chunk["chunk_id"] for chunk in answer["chunks"]], time.perf_counter() - began

        alone = [found(question)[0] for question in questions]
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(found, questions))
        assert [chunks for chunks, _ in together] == alone
        assert statistics.median(taken for _, taken in together) < 0.5


NEARLY = [
    ["感冒吃什么药", "多喝水，注意休息。"],
    ["感冒 吃 什么药？", "可以吃对乙酰氨基酚。"],
    ["感冒了吃什么药？", "按说明书服药。"],
    ["感冒要多久才好", "一般一周左右。"],
    ["What can I take for a headache?", "Paracetamol, at most four times a day."],
    ["what can i take for a headaches", "Rest first."],
    ["Can I drink coffee with high blood pressure?", "Little of it."],
]


class DescribeNearDuplicates:
    def it_reports_questions_that_are_nearly_the_same_and_imports_them(self, use):
        with gateway(make_tenant(use)[1]) as client:
            rows = [{"user_input": asked, "agent_response": said} for asked, said in NEARLY]
            body = {"namespace": "qa_examples", "examples": {"qa": rows}}
            answer = client.post("/v1/examples", params={"dry_run": True}, json=body).json()
            near = {each["row"]: each["detail"] for each in answer["warnings"] if each["code"] == "near_duplicate_row"}
            assert near.keys() == {2, 3, 6}
            assert "row 1 of sheet qa asks (similarity 1.00)" in near[2]
            assert "row 5 of sheet qa asks" in near[6]
            assert answer["statistics"]["qa"]["accepted"] == len(NEARLY)


def node_of(key: str) -> RetrievalNode:
    return RetrievalNode(url=os.environ["CHORDWISE_URL"], api_key=key)


class DescribeBothLayouts:
    """The ready-made node has no argument that says how the book was imported."""

    ASKED: ClassVar = {"prompt_vars": {"query_text": COFFEE, "keywords": []}}

    @pytest.fixture
    def book(self, tmp_path: Path) -> Path:
        path = tmp_path / "book.xlsx"
        good = {name: [row for row in rows if row[0] and row[1] and row[3] != "很好"] for name, rows in SHEETS.items()}
        path.write_bytes(xlsx({name: [HEADER, *rows] for name, rows in good.items()}))
        return path

    def it_finds_what_was_imported_into_four_tables(self, use, book):
        key = make_tenant(use)[1]
        told = called("import-examples", book, "--tables", "--wait", CHORDWISE_API_KEY=key)
        assert told.returncode == 0, told.stderr
        assert "qa_examples: 6 of 6 rows searchable" in told.stdout
        found = node_of(key).invoke(self.ASKED)["prompt_vars"]["retrieved_examples"]
        assert found[0]["metadata"]["user_input"] == COFFEE

    def it_finds_what_was_imported_into_one_namespace(self, use, book):
        key = make_tenant(use)[1]
        assert called("import-examples", book, "-n", "kb", "--wait", CHORDWISE_API_KEY=key).returncode == 0
        found = node_of(key).invoke(self.ASKED)["prompt_vars"]["retrieved_examples"]
        assert found[0]["metadata"]["user_input"] == COFFEE
        assert len(found) >= 5, "the one namespace gives as many as four tables do"

    async def it_finds_it_awaited(self, use, book):
        key = make_tenant(use)[1]
        assert called("import-examples", book, "-n", "kb", "--wait", CHORDWISE_API_KEY=key).returncode == 0
        async with AsyncChordwise(os.environ["CHORDWISE_URL"], key) as client:
            found = (await awith_examples(client, self.ASKED["prompt_vars"]))["retrieved_examples"]
        assert found[0]["metadata"]["user_input"] == COFFEE

    def it_takes_no_other_namespace_for_a_library(self, use):
        _, key = make_tenant(use)
        with gateway(key) as client:
            upload(client, "notes", [document("qa-1", COFFEE)])
            assert client.get("/v1/namespaces", params={"examples": True}).json()["data"] == []
        assert node_of(key).invoke(self.ASKED)["prompt_vars"]["retrieved_examples"] == []

    def it_stores_nothing_of_a_strict_import_with_a_wrong_row(self, use, library):
        key = make_tenant(use)[1]
        told = called("import-examples", library.book, "--tables", "--strict", CHORDWISE_API_KEY=key)
        assert (told.returncode, "nothing was stored" in told.stderr) == (1, True)
        with gateway(key) as client:
            assert client.get("/v1/namespaces").json()["data"] == []

    @pytest.mark.parametrize("arguments", [[], ["-n", "kb", "--tables"]])
    def it_wants_one_of_the_two(self, book, arguments):
        assert called("import-examples", book, *arguments).returncode == 2
