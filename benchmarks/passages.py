"""Real passages and questions of a folder: judged collections as `chordwise eval` takes them, and Markdown or plain text.

A passage is a paragraph as its author wrote it; none is joined from others. Questions are those of the collections, and
the headings of every tenth text file, whose passages are left out. The same seed gives the same order.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chordwise.evaluation.collection import read_collection

_SHORTEST, _LONGEST = 80, 480  # bytes; longer paragraphs are cut at the ends of sentences
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
_MARKUP = re.compile(r"\{\{.*?\}\}|<[^>]{1,200}>|```.*?```|\]\([^)]*\)|[`*\[\]|]", re.DOTALL)
_HEADING = re.compile(r"^(?:#{1,3}|title:)\s+(.{8,120})$", re.MULTILINE)
_HELD_OUT = 10


@dataclass(frozen=True, slots=True)
class Passages:
    """Passages, the name of each one's source, and questions."""

    texts: list[str]
    sources: list[str]
    questions: list[str]

    def first(self, most: int) -> Passages:
        """Return the first passages, which are as random as all, with the same questions."""
        return Passages(self.texts[:most], self.sources[:most], self.questions)


def read_passages(folder: Path, *, most: int, questions: int, seed: int) -> Passages:
    """Return ``most`` passages at random, or fewer if the folder has no more, and as many questions of each kind."""
    chosen = random.Random(seed)
    found: dict[str, str] = {}
    judged: list[str] = []
    headings: list[str] = []
    for part in sorted(path for path in folder.iterdir() if path.is_dir()):
        if any((part / name).is_file() for name in ("queries.jsonl", "queries.jsonl.gz")):
            collection = read_collection(part)
            judged += [query.text for query in collection.queries]
            texts = (document["text"] for document in collection.documents())
            found |= {passage: part.name for text in texts for passage in _passages(text)}
            continue
        for number, path in enumerate(sorted(path for path in part.rglob("*") if path.suffix in (".md", ".txt"))):
            text = path.read_text(encoding="utf-8", errors="replace")
            if number % _HELD_OUT == 0:
                headings += [" ".join(_MARKUP.sub(" ", heading).split()) for heading in _HEADING.findall(text)[:1]]
            else:
                found |= dict.fromkeys(_passages(_MARKUP.sub(" ", text)), part.name)
    order = chosen.sample(sorted(found), min(most, len(found)))
    asked = [chosen.sample(sorted(set(kind)), min(questions, len(set(kind)))) for kind in (judged, headings)]
    return Passages(texts=order, sources=[found[text] for text in order], questions=[*asked[0], *asked[1]])


def _passages(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text):
        passage = ""
        for sentence in _SENTENCE_ENDS.split(" ".join(paragraph.split())):
            if passage and len(f"{passage} {sentence}".encode()) > _LONGEST:
                yield passage
                passage = ""
            passage = f"{passage} {sentence}".strip()
        if len(passage.encode()) >= _SHORTEST:
            yield passage
