"""Conditional requests: nothing is sent twice in vain, and no change is lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import VALID, ended, problem, send

PROFILE = "/v1/profiles/mine"


def profile(top_k: int) -> dict[str, object]:
    return {"config": {"top_k": top_k}}


@pytest.fixture
def etag(client) -> str:
    assert client.put(PROFILE, json=profile(5)).is_success
    return client.get(PROFILE).headers["etag"]


class DescribeReadingAgain:
    def it_sends_nothing_that_has_not_changed(self, client, namespace):
        job = ended(client, send(client, namespace, VALID))
        for path in (f"/v1/jobs/{job['job_id']}", f"/v1/documents/good?namespace={namespace}"):
            first = client.get(path)
            tag = first.headers["etag"]
            assert first.headers["cache-control"] == "private, no-cache"
            for asked in (tag, f'"other", {tag}', f"W/{tag}", "*"):
                again = client.get(path, headers={"If-None-Match": asked})
                assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
            assert client.get(path, headers={"If-None-Match": '"other"'}).content == first.content

    def it_sends_what_has_changed(self, client, namespace):
        ended(client, send(client, namespace, VALID))
        path = f"/v1/documents/good?namespace={namespace}"
        before = client.get(path).headers["etag"]
        ended(client, send(client, namespace, VALID | {"title": "New"}))
        after = client.get(path, headers={"If-None-Match": before})
        assert (after.status_code, after.json()["title"]) == (200, "New")
        assert after.headers["etag"] != before

    def it_answers_errors_as_ever(self, client):
        found = client.get("/v1/profiles/none", headers={"If-None-Match": "*"})
        problem(found, 404, "profile_not_found")
        assert "etag" not in found.headers
        assert found.headers["cache-control"] == "no-store"


class DescribeWritingWithIfMatch:
    def it_changes_what_is_still_the_same(self, client, etag):
        assert client.put(PROFILE, json=profile(6), headers={"If-Match": etag}).is_success
        assert client.get(PROFILE).headers["etag"] != etag

    def it_leaves_what_has_changed(self, client, etag):
        client.put(PROFILE, json=profile(6))
        problem(client.put(PROFILE, json=profile(7), headers={"If-Match": etag}), 412, "precondition_failed")
        problem(client.delete(PROFILE, headers={"If-Match": etag}), 412, "precondition_failed")
        assert client.get(PROFILE).json()["config"]["top_k"] == 6

    def it_needs_something_to_match(self, client, etag):
        path = "/v1/profiles/none"
        problem(client.put(path, json=profile(6), headers={"If-Match": "*"}), 412, "precondition_failed")
        problem(client.put(path, json=profile(6), headers={"If-Match": etag}), 412, "precondition_failed")
        problem(client.get(path), 404, "profile_not_found")

    def it_makes_only_what_is_not_there(self, client):
        only_new = {"If-None-Match": "*"}
        assert client.put(PROFILE, json=profile(5), headers=only_new).is_success
        problem(client.put(PROFILE, json=profile(6), headers=only_new), 412, "precondition_failed")
        assert client.get(PROFILE).json()["config"]["top_k"] == 5

    def it_lets_one_of_many_win(self, client, etag):
        def write(top_k: int) -> int:
            return client.put(PROFILE, json=profile(top_k), headers={"If-Match": etag}).status_code

        with ThreadPoolExecutor(16) as threads:
            found = list(threads.map(write, range(10, 26)))
        assert sorted(found) == [201] + [412] * 15
        assert client.get(PROFILE).json()["config"]["top_k"] == 10 + found.index(201)

    def it_keeps_a_document_that_was_replaced(self, client, namespace):
        ended(client, send(client, namespace, VALID))
        path = f"/v1/documents/good?namespace={namespace}"
        etag = client.get(path).headers["etag"]
        ended(client, send(client, namespace, VALID | {"title": "New"}))
        problem(client.delete(path, headers={"If-Match": etag}), 412, "precondition_failed")
        assert client.delete(path, headers={"If-Match": client.get(path).headers["etag"]}).status_code == 204

    def it_tells_a_stranger_nothing(self, client, use, etag):
        _, stranger = make_tenant(use)
        with gateway(stranger) as other:
            problem(other.delete(PROFILE, headers={"If-Match": etag}), 412, "precondition_failed")
            problem(other.delete(PROFILE), 404, "profile_not_found")
        assert client.get(PROFILE).status_code == 200
