"""Confidence, thresholds and weights as a caller sees them, in English and in Chinese, through the gateway and workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.corpora.documents import document, upload
from tests.support.corpora.explaining import NO_RERANK, ask

ENGLISH = [
    "The VPN client asks for a token from the authenticator app. Enter the token within thirty seconds.",
    "Expense reports are filed in the finance portal before the fifth day of the month.",
    "The coffee machine on the third floor is descaled every Friday by the facility team.",
    "New laptops are encrypted. The recovery key is kept by the help desk.",
    "The fire alarm is tested on the first Monday of every month at ten o'clock.",
    "Whales breathe air and surface several times an hour.",
]
CHINESE = [
    "虚拟专用网客户端需要身份验证器中的动态口令，请在三十秒内输入口令。",
    "差旅报销单应当在每月五日之前提交到财务系统。",
    "三楼的咖啡机由后勤部门每周五除垢一次。",
    "新发放的笔记本电脑已经加密，恢复密钥由服务台保管。",
    "消防警报在每月第一个星期一上午十点进行测试。",
    "鲸用肺呼吸，每小时要多次浮出水面换气。",
]
CORPORA = {"en": ENGLISH, "zh": CHINESE}
ANSWERED = [
    ("en", "When are expense reports filed in the finance portal?", "d1"),
    ("en", "Who keeps the recovery key of an encrypted laptop?", "d3"),
    ("zh", "差旅报销单什么时候提交到财务系统？", "d1"),
    ("zh", "笔记本电脑的恢复密钥由谁保管？", "d3"),
]
NOT_ANSWERED = [
    ("en", "zzzqqqxxx"),
    ("en", "which wine goes well with grilled salmon"),
    ("en", "who won the football world cup in 1998"),
    ("zh", "哇咔嘟噜噗叽叽"),
    ("zh", "红烧排骨要放多少酱油？"),
    ("zh", "谁获得了世界杯足球赛的冠军？"),
]
FAQ = {
    "en": "Q: How do I reset my password?\nA: Open the portal.\n\nQ: Where is the canteen?\nA: On the ground floor.",
    "zh": "问：怎样重置密码？\n答：打开门户网站。\n\n问：食堂在哪里？\n答：在一楼。",
}
EXPIRED = {"en": "my password has expired today", "zh": "我的密码今天过期了"}
HINT = "Ask the help desk. / 请联系服务台。"


@pytest.fixture(scope="module")
def client(use: Resources) -> Iterator[httpx.Client]:
    """A tenant with a small namespace of each language."""
    with gateway(make_tenant(use)[1]) as found:
        for language, texts in CORPORA.items():
            upload(found, language, [document(f"d{n}", text) for n, text in enumerate(texts)])
        for language, text in FAQ.items():
            upload(found, f"faq-{language}", [document("faq", text)], chunking={"strategy": "qa"})
        yield found


def surest(answer: dict[str, Any]) -> float:
    return max((chunk["confidence"] for chunk in answer["chunks"]), default=0.0)


class DescribeConfidence:
    @pytest.mark.parametrize(("language", "question", "document_id"), ANSWERED)
    def it_is_high_for_an_answer(self, client, language, question, document_id):
        answer = ask(client, language, question, fallback={"hint": HINT}, retrieve={"score_threshold": 0.4})
        assert answer["chunks"][0]["document_id"] == document_id
        assert answer["chunks"][0]["confidence"] >= 0.4
        assert answer["stats"]["fallback"] is None

    @pytest.mark.parametrize(("language", "question"), NOT_ANSWERED)
    @pytest.mark.parametrize("method", ["hybrid", "full_text"])
    def it_is_low_for_what_the_collection_does_not_hold(self, client, language, question, method):
        answer = ask(client, language, question, fallback={"hint": HINT}, retrieve={"method": method})
        assert surest({"chunks": [each for each in answer["chunks"] if each["source"] != "fallback"]}) < 0.4
        assert answer["stats"]["fallback"] in ("hint:below_threshold", "hint:empty")
        refused = ask(client, language, question, retrieve={"method": method, "score_threshold": 0.4})
        assert refused["chunks"] == []

    @pytest.mark.parametrize(("language", "question"), NOT_ANSWERED)
    def it_is_the_score_that_dify_gets(self, client, language, question):
        setting = {"top_k": 5, "score_threshold": 0.4}
        body = {"knowledge_id": language, "query": question, "retrieval_setting": setting}
        assert client.post("/dify/retrieval", json=body).json()["records"] == []


class DescribeWeights:
    @pytest.mark.parametrize(("language", "question", "document_id"), ANSWERED)
    def it_counts_them_as_they_are_stated(self, client, language, question, document_id):
        channels = {"keyword": {"weight": 0.4}, "semantic": {"weight": 0.6}}
        answer = ask(client, language, question, retrieve={"channels": channels}, rerank=NO_RERANK)
        assert answer["stats"]["remarks"] == []
        for chunk in answer["chunks"]:
            for each in chunk["sources"]:
                weight = channels[each["channel"]]["weight"]
                assert each["contribution"] == pytest.approx(weight * each["normalized"], abs=1e-9)

    def it_says_where_the_reading_gate_acted(self, client):
        chinese, english = (ask(client, language, text) for language, text, _ in (ANSWERED[2], ANSWERED[0]))
        [remark] = chinese["stats"]["remarks"]
        assert remark.startswith("reading_gate: the semantic channel counts 0.")
        assert not [remark for remark in english["stats"]["remarks"] if remark.startswith("reading_gate")]
        fusion = {"reading_gate": True}
        channels = {"keyword": {"weight": 0.4}, "semantic": {"weight": 0.6}}
        asked = ask(client, "zh", ANSWERED[2][1], retrieve={"channels": channels, "fusion": fusion})
        assert len(asked["stats"]["remarks"]) == 1


class DescribeAdmission:
    @pytest.mark.parametrize(("language", "question"), [("en", "VPN token"), ("zh", "动态口令")])
    def it_returns_nothing_that_no_channel_found(self, client, language, question):
        answer = ask(client, language, question, trace=True, rerank=NO_RERANK)
        assert answer["chunks"][0]["document_id"] == "d0"
        for chunk in answer["chunks"]:
            by = {each["channel"]: each for each in chunk["sources"]}
            found = by.get("keyword", {}).get("rank") or (by["semantic"]["rank"] and by["semantic"]["score"] >= 0)
            assert found, chunk["document_id"]

    @pytest.mark.parametrize(("language", "question"), [("en", "token portal"), ("zh", "口令 财务")])
    def it_gives_the_second_of_two_hits_by_words_a_score(self, client, language, question):
        answer = ask(client, language, question, retrieve={"method": "full_text"}, rerank=NO_RERANK)
        assert [each["document_id"] for each in answer["chunks"]] in (["d0", "d1"], ["d1", "d0"])
        assert all(0.1 < each["score"] <= 1 for each in answer["chunks"])


class DescribeCuratedAnswers:
    @pytest.mark.parametrize("language", ["en", "zh"])
    def it_does_not_lift_a_pair_below_its_min_score(self, client, language):
        channels = {name: {"weight": 0.3} for name in ("keyword", "semantic")}
        faq = {"weight": 0.4, "min_score": 0.99}
        asked = {"retrieve": {"channels": {**channels, "faq": faq}}, "rerank": NO_RERANK}
        answer = ask(client, f"faq-{language}", EXPIRED[language], **asked)
        assert answer["stats"]["hits"]["faq"] == 0
        for chunk in answer["chunks"]:
            assert [each["contribution"] for each in chunk["sources"] if each["channel"] == "faq"] in ([], [0.0])

    @pytest.mark.parametrize(("language", "text"), [("en", "How do I reset my password?"), ("zh", "怎样重置密码？")])
    def it_looks_for_them_without_the_filters_that_left_nothing(self, client, language, text):
        fallback = {"faq": True, "namespaces": [f"faq-{language}"]}
        answer = ask(client, language, text, filters={"author": "nobody"}, fallback=fallback)
        assert answer["stats"]["fallback"] == "faq:empty"
        assert [each["source"] for each in answer["chunks"]] == ["fallback"]


class DescribeRerankThreshold:
    @pytest.mark.parametrize(("language", "question", "document_id"), ANSWERED)
    def it_keeps_no_hit_that_was_not_read(self, client, language, question, document_id):
        rerank = {"enabled": True, "top_n": 2, "threshold": 0.99, "min_results": 1}
        [kept] = ask(client, language, question, rerank=rerank)["chunks"]
        assert kept["rerank"] is not None
        assert kept["document_id"] == document_id

    def it_is_off_by_default_without_a_reranker_that_is_worth_it(self, client):
        answer = ask(client, "en", ANSWERED[0][1])
        assert answer["query"]["enable_rerank"] is False
        assert {each["rerank"] for each in answer["chunks"]} == {None}
