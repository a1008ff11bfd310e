"""Upload, find, replace, delete: what everybody does first, through the gateway and real workers."""

from __future__ import annotations

import pytest

from tests.conftest import gateway, make_tenant
from tests.support.corpora.documents import document, found_documents, search, upload

SOLAR = document("solar", "Photovoltaic panels turn sunlight into direct current.", title="Solar power", type="note")
WIND = document("wind", "A wind turbine drives a generator through a gearbox.", title="Wind power", type="note")
TEA = document(
    "tea", "绿茶是不发酵茶，冲泡时水温以八十度为宜。红茶是全发酵茶，可以用沸水冲泡。", title="茶的冲泡", type="note"
)
PORT = document("port", "错误码 PPR-9087 表示消息队列连接超时，请检查网络。", title="错误码手册", type="manual")


@pytest.fixture(scope="module")
def library(use):
    """A client whose tenant has all four documents in the namespace `kb`; nothing changes them."""
    with gateway(make_tenant(use)[1]) as client:
        upload(client, "kb", [SOLAR, WIND, TEA, PORT])
        yield client


class DescribeTheMainJob:
    def it_finds_what_was_uploaded_by_both_channels(self, client, namespace):
        job = upload(client, namespace, [SOLAR, WIND, TEA, PORT])
        assert (job["status"], job["total"], job["succeeded"]) == ("succeeded", 4, 4)
        answer = search(client, namespace, "wind turbine generator")
        assert found_documents(answer)[0] == "wind"
        channels = {source["channel"] for source in answer["chunks"][0]["sources"]}
        assert channels == {"keyword", "semantic"}
        assert not answer["stats"]["degraded"]

    @pytest.mark.parametrize(
        ("question", "expected", "method"),
        [
            ("绿茶用多少度的水", "tea", "full_text"),
            ("绿茶用多少度的水", "tea", "semantic"),
            ("PPR-9087", "port", "full_text"),
            ("ppr-9087 是什么错误", "port", "hybrid"),
            ("sunlight to electricity", "solar", "hybrid"),
        ],
    )
    def it_answers_in_both_languages(self, library, question, expected, method):
        answer = search(library, "kb", question, retrieve={"method": method})
        assert found_documents(answer)[0] == expected

    def it_deletes_what_it_is_told_and_nothing_else(self, client, namespace):
        upload(client, namespace, [SOLAR, WIND])
        assert client.delete("/v1/documents/solar", params={"namespace": namespace}).status_code == 204
        assert client.delete("/v1/documents/solar", params={"namespace": namespace}).status_code == 404
        assert found_documents(search(client, namespace, "power")) == ["wind"]
        report = client.post("/v1/verify", json={"namespaces": [namespace]}).json()
        assert (report["missing"], report["orphaned"], report["stale"]) == (0, 0, 0)
        assert report["namespaces"][0]["chunks"] == 1
