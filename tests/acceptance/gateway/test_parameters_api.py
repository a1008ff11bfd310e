"""Query parameters that an operation does not declare are refused as unknown fields of a body are."""

from __future__ import annotations

import os
import uuid

import pytest

from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import pointers, problem


@pytest.fixture(scope="module")
def client(use):
    with gateway(make_tenant(use)[1]) as found:
        yield found


@pytest.fixture(scope="module")
def operator():
    with gateway(os.environ["CHORDWISE_ADMIN_KEY"]) as found:
        yield found


class DescribeUnknownParameters:
    def it_refuses_them_at_every_address_that_can_be_read(self, client, operator):
        described = client.get("/openapi.json").json()["paths"]
        taken, asked = [], 0
        for path, operations in described.items():
            if not path.startswith("/v1/") or "security" not in operations.get("get", {}):
                continue
            address = "/".join(str(uuid.uuid4()) if part.startswith("{") else part for part in path.split("/"))
            answer = client.get(address, params={"no_such": "1"})
            if answer.status_code == 403:
                answer = operator.get(address, params={"no_such": "1"})
            asked += 1
            if answer.status_code != 422 or "/no_such" not in pointers(answer.json()):
                taken.append((path, answer.status_code))
        assert asked > 30
        assert taken == []

    @pytest.mark.parametrize(
        ("method", "address", "name"),
        [
            ("GET", "/v1/jobs?state=failed", "state"),
            ("GET", "/v1/documents?state=cancelled", "state"),
            ("GET", "/v1/documents?命名空间=kb", "命名空间"),
            ("GET", "/v1/chunks?namespace=kb&page=2", "page"),
            ("POST", "/v1/queries?top_k=3", "top_k"),
            ("DELETE", "/v1/documents/d?namespace=kb&force=1", "force"),
            ("POST", "/internal/recall/test?k=1", "k"),
        ],
    )
    def it_names_them_and_those_there_are(self, client, method, address, name):
        found = problem(client.request(method, address), 422, "invalid_request")
        assert found["detail"] == f"The parameters are not valid: {name}."
        [error] = found["errors"]
        assert (error["pointer"], error["in"]) == (f"/{name}", "query")
        assert error["detail"].startswith("is not a parameter of this operation; it takes ")

    def it_tells_a_stranger_nothing(self, client):
        problem(client.get("/v1/jobs?state=failed", headers={"Authorization": "Bearer cw_x_y"}), 401, "invalid_api_key")

    @pytest.mark.parametrize(
        "address", ["/openai/v1/files?newer=1", "/openai/v1/vector_stores?newer=1", "/healthz?x=1"]
    )
    def it_lets_other_dialects_send_more(self, client, address):
        assert client.get(address).status_code == 200

    def it_takes_all_parameters_that_are_declared(self, client):
        for address in ("/v1/jobs?limit=1", "/v1/documents?status=failed&namespace=kb&limit=3", "/v1/quotas"):
            assert client.get(address).status_code == 200, address


class DescribeNamesOfMetrics:
    def it_returns_the_series_of_the_names_alone(self, client):
        names = ["chordwise_queue_messages", "chordwise_alignment_found_total", "no_such_metric"]
        page = client.get("/v1/metrics", params={"name[]": names})
        series = {line.partition("{")[0].partition(" ")[0] for line in page.text.splitlines() if line[0] != "#"}
        assert page.headers["content-type"].startswith("text/plain")
        assert series == set(names[:2])
        assert client.get("/v1/metrics", params={"name[]": "no_such_metric"}).text == ""
        assert "python_info" in client.get("/v1/metrics").text

    def it_refuses_more_than_fifty(self, client):
        problem(client.get("/v1/metrics", params={"name[]": ["x"] * 51}), 422, "invalid_request")
