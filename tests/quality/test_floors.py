"""Retrieval quality on judged collections that may lie beside the checkout; without them there is nothing to judge.

The floors are what the product promises with its defaults and the local embedder, nothing tuned for a collection. Asked
are the first questions of each, of the documents that answer them and every fourth of the others, which makes it easier
and the floors higher; ``chordwise eval`` measures a whole collection.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import orjson
import pytest

from chordwise import AsyncChordwise, Chordwise
from chordwise.api.files import read_lines
from chordwise.evaluation.collection import Collection, JudgedQuery, read_collection
from chordwise.evaluation.evaluate import WAYS, Report, evaluate, ingest_if_empty
from chordwise.evaluation.reliability import Judged, ask_judged, best_of, expected_calibration_error
from tests.conftest import make_tenant
from tests.support.stacks.processes import ROOT

DATA = Path(os.environ.get("CHORDWISE_JUDGED_DATA", ROOT.parent / "shared" / "data"))
UNANSWERABLE = Path(__file__).with_name("unanswerable.jsonl")
THRESHOLD = 0.4  # CHORDWISE_RECALL_DEGRADE_THRESHOLD
LEAST_KEPT = 0.9  # of 50 questions, of which a thinned collection knows fewer words: 0.92 to 0.94; whole ones keep 0.95
MOST_ERROR = 0.3  # of 50 questions; a thinned collection is easier, so more hits are relevant. Whole ones: at most 0.1
QUESTIONS = 50
EVERY = 6

# Collection, least nDCG@10 of the fused order, least of the keyword channel alone.
FLOORS = [("cranfield", 0.58, 0.56), ("cmrc2018", 0.96, 0.96), ("scifact", 0.87, 0.85)]
AT_LENGTH = ("scifact",)  # the language and the script of cranfield, with more to ingest
MEASURED = [way for way in WAYS if way.name != "semantic"]


@pytest.mark.quality
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "fused", "keyword"),
    [
        pytest.param(*row, marks=[pytest.mark.thorough] if row[0] in AT_LENGTH else [])
        for row in FLOORS
        if (DATA / row[0] / "corpus.jsonl.gz").exists()
    ],
)
def it_reaches_the_floor(use, tmp_path, name, fused, keyword):
    collection = smaller(DATA / name, tmp_path / name)
    key = make_tenant(use)[1]
    report = measured(collection, key)
    results = {way: scores.ndcg_at_10 for way, scores in report.results.items()}
    sys.stderr.write(f"{name} {results} {report.p50_ms} {report.p95_ms}\n")
    assert report.failed == 0
    most = 0.05 * len(MEASURED) * QUESTIONS
    assert report.degraded <= most, "a busy machine may cost a few queries a channel, and each says so"
    assert results["fused"] >= fused
    assert results["keyword"] >= keyword
    assert results["reranked"] >= results["fused"] - 0.005, "reranking without a model must not lose"
    answers, others = judged(collection, key)
    kept, refused = best_of(answers), best_of(others)
    errors = [expected_calibration_error(each) for each in (first_of(answers), list(chain.from_iterable(answers)))]
    sys.stderr.write(f"{name} calibration errors {errors}, lowest kept {sorted(kept)[:3]}, surest {max(refused)}\n")
    assert sum(each >= THRESHOLD for each in kept) >= LEAST_KEPT * len(kept)
    assert sum(each < THRESHOLD for each in refused) >= 0.8 * len(refused)
    assert max(errors) <= MOST_ERROR


def judged(collection: Collection, key: str) -> tuple[list[list[Judged]], list[list[Judged]]]:
    """The hits of its first questions and of questions on other subjects in the same language, without reranking."""
    language = "zh" if collection.name == "cmrc2018" else "en"
    lines = [orjson.loads(line) for line in UNANSWERABLE.read_bytes().splitlines()]
    others = [
        JudgedQuery(query_id=str(n), text=line["text"], grades={})
        for n, line in enumerate(lines)
        if line["language"] == language
    ]

    async def ask() -> list[list[Judged]]:
        async with AsyncChordwise(os.environ["CHORDWISE_URL"], key) as client:
            return await ask_judged(
                client,
                [*collection.queries[:QUESTIONS], *others],
                options={"namespace": collection.name, "rerank": False},
                on_answer=lambda _: None,
            )

    found = asyncio.run(ask())
    return found[:QUESTIONS], found[QUESTIONS:]


def first_of(answers: list[list[Judged]]) -> list[Judged]:
    """The first hit of each answer."""
    return [hit for answer in answers for hit in answer[:1]]


def smaller(whole: Path, folder: Path) -> Collection:
    """The requested part of a collection, in a folder of its own."""
    folder.mkdir()
    for path in (*whole.glob("queries.jsonl*"), *whole.glob("qrels.tsv*")):
        shutil.copy(path, folder)
    answering = {name for query in read_collection(folder).queries[:QUESTIONS] for name in query.grades}
    (folder / "corpus.jsonl").write_text("".join(f"{line}\n" for line in _some(whole / "corpus.jsonl.gz", answering)))
    return read_collection(folder)


def _some(corpus: Path, answering: set[str]) -> Iterator[str]:
    for number, line in read_lines(corpus):
        if number % EVERY == 0 or str(orjson.loads(line)["doc_id"]) in answering:
            yield line


def measured(collection: Collection, key: str) -> Report:
    """Return the answers to a collection's first questions, of a tenant with that collection alone."""
    url, namespace = os.environ["CHORDWISE_URL"], collection.name

    async def ask() -> Report:
        async with AsyncChordwise(url, key) as client:
            return await evaluate(
                client,
                collection.queries[:QUESTIONS],
                namespace,
                ways=MEASURED,
                on_answer=lambda _: None,
            )

    with Chordwise(url, key) as client:
        ingest_if_empty(client, collection, namespace, on_sent=lambda _: None, on_indexed=lambda _: None)
    return asyncio.run(ask())
