"""Upload, find, replace, delete: what everybody does first, through the gateway and real workers."""

from __future__ import annotations

import concurrent.futures
import threading

import pytest

from tests.support.corpora.documents import document, found_documents, search, upload

SOLAR = document("solar", "Photovoltaic panels turn sunlight into direct current.", title="Solar power", type="note")
WIND = document("wind", "A wind turbine drives a generator through a gearbox.", title="Wind power", type="note")
TEA = document(
    "tea", "绿茶是不发酵茶，冲泡时水温以八十度为宜。红茶是全发酵茶，可以用沸水冲泡。", title="茶的冲泡", type="note"
)
PORT = document("port", "错误码 PPR-9087 表示消息队列连接超时，请检查网络。", title="错误码手册", type="manual")


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
    def it_answers_in_both_languages(self, client, namespace, question, expected, method):
        upload(client, namespace, [SOLAR, WIND, TEA, PORT])
        answer = search(client, namespace, question, retrieve={"method": method})
        assert found_documents(answer)[0] == expected

    def it_replaces_a_document_without_a_gap(self, client, namespace):
        upload(client, namespace, [document("d", "zebra crossing version 0"), SOLAR])
        seen: list[tuple[set[str], list[dict[str, str]]]] = []
        stop = threading.Event()

        def look() -> None:
            while not stop.is_set():
                answer = search(client, namespace, "zebra crossing version", enable_rerank=False)
                texts = {chunk["text"] for chunk in answer["chunks"] if chunk["document_id"] == "d"}
                seen.append((texts, answer["stats"]["degradations"]))

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            looking = pool.submit(look)
            number = 0
            while number < 10 or (len(seen) <= 5 and number < 100):
                number += 1
                upload(client, namespace, [document("d", f"zebra crossing version {number}")])
            stop.set()
            looking.result(timeout=30)
        assert len(seen) > 5
        strange = [look for look in seen if len(look[0]) != 1]
        assert strange == [], "a search saw no version, or two"
        last = search(client, namespace, "zebra crossing version")
        texts = [chunk["text"] for chunk in last["chunks"] if chunk["document_id"] == "d"]
        assert texts == [f"zebra crossing version {number}"]

    def it_deletes_what_it_is_told_and_nothing_else(self, client, namespace):
        upload(client, namespace, [SOLAR, WIND])
        assert client.delete("/v1/documents/solar", params={"namespace": namespace}).status_code == 204
        assert client.delete("/v1/documents/solar", params={"namespace": namespace}).status_code == 404
        assert found_documents(search(client, namespace, "power")) == ["wind"]
        report = client.post("/v1/verify", json={"namespaces": [namespace]}).json()
        assert (report["missing"], report["orphaned"], report["stale"]) == (0, 0, 0)
        assert report["namespaces"][0]["chunks"] == 1

    def it_keeps_the_good_documents_of_a_batch_with_a_bad_one(self, client, namespace):
        job = upload(client, namespace, [SOLAR, document("blank", "  \n\t "), WIND])
        assert (job["status"], job["succeeded"], job["failed"]) == ("partly_failed", 2, 1)
        assert [error["document_id"] for error in job["errors"]] == ["blank"]
        assert set(found_documents(search(client, namespace, "power"))) == {"solar", "wind"}

    @pytest.mark.parametrize(("policy", "outcome"), [("skip", "succeeded"), ("error", "failed")])
    def it_keeps_what_is_there_when_told_to(self, client, namespace, policy, outcome):
        upload(client, namespace, [SOLAR])
        job = upload(client, namespace, [document("solar", "something else entirely")], on_conflict=policy)
        assert job["status"] == outcome
        answer = search(client, namespace, "photovoltaic panels")
        assert "sunlight" in answer["chunks"][0]["text"]


class DescribeFilters:
    FIELDS = (
        {"type": "manual"},
        {"tags": ["a"]},
        {"tags": ["a", "b"]},
        {"author": "Li"},
        {"start": "2026-01-01T00:00:00Z"},
        {"end": "2025-12-31T00:00:00Z"},
        {"metadata": {"k": "v"}},
    )
    EXPECTED = ({"m"}, {"m", "n"}, {"m"}, {"n"}, {"m"}, {"n"}, {"m"})

    @pytest.mark.parametrize("method", ["full_text", "semantic", "hybrid"])
    def it_applies_the_same_filters_in_every_channel(self, client, namespace, method):
        common = "retrieval of filtered passages"
        upload(
            client,
            namespace,
            [
                document(
                    "m",
                    common,
                    type="manual",
                    tags=["a", "b"],
                    author="Wang",
                    published_at="2026-03-01T00:00:00Z",
                    metadata={"k": "v"},
                ),
                document("n", common, type="note", tags=["a"], author="Li", published_at="2025-03-01T00:00:00+08:00"),
            ],
        )
        for filters, expected in zip(self.FIELDS, self.EXPECTED, strict=True):
            answer = search(client, namespace, common, filters=filters, retrieve={"method": method})
            assert set(found_documents(answer)) == expected, (method, filters)
