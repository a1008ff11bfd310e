"""Every pattern takes linear time: hostile inputs made from each, at two lengths."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.chunking.sentences import _MAY_END, sentences
from pipeline.chunking.tokens import TokenMap
from pipeline.documents.clean_text import clean
from pipeline.examples.headings import _ASIDE, _kept, lines
from tests.support.corpora.growth import Found, patterns_of, slow_input

_PACKAGES = ("pipeline", "api_gateway", "workers", "chordwise")
_FOUND = patterns_of(_PACKAGES, without=("pipeline.database.migrations",))  # migrations run while one is made
_BOUNDED: dict[str, str] = {}  # where a pattern stands that may be slow: why nobody's text can be long there

# Patterns that this project had, each with an input of a few kilobytes that held a process for seconds.
_CJK = "\u3005-\u3007\u3041-\u30ff\u3400-\u9fff\uac00-\ud7af\uff00-\uffef\U00020000-\U000323af"
_OLD_MAY_END = re.compile(rf"""[。！？；｡…‼⁇⁈⁉]+[!?]*[」』”’）)】》〉\]"'»]*|[.!?]+["'”’»)\]]*(?=\s|\Z|[{_CJK}])|\n""")
_OLD_LINE_ENDS = re.compile(r"[^\S\n]*\n\s*")
_OLD_ASIDE = re.compile(r"[(\[【（<《].*?[)\]】）>》]|[*:：]")
_OLD_PREFERENCE = re.compile(
    r"""\s*+([!#$%&'*+.^_`|~0-9A-Za-z-]++)\s*+(?:=\s*+("(?:[^"\\]|\\.)*+"|[^\s,;"]*+))?\s*+(?:;[^,]*+)?(?:,|$)"""
)
_SEARCHED = frozenset({"sub"})


class DescribeEveryPattern:
    @pytest.mark.parametrize("hostile_runs", [False, pytest.param(True, marks=pytest.mark.thorough)])
    @pytest.mark.parametrize(
        "found", [each for each in _FOUND if each.where not in _BOUNDED], ids=lambda each: each.where
    )
    def it_takes_time_linear_in_its_input(self, found: Found, hostile_runs: bool):
        assert slow_input(found, hostile_runs=hostile_runs) is None

    def it_finds_them_all(self):
        places = {each.where for each in _FOUND}
        assert {
            "pipeline.chunking.sentences._MAY_END",
            "api_gateway.http.prefer._PREFERENCE",
            "pipeline.privacy.redaction._RULES",  # in the fields of objects
            "pipeline.keyword.inflections._SCRIPTS",  # in tuples
            "pipeline.models.service_pace: \\d{1,15}(\\.\\d{1,9})?",  # in a call
        } <= places

    def it_allows_only_what_is_there(self):
        assert set(_BOUNDED) <= {each.where for each in _FOUND}


class DescribeTheTest:
    @pytest.mark.parametrize(
        "pattern",
        [
            pytest.param(_OLD_MAY_END, id="_MAY_END"),
            pytest.param(_OLD_LINE_ENDS, id="_LINE_ENDS"),
            pytest.param(_OLD_ASIDE, id="_ASIDE"),
            pytest.param(_OLD_PREFERENCE, id="_PREFERENCE"),
            pytest.param(re.compile(r"<(?:meta)[^>]+charset\s*=\s*[\"']?\s*([\w]+)"), id="after a prefix"),
        ],
    )
    def it_shows_a_slow_one(self, pattern: re.Pattern[str]):
        assert slow_input(Found("old", pattern, _SEARCHED), hostile_runs=False) is not None


class DescribeTheRewrittenOnes:
    """Rewritten patterns find the same matches as the slow ones."""

    @given(text=st.text(alphabet=".!?\"')” \n。…a1句\u00a0", max_size=14))
    def it_ends_sentences_where_it_did(self, text: str):
        new = [mark.span() for mark in _MAY_END.finditer(text) if mark["inner"] is None]
        assert new == [mark.span() for mark in _OLD_MAY_END.finditer(text)]

    @given(text=st.text(alphabet=" \t\n\u00a0\u3000\r\x0bab", max_size=20))
    def it_tidies_lines_as_it_did(self, text: str):
        old = re.sub(r"[^\S\n]+", " ", _OLD_LINE_ENDS.sub("\n", clean(text).replace("\t", " "))).strip()
        assert lines(text) == old

    @given(name=st.text(alphabet="(（《<[)）》>]*:：ab\n", max_size=14))
    def it_leaves_asides_out_as_it_did(self, name: str):
        assert _ASIDE.sub(_kept, name) == _OLD_ASIDE.sub("", name)

    @pytest.mark.parametrize("sign", [".", "?", ".'", '."', "…", "!。"])
    def it_cuts_long_runs_of_marks(self, sign: str):
        text = sign * 30_000 + "x"
        found = list(sentences(text, TokenMap(text), start=0, end=len(text), max_tokens=400))
        assert "".join(text[each.start : each.end] for each in found) == text
