"""Reading the answers that a language model writes, and checking what they cite."""

from __future__ import annotations

import itertools
import json

import pytest

from pipeline.retrieval.write_answer import numbered_passages, read_reply, text_so_far

MARKERS = ["[1]", "[2]", "[3]"]
CHUNKS = [
    {"chunk_id": "a", "document_id": "d", "namespace": "kb", "title": "A", "text": "First."},
    {"chunk_id": "b", "document_id": "e", "namespace": "kb", "title": None, "text": "Second."},
]


def said(answer: str, **more: object) -> str:
    return json.dumps({"found": True, "answer": answer, **more}, ensure_ascii=False)


class DescribeTextSoFar:
    @pytest.mark.parametrize(
        ("reply", "text"),
        [
            ("", ""),
            ('{"found": true, "ans', ""),
            ('{"found": true, "answer": "Hold it [1', "Hold it [1"),
            ('{"answer": "a\\nb\\', "a\nb"),
            ('{"answer": "\\u4e2d\\u65', "中"),
            ('{"answer": "\\ud83d', ""),
            ('{"answer": "\\ud83d\\ude00 ok', "😀 ok"),
            ('```json\n{"answer": "So [1]."}\n```', "So [1]."),
            ("<think>hm {", ""),
            ('<think>"answer": "no"</think>{"answer": "yes', "yes"),
            ("So [1", "So [1"),
            ("[1", ""),
        ],
    )
    def it_is_the_beginning_of_the_answer(self, reply, text):
        assert text_so_far(reply) == text

    @pytest.mark.parametrize("answer", ['Hold “it” [1].\n\n按住【2】 \\ 😀 " end', "x" * 9000])
    def it_only_grows(self, answer):
        reply = json.dumps({"found": True, "answer": answer})
        texts = [text_so_far(reply[:at]) for at in range(0, len(reply) + 1, max(1, len(reply) // 200))]
        assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))
        assert text_so_far(reply) == answer[:8000]


class DescribeReplies:
    @pytest.mark.parametrize(
        ("text", "shown", "cited", "dropped"),
        [
            ("Hold it [1].", "Hold it [1].", ["[1]"], []),
            ("按住【2】，再等[1, 3]。", "按住[2]，再等[1][3]。", ["[2]", "[1]", "[3]"], []),
            ("Hold it [1], says the manual [9].", "Hold it [1], says the manual.", ["[1]"], ["[9]"]),
            ("Twice [1] and [1].", "Twice [1] and [1].", ["[1]"], []),
            ("In [2026] it was so [01].", "In [2026] it was so [1].", ["[1]"], []),
            ("Not one [0][7]", "Not one", [], ["[0]", "[7]"]),
        ],
    )
    def it_keeps_citations_of_passages_that_exist(self, text, shown, cited, dropped):
        reply = read_reply(said(text), MARKERS)
        assert reply is not None
        assert (reply.text, list(reply.cited), list(reply.dropped)) == (shown, cited, dropped)

    def it_reads_around_fences_thoughts_and_prose(self):
        for around in (f"```json\n{said('So [1].')}\n```", f"<think>hm [2]</think>{said('So [1].')}", "So [1]."):
            reply = read_reply(around, MARKERS)
            assert reply is not None
            assert (reply.found, reply.text, reply.cited) == (True, "So [1].", ("[1]",))

    def it_keeps_what_a_model_says_of_missing_answers(self):
        reply = read_reply(said("Nothing on this.", found=False), MARKERS)
        assert reply is not None
        assert (reply.found, reply.cited) == (False, ())

    @pytest.mark.parametrize(
        "reply", ["", "I am sorry.", "{}", "[]", '{"answer": 5}', '{"answer": " "}', '{"found": true}']
    )
    def it_takes_nothing_else_for_an_answer(self, reply):
        assert read_reply(reply, MARKERS) is None


class DescribePassages:
    def it_sends_the_context_where_it_shows_its_markers(self):
        citations = [{"marker": "[1]", "chunk_id": "b"}]
        context = {"text": "### [1] B\n\nSecond, and around it.", "citations": citations}
        text, named = numbered_passages({"chunks": CHUNKS, "context": context}, has_markers=True)
        assert (text, list(named)) == (context["text"], ["[1]"])

    def it_numbers_the_hits_where_it_does_not(self):
        for citations in ([], [{"marker": "[1]", **CHUNKS[1]}]):
            answer = {"chunks": CHUNKS, "context": {"text": "…", "citations": citations}}
            text, named = numbered_passages(answer, has_markers=False)
            assert list(named) == (["[1]"] if citations else ["[1]", "[2]"])
            assert "Second." in text
        assert numbered_passages({"chunks": [], "context": {"text": "", "citations": []}}, has_markers=True) == ("", {})
