"""Where a text answers a query, in every script."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.answer.highlights import spans
from pipeline.keyword.terms import analyze, query_terms

texts = st.text(alphabet=st.characters() | st.sampled_from("aé -_.@'1维生素 的么Ａ"), max_size=60)


def marked(text: str, query: str) -> str:
    parts, place = [], 0
    for span in spans(text, query_terms(query)):
        parts += [text[place : span.start], "[", text[span.start : span.end], "]"]
        place = span.end
    return "".join([*parts, text[place:]])


class DescribeSpans:
    @pytest.mark.parametrize(
        ("query", "shown"),
        [
            ("running foxes", "The [fox] [runs]. A [Fox]!"),
            ("the fox", "The [fox]"),
            ("PPR-9087", "Order [PPR-9087], not [PPR]-9088."),
            ("ppr9087", "Order [PPR-9087] now."),
            ("well", "A [well]-known [well]"),
            ("9087", "Order PPR-[9087] now."),
            ("node.js", "On [node.js] and a [node]."),
            ("高血压", "[高血压]患者的[血压]值"),
            ("猫", "我的[猫]"),
            ("维生素B12", "缺乏[维生素][B12]的人"),
            ("ppr", "全角[ＰＰＲ]也算"),
            ("cafe", "Un [café]"),
            ("Navier-Stokes", "[Navier–Stokes] equations"),
            ("whale", "No such animal."),
        ],
    )
    def it_marks_the_words(self, query, shown):
        assert marked(shown.replace("[", "").replace("]", ""), query) == shown

    @settings(max_examples=30)
    @given(texts, texts)
    def it_gives_ordered_spans_inside_the_text(self, text, query):
        found = spans(text, analyze(query))
        places = [place for span in found for place in (span.start, span.end)]
        assert places == sorted(places)
        assert all(0 <= span.start < span.end <= len(text) for span in found)

    def it_is_bounded(self):
        assert len(spans("fox " * 5_000, ["fox"])) == 100
        assert spans("x" * 20_000 + " fox", ["fox"]) == ()


@pytest.mark.parametrize(
    ("query", "marked"),
    [
        ("12lpy03", ["12LP'-y03"]),
        ("12lp-y03", ["12LP'-y03"]),
        ("12LP'-y03/5-XL", ["12LP'-y03/5-XL"]),
        ("5xl", ["5-XL"]),
        ("台风", ["颱風"]),
        ("école", ["E\u0301COLE"]),
        ("wifi", ["Wi-Fi"]),
    ],
)
def it_marks_what_is_written_in_another_way(query, marked):
    text = "零件12LP'-y03/5-XL，颱風。 E\u0301COLE Wi-Fi"
    assert [text[span.start : span.end] for span in spans(text, query_terms(query))] == marked


@pytest.mark.parametrize(
    ("terms", "marked"),
    [
        (["13644021897"], ["+86 136 4402 1897", "136-4402-1897"]),
        (["date:2024-03-05"], ["2024年3月5日", "5 March 2024"]),
        (["time:14:30"], ["14:30"]),
    ],
)
def it_marks_numbers_and_dates_as_they_are_written(terms, marked):
    text = "请拨打+86 136 4402 1897或 136-4402-1897；2024年3月5日 means 5 March 2024, at 14:30."
    assert [text[span.start : span.end] for span in spans(text, terms)] == marked
