"""Edits of chunks, as readers of answers see them: bounds, prepared text, context and citations, in English and Chinese."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import pointers, problem
from tests.support.corpora.documents import document, search, upload

ENGLISH = ("The red fox hunts at night.", "The old owl sleeps by day.", "The brown hare runs in spring.")
CHINESE = ("红色的狐狸在夜里捕猎。", "年老的猫头鹰白天睡觉。", "棕色的野兔在春天奔跑。")
NEW = {ENGLISH: "The silver badger digs tunnels.", CHINESE: "银色的獾在山坡下挖掘隧道。"}
ASKED = {ENGLISH: "silver badger tunnels", CHINESE: "獾挖掘隧道"}
GONE = {ENGLISH: "old owl sleeps", CHINESE: "年老的猫头鹰"}
BOTH = pytest.mark.parametrize("sentences", [ENGLISH, CHINESE], ids=["english", "chinese"])


def chunks(client: httpx.Client, namespace: str, **more: Any) -> list[dict[str, Any]]:
    response = client.get("/v1/chunks", params={"namespace": namespace, "limit": 200, **more})
    assert response.status_code == 200, response.text
    return list(response.json()["data"])


def edit(client: httpx.Client, chunk: dict[str, Any], text: str) -> httpx.Response:
    return client.put("/v1/chunks", json={"chunks": [{"chunk_id": chunk["chunk_id"], "text": text}]})


def edited(client: httpx.Client, chunk: dict[str, Any], text: str) -> dict[str, Any]:
    response = edit(client, chunk, text)
    assert response.status_code == 200, response.text
    return dict(response.json()["data"][0])


def cited(answer: dict[str, Any], chunk_id: str) -> dict[str, Any]:
    return next(dict(each) for each in answer["context"]["citations"] if each["chunk_id"] == chunk_id)


CUT_SMALL = {"strategy": "parent_child", "max_tokens": 16, "parent_tokens": 64}
UNTIDY = {
    "english": ("  The fox\u00a0runs.  \r\n\r\n\r\n\r\nIt\u200b hides.\n", "The fox runs.\n\nIt hides."),
    "chinese": ("\u3000\u3000狐狸跑了。\r\n它\ufeff藏起来了。", "狐狸跑了。\n它藏起来了。"),
}


@pytest.fixture(scope="module")
def shelf(use: Resources) -> Iterator[httpx.Client]:
    """A client whose tenant has a document for each test of bounds and of preparation, named after it."""
    small = {"max_tokens": 32}
    with gateway(make_tenant(use)[1]) as client:
        texts = [
            *(document(name, ENGLISH[0], chunking=small) for name in ("above", "above-zh")),
            *(document(name, CHINESE[0], chunking=small) for name in ("at", "first", "second")),
            document("family", " ".join(ENGLISH), chunking=CUT_SMALL),
            *(document(f"untidy-{name}", sent) for name, (sent, _) in UNTIDY.items()),
            *(document(name, ENGLISH[0]) for name in ("edited-english", "edited-chinese", "spaces", "invisible")),
        ]
        assert upload(client, "kb", texts)["succeeded"] == len(texts)
        yield client


class DescribeTheBound:
    @pytest.mark.parametrize(("name", "word", "times"), [("above", "token ", 10_000), ("above-zh", "词", 27_000)])
    def it_refuses_a_text_above_the_limit_of_the_documents_own_chunking(self, shelf, name, word, times):
        (chunk,) = chunks(shelf, "kb", document_id=name)
        said = problem(edit(shelf, chunk, word * times), 422, "chunk_too_long")
        assert all(
            part in said["detail"] for part in (f"{times} tokens", "at most 32", "max_tokens", f"document {name}")
        )
        assert pointers(said) == ["/chunks/0/text"]
        assert chunks(shelf, "kb", document_id=name)[0]["text"] == ENGLISH[0]

    def it_takes_a_text_at_the_limit_and_refuses_one_above_it(self, shelf):
        (chunk,) = chunks(shelf, "kb", document_id="at")
        assert edited(shelf, chunk, "狐" * 32)["status"] == "updated"
        problem(edit(shelf, chunk, "狐" * 33), 422, "chunk_too_long")
        assert chunks(shelf, "kb", document_id="at")[0]["token_count"] == 32

    @pytest.mark.thorough
    def it_bounds_a_parent_by_the_tokens_of_parents(self, shelf):
        parent = chunks(shelf, "kb", document_id="family", chunk_type="parent")[0]
        said = problem(edit(shelf, parent, "獾" * 65), 422, "chunk_too_long")
        assert "at most 64: parent_tokens" in said["detail"]
        assert edited(shelf, parent, "獾" * 64)["status"] == "updated"

    def it_carries_out_the_other_edits_of_a_request(self, shelf):
        first, second = (chunks(shelf, "kb", document_id=name)[0] for name in ("first", "second"))
        sent = [
            {"chunk_id": first["chunk_id"], "text": "獾" * 40},
            {"chunk_id": second["chunk_id"], "text": NEW[CHINESE]},
        ]
        results = shelf.put("/v1/chunks", json={"chunks": sent}).json()["data"]
        assert [(each["status"], each["code"]) for each in results] == [("failed", "chunk_too_long"), ("updated", None)]


class DescribePreparation:
    @pytest.mark.parametrize("language", UNTIDY)
    def it_cleans_a_text_as_ingestion_does(self, shelf, language):
        sent, kept = UNTIDY[language]
        (chunk,) = chunks(shelf, "kb", document_id=f"edited-{language}")
        edited(shelf, chunk, sent)
        first, second = (chunks(shelf, "kb", document_id=f"{how}-{language}")[0] for how in ("edited", "untidy"))
        assert (first["text"], first["token_count"]) == (kept, second["token_count"])
        assert second["text"] == kept

    @pytest.mark.thorough
    def it_takes_what_differs_in_white_space_alone_for_unchanged(self, shelf):
        (chunk,) = chunks(shelf, "kb", document_id="spaces")
        assert edited(shelf, chunk, f"{ENGLISH[0]}\r\n\u200b")["status"] == "unchanged"

    def it_refuses_a_text_of_invisible_characters(self, shelf):
        problem(edit(shelf, chunks(shelf, "kb", document_id="invisible")[0], "\u200b\u200b"), 422, "empty_chunk")


class DescribeWhatIsReadAfterwards:
    @BOTH
    def it_finds_the_new_words_and_cites_the_place_of_the_old_ones(self, client, namespace, sentences):
        text = "".join(sentences) if sentences is CHINESE else " ".join(sentences)
        upload(client, namespace, [document("d", text)], chunking={"strategy": "window", "window": 1})
        middle = chunks(client, namespace)[1]
        search(client, namespace, ASKED[sentences])  # an answer that must not be kept
        assert edited(client, middle, NEW[sentences])["status"] == "updated"
        answer = search(client, namespace, ASKED[sentences], context={"parents": True}, highlight=True)
        best = answer["chunks"][0]
        assert (best["chunk_id"], best["text"]) == (middle["chunk_id"], NEW[sentences])
        assert all(best["text"][at["start"] : at["end"]] for at in best["highlights"])
        assert best["highlights"]
        assert NEW[sentences] in answer["context"]["text"]
        assert sentences[0] in answer["context"]["text"]
        assert GONE[sentences] not in answer["context"]["text"]
        place = cited(answer, middle["chunk_id"])
        assert text[place["start"] : place["end"]] == sentences[1]
        assert place["edited"]
        others = [each for each in answer["context"]["citations"] if each["chunk_id"] != middle["chunk_id"]]
        assert not any(each["edited"] for each in others)
        marks = {chunk["text"]: chunk["edited"] for chunk in chunks(client, namespace)}
        assert marks == {sentences[0]: False, NEW[sentences]: True, sentences[2]: False}
        answer = search(client, namespace, GONE[sentences], retrieve={"method": "full_text"}, context={})
        assert GONE[sentences] not in str([chunk["text"] for chunk in answer["chunks"]])
        assert GONE[sentences] not in answer["context"]["text"]

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("once", "new"),
        [
            ("The same line is said twice here.", "The second one differs now."),
            ("同样的话在这里说了两遍。", "第二遍已经不同了。"),
        ],
    )
    def it_changes_its_own_place_in_the_parent_where_the_same_words_stand_twice(self, client, namespace, once, new):
        text = f"{once}\n\n{ENGLISH[1]} {ENGLISH[2]}\n\n{once}"
        chunking = {"strategy": "parent_child", "max_tokens": 16, "parent_tokens": 128}
        upload(client, namespace, [document("d", text)], chunking=chunking)
        children = [chunk for chunk in chunks(client, namespace) if chunk["chunk_type"] == "child"]
        same = [chunk for chunk in children if chunk["text"] == once]
        assert len(same) == 2
        edited(client, same[1], new)
        (parent,) = chunks(client, namespace, chunk_type="parent")
        assert parent["text"] == f"{once}\n\n{ENGLISH[1]} {ENGLISH[2]}\n\n{new}"
        edited(client, same[0], "Opening.")
        answer = search(client, namespace, new, context={})
        assert f"Opening.\n\n{ENGLISH[1]}" in answer["context"]["text"]
        assert once not in answer["context"]["text"]

    def it_keeps_page_and_heading_and_says_the_edited_text_once(self, client, namespace):
        source = {"media_type": "text/markdown"}
        text = f"# Animals\n\n{ENGLISH[0]}\n\n# 动物\n\n{CHINESE[0]}"
        upload(client, namespace, [document("d", text, source=source)])
        before = chunks(client, namespace)
        assert len(before) >= 1
        edited(client, before[-1], before[-1]["text"].replace(CHINESE[0], NEW[CHINESE]))
        after = chunks(client, namespace)[-1]
        assert [after[name] for name in ("heading_path", "page", "start", "end", "ordinal")] == [
            before[-1][name] for name in ("heading_path", "page", "start", "end", "ordinal")
        ]
        answer = search(client, namespace, ASKED[CHINESE], context={"whole_document": True, "max_tokens": 2000})
        assert answer["context"]["text"].count(NEW[CHINESE]) == 1
        assert CHINESE[0] not in answer["context"]["text"]

    @pytest.mark.thorough
    def it_serves_an_edit_of_punctuation_alone(self, client, namespace):
        upload(client, namespace, [document("d", "狐狸在夜里捕猎。")])
        search(client, namespace, "狐狸")
        edited(client, chunks(client, namespace)[0], "狐狸在夜里捕猎！")
        assert search(client, namespace, "狐狸")["chunks"][0]["text"] == "狐狸在夜里捕猎！"

    @pytest.mark.thorough
    def it_names_overlapping_chunks_that_still_have_the_old_words(self, client, namespace):
        sentences = [f"第{number}号阀门每天检查{number}次，并且记录压力。" for number in range(1, 9)]
        upload(client, namespace, [document("d", "".join(sentences), chunking={"max_tokens": 48, "overlap": 0.5})])
        first, second = chunks(client, namespace)[:2]
        repeated = next(each for each in sentences if each in first["text"] and each in second["text"])
        result = edited(client, first, first["text"].replace(repeated, "阀门已拆除。"))
        assert result["repeated_in"] == [second["chunk_id"]]
        result = edited(client, second, second["text"].replace(repeated, "阀门已拆除。"))
        assert first["chunk_id"] not in result["repeated_in"]


class DescribeAnUploadOverEdits:
    def it_replaces_them_though_the_bytes_are_the_same(self, client, namespace):
        sent = [document(kind, " ".join(ENGLISH), chunking=CUT_SMALL) for kind in ("child", "parent")]
        upload(client, namespace, sent)
        for kind in ("child", "parent"):
            edited(client, chunks(client, namespace, document_id=kind, chunk_type=kind)[0], NEW[ENGLISH])
        assert upload(client, namespace, sent)["outcomes"] == {"replaced": 2}
        assert NEW[ENGLISH] not in [chunk["text"] for chunk in chunks(client, namespace)]
        assert upload(client, namespace, sent)["outcomes"] == {"unchanged": 2}

    def it_leaves_them_with_on_conflict_new(self, client, namespace):
        first = document("d", ENGLISH[0])
        upload(client, namespace, [first])
        edited(client, chunks(client, namespace)[0], NEW[ENGLISH])
        assert upload(client, namespace, [first], on_conflict="new")["outcomes"] == {"skipped": 1}
        assert [chunk["text"] for chunk in chunks(client, namespace)] == [NEW[ENGLISH]]
