"""Retrieval quality on judged collections that may lie beside the checkout; without them there is nothing to judge.

The floors are what the product promises with its defaults and the local embedder, nothing tuned for a collection.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import make_tenant
from tests.support.processes import ROOT

DATA = Path(os.environ.get("CHORDWISE_JUDGED_DATA", ROOT.parent / "shared" / "data"))
QUERIES = "100"

# Collection, least nDCG@10 of the fused order, least of the keyword channel alone.
FLOORS = [("cranfield", 0.50, 0.50), ("scifact", 0.70, 0.67), ("cmrc2018", 0.91, 0.89)]


@pytest.mark.quality
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("collection", "fused", "keyword"), [row for row in FLOORS if (DATA / row[0] / "corpus.jsonl.gz").exists()]
)
def it_reaches_the_floor(use, collection, fused, keyword):
    _, key = make_tenant(use)
    command = [
        "eval",
        str(DATA / collection),
        "--namespace",
        collection,
        "--limit",
        QUERIES,
        "--concurrency",
        "4",
        "--json",
    ]
    ran = subprocess.run(
        [Path(sys.executable).with_name("chordwise"), *command],
        env={**os.environ, "CHORDWISE_API_KEY": key},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    results = {name: measured["ndcg@10"] for name, measured in report["results"].items()}
    sys.stderr.write(f"{collection} {results} {report['latency_ms']}\n")
    most = 0.05 * 4 * int(QUERIES)  # each is asked in four ways
    assert report["degraded"] <= most, "a busy machine may cost a few queries a channel, and each says so"
    assert results["fused"] >= fused
    assert results["keyword"] >= keyword
    assert results["reranked"] >= results["fused"] - 0.005, "reranking without a model must not lose"
