"""`python -m benchmarks.confidence FOLDER…`: fit confidence to judged collections, each with half of its answers taken out.

Each folder is a collection as for `chordwise eval`. Its first questions are asked in memory with the built-in model. The
table has a line for each collection, judged by the rule that is fitted to the others: the area under the curve of answered
against unanswered questions, the share of the unanswered that is refused where 95 % of the answered are kept, the expected
calibration error of first hits, and the share of questions without a confidence. The last line is the rule fitted to all.
"""

from __future__ import annotations

import math
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import table
from chordwise.evaluation.collection import read_collection
from chordwise.evaluation.reliability import Judged, expected_calibration_error, threshold_that_keeps
from pipeline.models.local_embedder import LocalEmbedder
from pipeline.ranking.confidence import Confidences
from tests.support.corpora.queries import query_of
from tests.support.corpora.searches import Searches, plan_with

_QUESTIONS, _DOCUMENTS = 300, 2_000  # of each collection
_STEPS = 30
_SHRINK = 1e-3
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Asked:
    """One collection's questions: the signs of the first hit with a column of ones, whether it is relevant, whether the
    collection has an answer, and whether nothing can be told."""

    signs: Numbers
    relevant: Numbers
    answered: Numbers
    untold: NDArray[np.bool_]


def main(folders: list[str]) -> int:
    """Print the table. Exit code 2 without a collection."""
    if not folders:
        print("name at least two folders of judged collections", file=sys.stderr)
        return 2
    asked = {Path(folder).name: ask(Path(folder)) for folder in folders}
    rows = []
    for name, own in asked.items():
        others = [each for other, each in asked.items() if other != name] or [own]
        rows.append([name, *(f"{number:.3f}" for number in judge(own, fitted(others)))])
    print(table.table(["collection", "AUC", "refused at 95 %", "ECE", "null", "AUC told"], rows))
    print("intercept, standing, meaning:", np.round(fitted(list(asked.values())), 2))
    return 0


def ask(folder: Path) -> Asked:
    """Ask the first questions of a collection of which half of the answering documents are taken out."""
    collection = read_collection(folder)
    queries = collection.queries[:_QUESTIONS]
    answering = sorted({name for query in queries for name, grade in query.grades.items() if grade > 0})
    random.Random(7).shuffle(answering)
    gone = set(answering[: len(answering) // 2])
    texts: dict[str, str] = {}
    for document in collection.documents():
        name = str(document["document_id"])
        if name not in gone and (name in answering or len(texts) < _DOCUMENTS):
            texts.setdefault(f"{document.get('title') or ''}\n{document['text']}".strip(), name)
    searches = Searches(texts, LocalEmbedder())
    signs, relevant, answered, untold = [], [], [], []
    for query in queries:
        hits, arrived = searches.composed(
            query_of(query.text, plan=plan_with(), deadline_s=60.0, created_at=time.time())
        )
        if not hits:
            continue
        sure = Confidences(query.text, hits, arrived.usable)
        standing, meaning = sure.signs(hits[0])
        signs.append([1.0, standing or 0.0, meaning or 0.0])
        first = texts[searches.texts[hits[0].chunk_id]]
        relevant.append(query.grades.get(first, 0) > 0)
        answered.append(any(grade > 0 and name not in gone for name, grade in query.grades.items()))
        untold.append(sure.is_untold)
    return Asked(np.array(signs), np.array(relevant, float), np.array(answered, float), np.array(untold))


def fitted(sets: list[Asked]) -> Numbers:
    """Return the logistic model of relevance, each collection with the same weight, by Newton's method."""
    signs = np.concatenate([each.signs[~each.untold] for each in sets])
    relevant = np.concatenate([each.relevant[~each.untold] for each in sets])
    weights = np.concatenate([np.full(int((~each.untold).sum()), 1 / len(each.untold)) for each in sets])
    weights /= weights.sum()
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


def judge(own: Asked, model: Numbers) -> tuple[float, float, float, float, float]:
    """Return the figures of a line of the table."""
    given, told = probability(own.signs, model), ~own.untold
    kept = threshold_that_keeps(list(given[own.answered > 0]), 0.95)
    refused = float((given[own.answered == 0] < kept).mean()) if (own.answered == 0).any() else math.nan
    hits = [
        Judged(confidence=float(one), relevant=bool(right), rank=1)
        for one, right in zip(given[told], own.relevant[told], strict=True)
    ]
    return (
        area(given, own.answered),
        refused,
        expected_calibration_error(hits),
        float(own.untold.mean()),
        area(given[told], own.answered[told]),
    )


def area(given: Numbers, answered: Numbers) -> float:
    """Return the probability that an answered question has more confidence than an unanswered one; ties count half."""
    right, wrong = given[answered > 0], given[answered == 0]
    if not len(right) or not len(wrong):
        return math.nan
    return float(((right[:, None] > wrong).mean() + (right[:, None] >= wrong).mean()) / 2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
