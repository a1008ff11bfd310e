"""Context and highlights of an answer: there when the request or the profile asks for them, absent otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from chordwise import Chordwise
from tests.conftest import gateway
from tests.support.corpora.documents import document, search, upload

TEA = "Green tea is brewed with water of eighty degrees."
COFFEE = "咖啡应当以九十度的水冲泡。"
ASKED = [("how is green tea brewed", TEA, ["Green", "tea", "brewed"]), ("咖啡用多少度的水", COFFEE, ["咖啡"])]
BOTH = pytest.mark.parametrize(("question", "text", "words"), ASKED, ids=["English", "Chinese"])


@pytest.fixture(scope="module")
def drinks(key: str) -> Iterator[httpx.Client]:
    """The gateway with the key of a tenant with a text in English, one in Chinese, and a profile that asks for a context."""
    with gateway(key) as client:
        upload(client, "drinks", [document("tea", TEA, title="Tea"), document("coffee", COFFEE, title="咖啡")])
        profile = {"config": {"context": {"format": "text", "header": "none"}, "highlight": True}}
        client.put("/v1/profiles/prompt", json=profile).raise_for_status()
        yield client


def ask(client: httpx.Client, question: str, **fields: Any) -> dict[str, Any]:
    """The answer with the best hit alone, fetched after it was composed by the workers."""
    body = {"query_text": question, "namespaces": ["drinks"], "top_k": 1, **fields}
    accepted = client.post("/v1/queries", json=body, headers={"Cache-Control": "no-cache"})
    assert accepted.status_code == 202, accepted.text
    return dict(client.get(accepted.headers["Location"], params={"wait": 10}).raise_for_status().json())


def marked(answer: dict[str, Any]) -> list[str]:
    [chunk] = answer["chunks"]
    return [chunk["text"][span["start"] : span["end"]] for span in chunk["highlights"]]


class DescribeAnAnswer:
    @BOTH
    @pytest.mark.parametrize("fields", [{}, {"context": None, "highlight": False}], ids=["unsaid", "declined"])
    def it_has_neither_unless_it_was_asked_for(self, drinks, question, text, words, fields):
        for answer in (ask(drinks, question, **fields), search(drinks, "drinks", question, top_k=1, **fields)):
            [chunk] = answer["chunks"]
            assert (chunk["text"], "highlights" in chunk, "context" in answer) == (text, False, False)
            assert "context" not in answer["stats"]["latency_ms"]

    @BOTH
    def it_has_the_default_context_for_an_empty_object(self, drinks, question, text, words):
        answer = ask(drinks, question, context={})
        assert answer["context"]["text"] == f"### [1] {answer['chunks'][0]['title']}\n\n{text}"
        assert [each["marker"] for each in answer["context"]["citations"]] == ["[1]"]
        assert "highlights" not in answer["chunks"][0]

    @BOTH
    def it_marks_the_words_of_the_query(self, drinks, question, text, words):
        answer = ask(drinks, question, highlight=True)
        assert marked(answer)[: len(words)] == words
        assert "context" not in answer

    @BOTH
    def it_has_what_its_profile_asks_for(self, drinks, question, text, words):
        answer = ask(drinks, question, profile="prompt")
        assert answer["context"]["text"] == text
        assert marked(answer)[: len(words)] == words
        assert ask(drinks, question, profile="prompt", context={})["context"] == answer["context"]
        titled = ask(drinks, question, profile="prompt", context={"header": "title"}, highlight=False)
        assert titled["context"]["text"].startswith("[1] ")
        assert "highlights" not in titled["chunks"][0]

    def it_is_read_by_the_python_client(self, key, drinks):
        with Chordwise(os.environ["CHORDWISE_URL"], key) as client:
            assert client.query(ASKED[0][0], namespace="drinks").context is None
            result = client.query(ASKED[0][0], namespace="drinks", top_k=1, context={}, highlight=True)
        assert result.context is not None
        assert result.context.text.endswith(TEA)
        assert result.chunks[0].raw["highlights"]
