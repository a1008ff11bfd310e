"""Facets, groups and filters as expressions over HTTP: counts that a listing confirms, full groups, and their rest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from chordwise import Chordwise
from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.commands import called
from tests.support.clients.gateway_client import ended, pointers, problem, send
from tests.support.clients.operating import eventually

TEAMS = ["pumps"] * 9 + ["valves", "人事", "财务"]
PASSAGES = 12
PAGE = 200


def entry(number: int) -> dict[str, Any]:
    """A document of a dozen passages, half of them in Chinese. Nine of twelve are of one team, and fit the question best."""
    team = TEAMS[number % len(TEAMS)]
    words = "controller reset controller" if team == "pumps" else "controller"
    english = [f"Step {number}.{part}: {words} of unit {number * part}. " * 6 for part in range(PASSAGES // 2)]
    chinese = [f"第{number}章第{part}节：控制器的说明，单元{number * part}。" * 8 for part in range(PASSAGES // 2)]
    kind = ("manual", "note", "手册")[number % 3]
    metadata: dict[str, Any] = {"team": team, "year": 2018 + number % 8, "areas": ["north", "海外"][: number % 3]}
    return {
        "document_id": f"d{number}",
        "text": "\n\n".join(english + chinese),
        "type": kind,
        "tags": ["hr", *(["valve gear"] if number % 4 == 0 else [])],
        "published_at": f"20{18 + number % 8}-05-01T00:00:00Z",
        "metadata": metadata if number % 10 else {},
        "chunking": {"strategy": "sentences", "max_tokens": 64, "overlap": 0.0},
    }


@pytest.fixture(scope="module")
def client(use: Resources) -> Iterator[httpx.Client]:
    with gateway(make_tenant(use)[1]) as found:
        for first in range(0, 240, 60):
            ended(found, send(found, "kb", *map(entry, range(first, first + 60))))
        eventually(lambda: facet(found, "controller", "type")["counted_over"] == "matches", within_s=60)
        yield found


def ask(client: httpx.Client, question: str, method: str = "full_text", **asked: Any) -> dict[str, Any]:
    body = {"query_text": question, "namespaces": ["kb"], "retrieve": {"method": method}, **asked}
    response = client.post("/v1/rag/query", json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    assert not answer["stats"]["degraded"], answer["stats"]["degradations"]
    return answer


def facet(client: httpx.Client, question: str, field: str, **asked: Any) -> dict[str, Any]:
    [found] = ask(client, question, facets=[field], top_k=1, **asked)["facets"]
    result: dict[str, Any] = found
    return result


def listed(client: httpx.Client, filters: str) -> list[dict[str, Any]]:
    """All chunks that a listing with these filters gives."""
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        asked = {"namespace": "kb", "limit": PAGE, "filters": filters, **({"cursor": cursor} if cursor else {})}
        response = client.get("/v1/chunks", params=asked)
        assert response.status_code == 200, response.text
        page = response.json()
        found += page["data"]
        if (cursor := page["next_cursor"]) is None:
            return found


def words_of(chunk: dict[str, Any]) -> str:
    return str(chunk["text"])


class DescribeFacets:
    @pytest.mark.parametrize("field", ["type", "tags", "metadata.team", "metadata.year", "metadata.areas"])
    @pytest.mark.parametrize(("question", "method"), [("controller", "full_text"), ("控制器", "hybrid")])
    def it_counts_what_a_listing_with_the_filter_of_the_value_gives(self, client, field, question, method):
        found = facet(client, question, field, method=method)
        assert found["counted_over"] == "matches"
        assert found["values"]
        for value in found["values"]:
            holding = [chunk for chunk in listed(client, value["filter"]) if question in words_of(chunk)]
            if method == "full_text":
                assert value["passages"] == len(holding), value
            else:  # passages that meaning recalled count as well
                assert len(holding) <= value["passages"] <= len(holding) + 100
        assert found["distinct"] == len(found["values"])
        assert found["other"] == 0

    def it_counts_within_the_filters_of_the_query(self, client):
        asked = "year >= 2022 and not (type:note or team in (人事, 财务))"
        found = facet(client, "controller", "metadata.team", filters=asked)
        expected = Counter(
            chunk["metadata"]["team"]
            for chunk in listed(client, asked)
            if "controller" in words_of(chunk) and "team" in chunk["metadata"]
        )
        assert {value["value"]: value["passages"] for value in found["values"]} == expected
        assert found["passages"] == sum("controller" in words_of(chunk) for chunk in listed(client, asked))

    def it_lists_the_most_frequent_values_and_adds_up_the_others(self, client):
        entries = [
            {"document_id": f"e{n}", "text": "An odd gauge.", "metadata": {"serial": f"s{n % 30}"}} for n in range(45)
        ]
        ended(client, send(client, "kb", *entries))
        found = facet(client, "gauge", "metadata.serial")
        assert [value["passages"] for value in found["values"]] == [2] * 15 + [1] * 5
        assert (found["passages"], found["other"], found["distinct"]) == (45, 10, 30)

    def it_counts_the_pool_where_words_say_nothing_and_says_so(self, client):
        answer = ask(client, "controller", "semantic", facets=["type"], top_k=3)
        assert answer["facets"][0]["counted_over"] == "pool"
        assert 3 <= answer["facets"][0]["passages"] <= 100

    def it_leaves_out_deleted_documents_and_sees_new_ones_at_once(self, client):
        def counts() -> dict[Any, int]:
            return {
                value["value"]: value["passages"] for value in facet(client, "trowel 泥刀", "metadata.team")["values"]
            }

        entries = [
            {"document_id": f"t{n}", "text": "A trowel. 一把泥刀。", "metadata": {"team": f"泥瓦{n % 2}"}}
            for n in range(4)
        ]
        ended(client, send(client, "kb", *entries))
        assert counts() == {"泥瓦0": 2, "泥瓦1": 2}
        assert client.delete("/v1/documents/t0", params={"namespace": "kb"}).status_code in (200, 204)
        assert counts() == {"泥瓦0": 1, "泥瓦1": 2}
        ended(client, send(client, "kb", {**entries[2], "metadata": {"team": "泥瓦1"}}))
        assert counts() == {"泥瓦1": 3}

    def it_changes_nothing_for_a_query_without_them_and_keeps_answers_apart(self, client):
        plain = [ask(client, "reset unit", top_k=5) for _ in range(2)]
        assert all("facets" not in answer and "groups" not in answer for answer in plain)
        counted = [ask(client, "reset unit", top_k=5, facets=[field]) for field in ("type", "tags", "type")]
        assert [answer["facets"][0]["field"] for answer in counted] == ["type", "tags", "type"]
        assert all([hit["chunk_id"] for hit in answer["chunks"]] == [hit["chunk_id"] for hit in plain[0]["chunks"]]
                   for answer in counted)  # fmt: skip


def group_hits(answer: dict[str, Any]) -> dict[Any, list[dict[str, Any]]]:
    hits = {chunk["chunk_id"]: chunk for chunk in answer["chunks"]}
    return {group["value"]: [hits[chunk_id] for chunk_id in group["chunk_ids"]] for group in answer["groups"]}


class DescribeGroups:
    @pytest.mark.parametrize(
        ("question", "method"),
        [("controller reset", "full_text"), ("controller reset", "hybrid"), ("控制器", "semantic")],
    )
    def it_fills_the_groups_although_one_value_fills_the_pool(self, client, question, method):
        answer = ask(client, question, method, group_by="metadata.team", group_size=3, top_k=4, filters="team:*")
        groups = group_hits(answer)
        assert {value: len(hits) for value, hits in groups.items()} == dict.fromkeys(set(TEAMS), 3), answer["stats"]
        assert all(hit["metadata"]["team"] == value for value, hits in groups.items() for hit in hits)
        scores = [hit["score"] for hit in answer["chunks"]]
        assert scores == sorted(scores, reverse=True)
        assert len(scores) == 12

    def it_gives_the_rest_of_a_group_without_repetition(self, client):
        asked: dict[str, Any] = {"group_by": "metadata.team", "group_size": 5, "top_k": 4, "filters": "type:手册"}
        answer = ask(client, "controller", **asked)
        [group] = [group for group in answer["groups"] if group["value"] == "人事"] or answer["groups"][-1:]
        seen = list(group["chunk_ids"])
        more = ask(client, "controller", top_k=50, **group["next"])
        while more["chunks"]:
            seen += [chunk["chunk_id"] for chunk in more["chunks"]]
            more = ask(client, "controller", top_k=50, **{**group["next"], "exclude": seen})
        rest = json.dumps(group["next"]["filters"])
        assert len(seen) == len(set(seen))
        assert set(seen) == {chunk["chunk_id"] for chunk in listed(client, rest) if "controller" in words_of(chunk)}

    def it_puts_hits_without_a_value_into_one_group_and_those_with_several_into_each(self, client):
        groups = group_hits(ask(client, "controller", group_by="metadata.areas", group_size=2, top_k=3))
        assert set(groups) == {None, "north", "海外"}
        assert all(len(hits) == 2 for hits in groups.values())
        assert all(value in hit["metadata"]["areas"] for value, hits in groups.items() if value for hit in hits)

    def it_says_why_groups_stay_short(self, client):
        answer = ask(client, "controller", group_by="metadata.team", group_size=2, top_k=9, filters="team:*")
        assert len(answer["groups"]) == 4
        [remark] = [remark for remark in answer["stats"]["remarks"] if remark.startswith("groups_not_filled")]
        assert "4 of 9 groups by metadata.team have 2 hits" in remark
        assert "nothing else matches" in remark

    def it_gives_shorter_answers_in_front_of_longer_ones(self, client):
        few, many = (ask(client, "controller", group_by="type", group_size=size, top_k=3) for size in (2, 5))
        for value, hits in group_hits(few).items():
            assert [hit["chunk_id"] for hit in hits] == [hit["chunk_id"] for hit in group_hits(many)[value]][:2]


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"facets": ["type", "title"]}, "/facets/1", "is none of type, author, tags and metadata.<key>"),
    ({"facets": ["metadata."]}, "/facets/0", "is none of"),
    ({"facets": ["type", "type"]}, "/facets/1", "names a field twice"),
    ({"facets": [f"metadata.k{n}" for n in range(9)]}, "/facets", "8"),
    ({"facets": "type"}, "/facets", "array"),
    ({"group_by": "published_at"}, "/group_by", "is none of"),
    ({"group_by": "metadata.page"}, "/group_by", "is hidden in hits by their own page"),
    ({"group_by": "type", "group_size": 0}, "/group_size", "1"),
    ({"group_by": "type", "group_size": 100, "top_k": 11}, "/group_size", "more than 1000 together"),
    ({"exclude": ["x"] * 1001}, "/exclude", "1000"),
    ({"filters": "year > and tags:hr"}, "/filters", "at character 8: expected a value, found and"),
    ({"filters": "部门：“人事"}, "/filters", "at character 4: expected a closing quote"),
    ({"filters": "type:manual and " * 600}, "/filters", "has more than 8000 characters"),
    ({"filters": {"where": {"type": "gt", "key": "type", "value": "a"}}}, "/filters/where", "type has no order"),
    ({"filters": {"where": {"type": "eq", "key": "tags", "value": "a"}}}, "/filters/where", "tags are asked for by has"),
    ({"filters": {"where": {"type": "like", "key": "a", "value": "a"}}}, "/filters/where", "type"),
    ({"filters": {"where": {"type": "gt", "key": "published_at", "value": "soon"}}}, "/filters/where", "published_at"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "pointer", "detail"), REFUSED, ids=[pointer + detail for _, pointer, detail in REFUSED]
)
def it_names_the_field_at_fault_and_the_position(client, asked, pointer, detail):
    body = {"query_text": "controller", "namespaces": ["kb"], **asked}
    refused = problem(client.post("/v1/queries", json=body), 422, "invalid_request")
    assert pointers(refused) == [pointer]
    assert detail in refused["errors"][0]["detail"]


def it_takes_facets_into_a_profile_but_no_groups(client):
    refused = client.put("/v1/profiles/counting", json={"config": {"retrieve": {"selection": {"group_by": "type"}}}})
    assert pointers(problem(refused, 422, "invalid_request")) == ["/config/retrieve/selection/group_by"]
    assert client.put("/v1/profiles/counting", json={"config": {"facets": ["type"]}}).status_code in (200, 201)
    assert [found["field"] for found in ask(client, "controller", profile="counting")["facets"]] == ["type"]


def it_gives_the_python_client_groups_whose_rest_it_can_ask_for(client):
    key = client.headers["Authorization"].removeprefix("Bearer ")
    with Chordwise(str(client.base_url), api_key=key) as python:
        result = python.query(
            "控制器", namespace="kb", facets=["type"], group_by="type", group_size=2, filters="year:*"
        )
        assert {value.value for value in result.facets[0].values} == {"manual", "note", "手册"}
        [group] = [group for group in result.groups if group.value == "手册"]
        assert group.next is not None
        rest = python.query("控制器", namespace="kb", top_k=5, **group.next)
    assert len(rest.chunks) == 5
    assert {hit.metadata["type"] for hit in rest.chunks} == {"手册"}
    assert {hit.chunk_id for hit in rest.chunks}.isdisjoint(group.chunk_ids)


def it_shows_counts_and_groups_on_the_command_line(client):
    key = client.headers["Authorization"].removeprefix("Bearer ")

    def run(*words: str) -> str:
        done = called(*words, CHORDWISE_URL=str(client.base_url), CHORDWISE_API_KEY=key, COLUMNS="120")
        assert done.returncode == 0, done.stderr
        return done.stdout

    counted = run("query", "controller", "-n", "kb", "--filter", "team in (人事, 财务)", "--facet", "metadata.team")
    assert "metadata.team: " in counted
    assert "pumps" not in counted.partition("metadata.team: ")[2]
    two = "team in (人事, 财务)"
    grouped = run(
        "query", "controller", "-n", "kb", "--group-by", "metadata.team", "--group-size", "1", "--filter", two
    )
    assert {"人事", "财务"} <= set(grouped.splitlines())
    refused = called(
        *("query", "controller", "-n", "kb", "--filter", "team in (人事"),
        CHORDWISE_URL=str(client.base_url),
        CHORDWISE_API_KEY=key,
    )
    assert refused.returncode != 0
    assert "at character 12: expected , or ), found the end" in refused.stderr


class DescribeExpressions:
    @pytest.mark.parametrize(
        "asked",
        [
            "year > 2022 and tags:'valve gear'",
            "team in (人事, 财务) or not year:*",
            "not (type:note or type:manual) and published_at >= 2020-01-01",
            "areas:海外 and published_at < 2024-05-01T00:00:00Z",
            "部门:无",
        ],
    )
    @pytest.mark.parametrize("method", ["full_text", "semantic"])
    def it_finds_what_a_listing_with_the_same_filter_gives(self, client, asked, method):
        found = ask(client, "controller 控制器", method, filters=asked, top_k=1000, enable_rerank=False)["chunks"]
        expected = {chunk["chunk_id"] for chunk in listed(client, asked)}
        assert {chunk["chunk_id"] for chunk in found} <= expected
        assert len(found) == min(1000, len(expected))

    def it_shows_the_filters_in_json(self, client):
        answer = ask(client, "controller", filters="year > 2020 and tags:hr")
        where = {"type": "gt", "key": "metadata.year", "value": 2020}
        assert answer["query"]["filters"] == {"tags": ["hr"], "where": where}
        again = ask(client, "controller", filters=answer["query"]["filters"])
        assert again["chunks"] == answer["chunks"]
