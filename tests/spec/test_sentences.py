"""Where sentences end: a table to read. A bar stands for each end."""

import pytest

from pipeline.chunking.sentences import paragraphs, sentences
from pipeline.chunking.tokens import TokenMap


def split(text: str, *, max_tokens: int = 400) -> list[str]:
    tokens = TokenMap(text)
    return [
        text[sentence.start : sentence.end]
        for start, end in paragraphs(text, start=0, end=len(text))
        for sentence in sentences(text, tokens, start=start, end=end, max_tokens=max_tokens)
    ]


class DescribeSentences:
    @pytest.mark.parametrize(
        "marked",
        [
            "One here. | Two there! | Three? | Four",
            'He said "Stop." | Then he left.',
            "(It works.) | Next.",
            "Dr. Smith met Prof. J. R. Jones vs. Mr. X.",
            "It costs 3.14 dollars. | Not 2.50.",
            "The U.S. Army moved at 5 p.m. today.",
            "See Fig. 2 and Eqs. (3). | He said no. | Then nothing.",
            "Use e.g. this, i.e. that, etc. and so on.",
            "Visit http://example.com/a.b?c=1.2 now. | Done.",
            "Wait... what? | Yes... | Go on.",
            "It rose in 2019. | The end.",
            "Sun et al. found it. | Others did not.",
            "1. First thing | 2. Second thing",
            "- one | - two | * three",
            "今天很好。 | 明天呢？ | 走吧！ | 第一；| 第二",
            "他说：“你好。” | 然后走了。",
            "「早安。」 | 她说。",
            "他想了想…… | 没有说话。",
            "价格是3.14元。 | 版本v2.3发布了。",
            "他走了. | 然后回来. | 结束",
            "真的吗?! | 是的!",
            "见图Fig.2所示。",
        ],
    )
    def it_ends_them_here(self, marked):
        expected = [sentence.strip() for sentence in marked.split("|")]
        separator = "" if "。" in marked or "他" in marked or "真" in marked else " "
        lists = marked[0] in "1-"
        assert split(("\n" if lists else separator).join(expected)) == expected

    @pytest.mark.parametrize(
        ("text", "count"),
        [
            ("This line was wrapped by a program to fit into a width\nand goes on here until it ends.", 1),
            ("Heading\nText of the first line", 2),
            ("床前明月光\n疑是地上霜", 2),
            ("这一行文字是由程序按照固定的宽度折行而成的所以它比较长并且没有标点\n所以这里仍然是同一句话", 1),
            ("para one\n\npara two", 2),
            ("a | b\n1 | 2\n3 | 4", 3),
        ],
    )
    def it_takes_line_ends_for_sentence_ends_unless_wrapped(self, text, count):
        assert len(split(text)) == count

    @pytest.mark.parametrize(
        ("max_tokens", "marked"),
        [
            (6, "一二三四五， | 六七八九十， | 甲乙丙丁"),
            (8, "一 | 二 | 三 | 四 | 五 | 六 | 七 | 八 | 九 | 十"),
            (6, "one | two | three | four | five | six | seven"),
            (10, "one two | three four | five six | seven eight | nine ten | eleven"),
            (3, "one two, | three four"),
        ],
    )
    def it_cuts_one_that_is_too_long_at_clauses_words_or_characters(self, max_tokens, marked):
        text = marked.replace(" | ", " " if marked.isascii() else "")
        assert split(text, max_tokens=max_tokens) == marked.split(" | ")

    @pytest.mark.parametrize("character", ["e\u0301", "👍🏽", "👩\u200d🔬", "🇩🇪", "ก็"])
    def it_does_not_cut_within_a_character(self, character):
        assert all(piece.replace(character, "") == "" for piece in split(character * 200, max_tokens=20))
