"""Options of single channels under ``retrieve.channels.NAME.options``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from pipeline.keyword.matching import FieldWeights
from pipeline.keyword.normal_form import normal_form
from pipeline.query.plan import ChannelPlan, Name, Plan, PlanFlaw
from pipeline.records import ChannelName, Namespace

_STRICT = ConfigDict(extra="forbid")

SOURCE_NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"

NamespaceOption = Annotated[Name, AfterValidator(lambda name: normal_form("NFC", name))]
SourceName = Annotated[str, Field(pattern=SOURCE_NAME)]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaqOptions:
    """Options of the faq channel. ``namespaces``: searched for pairs instead of the query's own."""

    __pydantic_config__ = _STRICT

    namespaces: Annotated[tuple[NamespaceOption, ...], Field(max_length=32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOptions:
    """The API sources to call: ``source``, or several ``sources``; neither means all of the tenant's."""

    __pydantic_config__ = _STRICT

    source: SourceName | None = None
    sources: Annotated[tuple[SourceName, ...], Field(max_length=8)] = ()

    @property
    def named(self) -> tuple[str, ...]:
        """Each source that was named, once."""
        return tuple(dict.fromkeys((*((self.source,) if self.source else ()), *self.sources)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordOptions:
    """Options of the keyword channel. ``fields``: the weight of a word in each field of a chunk."""

    __pydantic_config__ = _STRICT

    fields: FieldWeights = field(default_factory=FieldWeights)


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticOptions:
    """Options of the semantic channel. ``per_namespace``: the most hits of each namespace."""

    __pydantic_config__ = _STRICT

    per_namespace: Annotated[int, Field(ge=1, le=1000)] | None = None


# The options of other channels are their own affair.
_KINDS: Mapping[str, TypeAdapter[Any]] = {
    ChannelName.KEYWORD: TypeAdapter(KeywordOptions),
    ChannelName.SEMANTIC: TypeAdapter(SemanticOptions),
    ChannelName.FAQ: TypeAdapter(FaqOptions),
    ChannelName.API: TypeAdapter(ApiOptions),
}
_PLAIN = KeywordOptions()


def _options(name: ChannelName, plan: ChannelPlan) -> Any:
    return _KINDS[name].validate_json(orjson.dumps(dict(plan.options)))


def keyword_options(plan: ChannelPlan | None) -> KeywordOptions:
    """Return the checked options of the keyword channel."""
    return _options(ChannelName.KEYWORD, plan) if plan and plan.options else _PLAIN


def faq_options(plan: ChannelPlan | None) -> FaqOptions:
    """Return the checked options of the faq channel."""
    return _options(ChannelName.FAQ, plan) if plan else FaqOptions()


def api_options(plan: ChannelPlan | None) -> ApiOptions:
    """Return the checked options of the api channel."""
    return _options(ChannelName.API, plan) if plan else ApiOptions()


def semantic_options(plan: ChannelPlan | None) -> SemanticOptions:
    """Return the checked options of the semantic channel."""
    return _options(ChannelName.SEMANTIC, plan) if plan else SemanticOptions()


def require_options(plan: Plan) -> None:
    """Raise PlanFlaw for options that a channel does not have."""
    flaws = [
        (f"/retrieve/channels/{name}/options{pointer}", detail)
        for name, channel in plan.retrieve.channels.items()
        for pointer, detail in _flaws(name, channel)
    ]
    if flaws:
        raise PlanFlaw(flaws)


def _flaws(name: str, channel: ChannelPlan) -> Iterator[tuple[str, str]]:
    if name not in _KINDS:
        return
    try:
        _KINDS[name].validate_json(orjson.dumps(dict(channel.options)))
    except ValidationError as error:
        for flaw in error.errors(include_url=False):
            yield "".join(f"/{part}" for part in flaw["loc"]), flaw["msg"].removeprefix("Value error, ")


def searched_namespaces(options: FaqOptions, own: tuple[Namespace, ...]) -> tuple[Namespace, ...]:
    """Return the namespaces that are searched for pairs."""
    return tuple(Namespace(name) for name in options.namespaces) or own
