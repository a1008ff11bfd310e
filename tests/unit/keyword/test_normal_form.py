"""Normal forms: those of Unicode, whatever the number of marks."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.keyword.normal_form import normal_form

_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
_LONG = "ordinary words, 普通的话, " * 12  # beyond the length up to which nothing is looked at


class DescribeNormalForms:
    @pytest.mark.parametrize("form", _FORMS)
    @given(text=st.text(alphabet="ae\u00e9\u0301\u0323\u3099が１ﬁ蓝각\u11a8𝅗\U0001d165", max_size=60))
    def it_is_that_of_unicode(self, form, text):
        assert normal_form(form, text) == unicodedata.normalize(form, text)
        assert normal_form(form, _LONG + text) == unicodedata.normalize(form, _LONG + text)

    @pytest.mark.parametrize("form", _FORMS)
    def it_keeps_every_mark_of_a_long_run(self, form):
        text = _LONG + "a" + "\u0301\u0323" * 1000 + "b"
        found = normal_form(form, text)
        assert unicodedata.normalize("NFD", found) == unicodedata.normalize("NFD", text)
