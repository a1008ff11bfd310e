"""Dify's External Knowledge API against the running stack: every operator, every error code."""

from __future__ import annotations

import os

import httpx
import pytest

from pipeline.database.unit_of_work import unit_of_work
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import gateway, make_tenant
from tests.support.clients.failing import ask_channels_that_fail
from tests.support.corpora.documents import document, upload

QUESTION = "How does the pump start?"
DOCUMENTS = [
    document(
        "alpha",
        "The alpha pump starts when the valve is open.",
        title="Alpha manual",
        type="manual",
        tags=["wet", "new"],
        published_at="2026-01-10T08:00:00Z",
        metadata={"team": "blue", "pages": 10, "owner": "Li Wei"},
    ),
    document(
        "beta",
        "The beta pump starts when the switch is pressed.",
        type="faq",
        tags=["dry"],
        published_at="2026-02-10T08:00:00Z",
        metadata={"team": "red", "pages": 20, "bought": 1772366400},
    ),
    document("gamma", "The gamma pump starts by itself.", metadata={"team": "green", "pages": 30, "owner": ""}),
]


@pytest.fixture(scope="module")
def base(use):
    """A knowledge base of a tenant, and the tenant's client."""
    _, key = make_tenant(use)
    with gateway(key) as client:
        job = upload(client, "pumps", DOCUMENTS)
        assert job["status"] == "succeeded"
        yield client


def retrieve(client: httpx.Client, *each: tuple, join: str = "and", top_k: int = 5, **fields) -> httpx.Response:
    conditions = [{"name": name, "comparison_operator": operator, "value": value} for name, operator, value in each]
    body = {
        "knowledge_id": "pumps",
        "query": QUESTION,
        "retrieval_setting": {"top_k": top_k, "score_threshold": 0.0},
        **({"metadata_condition": {"logical_operator": join, "conditions": conditions}} if conditions else {}),
        **fields,
    }
    return client.post("/dify/retrieval", json=body)


def document_ids(response: httpx.Response) -> set[str]:
    assert response.status_code == 200, response.text
    return {record["metadata"]["document_id"] for record in response.json()["records"]}


def error_message(response: httpx.Response, status: int, code: int) -> str:
    assert response.headers["content-type"] == "application/json"
    assert (response.status_code, response.json()["error_code"]) == (status, code), response.text
    assert set(response.json()) == {"error_code", "error_msg"}
    return str(response.json()["error_msg"])


class DescribeRecords:
    def it_gives_content_score_title_and_metadata_that_is_an_object(self, base):
        records = retrieve(base).json()["records"]
        assert {record["metadata"]["document_id"] for record in records} == {"alpha", "beta", "gamma"}
        for record in records:
            assert set(record) == {"content", "score", "title", "metadata"}
            assert isinstance(record["metadata"], dict)
            assert 0 <= record["score"] <= 1
        titles = {record["metadata"]["document_id"]: record["title"] for record in records}
        assert titles == {"alpha": "Alpha manual", "beta": "beta", "gamma": "gamma"}

    def it_gives_at_most_top_k_of_at_least_the_threshold(self, base):
        assert len(retrieve(base, top_k=2).json()["records"]) == 2
        everything = retrieve(base).json()["records"]
        middle = sorted(record["score"] for record in everything)[1]
        above_threshold = retrieve(base, retrieval_setting={"top_k": 5, "score_threshold": middle}).json()["records"]
        assert above_threshold == [record for record in everything if record["score"] >= middle]
        assert 0 < len(above_threshold) < len(everything)

    def it_answers_with_an_empty_list_if_no_record_meets_the_conditions(self, base):
        assert retrieve(base, ("team", "is", "purple")).json() == {"records": []}

    def it_accepts_requests_without_settings_and_with_unknown_fields(self, base):
        body = {"knowledge_id": "pumps", "query": QUESTION, "metadata_condition": None, "later": {"x": 1}}
        assert document_ids(base.post("/dify/retrieval", json=body)) == {"alpha", "beta", "gamma"}


class DescribeConditions:
    @pytest.mark.parametrize(
        ("name", "operator", "value", "expected"),
        [
            ("owner", "contains", "Wei", {"alpha"}),
            ("owner", "not contains", "Wei", {"beta", "gamma"}),
            ("team", "start with", "gr", {"gamma"}),
            ("team", "end with", "e", {"alpha"}),
            ("team", "is", "red", {"beta"}),
            ("team", "is not", "red", {"alpha", "gamma"}),
            ("type", "is", "manual", {"alpha"}),
            ("tags", "in", ["new", "dry"], {"alpha", "beta"}),
            ("tags", "not in", "new,old", {"beta", "gamma"}),
            ("owner", "empty", None, {"beta", "gamma"}),
            ("owner", "not empty", None, {"alpha"}),
            ("pages", "=", "20", {"beta"}),
            ("pages", "≠", 20, {"alpha", "gamma"}),
            ("pages", ">", 10, {"beta", "gamma"}),
            ("pages", "<", 20, {"alpha"}),
            ("pages", "≥", 20, {"beta", "gamma"}),
            ("pages", "≤", 20, {"alpha", "beta"}),
            ("published_at", "before", "2026-02-01", {"alpha"}),
            ("published_at", "after", "2026-02-01T00:00:00Z", {"beta"}),
            ("bought", "before", 1772366401, {"beta"}),
            ("title", "contains", "manual", {"alpha"}),
            ("document_id", "is", "gamma", {"gamma"}),
            (["author", "team"], "is", "green", {"gamma"}),
        ],
    )
    def it_keeps_the_records_that_meet_a_condition(self, base, name, operator, value, expected):
        assert document_ids(retrieve(base, (name, operator, value))) == expected

    def it_joins_conditions_by_and_or_by_or(self, base):
        both = [("team", "is", "blue"), ("pages", ">", 15)]
        assert document_ids(retrieve(base, *both)) == set()
        assert document_ids(retrieve(base, *both, join="or")) == {"alpha", "beta", "gamma"}

    def it_finds_a_match_far_below_the_first_hits_and_remarks_when_it_did_not_read_all(self, base):
        crowd = [document(f"d{n}", f"Pump number {n} starts.", metadata={"n": n}) for n in range(450)]
        upload(base, "crowd", crowd)
        answer = retrieve(base, ("n", "=", 449), knowledge_id="crowd")
        assert document_ids(answer) == {"d449"}
        assert any("conditions_not_exhaustive" in remark for remark in answer.json()["remarks"])
        enough = retrieve(base, ("n", ">", 400), knowledge_id="crowd").json()
        assert len(enough["records"]) == 5
        assert not any("conditions_not_exhaustive" in remark for remark in enough.get("remarks", ()))


class DescribeErrors:
    @pytest.mark.parametrize("header", [None, "", "Basic abc", "Bearer", "cw_demo_x"])
    def it_answers_1001_to_a_malformed_header(self, base, header):
        headers = {} if header is None else {"Authorization": header}
        with httpx.Client(base_url=os.environ["CHORDWISE_URL"]) as nobody:
            answer = nobody.post("/dify/retrieval", json={"knowledge_id": "x", "query": "y"}, headers=headers)
        assert "Authorization" in error_message(answer, 403, 1001)

    @pytest.mark.parametrize("key", ["nonsense", "cw_demo_nonsense"])
    def it_answers_1002_to_an_unknown_key(self, base, key):
        with gateway(key) as nobody:
            error_message(retrieve(nobody), 403, 1002)

    def it_answers_1002_to_a_key_that_may_not_read(self, use):
        tenant_id, _ = make_tenant(use)
        with unit_of_work(use.mysql) as work:
            key = Tenants(work.connection, tenant_id).issue_key("writer", scopes=("write",))
        with gateway(key) as writer:
            assert "read" in error_message(retrieve(writer), 403, 1002)

    def it_passes_the_check_that_dify_makes_when_it_is_set_up(self, base):
        # An empty POST; 403, 404 and 502 mean that the key or the address is wrong, anything else that all is well.
        assert base.post("/dify/retrieval").status_code not in (403, 404, 502)
        with gateway("cw_demo_nonsense") as nobody:
            assert nobody.post("/dify/retrieval").status_code == 403

    @pytest.mark.parametrize("knowledge", ["no-such-base", "", "a/b", "x" * 65])
    def it_answers_2001_to_an_unknown_knowledge_base(self, base, knowledge):
        error_message(retrieve(base, knowledge_id=knowledge), 404, 2001)

    def it_answers_2001_to_the_knowledge_base_of_another_tenant_as_to_an_unknown_one(self, use, base):
        with gateway(make_tenant(use)[1]) as other:
            theirs = error_message(retrieve(other), 404, 2001)
            nowhere = error_message(retrieve(other, knowledge_id="spoons"), 404, 2001)
        assert theirs.replace("pumps", "spoons") == nowhere

    def it_answers_503_when_every_channel_fails(self, use):
        _, key = make_tenant(use)
        with gateway(key) as client:
            upload(client, "pumps", DOCUMENTS)
            ask_channels_that_fail(key)
            error_message(retrieve(client), 503, 503)

    @pytest.mark.parametrize(
        ("fields", "status"),
        [
            ({"query": ""}, 422),
            ({"query": None}, 422),
            ({"query": " \n"}, 422),
            ({"knowledge_id": 5}, 422),
            ({"retrieval_setting": {"top_k": 0}}, 422),
            ({"retrieval_setting": {"score_threshold": 2}}, 422),
            ({"metadata_condition": {"logical_operator": "xor", "conditions": []}}, 422),
            ({"metadata_condition": {"conditions": [{"name": "a", "comparison_operator": "like", "value": "b"}]}}, 422),
        ],
    )
    def it_refuses_a_request_with_an_invalid_field(self, base, fields, status):
        assert error_message(retrieve(base, **fields), status, status)

    @pytest.mark.parametrize(
        ("content", "media_type", "status"),
        [
            (b"{", "application/json", 400),
            (b"\xff", "application/json", 400),
            (b"[]", "application/json", 422),
            (b"a=b", "application/x-www-form-urlencoded", 415),
            (b" " * (1024 * 1024 + 1), "application/json", 413),
        ],
    )
    def it_refuses_a_body_that_it_cannot_read(self, base, content, media_type, status):
        answer = base.post("/dify/retrieval", content=content, headers={"Content-Type": media_type})
        error_message(answer, status, status)
