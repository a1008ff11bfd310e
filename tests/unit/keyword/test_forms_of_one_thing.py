"""The further terms by which a passage is found in whatever way a query writes percentages, dates, times and names."""

from __future__ import annotations

import pytest

from pipeline.keyword.terms import analyze


@pytest.mark.parametrize(
    ("texts", "term"),
    [
        (["37 %", "37 percent", "37 Prozent", "百分之三十七"], "percent:37"),
        (["12,5 %", "12.5 per cent", "百分之十二点五"], "percent:12.5"),
        (["7 марта 2023", "7 marzo 2023", "7 de março de 2023", "2023년 3월 7일", "7-Mar-2023"], "date:2023-03-07"),
        (["2023-03", "03/2023", "March 2023"], "date:2023-03"),
        (["5–8 March 2024", "March 5 to 8, 2024", "2024年3月5日至8日", "5. bis 8. März 2024"], "date:2024-03-06"),
        (["backup-2024-03-05.tar", "IMG_20240305_142233.jpg"], "date:2024-03-05"),
        (["17.45 Uhr", "午後5時45分", "오후 5시 45분", "5:45 pm"], "time:17:45"),
        (["l'università", "università"], "universita"),
        (["getUserByID", "get user by id"], "id"),
        (["Node.js", "nodejs"], "nodej"),
        (["١٢٣٤", "१२३४", "๑๒๓๔", "1234"], "1234"),
    ],
)
def it_gives_every_spelling_one_term(texts, term):
    assert [text for text in texts if term not in analyze(text)] == []


@pytest.mark.parametrize("text", ["1/2000 in UK", "37 people", "5 and 8 apples"])
def it_names_nothing_else(text):
    assert not [term for term in analyze(text) if term.startswith(("date:", "percent:"))]
