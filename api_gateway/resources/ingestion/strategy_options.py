"""`chunking` in a request: a strategy and its options, checked and described by the registry of strategies."""

from __future__ import annotations

from itertools import islice
from typing import Any, Self

from pydantic import ConfigDict, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from api_gateway.http.fields import Wire
from api_gateway.http.problems import MOST_ERRORS
from pipeline.chunking.strategies.registry import STRATEGIES, flaws_in_options, options_of
from pipeline.chunking.strategies.strategy import Option
from pipeline.records import Chunking

# For comparison with an uploader's options; the settings themselves are checked when the gateway starts.
_ASSUMED = {"max_tokens": 400.0, "overlap": 0.2}


class ChunkingIn(Wire):
    """The chunking of the documents; omitted options are the installation's."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    strategy: str = "sentences"

    @property
    def options(self) -> dict[str, Any]:
        """Return the options given beside the strategy; null counts as absent."""
        return {name: value for name, value in (self.model_extra or {}).items() if value is not None}

    @model_validator(mode="after")
    def _fit_the_strategy(self) -> Self:
        if self.strategy not in STRATEGIES:
            raise _error([("strategy", f"is no chunking strategy; there are {', '.join(STRATEGIES)}")])
        flaws = list(islice(flaws_in_options(self.strategy, self.options, _ASSUMED), MOST_ERRORS))
        if flaws:
            raise _error(flaws)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return one alternative for each strategy, with its options."""
        described = handler.resolve_ref_schema(handler(schema))
        described.pop("properties", None)
        described.pop("additionalProperties", None)
        described["oneOf"] = [
            {
                "type": "object",
                "title": strategy.name,
                "description": strategy.meaning,
                "additionalProperties": False,
                **({} if strategy.name == "sentences" else {"required": ["strategy"]}),
                "properties": {
                    "strategy": {"const": strategy.name},
                    **{name: _described(option) for name, option in strategy.options.items()},
                },
            }
            for strategy in STRATEGIES.values()
        ]
        return described


def chunking_json(chunking: Chunking) -> dict[str, Any]:
    """Return the chunking as it is sent: the strategy with all its options."""
    return {"strategy": chunking.strategy, **options_of(chunking)}


def _described(option: Option) -> dict[str, Any]:
    described: dict[str, Any] = {
        "type": "integer" if option.is_whole else "number",
        "minimum": option.minimum,
        "maximum": option.maximum,
        "description": option.meaning,
    }
    return described if option.default is None else {**described, "default": option.default}


def _error(flaws: list[tuple[str, str]]) -> ValidationError:
    """Return each flaw at its own option."""
    return ValidationError.from_exception_data(
        "ChunkingIn",
        [
            InitErrorDetails(type=PydanticCustomError("chunking", "{flaw}", {"flaw": flaw}), loc=(name,), input=None)
            for name, flaw in flaws
        ],
    )
