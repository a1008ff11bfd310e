"""What a tenant says of words, on its way in and out."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from api_gateway.http.fields import DocumentIdText, NamespaceName, Wire
from api_gateway.resources.shapes import Shape, shown
from pipeline.keyword.dictionary import Dictionary, Rule
from pipeline.keyword.terms import holds_words
from pipeline.records import Namespace

_MOST_ENTRIES = 5_000


def _with_words(said: str) -> str:
    if not holds_words(said):
        raise ValueError("holds no word")
    return said


Expression = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_with_words)]


class RuleIn(Wire):
    """Where the query contains `when`, the document's chunks join the candidates and score `boost` times. From 2 on, its
    best chunk scores at least as high as the best other one of the keyword channel."""

    when: Expression
    document_id: DocumentIdText
    namespace: NamespaceName | None = None
    boost: Annotated[float, Field(ge=0, le=100)] = 2.0


class DictionaryIn(Wire):
    """The whole dictionary: what is not in it any more is forgotten. Applies to queries from the next seconds on, and to
    nothing that is stored."""

    tenant_id: str | None = None
    synonyms: Annotated[
        list[Annotated[list[Expression], Field(min_length=2, max_length=32)]], Field(max_length=_MOST_ENTRIES)
    ] = Field(default_factory=list, description="Groups of expressions that mean the same.")
    stop_words: Annotated[list[Expression], Field(max_length=_MOST_ENTRIES)] = Field(
        default_factory=list, description="Left out of queries, unless nothing else is asked."
    )
    phrases: Annotated[list[Expression], Field(max_length=_MOST_ENTRIES)] = Field(
        default_factory=list, description="Words that belong together: chunks with them side by side score higher."
    )
    rules: Annotated[list[RuleIn], Field(max_length=1_000)] = Field(
        default_factory=list, description="Documents to prefer for certain words."
    )


class RuleOut(Shape):
    """One rule."""

    when: str
    document_id: str
    namespace: str
    boost: float


class DictionaryOut(Shape):
    """A dictionary as it is kept. `namespace` is null for the one that holds for all of them."""

    namespace: str | None
    version: int
    synonyms: list[list[str]]
    stop_words: list[str]
    phrases: list[str]
    rules: list[RuleOut]


def to_dictionary(sent: DictionaryIn, namespace: Namespace) -> Dictionary:
    """The dictionary a body describes. Raises ValueError for a rule that does not say where its document is."""
    if any(rule.namespace is None for rule in sent.rules) and not namespace:
        raise ValueError("must say the namespace of its document, since the dictionary holds for all of them")
    return Dictionary(
        synonyms=tuple(tuple(dict.fromkeys(group)) for group in sent.synonyms),
        stop_words=tuple(dict.fromkeys(sent.stop_words)),
        phrases=tuple(dict.fromkeys(sent.phrases)),
        rules=tuple(
            Rule(
                when=rule.when,
                namespace=rule.namespace or namespace,
                document_id=rule.document_id,
                boost=rule.boost,
            )
            for rule in sent.rules
        ),
    )


def dictionary(found: Dictionary, namespace: Namespace, version: int) -> dict[str, Any]:
    """A dictionary as it is sent."""
    return shown(DictionaryOut, found, namespace=namespace or None, version=version)
