"""Curated answers, business APIs and the last resort, as a user meets them: through the gateway and its workers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.corpora.documents import document, finished, found_documents, search, upload
from tests.support.servers.business_api import BusinessApi, reachable_business_api, says, slowly
from tests.support.stacks.patience import SPARE_S

FAQ = """Q: How do I reset my password?
A: Open the sign-in page and choose Forgotten password.

Q: How do I cancel an order?
A: Orders can be cancelled within an hour, under My orders.

问：如何申请退货？
答：在订单页面点击申请退货。"""
EXAMPLES = {
    "qa_examples": [
        {
            "user_input": "血压150/95怎么办？",
            "agent_response": "先休息十分钟再量。",
            "quality_grade": "一般",
            "id": "a",
        },
        {
            "user_input": "血压150/95怎么办？",
            "agent_response": "静坐十分钟后复测。",
            "quality_grade": "优秀",
            "id": "b",
        },
    ]
}
MAPPING = {"items": "/orders", "id": "/no", "title": "/customer", "text": "/status", "score": "/match", "url": "/link"}
ORDERS = {
    "orders": [
        {
            "no": "A-1",
            "customer": "Li Lei",
            "status": "Shipped on Monday.",
            "match": 0.9,
            "link": "https://x.example/1",
        },
        {"no": "A-2", "customer": "Han Mei", "status": "Waits for payment.", "match": 0.4},
    ]
}


@pytest.fixture
def api() -> Iterator[BusinessApi]:
    with reachable_business_api() as found:
        found.answers["/orders"] = says(ORDERS)
        yield found


def put(client: httpx.Client, name: str, url: str, **fields) -> httpx.Response:
    return client.put(f"/v1/api-sources/{name}", json={"url": url, "mapping": MAPPING, **fields})


def asked_of(client, namespace, text, channel, *, options=None, **fields):
    """The answer with one more channel."""
    return search(client, namespace, text, retrieve={"channels": {channel: {"options": options or {}}}}, **fields)


def sources(answer) -> dict[str, set[str]]:
    return {chunk["document_id"]: {each["channel"] for each in chunk["sources"]} for chunk in answer["chunks"]}


class DescribeCuratedAnswers:
    def it_finds_pairs_by_their_question(self, client, namespace):
        upload(client, namespace, [document("faq", FAQ)], chunking={"strategy": "qa"})
        upload(client, namespace, [document("essay", "How do I reset my password? is what people ask all day.")])
        answer = asked_of(client, namespace, "I forgot to reset my password", "faq")
        first = answer["chunks"][0]
        assert first["text"].startswith("Q: How do I reset my password?")
        (by_faq,) = [each for each in first["sources"] if each["channel"] == "faq"]
        assert by_faq["rank"] == 1
        assert 0.45 <= by_faq["score"] <= 1.0
        assert "faq" not in sources(answer)["essay"]
        assert not answer["stats"]["degraded"]
        assert answer["stats"]["hits"]["faq"] >= 1

    def it_looks_at_the_question_and_not_at_the_answer(self, client, namespace):
        upload(client, namespace, [document("faq", FAQ)], chunking={"strategy": "qa"})
        answer = asked_of(client, namespace, "sign-in page", "faq")
        assert answer["stats"]["hits"]["faq"] == 0
        assert answer["stats"]["hits"]["keyword"] == 1

    def it_prefers_the_better_grade_of_two_alike(self, client, namespace):
        accepted = client.post("/v1/examples", json={"namespace": namespace, "examples": EXAMPLES})
        assert accepted.status_code == 202, accepted.text
        finished(client, accepted.json()["job_id"])
        answer = asked_of(client, namespace, "血压150/95怎么办", "faq")
        ranks = {
            chunk["metadata"]["quality_grade"]: each["rank"]
            for chunk in answer["chunks"]
            for each in chunk["sources"]
            if each["channel"] == "faq"
        }
        assert ranks == {"优秀": 1, "一般": 2}

    def it_looks_where_the_options_say(self, client, namespace):
        upload(client, f"{namespace}-faq", [document("faq", FAQ)], chunking={"strategy": "qa"})
        upload(client, namespace, [document("d", "Passwords are kept encrypted.")])
        options = {"namespaces": [f"{namespace}-faq"]}
        answer = asked_of(client, namespace, "如何退货", "faq", options=options)
        assert ("faq", f"{namespace}-faq") in {(each["document_id"], each["namespace"]) for each in answer["chunks"]}

    def it_gives_a_long_pair_once(self, client, namespace):
        long = "Q: How do I clean the filter?\nA: " + " ".join(
            f"Step {n} asks for patience and water." for n in range(200)
        )
        upload(client, namespace, [document("faq", long)], chunking={"strategy": "qa", "max_tokens": 128})
        answer = asked_of(client, namespace, "How do I clean the filter?", "faq")
        assert answer["stats"]["hits"]["faq"] == 1
        assert answer["stats"]["hits"]["semantic"] > 1


class DescribeApiSources:
    def it_is_put_shown_changed_and_removed(self, client, api):
        made = put(client, "crm", f"{api.url}/orders", headers={"Authorization": "Bearer hush"})
        assert (made.status_code, made.headers["Location"]) == (201, "/v1/api-sources/crm")
        shown = client.get("/v1/api-sources/crm")
        assert "hush" not in made.text + shown.text + client.get("/v1/api-sources").text
        body = shown.json()
        assert body["headers"] == {"Authorization": {"kept": True}}
        body["timeout_ms"] = 300
        again = client.put("/v1/api-sources/crm", json=body)
        assert (again.status_code, again.json()["timeout_ms"]) == (200, 300)
        assert client.post("/v1/api-sources/crm/test", json={"query_text": "x", "namespaces": ["kb"]}).json()["ok"]
        assert api.asked[-1].headers["authorization"] == "Bearer hush"
        moved = client.put("/v1/api-sources/crm", json={**body, "url": "https://elsewhere.example/"})
        assert (moved.status_code, moved.json()["errors"][0]["pointer"]) == (422, "/headers/Authorization")
        assert client.delete("/v1/api-sources/crm").status_code == 204
        assert client.get("/v1/api-sources/crm").json()["code"] == "api_source_not_found"
        assert client.delete("/v1/api-sources/crm").status_code == 404

    @pytest.mark.parametrize(
        ("fields", "pointer"),
        [
            ({"url": "file:///etc/passwd"}, "/url"),
            ({"url": "https://169.254.169.254/latest"}, "/url"),
            ({"url": "http://93.184.215.14/"}, "/url"),
            ({"mapping": {"items": "/x"}}, "/mapping/text"),
            ({"headers": {"Host": "x"}}, "/headers/Host/[key]"),
            ({"headers": {"X": "a\r\nY: b"}}, "/headers/X"),
            ({"headers": {"X": {"from": "unknown"}}}, "/headers/X"),
            ({"headers": {"X": {"kept": True}}}, "/headers/X"),
            ({"headers": ["X"]}, "/headers"),
            ({"max_items": 1000}, "/max_items"),
            ({"odd": 1}, "/odd"),
        ],
    )
    def it_is_refused_with_its_place(self, client, fields, pointer):
        refused = client.put("/v1/api-sources/crm", json={"url": "https://x.example/", "mapping": MAPPING, **fields})
        assert refused.status_code == 422, refused.text
        assert refused.json()["errors"][0]["pointer"] == pointer.removesuffix("/[key]")

    def it_takes_no_odd_name_and_no_more_than_twenty(self, client):
        assert put(client, "Upper", "https://x.example/").status_code == 422
        assert {put(client, f"s{n}", "https://x.example/").status_code for n in range(20)} == {201}
        assert put(client, "more", "https://x.example/").json()["code"] == "too_many_api_sources"
        assert put(client, "s1", "https://y.example/").status_code == 200

    def it_belongs_to_one_tenant(self, client, use, api):
        put(client, "crm", f"{api.url}/orders")
        with gateway(make_tenant(use)[1]) as other:
            assert other.get("/v1/api-sources").json()["data"] == []
            for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/test")):
                body = {"query_text": "x", "namespaces": ["kb"]} if method == "POST" else None
                assert other.request(method, f"/v1/api-sources/crm{path}", json=body).status_code == 404
            upload(other, "kb", [document("terms", "An order is shipped once it is paid.")])
            answer = asked_of(other, "kb", "order", "api", options={"source": "crm"})
            assert [lost["code"] for lost in answer["stats"]["degradations"]] == ["api_source_not_found"]

    @pytest.mark.parametrize(
        ("answer", "code"),
        [(says(b"<html>"), "api_source_failed"), (slowly(1.0, ORDERS), "api_source_unavailable")],
        ids=["html", "slow"],
    )
    def it_says_what_is_wrong_with_an_api(self, client, api, answer, code):
        api.answers["/orders"] = answer
        put(client, "crm", f"{api.url}/orders", timeout_ms=500)
        tried = client.post("/v1/api-sources/crm/test", json={"query_text": "x", "namespaces": ["kb"]})
        assert (tried.status_code, tried.json()["ok"], tried.json()["code"]) == (200, False, code)

    def it_keeps_nobody_from_handing_in_documents_while_it_waits(self, client, namespace, api):
        api.answers["/orders"] = slowly(1.2, ORDERS)
        put(client, "crm", f"{api.url}/orders", timeout_ms=2000)
        trial = {"query_text": "x", "namespaces": ["kb"]}
        with ThreadPoolExecutor(6) as pool:
            trials = [pool.submit(client.post, "/v1/api-sources/crm/test", json=trial) for _ in range(6)]
            ends = time.monotonic() + 2
            while len(api.asked) < 6 and time.monotonic() < ends:
                time.sleep(0.02)
            began = time.monotonic()
            sent = client.post("/v1/documents", json={"namespace": namespace, "documents": [document("a", "text")]})
            took_s = time.monotonic() - began
            assert all(each.result().json()["ok"] for each in trials)
        assert (sent.status_code, len(api.asked)) == (202, 6)
        assert took_s < SPARE_S


@pytest.fixture(scope="module")
def shop(use: Resources) -> Iterator[httpx.Client]:
    """A client whose tenant has one document in the namespace `kb`; a test puts its API source anew."""
    with gateway(make_tenant(use)[1]) as client:
        upload(client, "kb", [document("terms", "An order is shipped once it is paid.")])
        yield client


class DescribeQueriesToApis:
    def it_finds_nothing_where_there_is_no_source(self, shop):
        answer = asked_of(shop, "kb", "order", "api")
        assert found_documents(answer) == ["terms"]
        assert (answer["stats"]["hits"]["api"], answer["stats"]["degraded"]) == (0, False)

    def it_brings_passages_beside_stored_ones(self, shop, api):
        put(shop, "crm", f"{api.url}/orders", params={"q": "{query}", "n": "{top_k}", "f": "{filters}"})
        answer = asked_of(shop, "kb", "order of Li Lei", "api", options={"source": "crm"}, top_k=5, context={})
        assert set(found_documents(answer)) == {"terms", "A-1", "A-2"}
        order = next(chunk for chunk in answer["chunks"] if chunk["document_id"] == "A-1")
        assert (order["title"], order["text"], order["source"]) == ("Li Lei", "Shipped on Monday.", "api")
        assert order["metadata"] == {"source_uri": "https://x.example/1", "api_source": "crm"}
        assert order["confidence"] == 0.9
        assert "Shipped on Monday." in answer["context"]["text"]
        assert not answer["stats"]["degraded"]
        assert api.asked[-1].params == {"q": ["order of Li Lei"], "n": ["5"], "f": ["{}"]}
        assert api.asked[-1].headers["x-request-id"]

    @pytest.mark.parametrize("answer", [says({}, status=500), slowly(9.0, ORDERS)], ids=["500", "slow"])
    def it_answers_without_an_api_that_fails(self, shop, api, answer):
        api.answers["/orders"] = answer
        put(shop, "crm", f"{api.url}/orders")
        found = asked_of(shop, "kb", "what of the order", "api")
        assert found_documents(found) == ["terms"]
        assert {lost["part"] for lost in found["stats"]["degradations"]} == {"api"}

    def it_asks_for_its_namespaces_only(self, shop, api):
        put(shop, "crm", f"{api.url}/orders", namespaces=["somewhere-else"])
        assert found_documents(asked_of(shop, "kb", "order", "api")) == ["terms"]
        assert api.asked == []


@pytest.fixture(scope="module")
def herons(use: Resources) -> Iterator[httpx.Client]:
    """A client whose tenant has a document about herons in each language."""
    with gateway(make_tenant(use)[1]) as client:
        upload(client, "english", [document("d", "The heron stands in the reeds.")])
        upload(client, "chinese", [document("d", "苍鹭站在芦苇中。")])
        yield client


class DescribeTheFallback:
    @pytest.mark.parametrize(("namespace", "question"), [("english", "tax forms"), ("chinese", "税务表格")])
    def it_is_named_as_not_configured_where_nothing_sure_was_found(self, herons, namespace, question):
        answer = search(herons, namespace, question, retrieve={"method": "semantic"})
        assert (found_documents(answer), answer["stats"]["fallback"]) == (["d"], "none_configured")

    def it_leaves_an_empty_answer_empty_by_default_and_says_so(self, herons):
        answer = search(herons, "english", "anything", retrieve={"method": "full_text"})
        assert (answer["chunks"], answer["stats"]["fallback"]) == ([], "none_configured")
        assert json.dumps(answer["stats"]["degradations"]) == "[]"
