"""Why a chunk is not in an answer: every stage, planted on purpose, through the gateway and real workers."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import problem
from tests.support.corpora.documents import document, upload
from tests.support.corpora.explaining import (
    NO_RERANK,
    TEA,
    WORDS,
    ask,
    chunk_of,
    missing,
    traced,
    untraced,
    verdict,
    why,
)
from tests.support.servers.business_api import BusinessApi, reachable_business_api, says


@pytest.fixture(scope="module")
def client(use: Resources) -> Iterator[httpx.Client]:
    """One for the file: its cases ask, and those that change something do so in a namespace of their own."""
    with gateway(make_tenant(use)[1]) as found:
        yield found


@pytest.fixture(scope="module")
def tea(client: httpx.Client) -> str:
    """Where the documents about tea are, which stay as they are."""
    upload(client, "tea", TEA)
    return "tea"


@pytest.fixture(scope="module")
def pump(client: httpx.Client) -> str:
    """Where a document is that has all the fields that filters ask for."""
    fields = {"type": "note", "tags": ["water"], "author": "Wang", "metadata": {"floor": 2}, "story_time": 10}
    upload(client, "pump", [document("pump", "The pump.", published_at="2026-01-01T00:00:00Z", **fields)])
    return "pump"


@pytest.fixture
def own_tea(client: httpx.Client, namespace: str) -> str:
    """The documents about tea once more, to be changed."""
    upload(client, namespace, TEA)
    return namespace


class DescribeWhyNot:
    """Each case is planted; the stage and the numbers have to be those of the plant."""

    def it_finds_what_is_returned(self, client, tea):
        answer = ask(client, tea, "green tea")
        finding = why(client, answer, answer["chunks"][1]["chunk_id"])
        assert verdict(finding) == ("returned", "returned")
        assert (finding["value"], finding["replayed"]) == (2, False)
        assert finding["document_id"] == answer["chunks"][1]["document_id"]

    def it_names_another_namespace(self, client, tea):
        upload(client, f"{tea}-b", [document("elsewhere", "Green tea from elsewhere.")])
        answer = ask(client, tea, "green tea")
        finding = why(client, answer, chunk_of(client, f"{tea}-b", "elsewhere"))
        assert verdict(finding) == ("namespace", "other_namespace")
        assert f"{tea}-b" in finding["detail"]

    def it_names_a_chunk_that_was_replaced(self, client, own_tea):
        old = chunk_of(client, own_tea, "green")
        before = ask(client, own_tea, "green tea")
        upload(client, own_tea, [document("green", "Green tea is brewed at seventy degrees, people say now.")])
        answer = ask(client, own_tea, "green tea leaves")
        found = client.post(f"/v1/queries/{answer['query_id']}/why-not", json={"chunk_id": old})
        if found.status_code == 404:  # the reconciler has been here: nothing of it is left
            problem(found, 404, "chunk_not_found")
        else:
            assert verdict(found.json()) == ("published", "not_published")
        assert verdict(why(client, before, old)) == ("returned", "returned")

    def it_names_a_document_that_was_deleted_after_it_had_been_seen(self, client, own_tea):
        before = ask(client, own_tea, "green tea", top_k=1)
        gone = chunk_of(client, own_tea, "black")
        assert client.delete("/v1/documents/black", params={"namespace": own_tea}).status_code == 204
        # It was beyond top_k then, and the run is what is asked about.
        assert verdict(why(client, before, gone)) == ("select", "beyond_top_k")
        answer = ask(client, own_tea, "black tea")
        found = client.post(f"/v1/queries/{answer['query_id']}/why-not", json={"chunk_id": gone})
        assert found.status_code == 404 or verdict(found.json())[0] == "published"

    def it_names_a_chunk_that_was_disabled(self, client, own_tea):
        chunk_id = chunk_of(client, own_tea, "green")
        put = client.put("/v1/chunks", json={"chunks": [{"chunk_id": chunk_id, "enabled": False}]})
        assert put.status_code == 200, put.text
        assert verdict(missing(client, own_tea, "green", "green tea")) == ("published", "disabled")

    @pytest.mark.parametrize(
        ("asked", "reason", "words"),
        [
            ({"filters": {"type": "manual"}}, "type", "The filter type asks for manual; it has note."),
            ({"filters": {"tags": ["oil"]}}, "tags", "The filter tags asks for ['oil']; it has ['water']."),
            ({"filters": {"author": "Li"}}, "author", "The filter author asks for Li; it has Wang."),
            ({"filters": {"start": "2026-02-01T00:00:00Z"}}, "start", "2026-01-01T00:00:00"),
            ({"filters": {"end": "2025-02-01T00:00:00Z"}}, "end", "2026-01-01T00:00:00"),
            ({"filters": {"metadata": {"floor": 3}}}, "metadata", "{'floor': 2}"),
            ({"story_time": 9}, "story_time", "The filter story_time asks for 9; it has 10."),
        ],
    )
    def it_names_the_filter(self, client, pump, asked, reason, words):
        finding = missing(client, pump, "pump", "pump", **asked)
        assert verdict(finding) == ("filter", reason)
        assert words in finding["detail"]

    def it_names_that_no_word_is_shared(self, client, tea):
        finding = missing(client, tea, "ships", "green tea", retrieve=WORDS)
        assert verdict(finding) == ("recall", "no_match")
        assert finding["detail"] == "It shares no word with the query."
        assert finding["channels"]["keyword"]["rank"] is None

    def it_names_the_pool_with_both_scores(self, client, tea):
        how = {"channels": {"semantic": {"pool": 1}}, "method": "semantic"}
        finding = missing(client, tea, "ships", "green tea at eighty degrees", top_k=1, retrieve=how)
        assert verdict(finding) == ("recall", "beyond_pool")
        assert finding["value"] < finding["limit"]
        said = finding["channels"]["semantic"]
        assert (said["recalled"], said["score"], said["cutoff"]) == (1, finding["value"], finding["limit"])

    @pytest.mark.thorough
    def it_names_the_least_score_of_a_channel(self, client, tea):
        how = {"channels": {"semantic": {"min_score": 0.5}}, "method": "semantic"}
        finding = missing(client, tea, "ships", "Green tea is brewed at eighty degrees.", retrieve=how)
        assert verdict(finding) == ("recall", "below_min_score")
        assert finding["value"] < finding["limit"] == 0.5

    @pytest.mark.thorough
    def it_names_how_far_was_read(self, client, namespace):
        texts = [f"Coolant {'pump ' * (n % 7 + 1)} number {n} in hall {n % 5}." for n in range(150)]
        upload(client, namespace, [document(f"d{n}", text) for n, text in enumerate(texts)])
        how = {"channels": {"keyword": {"pool": 150}}, "method": "full_text", "selection": {"dedupe": "document"}}
        answer = ask(client, namespace, "coolant pump", top_k=1, retrieve=how, rerank=NO_RERANK)
        trace = traced(client, answer)
        unread = [drop for drop in trace["drops"] if drop["stage"] == "fuse"]
        assert unread
        finding = why(client, answer, unread[-1]["chunk_id"])
        assert verdict(finding) == ("fuse", "below_what_was_read")
        assert finding["value"] > finding["limit"] >= 1
        ranks = {hit["chunk_id"]: hit["rank"] for hit in trace["channels"]["keyword"]["hits"]}
        assert finding["value"] == ranks[finding["chunk_id"]]

    @pytest.mark.thorough
    def it_names_the_gate(self, client, tea):
        # Meaning is sure of one passage; words are not, half of them standing nowhere.
        text = "Green tea is brewed at eighty degrees. unheard unseen unsaid untold unknown"
        how = {"fusion": {"gate": 0.999}, "channels": {"semantic": {"pool": 1}}}
        answer = ask(client, tea, text, top_k=1, retrieve=how)
        assert any("keyword channel had no say" in remark for remark in answer["stats"]["remarks"]), answer["stats"]
        kept_out = [drop for drop in traced(client, answer)["drops"] if drop["stage"] == "gate"]
        assert kept_out
        finding = why(client, answer, kept_out[0]["chunk_id"])
        assert verdict(finding) == ("gate", "weak_channel")
        assert finding["value"] < finding["limit"] == 0.999

    @pytest.mark.thorough
    @pytest.mark.parametrize("by", ["document", "content"])
    def it_names_what_stands_for_it(self, client, namespace, by):
        long = "\n\n".join(f"Reactor coolant note {n}. " + "coolant loop detail " * 60 for n in range(4))
        upload(client, namespace, [document("long", long)])
        upload(client, namespace, [document("a", "Brew green tea at 80."), document("b", "BREW green  tea at 80.")])
        text = "reactor coolant" if by == "document" else "green tea"
        how = {**WORDS, "selection": {"dedupe": by}}
        answer = ask(client, namespace, text, retrieve=how, rerank=NO_RERANK)
        same = [drop for drop in traced(client, answer)["drops"] if drop["stage"] == "dedupe"]
        finding = why(client, answer, same[0]["chunk_id"])
        assert verdict(finding) == ("dedupe", f"same_{by}")
        assert finding["value"] <= finding["limit"] == answer["chunks"][0]["score"]

    @pytest.mark.thorough
    def it_names_the_threshold_of_the_ladder(self, client, tea):
        how = {"method": "semantic", "ladder": {"thresholds": [0.99, 0.9], "min_results": 1}}
        finding = missing(client, tea, "ships", "Green tea is brewed at eighty degrees.", retrieve=how)
        assert verdict(finding) == ("ladder", "below_similarity")
        assert finding["value"] < finding["limit"] == 0.99

    def it_names_the_score_threshold(self, client, tea):
        finding = missing(client, tea, "ships", "green tea", retrieve={"score_threshold": 0.3}, rerank=NO_RERANK)
        assert verdict(finding) == ("threshold", "below_score_threshold")
        assert finding["value"] < finding["limit"] == 0.3

    @pytest.mark.thorough
    def it_names_the_threshold_of_reranking(self, client, tea):
        finding = missing(client, tea, "ships", "green tea", rerank={"enabled": True, "threshold": 0.4})
        assert verdict(finding) == ("rerank", "below_rerank_threshold")
        assert finding["value"] < finding["limit"] == 0.4

    def it_names_the_cap_of_a_document(self, client, namespace):
        long = "\n\n".join(f"Reactor coolant note {n}. " + "coolant loop detail " * 60 for n in range(4))
        upload(client, namespace, [document("long", long), document("short", "Reactor coolant.")])
        how = {"selection": {"per_document": 1}}
        answer = ask(client, namespace, "reactor coolant", retrieve=how, rerank=NO_RERANK)
        second = next(drop for drop in traced(client, answer)["drops"] if drop["value"] == 2)
        finding = why(client, answer, second["chunk_id"])
        assert verdict(finding) == ("select", "beyond_per_document")
        assert (finding["value"], finding["limit"], finding["document_id"]) == (2, 1, "long")

    @pytest.mark.thorough
    def it_names_diversity(self, client, namespace):
        same = "Brew green tea at eighty degrees in a warm pot"
        upload(
            client, namespace, [document("a", same), document("b", f"{same}."), document("c", "Tea from the hills.")]
        )
        how = {**WORDS, "selection": {"diversity": 0.9}}
        answer = ask(client, namespace, "green tea pot", top_k=2, retrieve=how, rerank=NO_RERANK)
        returned = {chunk["document_id"] for chunk in answer["chunks"]}
        left_out = ({"a", "b"} - returned).pop()
        finding = why(client, answer, chunk_of(client, namespace, left_out))
        assert verdict(finding) == ("select", "too_alike")

    @pytest.mark.thorough
    def it_names_the_grade(self, client, namespace):
        graded = [
            document(f"d{n}", f"Tea of sort {n}.", metadata={"quality_grade": "优秀" if n else "一般"})
            for n in range(4)
        ]
        upload(client, namespace, graded)
        how = {"selection": {"quality": {"enough": 2}}}
        finding = missing(client, namespace, "d0", "tea sort", retrieve=how, rerank=NO_RERANK)
        assert finding["stage"] == "quality"

    def it_names_top_k(self, client, tea):
        finding = missing(client, tea, "ships", "green tea", top_k=2)
        assert verdict(finding) == ("select", "beyond_top_k")
        assert finding["value"] > finding["limit"] == 2

    @pytest.mark.thorough
    def it_names_the_room_that_a_last_resort_took(self, client, tea):
        fallback = {"enabled": True, "threshold": 1.0, "hint": "Call us."}
        answer = ask(client, tea, "green tea", top_k=1, fallback=fallback)
        assert [chunk["source"] for chunk in answer["chunks"]] == ["fallback"]
        [said] = traced(client, answer)["explained"]
        assert "a hint, because nothing sure enough was found" in said
        assert verdict(why(client, answer, answer["chunks"][0]["chunk_id"])) == ("returned", "returned")
        first = traced(client, answer)["stages"][-1]["hits"][0]
        finding = why(client, answer, first["chunk_id"])
        assert verdict(finding) == ("fallback", "made_room")
        assert (finding["value"], finding["limit"]) == (1, 0)

    def it_runs_the_query_again_where_no_trace_was_kept(self, client, tea):
        answer = untraced(client, tea, "green tea again", top_k=2)
        finding = why(client, answer, chunk_of(client, tea, "ships"))
        assert verdict(finding) == ("select", "beyond_top_k")
        assert finding["replayed"]

    def it_masks_what_answers_mask(self, client, namespace):
        client.put("/v1/profiles/shy", json={"config": {"privacy": {"mask_answers": True}}})
        upload(client, namespace, [document("pump", "The pump.", author="wang@example.com")])
        finding = missing(client, namespace, "pump", "pump", profile="shy", filters={"author": "Li"})
        assert verdict(finding) == ("filter", "author")
        assert finding["detail"] == "The filter author asks for Li; it has [email]."


class DescribeWhatABusinessInterfaceBrought:
    @pytest.fixture
    def api(self) -> Iterator[BusinessApi]:
        with reachable_business_api() as found:
            yield found

    def it_is_explained_although_it_stands_in_no_store(self, client, tea, api):
        orders = [{"no": f"A-{n}", "text": f"Green tea order {n}", "match": 0.9 - n / 10} for n in range(4)]
        api.answers["/orders"] = says({"orders": orders})
        mapping = {"items": "/orders", "id": "/no", "text": "/text", "score": "/match"}
        made = client.put("/v1/api-sources/crm", json={"url": f"{api.url}/orders", "mapping": mapping})
        assert made.status_code == 201, made.text
        how = {"channels": {"api": {"weight": 1.0, "timeout_ms": 2000}, "keyword": {}, "semantic": {}}}
        answer = ask(client, tea, "green tea order", top_k=3, retrieve=how, rerank=NO_RERANK, deadline_ms=9000)
        trace = traced(client, answer)
        brought = [hit["chunk_id"] for hit in trace["channels"]["api"]["hits"]]
        assert len(brought) == 4
        left_out = next(chunk_id for chunk_id in brought if chunk_id not in trace["returned"])
        assert verdict(why(client, answer, left_out)) == ("select", "beyond_top_k")
        without = untraced(client, tea, "green tea order", top_k=3, retrieve=how, rerank=NO_RERANK)
        again = why(client, without, left_out)
        assert (verdict(again), again["replayed"]) == (("select", "beyond_top_k"), True)
