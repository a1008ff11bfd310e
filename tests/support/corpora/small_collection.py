"""A few chunks in memory, ranked by the very functions that the keyword channel ranks with."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.keyword.dictionary import Dictionary, Lexicon, read
from pipeline.keyword.indexed_fields import IndexedTokens, indexed
from pipeline.keyword.matching import FieldWeights, IndexRows
from pipeline.keyword.scoring import Collection, score, weigh
from pipeline.keyword.terms import tokenizer_of
from pipeline.records import Namespace, Passage, Scope, Segment, TenantId

SCOPE = Scope(tenant_id=TenantId("t"), namespace=Namespace("n"))


def passage(text: str, **segment: object) -> Passage:
    found = Segment(**segment) if segment else None
    return Passage(text=text, start=0, end=len(text), token_count=1, segment=found)


def index(text: str | Passage, title: str | None = None) -> IndexedTokens:
    whole = passage(text) if isinstance(text, str) else text
    return indexed(whole, title, strategy="sentences", tokenizer=tokenizer_of(SCOPE))


def scores(
    query: str,
    chunks: Sequence[IndexedTokens],
    *,
    dictionary: Dictionary = Dictionary(),  # noqa: B008 - frozen
    fields: FieldWeights = FieldWeights(),  # noqa: B008 - frozen
) -> tuple[list[float], float]:
    """The score of each chunk, and the bound of the query."""
    asked = read(query, Lexicon.of([dictionary]))
    tokenizer = tokenizer_of(SCOPE)
    tokens = {term: tokenizer.token(term) for term in (*asked.all_terms, *asked.whole, *asked.other_terms({}))}
    frequency = {term: sum(token in chunk.terms for chunk in chunks) for term, token in tokens.items()}
    collection = Collection(
        chunk_count=len(chunks),
        term_count=sum(len(chunk.terms) for chunk in chunks),
        chunk_frequency=frequency,
    )
    weighed = weigh(asked.spelled(frequency, lags=False).held(frequency), collection)
    rows = IndexRows([" ".join(chunk.terms).encode() for chunk in chunks], [chunk.fields for chunk in chunks])
    return score(weighed, rows, tokens, fields).tolist(), weighed.bound


def ranked(query: str, texts: Sequence[str], **options: object) -> list[str]:
    """The texts that score at all, best first."""
    found, _ = scores(query, [index(text) for text in texts], **options)
    return [text for scored, text in sorted(zip(found, texts, strict=True), key=lambda pair: -pair[0]) if scored]
