"""Small questions with one obviously right passage among some 350, and pairs of passages that differ in one thing.

The cases are two tables to read, `first_places.tsv` and `near_misses.tsv`; all their passages are searched together, in
memory, with the built-in model. A failure lists the questions that found another passage first.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from pipeline.models.local_embedder import LocalEmbedder
from tests.support.corpora.searches import Searches

HERE = Path(__file__).parent
LEAST = {"en": 0.9, "zh": 0.85, "others": 0.9}
LEAST_OF_PAIRS = 0.95


def table(name: str) -> list[dict[str, str]]:
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


CASES = table("first_places.tsv")
PAIRS = table("near_misses.tsv")


@pytest.fixture(scope="module")
def searches() -> Searches:
    texts = [case["passage"] for case in CASES] + [pair[side] for pair in PAIRS for side in ("right", "wrong")]
    return Searches(dict.fromkeys(texts), LocalEmbedder())


def wrong_of(searches: Searches, cases: Iterable[Mapping[str, str]], column: str, method: str) -> list[str]:
    """The cases whose first hit is not the passage in ``column``, in words."""
    found = ((case, searches.first(case["question"], method)) for case in cases)
    return [
        f"{case['language']} {case['kind']}: {case['question']!r} found {first!r}, not {case[column]!r}"
        for case, first in found
        if first != case[column]
    ]


@pytest.mark.parametrize("method", ["full_text", "hybrid"])
def it_finds_the_one_right_passage_first(searches, method):
    groups: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for case in CASES:
        if method == "full_text" and case["kind"] == "meaning":
            continue  # the passage says it in other words
        groups[case["language"] if case["language"] in LEAST else "others"].append(case)
    short = {}
    for language, cases in groups.items():
        wrong = wrong_of(searches, cases, "passage", method)
        share = 1 - len(wrong) / len(cases)
        if share < LEAST[language]:
            short[language, round(share, 3)] = wrong
    assert not short, "\n".join(f"{group}:\n  " + "\n  ".join(wrong) for group, wrong in short.items())


def it_tells_near_misses_apart(searches):
    wrong = wrong_of(searches, PAIRS, "right", "hybrid")
    assert len(wrong) <= (1 - LEAST_OF_PAIRS) * len(PAIRS), "\n".join(wrong)
