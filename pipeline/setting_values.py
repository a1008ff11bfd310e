"""Parse settings that hold a list or a table in one line, as in the environment."""

import json
import re
from typing import Annotated, Any, Final, Literal, NamedTuple, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from pipeline.records import CHANNEL_ALIASES

_PAIRS = 'must be pairs such as keyword:0.7,semantic:0.3 or a JSON object such as {"keyword": 0.7}'


def parse_list(text: str) -> Any:
    """Split ``a,b`` into its entries, or read a JSON array. Raises ValueError for text that begins as JSON and is none."""
    if text.lstrip().startswith("["):
        return _json(text, "must be a comma-separated list or a JSON array")
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_weights(value: Any) -> Any:
    """Parse channel weights by name from ``name:weight`` pairs, a JSON object or a mapping; an object's numbers are not
    checked. Raises ValueError."""
    if not isinstance(value, str):
        pairs = list(value.items()) if isinstance(value, dict) else None
    elif value.lstrip().startswith("{"):
        read = _json(value, _PAIRS)
        pairs = list(read.items()) if isinstance(read, dict) else None
    else:
        pairs = [_pair(part) for part in value.split(",") if part.strip()]
    if pairs is None:
        return value
    weights: dict[Any, Any] = {}
    for name, weight in pairs:
        channel = _channel_name(name)
        if channel in weights:
            raise ValueError(f"names the channel {channel} twice")
        weights[channel] = weight
    return weights


def channel_names(names: Any) -> Any:
    """Return a list with the canonical names of channels for their aliases; anything else unchanged."""
    return [_channel_name(name) for name in names] if isinstance(names, list | tuple) else names


def _channel_name(name: Any) -> Any:
    return CHANNEL_ALIASES.get(name, name) if isinstance(name, str) else name


def _pair(part: str) -> tuple[str, float]:
    name, _, weight = (piece.strip() for piece in part.partition(":"))
    try:
        return name, float(weight)
    except ValueError:
        raise ValueError(f"{_PAIRS}; {name[:40] or 'an entry'} has no number") from None


def _json(text: str, expected: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError(f"{expected}; it begins like JSON and is not valid JSON") from None


class VectorIndexChoice(NamedTuple):
    """The kind of index of a large tenant's vectors, and a graph's links of a vector and candidates for them."""

    kind: Literal["auto", "hnsw", "ivfflat"]
    m: int = 16
    ef_construction: int = 64


_VECTOR_INDEX: Final = re.compile(
    r"(auto|hnsw|ivfflat)(?: ?\( ?m ?= ?(\d{1,4}) ?, ?ef_construction ?= ?(\d{1,5}) ?\))?"
)


def parse_vector_index(text: str) -> VectorIndexChoice:
    """Read a kind of index, with the options of a graph as PostgreSQL takes them if they are not the usual ones. Raises
    ValueError."""
    found = _VECTOR_INDEX.fullmatch(text.strip())
    if found is None:
        raise ValueError("must be auto, hnsw or ivfflat, or such as hnsw (m = 16, ef_construction = 64)")
    kind = cast(Literal["auto", "hnsw", "ivfflat"], found[1])
    choice = VectorIndexChoice(kind, int(found[2]), int(found[3])) if found[2] else VectorIndexChoice(kind)
    if not (2 <= choice.m <= 100 and 2 * choice.m <= choice.ef_construction <= 1000):
        raise ValueError("takes m from 2 to 100, and ef_construction from twice m to 1000")
    return choice


def _checked_vector_index(text: str) -> str:
    parse_vector_index(text)
    return text


VectorIndex = Annotated[str, AfterValidator(_checked_vector_index)]

RRF_K = 60  # as in the paper: Cormack, Clarke and Büttcher 2009
# Milliseconds, including retries. Only query understanding and reranking may take longer.
ChannelTime = Annotated[int, Field(ge=100, le=2000)]


Role = Literal["viewer", "editor", "operator"]
_LOOPBACK: Final = re.compile(r"http://(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?(?:/.*)?")


def is_protected(url: str) -> bool:
    """Return whether a URL is one of https, or of a server on this machine."""
    return url.startswith("https://") or _LOOPBACK.fullmatch(url) is not None


def _protected(url: str) -> str:
    if not is_protected(url) or re.search(r"[\s?#]", url):
        raise ValueError("must be an https URL, or one of this machine, without a query")
    return url


class SignOn(BaseModel):
    """The provider of OpenID Connect at which people sign in to the console. ``url``: of the gateway, as browsers name it.
    ``roles``: by role and claim the values that give it, as in ``{"viewer": {"groups": ["staff"]}}``. ``groups``: the claim
    that names a person's groups."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: Annotated[str, AfterValidator(_protected)]
    client_id: Annotated[str, Field(min_length=1)]
    client_secret: Annotated[SecretStr, Field(min_length=1)]
    url: Annotated[str, AfterValidator(_protected), AfterValidator(lambda url: url.rstrip("/"))]
    tenant: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    roles: dict[Role, dict[str, tuple[str, ...]]]
    groups: str = "groups"
    scope: Annotated[str, Field(pattern=r"\bopenid\b")] = "openid profile email"


def parse_object(value: Any) -> Any:
    """Read a JSON object; an empty text is None, and another value unchanged. Raises ValueError."""
    return (_json(value, "must be a JSON object") if value.strip() else None) if isinstance(value, str) else value
