"""From an answer to a prompt: the client's pure helpers, and that nothing missing breaks them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordwise.api.queries import QueryResult
from chordwise.prompting import (
    NO_EXAMPLES,
    format_examples,
    format_for_prompt,
    format_markdown,
    retrieved_examples,
)
from chordwise.records import decode

ANSWER = {
    "query_id": "q",
    "status": "succeeded",
    "chunks": [
        {
            "chunk_id": "1", "document_id": "qa-1", "namespace": "medical", "text": "血压高怎么办？ 先休息。",
            "metadata": {"user_input": "血压高怎么办？", "agent_response": "先休息。", "type": "qa", "page": 2},
            "sources": [{"channel": "semantic", "score": 0.83}, {"channel": "keyword", "score": 7.2}],
            "confidence": 0.9, "score": 1.0,
        },
        {"chunk_id": "2", "document_id": "d", "namespace": "kb", "title": "Guide", "text": " Plain. ", "confidence": 1.2},
        {"chunk_id": "3", "document_id": "e", "text": "   "},
    ],
    "context": {
        "citations": [{"marker": "[1]", "chunk_id": "1", "document_id": "d", "page": 2, "new": 1}],
        "entities": [{"id": "x"}],
    },
}  # fmt: skip

json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["chunks", "metadata", "text", "sources", "page", "score"]), inner, max_size=3
        )
    ),
)


class DescribeRetrievedExamples:
    def it_gives_what_a_prompt_needs(self):
        first, second = retrieved_examples(decode(QueryResult, ANSWER))
        assert first == {
            "content": "用户：血压高怎么办？\n助手：先休息。",
            "similarity": 0.83,
            "source": "qa_examples",
            "metadata": ANSWER["chunks"][0]["metadata"],
        }
        assert (second["content"], second["similarity"], second["source"]) == ("Plain.", 1.0, "kb")

    @pytest.mark.parametrize("nothing", [None, {}, {"chunks": None}, {"chunks": []}, {"chunks": [None, {}]}])
    def it_takes_nothing_for_an_answer(self, nothing):
        assert retrieved_examples(nothing) == []
        assert format_markdown({} if nothing is None else {"chunks": []}) == ""

    @settings(max_examples=30)
    @given(json_values)
    def it_takes_anything(self, found):
        for example in retrieved_examples({"chunks": found}):
            assert set(example) == {"content", "similarity", "source", "metadata"}
            assert 0.0 <= example["similarity"] <= 1.0
        assert isinstance(format_markdown({"chunks": found}), str)


class DescribeFormatForPrompt:
    def it_numbers_the_examples(self):
        told = format_for_prompt({"query_text": "x", "retrieved_examples": retrieved_examples(ANSWER)})
        assert told == {"retrieved_examples": "示例1：\n用户：血压高怎么办？\n助手：先休息。\n\n示例2：\nPlain."}
        assert "{retrieved_examples}".format(**told).startswith("示例1")

    @pytest.mark.parametrize("empty", [None, {}, {"retrieved_examples": []}, {"retrieved_examples": None}])
    def it_says_that_there_are_none(self, empty):
        assert format_for_prompt(empty) == {"retrieved_examples": NO_EXAMPLES}
        assert format_for_prompt(empty, empty="") == {"retrieved_examples": ""}

    def it_takes_examples_with_parts_missing(self):
        assert format_examples([{}, {"content": None}, {"content": "a"}, "x"]) == "示例1：\na"


class DescribeMarkdown:
    def it_shows_where_a_hit_is_from(self):
        assert format_markdown(ANSWER).splitlines()[:5] == [
            "### 1. qa-1", "", "血压高怎么办？ 先休息。", "", "> `medical/qa-1` · page 2",
        ]  # fmt: skip


class DescribeNewFields:
    def it_reads_citations_and_entities_of_newer_servers(self):
        context = decode(QueryResult, ANSWER).context
        assert context is not None
        assert (context.citations[0].page, context.citations[0].start) == (2, None)
        assert (context.entities[0].id, context.entities[0].state) == ("x", {})
