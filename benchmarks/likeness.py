"""Compare measures of similarity that tell repeated passages from passages on the same subject.

python -m benchmarks.likeness FOLDER, where FOLDER holds judged collections (`<name>/corpus.jsonl`, plain or gzipped).

A repeated passage is a piece of another one: its half, its last two thirds, or seven of ten of its sentences, in either
order. A passage on the same subject is one of the ten nearest by the built-in embedder. The output is how often a pair
of the first kind is rated more similar than one of the second (area under the curve), and the cost of a rating.
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from pipeline.models.make_models import make_embedder
from pipeline.ranking.selection import likeness, numbered, shingles
from pipeline.settings import load

_PASSAGES, _PAIRS = 2500, 400


def texts(collection: Path) -> list[str]:
    """Return the first passages of a collection that are long enough to be cut."""
    [path] = sorted(collection.glob("corpus.jsonl*"))[:1]
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        passages = [json.loads(line)["text"] for line in itertools.islice(lines, _PASSAGES)]
    return [text for text in passages if len(text) > 200]


def piece(text: str) -> str:
    """Return a part of a text, like overlapping chunks or copied paragraphs."""
    how = random.choice(("half", "window", "sentences"))
    if how == "half":
        return text[: len(text) // 2]
    if how == "window":
        return text[len(text) // 3 :]
    sentences = re.split(r"(?<=[.。！？;；])", text)
    return "".join(sentence for sentence in sentences if random.random() > 0.3) or text[: len(text) // 2]


def area(alike: list[float], unlike: list[float]) -> float:
    """Return how often one of ``alike`` is above one of ``unlike``; a tie counts half."""
    above = np.array(alike)[:, None] - np.array(unlike)[None]
    return float((above > 0).mean() + (above == 0).mean() / 2)


def main(folder: Path) -> None:
    """Print one line for each collection."""
    random.seed(1)
    embedder = make_embedder(load())
    for collection in sorted(path.parent for path in folder.glob("*/corpus.jsonl*")):
        passages = texts(collection)
        vectors = np.asarray(embedder.embed(passages))
        rated: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
        for _ in range(_PAIRS):
            position = random.randrange(len(passages))
            part = piece(passages[position])
            near = int(random.choice(np.argsort(-(vectors @ vectors[position]))[1:11]))
            for kind, other, vector in (
                (0, part, np.asarray(embedder.embed([part]))[0]),
                (1, passages[near], vectors[near]),
            ):
                one, two = random.sample([shingles(passages[position]), shingles(other)], 2)
                rated["words said before"][kind].append(likeness(*numbered([one, two])))
                rated["Jaccard"][kind].append(len(one & two) / len(one | two))
                rated["cosine"][kind].append(float(vectors[position] @ vector))
        started = time.process_time()
        read = [shingles(text) for text in passages[:300]]
        reading = (time.process_time() - started) / len(read)
        started = time.process_time()
        words = numbered(read)
        for first, second in itertools.product(words[:100], words[-100:]):
            likeness(first, second)
        comparing = (time.process_time() - started) / 10_000
        areas = ", ".join(f"{name} {area(*kinds):.3f}" for name, kinds in rated.items())
        print(f"{collection.name}: {areas}; {reading * 1e6:.0f} us a text, {comparing * 1e6:.1f} us a pair")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
