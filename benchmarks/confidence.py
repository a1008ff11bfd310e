"""`python -m benchmarks.confidence FOLDER…`: fit confidence to judged collections, each with half of its answers taken out.

Each folder is a collection as for `chordwise eval`. Its first questions are asked in memory with the built-in model, and
then the questions on other subjects in `tests/quality/unanswerable.jsonl`. A kind of questions has the same weight in each
collection: 0.7 for those with an answer, 0.15 each for those whose answer was taken out and for those on other subjects.

The table has a line for each collection, judged by the rule that is fitted to the others: the area under the curve of answered
against unanswered questions, the share of the unanswered that is refused where 95 % of the answered are kept, the shares that
the threshold of 0.4 keeps of the answered and refuses of the unanswered and of those on other subjects, the expected
calibration error of first hits with these weights, and the share of questions without a confidence. The last line is the
rule fitted to all.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import table
from chordwise.contract.answer import EVEN
from chordwise.evaluation.collection import JudgedQuery, read_collection
from chordwise.evaluation.reliability import BINS, threshold_that_keeps
from pipeline.keyword.terms import holds_unspaced
from pipeline.models.local_embedder import LocalEmbedder
from pipeline.models.ports import Embedder
from pipeline.ranking.confidence import Confidences
from tests.support.corpora.queries import query_of
from tests.support.corpora.searches import Searches, plan_with

_QUESTIONS, _DOCUMENTS = 500, 2_500  # of each collection
_OTHERS = Path(__file__).parents[1] / "tests" / "quality" / "unanswerable.jsonl"
_STEPS = 30
_SHRINK = 1e-3
_THRESHOLD = 0.4
_WEIGHTS = {"answered": 0.7, "unanswered": 0.15, "other": 0.15}
Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Asked:
    """One collection's questions: ``held``, ``spread`` and ``m`` of the first hit (`Confidences.signs`), whether it is
    relevant, and of which kind the question is."""

    signs: Numbers
    relevant: Flags
    kind: NDArray[np.str_]

    @property
    def weights(self) -> Numbers:
        """The weight of each question; all together 1 if every kind is there."""
        return np.array([_WEIGHTS[kind] / (self.kind == kind).sum() for kind in self.kind])


def main(folders: list[str]) -> int:
    """Print the table. Exit code 2 without two collections."""
    if len(folders) < 2:
        print("name at least two folders of judged collections", file=sys.stderr)
        return 2
    report({Path(folder).name: ask(Path(folder), LocalEmbedder()) for folder in folders})
    return 0


def report(asked: dict[str, Asked]) -> None:
    """Print the table and the rule."""
    rows = []
    for name, own in asked.items():
        model = fitted([each for other, each in asked.items() if other != name])
        rows.append([name, *(f"{number:.2f}" for number in judge(own, model))])
    heads = ["AUC", "refused at 95 %", "kept at 0.4", "refused at 0.4", "other subjects", "ECE", "null", "AUC told"]
    print(table.table(["collection", *heads], rows))
    print("intercept, standing, meaning:", np.round(fitted(list(asked.values())), 2))


def ask(folder: Path, embedder: Embedder) -> Asked:
    """Ask the first questions of a collection of which half have lost their answers, and those on other subjects."""
    collection = read_collection(folder)
    queries = collection.queries[:_QUESTIONS]
    gone = taken_out(queries)
    answering = {name for query in queries for name in answers(query)}
    texts: dict[str, str] = {}
    for document in collection.documents():
        name = str(document["document_id"])
        if name not in gone and (name in answering or len(texts) < _DOCUMENTS):
            texts.setdefault(f"{document.get('title') or ''}\n{document['text']}".strip(), name)
    searches, plan = Searches(texts, embedder), plan_with()
    signs, relevant, kinds = [], [], []
    for query in [*queries, *others(queries[0].text)]:
        hits, arrived = searches.composed(query_of(query.text, plan=plan, deadline_s=60.0, created_at=time.time()))
        found = Confidences(query.text, hits, arrived.usable).signs(hits[0]) if hits else None
        signs.append(found or (0.0, 0.0, 0.0))
        relevant.append(bool(hits) and texts[searches.texts[hits[0].chunk_id]] in answers(query))
        kinds.append("other" if not query.grades else "answered" if answers(query) - gone else "unanswered")
    return Asked(np.array(signs), np.array(relevant), np.array(kinds))


def taken_out(queries: Sequence[JudgedQuery]) -> set[str]:
    """Return the answers of as many questions, taken by chance, as leave half of all without an answer."""
    gone: set[str] = set()
    for query in random.Random(7).sample(queries, len(queries)):
        if 2 * sum(answers(each) <= gone for each in queries) >= len(queries):
            break
        gone |= answers(query)
    return gone


def answers(query: JudgedQuery) -> set[str]:
    """Return the ids of the documents that answer a question."""
    return {name for name, grade in query.grades.items() if grade > 0}


def others(text: str) -> list[JudgedQuery]:
    """Return the questions on other subjects in the script of a question: English ones, or Chinese ones."""
    language = "zh" if holds_unspaced(text) else "en"
    lines = [json.loads(line) for line in _OTHERS.read_text().splitlines()]
    return [JudgedQuery(query_id="", text=line["text"], grades={}) for line in lines if line["language"] == language]


def evidence(signs: Numbers) -> Numbers:
    """Return what the rule weighs: 1, ``held * spread`` and ``held * m``."""
    held, spread, meaning = signs.T
    return np.stack([np.ones(len(held)), held * spread, held * meaning], axis=1)


def fitted(sets: list[Asked]) -> Numbers:
    """Return the logistic model of relevance by Newton's method."""
    signs = evidence(np.concatenate([each.signs for each in sets]))
    relevant = np.concatenate([each.relevant for each in sets])
    weights = np.concatenate([each.weights for each in sets]) / len(sets)
    model = np.zeros(signs.shape[1])
    shrink = _SHRINK * np.diag([0.0, *[1.0] * (len(model) - 1)])
    for _ in range(_STEPS):
        given = probability(signs, model)
        slope = signs.T @ (weights * (relevant - given)) - shrink @ model
        model = model + np.linalg.solve((signs.T * (weights * given * (1 - given))) @ signs + shrink, slope)
    return model


def probability(signs: Numbers, model: Numbers) -> Numbers:
    """Return the probability of relevance by a model."""
    result: Numbers = 1 / (1 + np.exp(-(signs @ model)))
    return result


def judge(own: Asked, model: Numbers) -> list[float]:
    """Return the figures of a line of the table."""
    given = probability(evidence(own.signs), model)
    standing = probability(evidence(own.signs * [1, 0, 1] + [0, 1, 0]), model)
    told = ~((given < EVEN) & (standing >= EVEN))
    answered, unanswered, other = (own.kind == kind for kind in _WEIGHTS)
    kept = threshold_that_keeps(list(given[answered]), 0.95)
    refused = told & (given < _THRESHOLD)
    return [
        area(given, answered, unanswered),
        float((given[unanswered] < kept).mean()),
        float((~refused)[answered].mean()),
        float(refused[unanswered].mean()),
        float(refused[other].mean()),
        calibration_error(given[told], own.relevant[told], own.weights[told]),
        float((~told)[answered | unanswered].mean()),
        area(given, answered & told, unanswered & told),
    ]


def calibration_error(given: Numbers, relevant: Flags, weights: Numbers) -> float:
    """Return the expected calibration error over ten bins, each hit with its weight."""
    bins = np.minimum(BINS - 1, (given * BINS).astype(int))
    gaps = np.bincount(bins, weights=weights * (relevant - given), minlength=BINS)
    return float(np.abs(gaps).sum() / weights.sum())


def area(given: Numbers, answered: Flags, unanswered: Flags) -> float:
    """Return the probability that an answered question has more confidence than an unanswered one; ties count half."""
    right, wrong = given[answered], given[unanswered]
    if not len(right) or not len(wrong):
        return math.nan
    return float(((right[:, None] > wrong).mean() + (right[:, None] >= wrong).mean()) / 2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
