"""The body of a query, and its conversion to a `Query` in which every default is resolved."""

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import orjson
from fastapi import Query as Parameter
from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler, ValidationError

from api_gateway.http import fields
from api_gateway.http.bodies import Decoded, decode_json, refuse_flaws
from api_gateway.http.fields import DescribedBy, TenantWire, Wire
from api_gateway.http.problems import Problem, invalid, places
from api_gateway.resources.retrieval.conditions import LONGEST_FILTERS, Where, read_expression, to_condition
from api_gateway.resources.route_parts import validated
from chordwise.contract import document
from chordwise.contract.tenant import AuditActor
from pipeline.filters.expressions import parse_filter
from pipeline.filters.readers import Principals, readers_filter
from pipeline.query.configuration import (
    Assign,
    Choice,
    Configuration,
    UnknownProfile,
    built_in_configuration,
    choose,
    nobody,
)
from pipeline.query.keywords import background_of
from pipeline.query.plan import (
    MOST_FACETS,
    ContextOptions,
    FallbackPlan,
    FieldName,
    PlanFlaw,
    RerankPlan,
    RetrievePlan,
    UnderstandPlan,
    comparable,
    overlaid,
    require_story_time,
)
from pipeline.query.request import Query
from pipeline.records import ChunkId, Filters, Namespace, QueryId, TenantId
from pipeline.retrieval.build_plan import plan_of
from pipeline.settings import Settings


class FiltersIn(fields.request_of(document.Filters, Wire, where=Where)):  # type: ignore[misc]  # noqa: D101 - of the contract
    __doc__ = document.Filters.__doc__


class _AlsoText:
    """Describe filters as an object or an expression."""

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        text = {
            "type": "string",
            "maxLength": LONGEST_FILTERS,
            "description": "An expression: `year > 2020 and tags:hr`.",
        }
        return {"anyOf": [handler(schema), text]}


FiltersOrText = Annotated[FiltersIn, BeforeValidator(read_expression), _AlsoText()]


def to_filters(sent: FiltersIn, *, story_time: int | None = None) -> Filters:
    """Return the filters as a record. Raises ValueError for an ``end`` before the ``start``."""
    if sent.start is not None and sent.end is not None and sent.end < sent.start:
        raise ValueError("lies before start")
    where = None if sent.where is None else to_condition(sent.where)
    given = {**dict(sent), "tags": tuple(sent.tags or ()), "metadata": sent.metadata or {}, "where": where}
    return Filters(**given, story_time=story_time)


FiltersText = Annotated[
    str | None,
    Parameter(
        max_length=LONGEST_FILTERS,
        description='Only what fits the `filters` of a query: `{"type": "manual"}`, or `type:manual and year > 2020`.',
    ),
]


def filters_parameter(value: str) -> Filters:
    """Parse filters from a query string: a JSON object, or an expression. Raises Problem(422)."""
    try:
        if not value.lstrip().startswith(("{", "[")):
            return to_filters(FiltersIn.model_validate(_parsed(value)))
        return to_filters(FiltersIn.model_validate(refuse_flaws(decode_json(value.encode("utf-8", "replace")))))
    except ValidationError as error:
        errors = places(error, under=["filters"])
    except Problem as error:
        errors = [{"pointer": f"/filters{flaw['pointer']}", "detail": flaw["detail"]} for flaw in error.errors]
        errors = errors or [{"pointer": "/filters", "detail": f"must be a JSON object: {error.detail}"}]
    except ValueError as error:
        errors = [{"pointer": "/filters/end", "detail": str(error)}]
    raise invalid([{**flaw, "in": "query"} for flaw in errors])


def _parsed(expression: str) -> dict[str, Any]:
    try:
        return parse_filter(expression)
    except ValueError as error:
        raise invalid([{"pointer": "", "detail": str(error)}]) from None


# The parts of a plan that a request may set, under the names that a profile uses.
_PLAN_PARTS = ("top_k", "deadline_ms", "retrieve", "rerank", "understand", "fallback", "context", "highlight", "facets")
_GROUPING = ("group_by", "group_size")  # of ``retrieve.selection``

RetrieveIn = Annotated[dict[str, Any], DescribedBy(RetrievePlan)]
RerankIn = Annotated[dict[str, Any], DescribedBy(RerankPlan)]
UnderstandIn = Annotated[dict[str, Any], DescribedBy(UnderstandPlan)]
FallbackIn = Annotated[dict[str, Any], DescribedBy(FallbackPlan)]
ContextIn = Annotated[dict[str, Any], DescribedBy(ContextOptions)]


_LONGEST_PROFILE: Final = 8 * 1024  # bytes of JSON


def _short(profile: dict[str, Any]) -> dict[str, Any]:
    if len(orjson.dumps(profile)) > _LONGEST_PROFILE:
        raise ValueError(f"is longer than {_LONGEST_PROFILE} bytes")
    return profile


ChunkIdText = Annotated[str, Field(min_length=1, max_length=64)]
Message = Annotated[str, Field(max_length=8000)]
Conversation = Annotated[list[Message], Field(max_length=100)]
UserProfile = Annotated[dict[str, Any], Field(max_length=64), AfterValidator(_short)]


class QueryRequest(TenantWire):
    """One retrieval. Every field but `query_text` and `namespaces` is optional; the profile supplies omitted ones.

    `principals`: those of the caller, from a key with the scope `impersonate`. `context`: add the hits as a text for
    a prompt; `{}` for the default one. `highlight`: mark the words of the query in the hits. `facets`: count the
    values of these fields among the passages that match (`type`, `author`, `tags`, `metadata.<key>`). `group_by`:
    return the best `top_k` values of such a field, with up to `group_size` hits of each. `exclude`: ids of chunks
    that you have, which the answer leaves out. `conversation`: the messages before the query, oldest first.
    `user_profile`: known facts about the user.
    """

    query_text: Annotated[str, Field(min_length=1, max_length=8000)]
    namespaces: Annotated[list[fields.NamespaceName], Field(min_length=1, max_length=32)]
    top_k: Annotated[int, Field(ge=1, le=1000)] | None = None
    filters: FiltersOrText | None = None
    enable_expand: bool | None = None
    enable_rerank: bool | None = None
    profile: fields.Label | None = None
    retrieve: RetrieveIn | None = None
    rerank: RerankIn | None = None
    understand: UnderstandIn | None = None
    fallback: FallbackIn | None = None
    context: ContextIn | None = None
    highlight: bool | None = None
    facets: Annotated[list[FieldName], Field(max_length=MOST_FACETS)] | None = None
    group_by: FieldName | None = None
    group_size: Annotated[int, Field(ge=1, le=100)] | None = None
    exclude: Annotated[list[ChunkIdText], Field(max_length=1000)] | None = None
    deadline_ms: Annotated[int, Field(ge=200, le=60_000)] | None = None
    story_time: fields.Integer64 | None = None
    conversation: Conversation | None = None
    user_profile: UserProfile | None = None
    principals: Annotated[fields.ReaderNames, Field(min_length=0)] | None = None
    session_id: fields.Label | None = None
    experiment_id: fields.Label | None = None
    trace: bool | None = None


def to_query(
    decoded: Decoded,
    *,
    tenant_id: TenantId,
    request_id: str,
    use: Settings,
    configuration: Configuration | None = None,
    assign: Assign = nobody,
    asked_by: AuditActor | None = None,
    reads_as: Callable[[Sequence[str] | None], Principals] = lambda _: frozenset(),
    received_at: float | None = None,
) -> Query:
    """Convert a body to a query with the tenant's ``configuration`` (the built-in one by default). The deadline counts
    from ``received_at`` (seconds since the epoch; now by default). ``reads_as`` gives the caller's principals, for those that
    the body names. Raises Problem(422), or Problem(404) for an unknown profile."""
    sent = validated(QueryRequest, refuse_flaws(decoded))
    if sent.query_text.isspace():
        raise invalid([{"pointer": "/query_text", "detail": "holds nothing but white space"}])
    configuration = configuration or built_in_configuration()
    choice, remarks = _choice(sent, configuration, assign)
    namespaces = tuple(dict.fromkeys(Namespace(name) for name in sent.namespaces))
    try:
        plan = plan_of(use, choice.config, _plan_parts(sent), namespaces=len(namespaces))
        require_story_time(plan, sent.story_time)
    except PlanFlaw as flaw:
        raise invalid([_as_named(error, sent) for error in flaws(flaw)]) from None
    plan, refused = comparable(plan, namespaces=len(namespaces))
    created_at = time.time() if received_at is None else received_at
    return Query(
        query_id=QueryId(str(uuid.uuid4())),
        tenant_id=tenant_id,
        request_id=request_id,
        query_text=sent.query_text,
        namespaces=namespaces,
        principals=readers_filter(reads_as(sent.principals)),
        filters=_filters(sent),
        background=background_of(sent.conversation, sent.user_profile),
        plan=plan,
        created_at=created_at,
        deadline_at=created_at + plan.deadline_ms / 1000,
        session_id=sent.session_id,
        experiment_id=sent.experiment_id,
        experiment_bucket=choice.bucket,
        profile=choice.profile,
        config_version=choice.version,
        trace=sent.trace is True,
        exclude=tuple(ChunkId(chunk_id) for chunk_id in dict.fromkeys(sent.exclude or ())),
        remarks=(*remarks, *refused),
        asked_by=asked_by or AuditActor(),
        rules_known=configuration.is_known,
    )


def _choice(sent: QueryRequest, configuration: Configuration, assign: Assign) -> tuple[Choice, list[str]]:
    """Return the profile and the arm, and the remarks on that choice."""
    unit, experiment_id = sent.session_id or sent.query_text, sent.experiment_id
    try:
        choice = choose(configuration, profile=sent.profile, experiment_id=experiment_id, unit=unit, assign=assign)
    except UnknownProfile as unknown:
        errors = [{"pointer": "/profile", "detail": "is not the name of a profile"}]
        raise Problem(404, "profile_not_found", f"There is no profile {unknown}.", errors=errors) from None
    outside = experiment_id is not None and choice.bucket is None
    return choice, ["the query takes no part in the experiment it names"] if outside else []


def flaws(flaw: PlanFlaw, *, under: str = "") -> list[dict[str, str]]:
    """Return the locations at fault in the plan at the JSON Pointer ``under``."""
    if isinstance(flaw.__cause__, ValidationError):
        errors = places(flaw.__cause__)
    else:
        errors = [{"pointer": pointer, "detail": detail} for pointer, detail in flaw.flaws]
    return [{**error, "pointer": under + error["pointer"]} for error in errors]


def _plan_parts(sent: QueryRequest) -> dict[str, Any]:
    """Return the parts of a plan that a request sets; null counts as absent."""
    values = {name: getattr(sent, name) for name in _PLAN_PARTS}
    parts = {name: _without_nulls(value) for name, value in values.items() if value is not None}
    for switch, part in ((sent.enable_expand, "understand"), (sent.enable_rerank, "rerank")):
        if switch is not None:
            parts[part] = {**parts.get(part, {}), "enabled": switch}
    groups = {name: value for name in _GROUPING if (value := getattr(sent, name)) is not None}
    return overlaid(parts, {"retrieve": {"selection": groups}}) if groups else parts


def _as_named(error: dict[str, str], sent: QueryRequest) -> dict[str, str]:
    """Return an error with the pointer of the request's own field, where that set the part of the plan."""
    under, _, name = error["pointer"].rpartition("/")
    own = under == "/retrieve/selection" and name in _GROUPING and getattr(sent, name) is not None
    return {**error, "pointer": f"/{name}"} if own else error


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}


def _filters(sent: QueryRequest) -> Filters:
    try:
        return to_filters(sent.filters or FiltersIn(), story_time=sent.story_time)
    except ValueError as error:
        raise invalid([{"pointer": "/filters/end", "detail": str(error)}]) from None
