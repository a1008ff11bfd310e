"""Synthetic documents with a realistic word distribution; the same seed gives the same documents.

Frequencies follow Zipf's law. Every document has a subject, and takes half of its words from that subject's: without
subjects no text would be nearer to a question than any other, and every index of vectors would have to be read
completely.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chordwise.evaluation.collection import read_collection

MAX_TOKENS = 256  # sent with every upload, so that one paragraph of about 150 words is one chunk
TENTH = "tenth"
_VOCABULARY = 20_000
_CHINESE_EVERY = 8  # documents
_SENTENCE = 12  # words
_SUBJECTS = 500
_WORDS_OF_SUBJECT = 200
_DRAWN = 100_000  # at once
_PARAGRAPHS = (2, 7)  # from, up to but not including
_CONSONANTS = ("b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr", "pl")
_SYLLABLES = [first + vowel for first in _CONSONANTS for vowel in "aeiou"]
_FIRST_HAN, _HAN_CHARACTERS = 0x4E00, 2500


@dataclass(frozen=True, slots=True)
class Text:
    """A document to be ingested; each paragraph should become one chunk."""

    document_id: str
    title: str
    text: str
    paragraphs: int
    tags: tuple[str, ...] = ("bench",)

    def as_json(self) -> dict[str, Any]:
        """Return the document in the form of `POST /v1/documents`."""
        return {"document_id": self.document_id, "title": self.title, "text": self.text, "tags": list(self.tags)}


def documents(*, chunks: int, seed: int) -> list[Text]:
    """Return documents of two to six paragraphs, ``chunks`` paragraphs in all; one in eight is Chinese."""
    return Corpus(seed=seed).take(chunks)


def of_collection(folder: Path) -> tuple[list[Text], list[str]]:
    """Return the documents and the questions of a judged collection, as `chordwise eval` reads it. Raises InvalidInput."""
    collection = read_collection(folder)
    texts = [
        Text(document_id=str(each["document_id"]), title=each.get("title") or "", text=each["text"], paragraphs=1)
        for each in collection.documents()
    ]
    return texts, [query.text for query in collection.queries]


class Corpus:
    """An endless supply of documents, of which each call takes the next ones. Every tenth has the tag ``TENTH`` as
    well."""

    def __init__(self, *, seed: int) -> None:
        self._random = random = np.random.default_rng(seed)
        self._english = _Writer(random, _english(random), join=" ", stop=". ", words=150)
        self._chinese = _Writer(random, _chinese(random), join="", stop="。", words=110)
        self._taken = 0

    def take(self, chunks: int) -> list[Text]:
        """Return documents of ``chunks`` paragraphs in all."""
        texts: list[Text] = []
        while chunks:
            texts.append(self._next(chunks))
            chunks -= texts[-1].paragraphs
        return texts

    def _next(self, most: int) -> Text:
        number, self._taken = self._taken, self._taken + 1
        count = min(most, int(self._random.integers(*_PARAGRAPHS)))
        writer = self._chinese if number % _CHINESE_EVERY == _CHINESE_EVERY - 1 else self._english
        writer.change_subject()
        paragraphs = [writer.paragraph() for _ in range(count)]
        return Text(
            document_id=f"bench-{number:06d}",
            title=writer.sentence(5),
            text="\n\n".join(paragraphs),
            paragraphs=count,
            tags=("bench", TENTH) if number % 10 == number // 10 % 10 else ("bench",),  # for each language
        )


def paragraphs(texts: Iterable[Text]) -> list[str]:
    """Return the paragraphs of documents, each of which should become one chunk."""
    return [paragraph for text in texts for paragraph in text.text.split("\n\n")]


def questions(texts: list[Text], *, count: int, seed: int) -> list[str]:
    """Return questions of four consecutive words from the middle of randomly chosen documents."""
    random = np.random.default_rng(seed)
    asked = []
    for index in random.integers(0, len(texts), size=count):
        text = texts[int(index)].text
        start = int(random.integers(0, max(1, len(text) - 80)))
        words = text[start : start + 80].split()
        asked.append(" ".join(words[1:5]) if len(words) > 5 else text[start : start + 10])
    return asked


class _Writer:
    """Draws words by Zipf's law, half of them from one subject's, and makes sentences of about twelve."""

    def __init__(self, random: np.random.Generator, vocabulary: list[str], *, join: str, stop: str, words: int) -> None:
        self._random, self._words, self._join, self._stop, self._length = random, vocabulary, join, stop, words
        self._subjects = random.integers(0, len(vocabulary), size=(_SUBJECTS, _WORDS_OF_SUBJECT))
        self._subject = self._subjects[0]
        self._general = self._ranks(len(vocabulary))
        self._special = self._ranks(_WORDS_OF_SUBJECT)

    def change_subject(self) -> None:
        """Use another subject for all following words."""
        self._subject = self._subjects[int(self._random.integers(_SUBJECTS))]

    def paragraph(self) -> str:
        """Return about as many words as requested, in sentences."""
        length = int(self._random.integers(int(self._length * 0.87), int(self._length * 1.13)))
        sentences = [self.sentence(_SENTENCE) for _ in range(length // _SENTENCE)]
        return (self._stop.join(sentences) + self._stop).strip()

    def sentence(self, words: int) -> str:
        """Return a sentence of that many words."""
        choices = self._random.random(words) < 0.5
        drawn = (self._subject[next(self._special)] if is_special else next(self._general) for is_special in choices)
        return self._join.join(self._words[index] for index in drawn).capitalize()

    def _ranks(self, count: int) -> Iterator[int]:
        weights = 1.0 / np.arange(2, count + 2)
        while True:
            yield from self._random.choice(count, size=_DRAWN, p=weights / weights.sum()).tolist()


def _english(random: np.random.Generator) -> list[str]:
    words = dict.fromkeys(
        "".join(_SYLLABLES[i] for i in random.integers(0, len(_SYLLABLES), size=int(random.integers(1, 5))))
        for _ in range(_VOCABULARY * 2)
    )
    return list(words)[:_VOCABULARY]


def _chinese(random: np.random.Generator) -> list[str]:
    pairs = random.integers(0, _HAN_CHARACTERS, size=(_VOCABULARY, 2))
    return [chr(_FIRST_HAN + int(one)) + chr(_FIRST_HAN + int(other)) for one, other in pairs]
