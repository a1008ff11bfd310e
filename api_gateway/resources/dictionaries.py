"""The tenant's dictionary: synonyms, stop words, phrases and rules, for one namespace or for all of them."""

from typing import Annotated, ClassVar

from fastapi import APIRouter, Response
from pydantic import AfterValidator, Field

from api_gateway.http.caller import Reader, Writer
from api_gateway.http.fields import NamespaceName, NewDocumentId, TenantWire, Wire, namespace_parameter, shown
from api_gateway.http.problems import Problem, invalid
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import Parameter, route
from api_gateway.resources.route_parts import MOST_SHAPE_BYTES, Json, deleted, existing
from chordwise.contract.dictionary import DictionaryOut, RuleOut
from pipeline.administration.edit_dictionaries import delete_dictionary, load_dictionary, replace_dictionary
from pipeline.keyword.dictionary import EVERY_NAMESPACE, Dictionary
from pipeline.keyword.terms import holds_words
from pipeline.records import Namespace

_MOST_ENTRIES = 5_000


def _with_words(text: str) -> str:
    if not holds_words(text):
        raise ValueError("holds no word")
    return text


Expression = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_with_words)]


class RuleIn(Wire):
    """Where the query contains `when`, the document's chunks join the candidates with a score multiplied by `boost`.
    From 2 on, its best chunk scores at least as high as the best other one of the keyword channel."""

    when: Expression
    document_id: NewDocumentId
    namespace: NamespaceName | None = None
    boost: Annotated[float, Field(ge=0, le=100)] = 2.0


class DictionaryIn(TenantWire):
    """The complete dictionary; it replaces the previous one. It applies to queries within seconds, and to no stored
    data."""

    example: ClassVar = {
        "synonyms": [["高血压", "hypertension", "high blood pressure"]],
        "stop_words": ["请问"],
        "phrases": ["slow query log"],
        "rules": [{"when": "refund", "namespace": "kb", "document_id": "refund-policy", "boost": 2.0}],
    }
    most_bytes: ClassVar = MOST_SHAPE_BYTES

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


def to_dictionary(sent: DictionaryIn, namespace: Namespace) -> Dictionary:
    """Return the dictionary in a body. Raises ValueError for a rule without its document's namespace."""
    if any(rule.namespace is None for rule in sent.rules) and not namespace:
        raise ValueError("must say the namespace of its document, since the dictionary holds for all of them")
    return Dictionary(
        synonyms=tuple(tuple(dict.fromkeys(group)) for group in sent.synonyms),
        stop_words=tuple(dict.fromkeys(sent.stop_words)),
        phrases=tuple(dict.fromkeys(sent.phrases)),
        rules=tuple(RuleOut(**{**rule.model_dump(), "namespace": rule.namespace or namespace}) for rule in sent.rules),
    )


def _send(dictionary: Dictionary, namespace: Namespace, version: int) -> Response:
    return json_response(shown(DictionaryOut, dictionary, namespace=namespace or None, version=version))


router = APIRouter(tags=["dictionary"])

Within = Annotated[
    str | None, Parameter(description="The namespace it holds for. Without it, the dictionary of all namespaces.")
]


@router.get("/v1/dictionary", **route("Get a dictionary", DictionaryOut, "The dictionary.", 404))
async def get_dictionary(caller: Reader, namespace: Within = None) -> Response:
    """Return the dictionary."""
    within = _within(namespace)
    dictionary, version = await caller.gateway.run(load_dictionary, caller.tenant_id, within, caller.use)
    return _send(existing(dictionary, _missing(within)), within, version)


@router.put("/v1/dictionary", **route("Replace a dictionary", DictionaryOut, "Stored; queries use it within seconds."))
async def replace(
    caller: Writer,
    sent: Json[DictionaryIn],
    namespace: Within = None,
) -> Response:
    """Replace the dictionary. Synonyms count as one term, stop words are ignored, phrases score higher in one piece,
    and rules prefer documents. A query uses the dictionary of all namespaces and those of the namespaces it names. Only
    the analysis of queries changes: nothing is indexed again."""
    within = _within(namespace)
    try:
        dictionary = to_dictionary(sent, within)
    except ValueError as error:
        raise invalid([{"pointer": "/rules", "detail": str(error)}]) from None
    version = await caller.gateway.run(replace_dictionary, caller.tenant_id, caller.use, within, dictionary)
    return _send(dictionary, within, version)


@router.delete("/v1/dictionary", **route("Forget a dictionary", None, "It is forgotten.", 404))
async def delete(caller: Writer, namespace: Within = None) -> Response:
    """Delete the dictionary. Queries stop using it within seconds."""
    within = _within(namespace)
    return deleted(await caller.gateway.run(delete_dictionary, caller.tenant_id, caller.use, within), _missing(within))


def _within(namespace: str | None) -> Namespace:
    return EVERY_NAMESPACE if namespace is None else namespace_parameter(namespace)


def _missing(within: Namespace) -> Problem:
    detail = f"There is no dictionary for the namespace {within}." if within else "There is no dictionary."
    return Problem(404, "dictionary_not_found", detail)
