"""The medical example library in an agent: the step that fetches examples, its latency, near duplicates, both layouts."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pytest

from chordwise import AsyncChordwise, Chordwise
from chordwise.example_step import EXAMPLE_NAMESPACES, awith_examples, with_examples
from chordwise.langgraph import RetrievalNode
from chordwise.prompting import NO_EXAMPLES, format_for_prompt, retrieved_examples
from tests.conftest import gateway, make_tenant
from tests.support.clients.commands import called
from tests.support.corpora.documents import document, search, upload
from tests.support.corpora.formats import xlsx
from tests.support.corpora.medical_examples import COFFEE, HEADER, SHEETS, Library, ask


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
    @pytest.mark.thorough
    def it_answers_within_500_ms_once_it_is_warm(self, library):
        ask(library.client, "预热")
        taken = []
        for number in range(7):
            began = time.perf_counter()
            search(library.client, EXAMPLE_NAMESPACES, f"血压 {150 + number} 怎么办", profile="medical_examples")
            taken.append(time.perf_counter() - began)
        assert statistics.median(taken) < 0.5

    @pytest.mark.thorough
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
