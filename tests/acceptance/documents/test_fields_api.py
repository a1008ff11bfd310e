"""The values that documents can be filtered by, and names of chunks."""

from __future__ import annotations

import uuid

import pytest

from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import problem
from tests.support.corpora.documents import document, search, upload


@pytest.fixture
def client(use):
    with gateway(make_tenant(use)[1]) as client:
        yield client


class DescribeFields:
    def it_lists_what_a_filter_can_name(self, client):
        upload(
            client,
            "kb",
            [
                document("a", "The pump.", type="manual", tags=["水泵", "x"], metadata={"year": 2026, "ok": True}),
                document("b", "The fan.", type="manual", tags=["x"], published_at="2026-01-02T00:00:00Z", story_time=7),
            ],
        )
        fields = client.get("/v1/namespaces/kb/fields").json()
        assert (fields["documents_read"], fields["complete"]) == (2, True)
        assert fields["types"] == {"values": [{"value": "manual", "documents": 2}], "distinct": 1}
        assert [each["value"] for each in fields["tags"]["values"]] == ["x", "水泵"]
        assert fields["metadata"]["year"]["values"] == [{"value": 2026, "documents": 1}]
        assert fields["metadata"]["ok"]["values"] == [{"value": True, "documents": 1}]
        assert (fields["published_from"][:10], fields["story_to"]) == ("2026-01-02", 7)
        found = search(client, "kb", "pump", filters={"metadata": {"year": 2026}, "tags": ["水泵"]})
        assert [chunk["document_id"] for chunk in found["chunks"]] == ["a"]

    def it_knows_no_other_namespace(self, client):
        for name in ("kb", "x" * 65):
            answer = client.get(f"/v1/namespaces/{name}/fields")
            problem(answer, 404, "namespace_not_found")


class DescribeNamesOfChunks:
    def it_gives_titles_and_first_words_in_the_order_asked_for(self, client):
        source = {"media_type": "text/markdown", "uri": "file:///books/pump.md"}
        texts = [document("a", "# Oil\n\nThe pump needs oil.", title="Pump", source=source), document("b", "词" * 300)]
        upload(client, "kb", texts)
        ids = [
            client.get(f"/v1/documents/{name}/chunks", params={"namespace": "kb"}).json()["data"][0]["chunk_id"]
            for name in "ba"
        ]
        named = client.post("/v1/chunks/lookup", json={"chunk_ids": [ids[0], str(uuid.uuid4()), ids[1]]}).json()["data"]
        assert [(each["document_id"], each["title"], each["shown"]) for each in named] == [
            ("b", None, True),
            ("a", "Pump", True),
        ]
        assert named[0]["beginning"] == "词" * 160
        assert named[1]["beginning"].endswith("The pump needs oil.")
        places = [(each["source_uri"], each["heading_path"], each["page"], each["page_end"]) for each in named]
        assert places == [(None, [], None, None), ("file:///books/pump.md", ["Oil"], None, None)]

    def it_names_nothing_of_another_tenant(self, client, use):
        upload(client, "kb", [document("a", "The pump needs oil.")])
        [chunk] = client.get("/v1/chunks", params={"namespace": "kb"}).json()["data"]
        with gateway(make_tenant(use)[1]) as stranger:
            assert stranger.post("/v1/chunks/lookup", json={"chunk_ids": [chunk["chunk_id"]]}).json()["data"] == []
