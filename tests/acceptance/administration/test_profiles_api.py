"""Profiles and experiments through the gateway: stored whole or not at all, in force within seconds, taken back at once."""

from __future__ import annotations

import pytest

from tests.conftest import gateway, make_tenant
from tests.support.clients.operating import eventually
from tests.support.stacks.patience import SPARE_S


@pytest.fixture
def corpus(client, namespace):
    documents = [
        {"document_id": f"d{number}", "text": f"The pump number {number} needs oil and a filter."}
        for number in range(6)
    ]
    job = client.post("/v1/documents", json={"namespace": namespace, "documents": documents}).json()["job_id"]
    assert client.get(f"/v1/jobs/{job}", params={"wait": 30}).json()["status"] == "succeeded"
    return namespace


def asked(client, namespace, **fields):
    answer = client.post("/v1/rag/query", json={"query_text": "pump oil", "namespaces": [namespace], **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


class DescribeAProfile:
    def it_is_in_force_at_once_and_named_in_every_answer(self, client, corpus):
        stored = client.put("/v1/profiles/short", json={"config": {"top_k": 2}, "note": "two are enough"})
        assert stored.status_code == 201
        assert (stored.json()["config_version"], stored.json()["plan"]["top_k"]) == (1, 2)
        answer = asked(client, corpus, profile="short")
        assert len(answer["chunks"]) == 2
        assert (answer["stats"]["profile"], answer["stats"]["config_version"]) == ("short", 1)
        assert len(asked(client, corpus, profile="short", top_k=4)["chunks"]) == 4

    def it_can_be_tried_and_taken_back(self, client, corpus):
        client.put("/v1/profiles/short", json={"config": {"top_k": 2}})
        client.put("/v1/profiles/short", json={"config": {"top_k": 3}})
        assert asked(client, corpus, profile="short")["stats"]["config_version"] == 2
        client.put("/v1/profiles/short", json={"config": {"top_k": 1}, "share": 0.5})
        seen = {
            asked(client, corpus, profile="short", session_id=f"s{number}")["stats"]["config_version"]
            for number in range(24)
        }
        assert seen == {2, 3}
        assert client.post("/v1/profiles/short/rollback").json()["config_version"] == 2
        assert client.post("/v1/profiles/short/rollback").json()["config_version"] == 1
        assert len(asked(client, corpus, profile="short")["chunks"]) == 2
        versions = client.get("/v1/profiles/short/versions").json()["data"]
        assert [each["config_version"] for each in versions] == [3, 2, 1]

    def it_is_refused_with_its_places_and_changes_nothing(self, client):
        refused = client.put("/v1/profiles/odd", json={"config": {"top_k": 0, "retrieve": {"fusion": {"k": -1}}}})
        assert refused.status_code == 422
        places = {place["pointer"] for place in refused.json()["errors"]}
        assert places == {"/config/top_k", "/config/retrieve/fusion/k"}
        assert client.get("/v1/profiles/odd").status_code == 404

    def it_may_change_a_built_in_one_for_its_tenant_alone(self, client, corpus, use):
        assert client.put("/v1/profiles/default", json={"config": {"top_k": 1}}).json()["config_version"] == 2
        assert len(asked(client, corpus)["chunks"]) == 1
        _, other = make_tenant(use)
        with gateway(other) as elsewhere:
            assert elsewhere.get("/v1/profiles/default").json()["config_version"] == 1
            assert elsewhere.get("/v1/profiles/default/versions").json()["data"][0]["config_version"] == 1
        assert client.delete("/v1/profiles/default").status_code == 204
        assert len(asked(client, corpus)["chunks"]) == 6

    def it_can_be_removed_before_anybody_got_it(self, client):
        client.put("/v1/profiles/draft", json={"config": {"top_k": 2}, "share": 0})
        assert client.delete("/v1/profiles/draft").status_code == 204
        assert client.get("/v1/profiles/draft/versions").status_code == 404
        assert client.delete("/v1/profiles/draft").status_code == 404

    def it_lists_what_is_built_in(self, client):
        names = {each["name"] for each in client.get("/v1/profiles").json()["data"]}
        assert {"default", "medical_examples", "novel", "support", "knowledge"} <= names

    def it_is_seen_by_a_query_that_does_not_pass_the_process_which_stored_it(self, client, corpus):
        """Every process uses the new version within two seconds."""
        client.put("/v1/profiles/short", json={"config": {"top_k": 2}})
        assert len(asked(client, corpus, profile="short")["chunks"]) == 2
        client.put("/v1/profiles/short", json={"config": {"top_k": 3}})
        eventually(lambda: len(asked(client, corpus, profile="short")["chunks"]) == 3, within_s=2.1 + SPARE_S)


class DescribeAnExperiment:
    def it_is_checked_before_it_is_stored(self, client):
        bad = {"experiment": {"arms": [{"name": "a", "overrides": {"top_k": -1}}]}}
        refused = client.put("/v1/experiments/ranking", json=bad)
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["pointer"] == "/experiment/arms/0/overrides/top_k"
        assert client.get("/v1/experiments").json()["data"] == []

    def it_puts_a_session_into_the_same_arm_every_time(self, client, corpus):
        arms = [{"name": "control"}, {"name": "one", "overrides": {"top_k": 1}}]
        assert client.put("/v1/experiments/ranking", json={"experiment": {"arms": arms}}).status_code == 200
        sizes = {"control": 6, "one": 1}
        for session in range(6):
            answers = [asked(client, corpus, experiment_id="ranking", session_id=f"s{session}") for _ in range(2)]
            buckets = {answer["stats"]["experiment_bucket"] for answer in answers}
            assert len(buckets) == 1
            assert {len(answer["chunks"]) for answer in answers} == {sizes[buckets.pop()]}
        assert client.delete("/v1/experiments/ranking").status_code == 204
        outside = asked(client, corpus, experiment_id="ranking", session_id="s1")
        assert outside["stats"]["experiment_bucket"] is None
        assert outside["stats"]["remarks"] == ["the query takes no part in the experiment it names"]
