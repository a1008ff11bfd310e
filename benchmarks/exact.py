"""Exact results to compare answers with: BM25 over every visible chunk and the cosine of every vector, without an
index.

Rows are read from both stores by plain statements, so no search of the product is involved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymysql
from numpy.typing import NDArray

from benchmarks import floor
from benchmarks.corpus import TENTH
from pipeline.keyword.matching import IndexRows, by_holder
from pipeline.keyword.scoring import K1, B, Collection
from pipeline.keyword.terms import Tokenizer, query_terms
from pipeline.models.make_models import make_embedder
from pipeline.records import Namespace, Scope, TenantId
from pipeline.settings import settings

Passage = tuple[str, str, int]  # namespace, document, ordinal: stable when a replacement changes the chunk's id
TOP = 10
_ROWS_AT_ONCE = 20_000
_TOLERANCE = 1e-4  # of the tenth score: answers add in another order, and halves are rounded

_SHOWN = (
    "SELECT c.namespace, c.document_id, c.ordinal, c.chunk_id, CAST(c.terms AS BINARY), JSON_CONTAINS(g.tags, %s)"
    " FROM documents d JOIN generations g ON g.tenant_id = d.tenant_id AND g.namespace = d.namespace"
    " AND g.document_id = d.document_id AND g.generation = d.published_generation"
    " JOIN chunks c ON c.tenant_id = d.tenant_id AND c.namespace = d.namespace AND c.document_id = d.document_id"
    " AND c.generation = d.published_generation WHERE d.tenant_id = %s AND d.namespace IN %s"
)
_VECTORS = (
    "SELECT chunk_id::text, halfvec_send(embedding) FROM chunk_embeddings WHERE tenant_id = %s AND namespace = ANY(%s)"
)
_PASSAGES = "SELECT chunk_id, namespace, document_id, ordinal FROM chunks WHERE tenant_id = %s AND chunk_id IN %s"


@dataclass(frozen=True, slots=True)
class Lists:
    """For each question the passages allowed among the first ten, including all with the tenth score."""

    keyword: list[set[Passage]]
    semantic: list[set[Passage]]


@dataclass(slots=True)
class _Shown:
    """Every visible chunk by its number, and the positions of the questions' tokens."""

    passages: list[Passage] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    tagged: list[bool] = field(default_factory=list)
    lengths: list[NDArray[np.int64]] = field(default_factory=list)
    postings: defaultdict[str, list[tuple[Any, NDArray[np.float64]]]] = field(default_factory=lambda: defaultdict(list))


def lists(tenant_id: str, namespaces: Sequence[str], questions: Sequence[str], *, tagged: bool = False) -> Lists:
    """Return the best of every question; ``tagged``: among the chunks of documents with the tag `TENTH`."""
    terms = [query_terms(question) for question in questions]
    tokens = {
        (namespace, term): Tokenizer(Scope(tenant_id=TenantId(tenant_id), namespace=Namespace(namespace))).tokens(
            [term]
        )[0]
        for namespace in namespaces
        for term in {term for of_one in terms for term in of_one}
    }
    shown = _read(tenant_id, namespaces, tokens)
    allowed = np.array(shown.tagged) if tagged else np.ones(len(shown.passages), bool)
    return Lists(
        keyword=_by_words(shown, namespaces, terms, tokens, allowed),
        semantic=_by_meaning(shown, tenant_id, namespaces, questions, allowed),
    )


def passages(tenant_id: str, chunk_ids: Sequence[str]) -> dict[str, Passage]:
    """Return the passages of these chunks."""
    with floor.mysql() as connection, connection.cursor() as cursor:
        cursor.execute(_PASSAGES, (tenant_id, list(chunk_ids) or [""]))
        return {chunk_id: (namespace, document, ordinal) for chunk_id, namespace, document, ordinal in cursor}


def _read(tenant_id: str, namespaces: Sequence[str], tokens: dict[tuple[str, str], str]) -> _Shown:
    shown = _Shown()
    for rows in _rows(tenant_id, namespaces):
        first = len(shown.passages)
        for number, (namespace, document, ordinal, chunk_id, _, is_tagged) in enumerate(rows, start=first):
            shown.passages.append((namespace, document, ordinal))
            shown.numbers[chunk_id] = number
            shown.tagged.append(bool(is_tagged))
        block = IndexRows([row[4] for row in rows], ())
        shown.lengths.append(block.lengths)
        ends = np.cumsum(block.lengths)
        for token in tokens.values():
            holders, counts = by_holder(np.searchsorted(ends, block.occurrences(token), side="right"))
            if len(holders):
                shown.postings[token].append((holders + first, counts))
    return shown


def _rows(tenant_id: str, namespaces: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], ...]]:
    with floor.mysql() as connection, connection.cursor(pymysql.cursors.SSCursor) as cursor:
        cursor.execute(_SHOWN, (f'"{TENTH}"', tenant_id, list(namespaces)))
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            yield tuple(rows)


def _by_words(
    shown: _Shown,
    namespaces: Sequence[str],
    terms: Sequence[Sequence[str]],
    tokens: dict[tuple[str, str], str],
    allowed: NDArray[np.bool_],
) -> list[set[Passage]]:
    lengths = np.concatenate(shown.lengths)
    best = []
    for question_terms in terms:
        postings = {
            term: [entry for name in namespaces for entry in shown.postings[tokens[name, term]]]
            for term in question_terms
        }
        collection = Collection(
            chunk_count=len(lengths),
            term_count=int(lengths.sum()),
            chunk_frequency={term: sum(len(holders) for holders, _ in entries) for term, entries in postings.items()},
        )
        scores = np.zeros(len(lengths))
        for term, entries in postings.items():
            for holders, counts in entries:
                damping = K1 * (1 - B + B * lengths[holders] / collection.average_length)
                scores[holders] += collection.idf(term) * (K1 + 1) * counts / (counts + damping)
        best.append(_best(shown, np.where(allowed, scores, 0.0), least=0.0))
    return best


def _by_meaning(
    shown: _Shown, tenant_id: str, namespaces: Sequence[str], questions: Sequence[str], allowed: NDArray[np.bool_]
) -> list[set[Passage]]:
    embedded = make_embedder(settings()).embed(list(questions)).astype(np.float16).astype(np.float32)
    embedded /= np.linalg.norm(embedded, axis=1, keepdims=True)
    scores = np.full((len(questions), len(shown.passages)), -2.0, np.float32)
    with floor.postgres() as connection, connection.cursor("exact") as cursor:
        cursor.execute(_VECTORS, (tenant_id, list(namespaces)))
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            visible = [(shown.numbers[chunk_id], bytes(sent)) for chunk_id, sent in rows if chunk_id in shown.numbers]
            if visible:
                numbers, bodies = zip(*visible, strict=True)
                vectors = np.frombuffer(b"".join(body[4:] for body in bodies), ">f2").reshape(len(visible), -1)
                floats = vectors.astype(np.float32)
                scores[:, list(numbers)] = embedded @ (floats / np.linalg.norm(floats, axis=1, keepdims=True)).T
    return [_best(shown, np.where(allowed, of_question, -2.0), least=-1.5) for of_question in scores]


def _best(shown: _Shown, scores: NDArray[Any], *, least: float) -> set[Passage]:
    """Return the passages at or above the tenth score, if they score above ``least``."""
    tenth = float(np.partition(scores, -TOP)[-TOP]) if len(scores) >= TOP else least
    enough = (scores >= tenth - _TOLERANCE * abs(tenth)) & (scores > least)
    return {shown.passages[number] for number in np.flatnonzero(enough)}
