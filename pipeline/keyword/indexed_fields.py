"""The index terms of a chunk: the terms of its fields one after the other, and how many belong to each."""

import functools
from dataclasses import dataclass

from pipeline.chunking.strategies.registry import searched_text
from pipeline.keyword.inflections import Language, languages_of, stems
from pipeline.keyword.terms import Tokenizer, analyze
from pipeline.records import FieldTerms, Passage


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedTokens:
    """The tokens of a chunk, in the order title, body, summary, entity names, and how many are of which field."""

    terms: tuple[str, ...]
    fields: FieldTerms


def indexed(passage: Passage, title: str | None, *, strategy: str, tokenizer: Tokenizer) -> IndexedTokens:
    """Return the tokens of ``passage`` with those of its document's ``title``.

    The body is the text by which the strategy finds the passage; a story segment's summary and entity names are
    separate fields. Tokens are not repeated to weight a field: queries weight fields by the counts. Each field ends
    with the stems of its words, the body's languages being those of the others (`keyword.inflections`).
    """
    segment = passage.segment
    has_fields = segment is not None and bool(segment.summary or segment.entity_names)
    searched = passage.text if has_fields else searched_text(passage, strategy)
    languages = languages_of(searched)
    body = _terms(searched, languages)
    of_title = _terms_of_title(title, languages) if title else ()
    summary = _terms(segment.summary, languages) if segment and segment.summary else []
    names = analyze("\n".join(segment.entity_names)) if segment and segment.entity_names else []
    return IndexedTokens(
        terms=tuple(tokenizer.tokens([*of_title, *body, *summary, *names])),
        fields=FieldTerms(title=len(of_title), summary=len(summary), entity_names=len(names)),
    )


def _terms(text: str, languages: tuple[Language, ...]) -> list[str]:
    return analyze(text, day_first=bool(languages)) + stems(text, languages)


@functools.lru_cache(maxsize=64)
def _terms_of_title(title: str, languages: tuple[Language, ...]) -> tuple[str, ...]:
    """Return the terms of a title, by which every chunk of its document is indexed."""
    return tuple(_terms(title, languages))
