"""What a chunk is indexed by: the terms of its fields one after the other, and how many belong to each."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.core.strategies import searched_text
from pipeline.core.terms import Tokenizer, analyze
from pipeline.records import FieldTerms, Passage


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """The tokens of a chunk, in the order title, body, summary, entity names, and how many are of which field."""

    terms: tuple[str, ...]
    fields: FieldTerms


def title_terms(title: str | None) -> list[str]:
    """The terms of a title, which every chunk of its document is indexed by."""
    return analyze(title) if title else []


def indexed(passage: Passage, title: list[str], *, strategy: str, tokenizer: Tokenizer) -> Indexed:
    """The tokens of ``passage`` with those of its document's ``title`` (from `title_terms`).

    The body is what the strategy looks the passage up by; of a story's segment its summary and its entity names are
    fields of their own. Nothing is repeated for a field's sake: a query weighs fields by their counts.
    """
    segment = passage.segment
    body = analyze(searched_text(passage, strategy) if segment is None else passage.text)
    summary = analyze(segment.summary) if segment and segment.summary else []
    names = analyze("\n".join(segment.entity_names)) if segment and segment.entity_names else []
    return Indexed(
        terms=tuple(tokenizer.tokens([*title, *body, *summary, *names])),
        fields=FieldTerms(title=len(title), summary=len(summary), entity_names=len(names)),
    )
