"""The analysis of the keyword index."""

import string
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.keyword.spellings import near_spellings
from pipeline.keyword.terms import (
    STOP_WORDS,
    Tokenizer,
    analyze,
    content_terms,
    counted_query_terms,
    query_terms,
    tokenizer_of,
)
from pipeline.records import Namespace, Scope, TenantId

texts = st.text(alphabet=st.characters() | st.sampled_from("aé -_.@'1维生素 的么"), max_size=60)


def scope(tenant: str = "acme", namespace: str = "kb") -> Scope:
    return Scope(tenant_id=TenantId(tenant), namespace=Namespace(namespace))


class DescribeAnalyze:
    @pytest.mark.parametrize(
        ("text", "terms"),
        [
            ("Running runners ran", "run runner ran"),
            ("the dog's dogs' don't", "the dog dog dont"),
            ("Café naïve Straße", "cafe naiv strass"),
            ("ＰＰＲ　５００", "ppr 500 ppr500"),
            ("PPR-9087", "ppr9087 ppr 9087"),
            ("PPR9087", "ppr9087"),
            ("node.js", "nodej node js"),
            ("E1234", "e1234"),
            ("foo_bar", "foobar foo bar"),
            ("v2.3.1", "v2.3.1 2.3.1"),
            ("C++ and C#.", "c++ c and c# c"),
            ("user@example.com", "user@example.com user exampl com"),
            ("5-HT2A", "5ht2a 5 ht2a"),
            ("1,234.56 and 3.14", "1234.56 and 3.14"),
            ("2024-05-01", "2024-05-01 2024 05 01 20240501 date:2024-05-01 date:05-01 date:2024-05"),
            ("500mg 2.5mg", "500mg 500 mg 2.5mg 2.5 mg"),
            ("U.S. e.g.", "us eg"),
            ("well-known e-mail", "well known wellknown email e mail"),
            ("5–10 Navier–Stokes", "5-10 5 10 navier stoke navierstok"),
            ("Widget™ soft\u00adware", "widget softwar"),
            ("维生素", "维生 生素 生 素 维"),
            ("维生素B12缺乏", "维生 生素 b12 缺乏 乏 生 素 维 缺"),
            ("猫", "猫"),
            ("我的猫", "我的 的猫 猫"),
            ("ガーデン", "ガー ーデ デン"),
            ("비타민", "비타 타민"),
            ("Привет", "привет"),
            ("12LP'-y03/5-XL", "12lp 12 lp y03 5xl 5 xl 12lpy03 y035 12lpy035 y035xl 12lpy035xl"),
            ("1/2lb and/or x/y", "1 2lb 2 lb and or x y"),
            ("國際 e\u0301cole\u3000ÉCOLE", "国际 ecol ecol 国 际"),
            ("أَحْمَد ومدرسة", "احمد ومدرسه"),
            ("Ёлка ёлка", "елка елка"),
            ("ﾊﾟｿｺﾝ", "パソ ソコ コン"),
            ("?! -- …", ""),
        ],
    )
    def it_gives_words_identifiers_and_bigrams(self, text, terms):
        assert analyze(text) == terms.split()

    @given(texts | st.text(alphabet="the of an fox's. Ünd’s -\u200b\u00a0", max_size=60))
    def it_leaves_out_stop_words_and_nothing_else_where_content_is_asked_for(self, text):
        assert content_terms(text) == [term for term in analyze(text) if term not in STOP_WORDS]

    def it_keeps_repetitions(self):
        assert analyze("flow over flow") == ["flow", "over", "flow"]

    @given(texts)
    def it_gives_terms_that_hold_no_space_and_are_bounded(self, text):
        assert all(term and len(term) <= 128 and not any(map(str.isspace, term)) for term in analyze(text))

    @given(texts, texts)
    def it_analyses_lines_independently(self, first, second):
        def of_words(text):  # single Han characters are given once for the whole text
            return [term for term in analyze(text) if len(term) > 1]

        assert sorted(of_words(f"{first}\n{second}")) == sorted(of_words(first) + of_words(second))

    @pytest.mark.parametrize("text", ["a" * 100_000, "a-" * 50_000, "维" * 100_000, "a'" * 50_000, "1," * 50_000])
    def it_takes_text_without_spaces(self, text):
        assert all(len(term) <= 128 for term in analyze(text))

    def it_gives_every_thread_the_same(self):
        words = [f"{stem}{ending}" for stem in string.ascii_lowercase for ending in ("nationally", "izing", "fulness")]
        expected, found = analyze(" ".join(words)), []
        threads = [threading.Thread(target=lambda: found.append(analyze(" ".join(words)))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [expected] * 4


class DescribeQueryTerms:
    @pytest.mark.parametrize(
        ("text", "terms"),
        [
            ("What is the flow of the flow?", "flow"),
            ("what is this", "what is this"),
            ("糖尿病是什么？", "糖尿 尿病"),
            ("什么是", "什么 么是"),
            ("糖尿病是什麼？", "糖尿 尿病"),
            ("颱風為何轉向", "台风 风为 何转 转向"),
            ("猫", "猫"),
            ("目的地", "目的"),
            ("PPR-9087 ppr9087", "ppr9087 ppr 9087"),
            ("US policy", "us polici"),
            ("", ""),
        ],
    )
    def it_drops_repetitions_and_question_words(self, text, terms):
        assert query_terms(text) == terms.split()

    @given(texts)
    def it_looks_only_for_what_the_same_text_would_be_found_by(self, text):
        assert set(query_terms(text)) <= set(analyze(text))

    @pytest.mark.parametrize("character", "猫癌税病")
    def it_finds_a_single_han_character_within_a_word(self, character):
        assert set(query_terms(character)) <= set(analyze(f"关于{character}症的报告"))

    @pytest.mark.parametrize(
        ("spelling", "written"),
        [
            *((spelling, "PPR-9087") for spelling in ("PPR-9087", "ppr 9087", "PPR_9087", "ＰＰＲ－９０８７")),
            *((some, "12LP'-y03/5-XL") for some in ("12lpy03", "12lp-y03", "12LP’-Y03", "y03/5-XL", "12lpy035xl")),
            *((some, "零件12LP'-y03/5-XL") for some in ("12lpy03", "12LP'-y03/5-XL")),
        ],
    )
    def it_finds_an_identifier_however_it_is_joined(self, spelling, written):
        assert set(query_terms(spelling)) <= set(analyze(f"see {written} for details"))

    @pytest.mark.parametrize(("one", "other"), [("颱風轉向東方", "台风转向东方"), ("乾燥劑", "干燥剂")])
    def it_finds_traditional_characters_by_simplified_ones_and_back(self, one, other):
        assert query_terms(one) == query_terms(other)
        assert analyze(one) == analyze(other)

    def it_counts_what_is_said_again(self):
        assert counted_query_terms("The fox, a fox! Foxes: PPR-1 ppr1") == {"fox": 3, "ppr1": 2, "ppr": 1, "1": 1}
        assert counted_query_terms("糖尿病是糖尿病") == {"糖尿": 2, "尿病": 2}


class DescribeNearSpellings:
    @pytest.mark.parametrize("typed", ["12lpyo3", "12lpy3", "12lpy003", "21lpy03", "x2lpy03"])
    def it_is_one_error_away_in_both_directions(self, typed):
        assert "12lpy03" in near_spellings(typed)
        assert typed in near_spellings("12lpy03")

    def it_takes_the_first_letter_of_a_word_for_granted(self):
        assert {"inductiv", "inducing"} & set(near_spellings("inductv")) == {"inductiv"}
        assert "shoes" not in near_spellings("hoses")

    @pytest.mark.parametrize("term", ["9087", "90871234", "b12", "a1" * 11, "维生", "node.js", "été12"])
    def it_is_for_words_and_identifiers_alone(self, term):
        assert near_spellings(term) == []

    @pytest.mark.parametrize(
        ("term", "other"),
        [("走る", "走"), ("い犬", "犬"), ("اسعار", "سعر"), ("سعر", "اسعار"), ("مدارس", "مدرسه"), ("التذاكر", "تذكره")],
    )
    def it_has_other_forms_of_words_that_no_letter_of_latin_is_in(self, term, other):
        assert other in near_spellings(term)


class DescribeTokenizer:
    @settings(max_examples=30)
    @given(texts)
    def it_gives_thirteen_plain_characters(self, term):
        written = Tokenizer(scope()).token(term)
        assert len(written) == 13
        assert set(written) <= set("abcdefghijklmnopqrstuvwxyz234567")

    def it_is_the_same_in_every_process(self):
        assert tokenizer_of(scope()).token("flow") == "jaxwsvsspxcjn"
        assert Tokenizer(scope()).tokens(["flow", "over", "flow"]) == [
            tokenizer_of(scope()).token(t) for t in ("flow", "over", "flow")
        ]

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (scope("a", "kb"), scope("b", "kb")),
            (scope("a", "kb"), scope("a", "kc")),
            (scope("ab", "c"), scope("a", "bc")),
            (scope("a\x00", "b"), scope("a", "\x00b")),
            (scope("", "a"), scope("a", "")),
        ],
    )
    def it_never_lets_a_term_match_in_another_scope(self, one, other):
        terms = analyze("every term of one tenant and namespace 维生素缺乏")
        assert set(Tokenizer(one).tokens(terms)).isdisjoint(Tokenizer(other).tokens(terms))

    def it_gives_different_terms_different_tokens(self):
        terms = [f"term{number}" for number in range(20_000)]
        assert len(set(Tokenizer(scope()).tokens(terms))) == len(terms)
