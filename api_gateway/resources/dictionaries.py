"""The tenant's dictionary: synonyms, stop words, phrases and rules, for one namespace or for all of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from starlette.responses import Response

from api_gateway.gateway import gateway_of
from api_gateway.http.auth import Reader, Writer
from api_gateway.http.descriptions import answers, json_body
from api_gateway.http.fields import namespace_parameter
from api_gateway.http.json_bodies import read_shape
from api_gateway.http.problems import Problem, invalid
from api_gateway.http.responses import json_response
from api_gateway.resources import dictionary_shapes as wire
from pipeline.keyword.dictionary import Dictionary
from pipeline.keyword.dictionary_store import EVERY_NAMESPACE, Dictionaries
from pipeline.records import Namespace

router = APIRouter(tags=["dictionary"])

Within = Annotated[
    str | None, Parameter(description="The namespace it holds for. Without it, the dictionary of all namespaces.")
]

_EXAMPLE = {
    "synonyms": [["高血压", "hypertension", "high blood pressure"]],
    "stop_words": ["请问"],
    "phrases": ["slow query log"],
    "rules": [{"when": "refund", "namespace": "kb", "document_id": "refund-policy", "boost": 2.0}],
}


@router.get(
    "/v1/dictionary",
    responses=answers(200, wire.DictionaryOut, "The dictionary.", 401, 403, 404, 422, 503),
    summary="Look at a dictionary",
)
async def look(request: Request, principal: Reader, namespace: Within = None) -> Response:
    """What the tenant says of words."""
    gateway = gateway_of(request)
    within = _within(namespace)

    def read(store: Dictionaries) -> tuple[Dictionary | None, int]:
        return store.load([within]).get(within), store.versions([within]).get(within, 0)

    found, version = await gateway.ask(Dictionaries, principal, read)
    if found is None:
        raise _missing(within)
    return json_response(wire.dictionary(found, within, version))


@router.put(
    "/v1/dictionary",
    responses=answers(
        200, wire.DictionaryOut, "It is kept, and holds for queries within seconds.", 400, 401, 403, 413, 415, 422, 503
    ),
    openapi_extra=json_body(wire.DictionaryIn, _EXAMPLE),
    summary="Replace a dictionary",
)
async def replace(request: Request, principal: Writer, namespace: Within = None) -> Response:
    """Synonyms count as one term, stop words are not looked for, phrases score higher in one piece, and rules prefer
    documents. A query obeys the dictionary of all namespaces and those of the namespaces it names. Only how queries are
    read changes: nothing is indexed again."""
    gateway = gateway_of(request)
    within = _within(namespace)
    sent = await read_shape(request, principal, wire.DictionaryIn)
    try:
        dictionary = wire.to_dictionary(sent, within)
    except ValueError as error:
        raise invalid([{"pointer": "/rules", "detail": str(error)}]) from None

    return json_response(
        wire.dictionary(
            dictionary,
            within,
            await gateway.ask(Dictionaries, principal, lambda store: store.replace(within, dictionary)),
        )
    )


@router.delete(
    "/v1/dictionary",
    status_code=204,
    responses=answers(204, None, "It is forgotten.", 401, 403, 404, 422, 503),
    summary="Forget a dictionary",
)
async def delete(request: Request, principal: Writer, namespace: Within = None) -> Response:
    """Queries are read without it again, within seconds."""
    gateway = gateway_of(request)
    within = _within(namespace)

    if not await gateway.ask(Dictionaries, principal, lambda store: store.delete(within)):
        raise _missing(within)
    return Response(status_code=204)


def _within(namespace: str | None) -> Namespace:
    return EVERY_NAMESPACE if namespace is None else namespace_parameter(namespace)


def _missing(within: Namespace) -> Problem:
    detail = f"There is no dictionary for the namespace {within}." if within else "There is no dictionary."
    return Problem(404, "dictionary_not_found", detail)
