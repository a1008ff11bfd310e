"""Retrieval for a novel (S4): three signals, nothing from the future, a context for the next chapter, and how it came about."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import problem
from tests.support.corpora.documents import finished, search

NOW = 2_000_000
NOVEL = "novel"
SEPARATOR = "\n\n---\n\n"
OUTLINE = "林远在城门口等候商队"
SEGMENTS = [
    ("1", 1_000_000, "林远、苏晴", "林远初到北城", "林远在北城的城门口等候商队，城门紧闭。"),
    ("2", 1_900_000, "林远", "商队进城", "林远在城门口迎接商队，商队终于进城。"),
    ("3", 2_000_000, "苏晴", "苏晴开了药铺", "苏晴在北城的药铺里给商队的伤者包扎。"),
    ("4", 2_000_001, "林远、赵七", "赵七背叛", "赵七打开北城的城门，商队被劫，林远重伤。"),
    ("9", 9_000_000, "林远", "结局", "多年以后，林远在城门口等候商队。"),
]
ENTITIES = [
    {"entity_id": "lin", "name": "林远", "type": "角色", "story_time": 1000, "state": {"位置": "城外"}},
    {"entity_id": "lin", "name": "林远", "type": "角色", "story_time": 1_950_000, "state": {"位置": "城内"}},
    {"entity_id": "lin", "name": "林远", "type": "角色", "story_time": 2_000_001, "state": {"伤": "重"}},
    {"entity_id": "su", "name": "苏晴", "type": "角色", "story_time": 1, "state": {"职业": "医师"}},
    {"entity_id": "zhao", "name": "赵七", "type": "角色", "story_time": 2_000_001, "state": {"立场": "叛徒"}},
]


@pytest.fixture(scope="module")
def novel(use: Resources) -> Iterator[httpx.Client]:
    """The gateway with the key of a tenant whose namespace has a novel, entities, and two dozen small segments beside it."""
    with gateway(make_tenant(use)[1]) as client:
        names = ("chapter_id", "story_time", "entity_names", "summary", "content")
        body = [{**dict(zip(names, each, strict=True)), "entity_names": each[2].split("、")} for each in SEGMENTS]
        send(client, NOVEL, body)
        send(
            client,
            "long",
            [{"chapter_id": "7", "story_time": n, "content": f"商队第{n}天走过沙漠。"} for n in range(24)],
        )
        put = client.put("/v1/entities", json={"namespace": NOVEL, "entities": ENTITIES})
        assert put.status_code == 200, put.text
        yield client


def send(client: httpx.Client, namespace: str, segments: list[dict[str, Any]]) -> None:
    form = {"namespace": namespace, "chunking": json.dumps({"strategy": "segments"})}
    content = json.dumps(segments, ensure_ascii=False).encode()
    accepted = client.post("/v1/files", data=form, files={"file": ("story.json", content, "application/json")})
    assert accepted.status_code == 202, accepted.text
    assert finished(client, accepted.json()["job_id"])["status"] == "succeeded"


def write_on(client: httpx.Client, question: str = OUTLINE, namespace: str = NOVEL, **fields: Any) -> dict[str, Any]:
    """What the next chapter may know."""
    return search(client, namespace, question, **{"profile": "novel", "story_time": NOW, **fields})


def debug(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    body = {"query_text": OUTLINE, "namespaces": [NOVEL], "profile": "novel", "story_time": NOW, **fields}
    answer = client.post("/v1/rag/debug", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def chapters(hits: list[dict[str, Any]]) -> list[str]:
    return [hit["metadata"]["chapter_id"] for hit in hits]


def stage(trace: dict[str, Any], name: str) -> list[dict[str, Any]]:
    [found] = [each["hits"] for each in trace["stages"] if each["stage"] == name]
    return list(found)


class DescribeSegments:
    def it_keeps_chapter_story_time_entities_and_summary_of_each(self, novel):
        chunks = novel.get("/v1/chunks", params={"namespace": NOVEL}).json()["data"]
        seen = {
            (each["chapter_id"], each["story_time"], "、".join(each["entity_names"]), each["summary"], each["text"])
            for each in chunks
        }
        assert seen == set(SEGMENTS)
        assert {each["chunk_type"] for each in chunks} == {"segment"}

    @pytest.mark.parametrize("word", ["初到", "赵七"])
    def it_finds_a_segment_by_its_summary_and_its_entities(self, novel, word):
        """The first word stands in a summary only, the second in the names and the text of one segment."""
        found = search(novel, NOVEL, word, retrieve={"method": "full_text"})
        assert chapters(found["chunks"]) == [{"初到": "1", "赵七": "4"}[word]]


class DescribeStoryTime:
    @pytest.mark.parametrize("method", ["semantic", "full_text", "hybrid"])
    @pytest.mark.parametrize("now", [999_999, 1_000_000, 1_999_999, NOW, NOW + 1])
    def it_shows_nothing_later_in_any_channel(self, novel, method, now):
        answer = debug(novel, story_time=now, retrieve={"method": method})
        past = {chapter for chapter, time, *_ in SEGMENTS if time <= now}
        assert set(chapters(answer["chunks"])) == past
        assert all(each["metadata"]["story_time"] <= now for each in answer["chunks"])
        recalled = {name: len(channel["hits"]) for name, channel in answer["trace"]["channels"].items()}
        assert recalled, "a channel was asked"
        assert set(recalled.values()) == {len(past)}, "no channel recalls the future, to be filtered later"

    @pytest.mark.parametrize("path", ["/v1/queries", "/v1/rag/query", "/v1/rag/debug"])
    @pytest.mark.parametrize(
        "otherwise",
        [
            {},
            {"story_time": None},
            {"retrieve": {"time_decay": {"by": "published_at"}}},
            {"retrieve": {"time_decay": {"shape": "half_life", "by": "updated_at"}, "method": "full_text"}},
        ],
    )
    def it_refuses_a_query_that_does_not_say_the_time(self, novel, path, otherwise):
        """A program that forgets the time would get the end of the book."""
        body = {"query_text": OUTLINE, "namespaces": [NOVEL], "profile": "novel", **otherwise}
        answer = novel.post(path, json=body, headers={"Prefer": "wait=5"})
        assert answer.status_code == 422, answer.text
        assert [each["pointer"] for each in problem(answer, 422, "invalid_request")["errors"]] == ["/story_time"]
        assert "is required" in answer.text
        assert "赵七" not in answer.text

    def it_refuses_it_under_a_profile_made_of_the_built_in_one(self, novel):
        config = novel.get("/v1/profiles/novel").json()["config"]
        stored = {**config, "retrieve": {**config["retrieve"], "method": "full_text"}}
        assert novel.put("/v1/profiles/thriller", json={"config": stored}).status_code in (200, 201)
        told = {"query_text": "The siege of the northern city", "namespaces": [NOVEL], "profile": "thriller"}
        assert novel.post("/v1/rag/query", json=told).status_code == 422
        assert novel.post("/v1/rag/query", json={**told, "story_time": NOW}).status_code == 200

    def it_refuses_to_replay_a_query_under_it(self, novel):
        first = search(novel, NOVEL, OUTLINE)
        config = novel.get("/v1/profiles/novel").json()["config"]
        again = novel.post(f"/v1/queries/{first['query_id']}/replay", json={"plan": {"retrieve": config["retrieve"]}})
        assert "story_time is required" in problem(again, 422, "invalid_request")["errors"][0]["detail"]

    def it_shows_all_of_it_to_those_who_ask_for_its_end(self, novel):
        answer = write_on(novel, story_time=2**63 - 1)
        assert set(chapters(answer["chunks"])) == {chapter for chapter, *_ in SEGMENTS}

    def it_lets_the_past_fade_by_one_over_one_plus_the_difference_in_millions(self, novel):
        answer = write_on(novel, rerank={"enabled": False})
        assert {hit["metadata"]["chapter_id"]: hit["decay"] for hit in answer["chunks"]} == {
            "1": pytest.approx(1 / (1 + 1_000_000 / 1e6)),
            "2": pytest.approx(1 / (1 + 100_000 / 1e6)),
            "3": 1.0,
        }

    def it_orders_again_by_what_is_left(self, novel):
        answer = debug(novel, rerank={"enabled": False})
        before, after = stage(answer["trace"], "fuse"), stage(answer["trace"], "decay")
        assert [hit["score"] for hit in before] == sorted((hit["score"] for hit in before), reverse=True)
        assert [hit["score"] for hit in after] == sorted((hit["score"] for hit in after), reverse=True)
        assert [hit["score"] for hit in after] == pytest.approx([hit["fused"] * hit["decay"] for hit in after])
        assert [hit["chunk_id"] for hit in before] != [hit["chunk_id"] for hit in after], "the oldest one was the best"
        assert [hit["chunk_id"] for hit in answer["chunks"]] == [hit["chunk_id"] for hit in after]


class DescribeFusion:
    def it_adds_weights_over_60_plus_rank(self, novel):
        weights = {"keyword": 0.3, "semantic": 0.7}
        channels = {name: {"weight": weight} for name, weight in weights.items()}
        for asked, expected in (({}, {"keyword": 0.5, "semantic": 0.5}), ({"channels": channels}, weights)):
            answer = debug(novel, retrieve=asked, rerank={"enabled": False})
            assert answer["query"]["strategy"] == "rrf"
            for hit in answer["chunks"]:
                parts = {each["channel"]: each for each in hit["sources"]}
                for name, part in parts.items():
                    assert part["contribution"] == pytest.approx(expected[name] / (60 + part["rank"]))
                fused = sum(part["contribution"] for part in parts.values())
                assert hit["score"] == pytest.approx(fused * hit["decay"])

    def it_says_which_signals_found_a_segment(self, novel):
        best = write_on(novel)["chunks"][0]
        assert {each["channel"] for each in best["sources"]} == {"keyword", "semantic"}
        only = write_on(novel, retrieve={"method": "semantic"})["chunks"][0]
        assert (only["source"], [each["channel"] for each in only["sources"]]) == ("semantic", ["semantic"])

    @pytest.mark.parametrize("top_k", [3, 5])
    def it_recalls_twice_as_many_as_it_returns(self, novel, top_k):
        answer = write_on(novel, "商队走过沙漠", "long", top_k=top_k)
        assert answer["stats"]["hits"] == {"keyword": 2 * top_k, "semantic": 2 * top_k}
        assert len(answer["chunks"]) == top_k


class DescribeTheContext:
    def it_puts_chapter_and_story_time_above_each_passage(self, novel):
        answer = write_on(novel)
        assert answer["context"]["text"] == SEPARATOR.join(
            f"[来源：第{hit['metadata']['chapter_id']}章，故事时间：{hit['metadata']['story_time']}]\n{hit['text']}"
            for hit in answer["chunks"]
        )
        assert [each["chunk_id"] for each in answer["context"]["citations"]] == [
            hit["chunk_id"] for hit in answer["chunks"]
        ]

    def it_counts_headers_and_separators_and_stays_within_the_budget(self, novel):
        whole = write_on(novel)["context"]
        seams = 9  # pieces are counted one by one before they are joined, which can only be more
        enough = write_on(novel, context={"max_tokens": whole["token_count"] + seams})["context"]
        assert (enough["text"], enough["token_count"]) == (whole["text"], whole["token_count"])
        less = write_on(novel, context={"max_tokens": whole["token_count"] - 1})["context"]
        assert less["text"] == SEPARATOR.join(whole["text"].split(SEPARATOR)[:2])
        assert less["token_count"] < whole["token_count"]
        bare = write_on(novel, context={"header": "none"})["context"]
        assert bare["token_count"] < whole["token_count"], "headers are part of what is counted"

    def it_stops_at_the_first_passage_that_does_not_fit(self, use):
        with gateway(make_tenant(use)[1]) as client:
            long = "商队在沙漠里走了很久。" + "风沙很大，骆驼走得很慢。" * 12
            texts = ["商队在沙漠里。", long, "城里下雨了，商队没有来。"]
            send(
                client,
                NOVEL,
                [{"chapter_id": str(n), "story_time": 30 - n, "content": each} for n, each in enumerate(texts, 1)],
            )
            asked = {"story_time": 100, "rerank": {"enabled": False}, "retrieve": {"fusion": {"k": 60}}}
            order = chapters(write_on(client, "商队在沙漠里", **asked)["chunks"])
            assert sorted(order) == ["1", "2", "3"]
            assert order.index("2") < 2, "the long one stands before a short one"
            size = 120
            stopped = write_on(client, "商队在沙漠里", **asked, context={"max_tokens": size})["context"]
            skipped = write_on(client, "商队在沙漠里", **asked, context={"max_tokens": size, "over_budget": "skip"})[
                "context"
            ]
            before = order[: order.index("2")]
            assert [each[5:6] for each in stopped["text"].split(SEPARATOR) if each] == [*before] or not before
            assert len(stopped["citations"]) == len(before)
            assert len(skipped["citations"]) == 2
            assert max(stopped["token_count"], skipped["token_count"]) <= size

    def it_brings_the_entities_as_they_are_at_the_story_time(self, novel):
        entities = write_on(novel)["context"]["entities"]
        assert {
            (each["id"], each["name"], each["type"], json.dumps(each["state"], ensure_ascii=False)) for each in entities
        } == {
            ("lin", "林远", "角色", '{"位置": "城内"}'),
            ("su", "苏晴", "角色", '{"职业": "医师"}'),
        }
        earlier = write_on(novel, story_time=1_900_000)["context"]["entities"]
        assert {each["id"]: each["state"] for each in earlier}["lin"] == {"位置": "城外"}
        later = write_on(novel, story_time=NOW + 1)["context"]["entities"]
        assert {each["id"]: each["state"] for each in later} == {
            "lin": {"伤": "重"},
            "su": {"职业": "医师"},
            "zhao": {"立场": "叛徒"},
        }

    def it_is_empty_where_nothing_has_happened_yet(self, novel):
        answer = write_on(novel, story_time=0)
        assert answer["chunks"] == []
        assert answer["context"] == {"text": "", "token_count": 0, "citations": [], "entities": []}
        assert answer["stats"]["degraded"] is False


class DescribeDebugging:
    def it_shows_every_step_of_the_same_pipeline(self, novel):
        answer = debug(novel)
        trace = answer["trace"]
        assert trace["query"]["text"] == OUTLINE
        assert trace["query"]["understood"]["keywords"], "the rewrite result"
        assert {name: channel["status"] for name, channel in trace["channels"].items()} == {
            "keyword": "ok",
            "semantic": "ok",
        }
        for channel in trace["channels"].values():
            assert [hit["rank"] for hit in channel["hits"]] == [1, 2, 3]
        assert {"keyword", "semantic", "fuse", "context"} <= trace["timings_ms"].keys()
        assert all(taken >= 0 for taken in trace["timings_ms"].values())
        merged, filtered = stage(trace, "fuse"), stage(trace, "decay")
        assert {hit["chunk_id"] for hit in merged} == {hit["chunk_id"] for hit in filtered}
        assert trace["returned"] == [hit["chunk_id"] for hit in answer["chunks"]]
        assert answer["context"]["text"].startswith("[来源：第")

    def it_changes_nothing_of_the_answer(self, novel):
        plain, seen = write_on(novel), debug(novel)
        for part in ("chunks", "context", "query"):
            assert plain[part] == seen[part]

    def it_keeps_both_channels_to_one_query(self, novel):
        """Not one text for the vectors and another for the words: what the query became is said once, for all."""
        answer = debug(novel)
        again = novel.get(f"/v1/queries/{answer['query_id']}/trace").json()
        assert again == answer["trace"]
        assert answer["query"]["channels"] == ["keyword", "semantic"]


class DescribeRewriting:
    def it_falls_back_to_the_query_and_its_own_keywords_without_a_model(self, novel):
        answer = write_on(novel)
        assert answer["query"]["rewritten"] is None
        assert "林远" in answer["query"]["keywords"]
        assert answer["stats"]["degraded"] is False
