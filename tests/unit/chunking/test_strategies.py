"""Chunking strategies: tables of what each makes of a text, and the laws that hold for any text."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.chunking.strategies.registry import (
    STRATEGIES,
    complete,
    cut,
    embedding_text_of,
    flaws_in_options,
    register,
    searched_text,
    window_of,
)
from pipeline.chunking.strategies.strategy import Cut, Strategy
from pipeline.chunking.tokens import count_tokens
from pipeline.documents.cut_document import assembled, cut_document, in_order, rebuild_edited
from pipeline.errors import DocumentTooLarge, MalformedDocument, PipelineError
from pipeline.keyword.terms import Tokenizer
from pipeline.parsing.formats import parse
from pipeline.records import Chunking, DocumentId, Generation, Namespace, Parsed, Scope, TenantId, parent_ordinal

USUAL = {"max_tokens": 400, "overlap": 0.2}
GENERATION = Generation(
    scope=Scope(tenant_id=TenantId("t"), namespace=Namespace("n")), document_id=DocumentId("d"), number=1
)


def cut_text(text: str, strategy: str, media_type: str = "text/markdown", **options) -> tuple[Parsed, Cut]:
    parsed = parse(text.encode(), media_type=media_type)
    return parsed, cut(parsed, complete(strategy, options, USUAL))


def searched(text: str, strategy: str, media_type: str = "text/markdown", **options) -> list[str]:
    return [searched_text(each, strategy) for each in cut_text(text, strategy, media_type, **options)[1].passages]


class DescribeQa:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Q: What is it?\nA: A pump.", ["What is it? A pump."]),
            ("问：什么是泵？\n答：一种机器。", ["什么是泵？ 一种机器。"]),
            ("问题：什么？\n\n答案：泵。", ["什么？ 泵。"]),
            ("Question: One?\nAnswer: Yes.\n\nQuestion: Two?\nAnswer: No.", ["One? Yes.", "Two? No."]),
            ("Q1: One?\nA1: Yes.\nQ2: Two?\nA2: No.", ["One? Yes.", "Two? No."]),
            ("1. Q: One?\n   A: Yes.", ["One? Yes."]),
            ("Q: Long?\nA: First.\n\nSecond.", ["Long? First.\n\nSecond."]),
            ("About pumps.\n\nQ: One?\nA: Yes.", ["About pumps.", "One? Yes."]),
            ("# Pumps\n\nQ: One?\nA: Yes.\n\n# Valves\n\nQ: Two?\nA: No.", ["One? Yes.", "Two? No."]),
            ("Q: nobody answers\n\nQ: One?\nA: Yes.", ["Q: nobody answers", "One? Yes."]),
            ("A: an answer to nothing", ["A: an answer to nothing"]),
        ],
    )
    def it_looks_pairs_up_by_question_and_answer(self, text, expected):
        assert searched(text, "qa") == expected

    @pytest.mark.parametrize(
        ("media_type", "text"),
        [
            ("text/csv", "question,answer,tags\nWhat?,A pump.,x\nWhy?,To pump.,y\n"),
            ("text/csv", "tags,answer,question\nx,A pump.,What?\ny,To pump.,Why?\n"),
            ("text/csv", "user_input,agent_response\nWhat?,A pump.\nWhy?,To pump.\n"),
            (
                "application/json",
                json.dumps(
                    [{"id": 1, "question": "What?", "answer": "A pump."}, {"question": "Why?", "answer": "To pump."}]
                ),
            ),
        ],
    )
    def it_reads_rows(self, media_type, text):
        assert searched(text, "qa", media_type) == ["What? A pump.", "Why? To pump."]

    def it_keeps_the_other_columns_in_the_text(self):
        _, found = cut_text("question,answer,tags\nWhat?,A pump.,x\n", "qa", "text/csv")
        assert [each.text for each in found.passages] == ["question: What?\nanswer: A pump.\ntags: x"]

    def it_makes_a_pair_that_is_too_long_the_parent_of_its_parts(self):
        _, found = cut_text("Q: Why?\nA: " + "Some words of it. " * 30 + "\n\nQ: Two?\nA: No.", "qa", max_tokens=32)
        [parent] = found.parents
        parts = [each for each in found.passages if each.parent == 0]
        assert parent.text.startswith("Q: Why?")
        assert len(parts) > 2
        assert [each.index for each in parts] == list(range(len(parts)))
        assert all(each.heading_path == ("Why?",) for each in parts[1:])
        assert [(each.index, each.text) for each in found.passages if each.parent is None] == [(1, "Q: Two?\nA: No.")]


NOVEL = """# 第一章 火车

story_time: 100
人物：张三、李四

火车开了。

## 站台

他们下车。

# 第二章 雨

雨停了。
"""
SEGMENTS = json.dumps(
    {
        "title": "Story",
        "segments": [
            {
                "id": "s1",
                "chapter_id": "c1",
                "story_time": 5,
                "entity_names": ["Ann", "Bo"],
                "summary": "Sum.",
                "content": "One.\n\nMore.",
            },
            {"id": "s2", "story_time": -7, "content": "Two."},
        ],
    }
)


class DescribeSegments:
    def it_reads_fields_below_headings_and_hands_chapter_and_time_down(self):
        _, found = cut_text(NOVEL, "segments")
        said = [
            (each.text, each.segment.chapter_id, each.segment.story_time, each.segment.entity_names)
            for each in found.passages
        ]
        assert said == [
            ("火车开了。", "第一章 火车", 100, ("张三", "李四")),
            ("站台\n\n他们下车。", "第一章 火车", 100, ()),
            ("第二章 雨\n\n雨停了。", "第二章 雨", None, ()),
        ]

    def it_reads_json(self):
        _, found = cut_text(SEGMENTS, "segments", "application/json")
        one, two = (each for each in found.passages if each.text != "title: Story")
        assert (one.text, one.segment.chapter_id, one.segment.story_time) == ("One.\n\nMore.", "c1", 5)
        assert (one.segment.entity_names, one.segment.summary, one.segment.attributes) == (
            ("Ann", "Bo"),
            "Sum.",
            {"id": "s1"},
        )
        assert (two.text, two.segment.chapter_id, two.segment.story_time) == ("Two.", "c1", -7)
        assert searched_text(one, "segments") == "One.\n\nMore.\nSum.\nAnn Bo"

    def it_reads_the_fields_of_a_segment_in_any_order(self):
        fields = {"content": "李明拔剑。", "chapter_id": "7", "story_time": 30}
        for order in itertools.permutations(fields):
            written = json.dumps([{name: fields[name] for name in order}] * 2, ensure_ascii=False)
            _, found = cut_text(written, "segments", "application/json")
            seen = [(one.text, one.segment.chapter_id, one.segment.story_time) for one in found.passages]
            assert seen == [("李明拔剑。", "7", 30)] * 2, order

    def it_reads_rows(self):
        _, found = cut_text("chapter,story_time,content\n1,10,One.\n2,20,Two.\n", "segments", "text/csv")
        assert [(each.text, each.segment.chapter_id, each.segment.story_time) for each in found.passages] == [
            ("One.", "1", 10),
            ("Two.", "2", 20),
        ]

    def it_leaves_dialogue_alone(self):
        text = "# 一\n\n张三：你好。\n\n李四：你好。"
        assert searched(text, "segments") == ["一\n\n张三：你好。\n\n李四：你好。"]

    @pytest.mark.parametrize("said", ["spring", "1.5", "99999999999999999999", str(2**63)])
    def it_refuses_a_story_time_that_could_not_be_compared(self, said):
        with pytest.raises(MalformedDocument):
            cut_text(f"# A\n\nstory_time: {said}\n\nText.", "segments")


class DescribeWindow:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("One here. Two here! Three?", ["One here.", "Two here!", "Three?"]),
            ("第一句。第二句！第三句？", ["第一句。", "第二句！", "第三句？"]),
            ("# Setup\n\nRun it. Stop it.", ["Setup\n\nRun it.", "Stop it."]),
        ],
    )
    def it_makes_a_chunk_of_each_sentence(self, text, expected):
        assert searched(text, "window") == expected

    @pytest.mark.parametrize(
        ("chunking", "size"),
        [
            (complete("window", {}, USUAL), 3),
            (complete("window", {"window": 1}, USUAL), 1),
            (complete("sentences", {}, USUAL), 0),
        ],
    )
    def it_says_how_much_is_read_around(self, chunking, size):
        assert window_of(chunking) == size


class DescribeParentChild:
    def it_indexes_children_and_keeps_what_they_are_part_of(self):
        text = "# A\n\n" + "Word word word word. " * 60 + "\n\n# B\n\n" + "Word word word word. " * 60
        parsed, found = cut_text(text, "parent_child", max_tokens=32, parent_tokens=128)
        assert {each.chunk_type for each in found.passages} == {"child"}
        assert {each.parent for each in found.passages} == set(range(len(found.parents)))
        for child in found.passages:
            parent = found.parents[child.parent]
            assert parent.start <= child.start < child.end <= parent.end
            assert parsed.text[child.start : child.end] == child.text
            assert child.text in parent.text

    def it_gives_parents_ids_in_the_order_of_the_text(self):
        ids = [GENERATION.parent_id(ordinal) for ordinal in range(300)]
        assert ids == sorted(set(ids))
        assert [parent_ordinal(each) for each in ids] == list(range(300))
        other = Generation(scope=GENERATION.scope, document_id=GENERATION.document_id, number=2)
        assert not {other.parent_id(ordinal) for ordinal in range(300)} & set(ids)


class DescribeOptions:
    @pytest.mark.parametrize(
        ("strategy", "options", "wrong"),
        [
            ("sentences", {}, []),
            ("sentences", {"max_tokens": 100, "overlap": 0}, []),
            ("sentences", {"window": 3}, ["window"]),
            ("window", {"window": 21}, ["window"]),
            ("window", {"window": 1.5, "overlap": 0.1}, ["window", "overlap"]),
            ("parent_child", {"max_tokens": True}, ["max_tokens"]),
            ("parent_child", {"max_tokens": 500, "parent_tokens": 400}, ["parent_tokens"]),
            ("parent_child", {"parent_tokens": 100}, ["parent_tokens"]),
            ("qa", {"overlap": "0.1"}, ["overlap"]),
            ("segments", {"max_tokens": 15}, ["max_tokens"]),
        ],
    )
    def it_names_what_is_wrong(self, strategy, options, wrong):
        assert [name for name, _ in flaws_in_options(strategy, options, USUAL)] == wrong

    def it_fills_in_what_was_left_out(self):
        assert complete("parent_child", {"max_tokens": 100}, USUAL) == Chunking(
            strategy="parent_child", max_tokens=100, overlap=0.0, options={"parent_tokens": 1024}
        )
        assert complete("sentences", {}, USUAL) == Chunking(strategy="sentences", max_tokens=400, overlap=0.2)


class DescribeTheRegistry:
    def it_takes_one_more(self):
        def whole(parsed, chunking, allowance):
            found = cut(parsed, Chunking(max_tokens=chunking.max_tokens))
            return Cut(passages=list(allowance.taken_by(found.passages)))

        mine = Strategy(name="mine", meaning="As sentences.", cut=whole, options=STRATEGIES["sentences"].options)
        register(mine)
        try:
            assert cut_text("Text.", "mine")[1].passages[0].text == "Text."
            with pytest.raises(ValueError, match="already"):
                register(mine)
        finally:
            del STRATEGIES["mine"]
        with pytest.raises(ValueError, match="there is no chunking strategy mine"):
            cut(Parsed(text="", sections=()), Chunking(strategy="mine"))

    @pytest.mark.parametrize("strategy", list(STRATEGIES))
    def it_stops_at_the_first_chunk_too_many(self, strategy):
        parsed = parse(
            "".join(f"# h{place}\n\nA sentence of words. 一句话。\n\n" * 8 for place in range(8)).encode(),
            media_type="text/markdown",
        )
        chunking = complete(strategy, {"max_tokens": 16}, USUAL)
        count = len(cut(parsed, chunking).passages)
        assert len(cut(parsed, chunking, most=count).passages) == count
        with pytest.raises(DocumentTooLarge, match="split it, or ask for larger chunks"):
            cut(parsed, chunking, most=count - 1)

    def it_leaves_chunks_of_a_strategy_that_is_gone_their_own_text(self):
        _, found = cut_text("Q: One?\nA: Two.", "qa")
        assert searched_text(found.passages[0], "gone") == "Q: One?\nA: Two."


documents = st.lists(
    st.sampled_from(
        [
            "# One\n\n", "## Two\n\n", "### 第三章\n\n", "Short. ", "A sentence of some words, with a clause. ",
            "维生素缺乏会引起疾病。", "没有标点的很长一段文字" * 6, "word " * 40, "\n\n", "\n", "- item\n",
            "Q: What is it?\n", "A: A thing.\n", "问：什么？\n", "答：东西。\n", "question: why?\nanswer: so\ntags: x\n\n",
            "story_time: 12\n", "chapter: c1\n", "summary: in short\n", "entities: A, B\n", "content: Once.\n",
            "id: 7\n", "张三：你好。\n", "👩\u200d🔬", "e\u0301" * 20,
        ]
    ),
    min_size=1,
    max_size=25,
).map("".join)  # fmt: skip
chunkings = st.sampled_from(list(STRATEGIES)).flatmap(
    lambda name: st.builds(
        lambda tokens: Chunking(strategy=name, max_tokens=tokens, options={"parent_tokens": max(tokens, 90)}),
        st.sampled_from([1, 5, 16, 50, 400]),
    )
)


class DescribeEveryStrategy:
    @settings(max_examples=30)
    @given(documents.map("Begin. ".__add__), chunkings)
    def it_keeps_its_promises_for_any_text(self, text, chunking):
        document = parse(text.encode(), media_type="text/markdown")
        found = cut(document, chunking)
        covered = bytearray(len(document.text))
        for passage in found.passages:
            assert passage.text == document.text[passage.start : passage.end] == passage.text.strip() != ""
            assert passage.token_count == count_tokens(passage.text) <= chunking.max_tokens
            covered[passage.start : passage.end] = b"\1" * (passage.end - passage.start)
            if passage.parent is not None:
                parent = found.parents[passage.parent]
                assert parent.start <= passage.start < passage.end <= parent.end
            assert searched_text(passage, chunking.strategy).strip()
        for parent in found.parents:
            assert parent.text == document.text[parent.start : parent.end]
        assert cut(document, chunking) == found
        # Nothing is lost: what stands in no passage is a heading above one, or a field of a segment.
        kept = {heading for passage in found.passages for heading in passage.heading_path}
        kept |= {heading for section in document.sections for heading in section.heading_path}
        lost = [
            line
            for line in _uncovered(document.text, covered)
            if line not in kept and not (chunking.strategy == "segments" and ":" in line)
        ]
        assert lost == []

    @settings(max_examples=30)
    @given(documents.map("Begin. ".__add__), chunkings)
    def it_names_parents_and_places_alike(self, text, chunking):
        document = parse(text.encode(), media_type="text/markdown")
        options = {"title": None, "chunking": chunking, "tokenizer": Tokenizer(GENERATION.scope), "most": 100_000}
        found = assembled(cut_document(document, **options), GENERATION)
        keys = [(chunk.parent_id or "", chunk.passage.index) for chunk in found.chunks]
        assert keys == sorted(set(keys))
        assert {chunk.parent_id for chunk in found.chunks if chunk.parent_id} == {
            each.chunk_id for each in found.parents
        }
        assert [chunk.passage for chunk in found.chunks] == in_order([chunk.passage for chunk in found.chunks])

    @settings(max_examples=30)
    @given(documents.map("Begin. ".__add__), chunkings)
    def it_indexes_an_edited_chunk_as_ingestion_would(self, text, chunking):
        document = parse(text.encode(), media_type="text/markdown")
        tokenizer = Tokenizer(GENERATION.scope)
        found = assembled(
            cut_document(document, title="T", chunking=chunking, tokenizer=tokenizer, most=100_000), GENERATION
        )
        for chunk in found.chunks:
            again = rebuild_edited(
                generation=GENERATION,
                ordinal=chunk.ordinal,
                passage=chunk.passage,
                text=chunk.passage.text,
                title="T",
                strategy=chunking.strategy,
            )
            assert again == chunk
            assert chunk.embedding_text == embedding_text_of(chunk.passage, "T", chunking.strategy)

    @pytest.mark.parametrize("strategy", list(STRATEGIES))
    @pytest.mark.parametrize("media_type", ["text/markdown", "text/html", "text/csv", "application/json"])
    def it_takes_whatever_a_parser_gives(self, strategy, media_type):
        for text in ("plain", "a,b\n1,2\n", '{"a": [{"b": "c"}]}', "<h1>x</h1><p>y"):
            try:
                parsed = parse(text.encode(), media_type=media_type)
            except PipelineError:
                continue
            assert cut(parsed, complete(strategy, {}, USUAL)).passages


def _uncovered(text: str, covered: bytearray) -> list[str]:
    left = "".join(
        character if not inside or character == "\n" else "\n" for inside, character in zip(covered, text, strict=True)
    )
    return [line.strip() for line in left.split("\n") if line.strip()]
