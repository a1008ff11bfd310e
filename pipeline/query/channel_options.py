"""Options of single channels under ``retrieve.channels.NAME.options``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from pipeline.keyword.matching import FieldWeights
from pipeline.keyword.normal_form import normal_form
from pipeline.query.plan import ChannelPlan, Name, Plan, PlanFlaw, StrictRecord
from pipeline.records import ChannelName, Namespace

SOURCE_NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"

NamespaceOption = Annotated[Name, AfterValidator(lambda name: normal_form("NFC", name))]
SourceName = Annotated[str, Field(pattern=SOURCE_NAME)]
Options = TypeVar("Options")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaqOptions(StrictRecord):
    """Options of the faq channel. ``namespaces``: searched for pairs instead of the query's own."""

    namespaces: Annotated[tuple[NamespaceOption, ...], Field(max_length=32)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOptions(StrictRecord):
    """The API sources to call: ``source``, or several ``sources``; neither means all of the tenant's."""

    source: SourceName | None = None
    sources: Annotated[tuple[SourceName, ...], Field(max_length=8)] = ()

    @property
    def named(self) -> tuple[str, ...]:
        """Each source that was named, once."""
        return tuple(dict.fromkeys((*((self.source,) if self.source else ()), *self.sources)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordOptions(StrictRecord):
    """Options of the keyword channel. ``fields``: the weight of a word in each field of a chunk."""

    fields: FieldWeights = field(default_factory=FieldWeights)


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticOptions(StrictRecord):
    """Options of the semantic channel. ``per_namespace``: the most hits of each namespace."""

    per_namespace: Annotated[int, Field(ge=1, le=1000)] | None = None


# The options of other channels are their own affair.
_KINDS: Mapping[str, type] = {
    ChannelName.KEYWORD: KeywordOptions,
    ChannelName.SEMANTIC: SemanticOptions,
    ChannelName.FAQ: FaqOptions,
    ChannelName.API: ApiOptions,
}
_ADAPTERS: Mapping[type, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in _KINDS.values()}


def options_of(kind: type[Options], plan: ChannelPlan | None) -> Options:
    """Return the checked options of a channel, such as FaqOptions; the defaults without a plan."""
    options: Options = _ADAPTERS[kind].validate_json(orjson.dumps(dict(plan.options)) if plan else b"{}")
    return options


def require_options(plan: Plan) -> None:
    """Raise PlanFlaw for options that a channel does not have."""
    flaws: list[tuple[str, str]] = []
    for name, channel in plan.retrieve.channels.items():
        try:
            if name in _KINDS:
                options_of(_KINDS[name], channel)
        except ValidationError as error:
            for flaw in error.errors(include_url=False):
                pointer = "".join(f"/{part}" for part in ("retrieve", "channels", name, "options", *flaw["loc"]))
                flaws.append((pointer, flaw["msg"].removeprefix("Value error, ")))
    if flaws:
        raise PlanFlaw(flaws)


def searched_namespaces(options: FaqOptions, own: tuple[Namespace, ...]) -> tuple[Namespace, ...]:
    """Return the namespaces that are searched for pairs."""
    return tuple(Namespace(name) for name in options.namespaces) or own
