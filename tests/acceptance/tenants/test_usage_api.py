"""Embedding usage through the gateway and the command line, as the local model counts it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pytest

from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.commands import called
from tests.support.corpora.documents import document, upload


def today() -> str:
    return datetime.now(UTC).date().isoformat()


@pytest.fixture(scope="module")
def client(use: Resources) -> Iterator[httpx.Client]:
    """One for the file: the last test that looks at its usage adds to it."""
    with gateway(make_tenant(use)[1]) as found:
        yield found


@pytest.fixture(scope="module")
def ingested(client: httpx.Client) -> dict:
    return upload(client, "kb", [document(f"d{place}", f"The kettle number {place} boils.") for place in range(3)])


class DescribeUsage:
    def it_is_told_with_the_job_and_by_day_job_model_and_purpose(self, client, ingested):
        job = client.get(f"/v1/jobs/{ingested['job_id']}").json()
        assert job["usage"]["texts"] == 3
        assert job["usage"]["tokens"] > 0
        for by, key in (("day", today()), ("job", ingested["job_id"]), ("model", None), ("purpose", "ingest")):
            page = client.get("/v1/usage", params={"by": by}).json()
            [row] = page["data"]
            assert key in (None, row["key"])
            assert {name: row[name] for name in page["total"]} == page["total"] == job["usage"]
        listed = client.get("/v1/jobs").json()["data"]
        assert [each["usage"] for each in listed] == [job["usage"]]

    @pytest.mark.parametrize(
        "params", [{"from": "2026-02-02", "to": "2026-02-01"}, {"from": "yesterday"}, {"by": "colour"}, {"cursor": "x"}]
    )
    def it_refuses_impossible_parameters(self, client, params):
        answer = client.get("/v1/usage", params=params)
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"

    def it_shows_nobody_what_others_have_used(self, use, client, ingested):
        with gateway(make_tenant(use)[1]) as other:
            assert other.get("/v1/usage", params={"by": "job"}).json()["data"] == []

    def it_is_printed_by_the_command_line(self, client, ingested):
        key = client.headers["authorization"].removeprefix("Bearer ")
        shown = called("usage", "--by", "job", CHORDWISE_API_KEY=key)
        assert (shown.returncode, ingested["job_id"] in shown.stdout) == (0, True), shown
        asked = called("usage", "--by", "job", "--json", CHORDWISE_API_KEY=key)
        assert json.loads(asked.stdout)["data"][0]["key"] == ingested["job_id"]

    def it_is_cut_into_pages_and_days(self, client, ingested):
        upload(client, "kb", [document("more", "Another kettle.")])
        seen, cursor = [], None
        for _ in range(2):
            params = {"by": "job", "limit": 1} | ({"cursor": cursor} if cursor else {})
            page = client.get("/v1/usage", params=params).json()
            seen += [row["key"] for row in page["data"]]
            cursor = page["next_cursor"]
        assert cursor is None
        assert len(set(seen)) == 2
        before = client.get("/v1/usage", params={"from": "2020-01-01", "to": "2020-12-31"}).json()
        assert (before["data"], before["total"]["tokens"]) == ([], 0)
