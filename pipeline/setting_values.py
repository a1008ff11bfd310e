"""Parse settings that hold a list, a table or a store's address in one line, as in the environment."""

import json
import re
import ssl
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit, urlunsplit

from pydantic import Field, SecretStr

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


RRF_K = 60  # as in the paper: Cormack, Clarke and Büttcher 2009
# Milliseconds, including retries. Only query understanding and reranking may take longer.
ChannelTime = Annotated[int, Field(ge=100, le=2000)]


_REQUIREMENTS = {"required": ssl.CERT_REQUIRED, "optional": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}
_NO = ("false", "0", "no")
_TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
# The same parameters of PyMySQL and libpq; libpq's sslrootcert may also name the system's authorities.
_FILES = (*_TLS_FILES, "ssl_ca", "ssl_cert", "ssl_key", "sslrootcert", "sslcert", "sslkey")
_DATABASES = {"mysql+pymysql": 3306, "postgresql+psycopg": 5432}  # with the default port
_SOCKETS = {"host", "hostaddr", "service", "unix_socket", "read_default_file"}
_UNQUOTED = (
    "has a character in its user or password that must be percent-encoded, such as @ / # ? %;"
    " leave the password out of the URL and put it as it is into {password_variable}"
)


def completed(
    url: SecretStr, password: SecretStr | None, *, schemes: tuple[str, ...], password_variable: str
) -> SecretStr:
    """Return ``url`` with the quoted password unless it has one. Raises ValueError that continues the variable's name."""
    if not url.get_secret_value().strip():
        raise ValueError(f"is empty; it {_example(schemes)}")
    parts = _split(url.get_secret_value(), schemes)
    if not _reads_as_meant(parts):
        raise ValueError(_UNQUOTED.format(password_variable=password_variable))
    _require_address(parts, schemes)
    if parts.scheme in ("redis", "rediss"):
        parts = parts._replace(query=_redis_query(parts))
    for name, value in parse_qsl(parts.query):
        if name in _FILES and value != "system" and not Path(value).is_file():
            raise ValueError(f"has {name}, but there is no such file: {value}")
    if password and parts.password is None:
        user, at, host = parts.netloc.rpartition("@")
        user = user if at else ""
        parts = parts._replace(netloc=f"{user.removesuffix(':')}:{quote(password.get_secret_value(), safe='')}@{host}")
    return SecretStr(urlunsplit(parts))


def for_celery(url: str) -> tuple[str, dict[str, Any] | None]:
    """Split a URL into one without TLS parameters and the options of ``broker_use_ssl`` and ``redis_backend_use_ssl``; None
    for one without TLS. A certificate that names the host is required unless the URL says otherwise."""
    parts = urlsplit(url)
    if parts.scheme == "amqps":
        return _for_py_amqp(url)
    if parts.scheme != "rediss":
        return url, None
    query = dict(parse_qsl(parts.query))
    requirement = _REQUIREMENTS[query.pop("ssl_cert_reqs", "required")]
    options: dict[str, Any] = {name: query.pop(name) for name in _TLS_FILES if name in query}
    checks_name = query.pop("ssl_check_hostname", "true").lower() not in _NO
    options["ssl_cert_reqs"] = requirement
    options["ssl_check_hostname"] = checks_name and requirement is not ssl.CERT_NONE
    return urlunsplit(parts._replace(query=urlencode(query))), options


def _for_py_amqp(url: str) -> tuple[str, dict[str, Any]]:
    """Split one or more URLs of AMQP as `for_celery` does, by the names of py-amqp's options. Several share the parameters."""
    bare: list[str] = []
    parameters: dict[str, str] = {}
    for one in url.split(";"):
        parts = urlsplit(one)
        query = dict(parse_qsl(parts.query))
        parameters |= {name: query.pop(name) for name in [*query] if name.startswith("ssl_")}
        bare.append(urlunsplit(parts._replace(query=urlencode(query))))
    requirement = _REQUIREMENTS[parameters.get("ssl_cert_reqs", "required")]
    options: dict[str, Any] = {name.removeprefix("ssl_"): parameters[name] for name in _TLS_FILES if name in parameters}
    options["cert_reqs"] = requirement
    if requirement is not ssl.CERT_NONE and parameters.get("ssl_check_hostname", "true").lower() not in _NO:
        options["server_hostname"] = None  # filled with the host of each connection
    return ";".join(bare), options


def _reads_as_meant(parts: SplitResult) -> bool:
    """Return whether the parts are plausible: an unquoted ``@ / # ?`` moves pieces of a password into other parts."""
    user, _, _host = parts.netloc.rpartition("@")
    try:
        _ = parts.port
    except ValueError:
        return False
    stray = (
        "@" in user
        or "@" in parts.path
        or parts.fragment
        or any("=" not in pair for pair in parts.query.split("&") if pair)
    )
    return not stray and not re.search(r"%(?![0-9A-Fa-f]{2})", user)


def _split(url: str, schemes: tuple[str, ...]) -> SplitResult:
    """Return the parts of a URL with one of the schemes. Raises ValueError."""
    try:
        parts = urlsplit(url)
    except ValueError:  # for example an unclosed bracket of an IPv6 address
        raise ValueError("is not a URL") from None
    if parts.scheme not in schemes or not url.startswith(f"{url[: len(parts.scheme)]}://"):
        raise ValueError(_example(schemes))
    return parts


def _example(schemes: tuple[str, ...]) -> str:
    """Return the accepted schemes, with an example of a whole URL for a database."""
    accepted = f"must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}"
    if schemes[0] not in _DATABASES:
        return accepted
    return f"{accepted}, as in {schemes[0]}://user:password@host:{_DATABASES[schemes[0]]}/database"


def _require_address(parts: SplitResult, schemes: tuple[str, ...]) -> None:
    """Raise ValueError for a database URL without a host or a database. A socket replaces the host."""
    if parts.scheme not in _DATABASES:
        return
    query = dict(parse_qsl(parts.query))
    if not parts.hostname and not query.keys() & _SOCKETS:
        raise ValueError(f"names no host; it {_example(schemes)}")
    if not parts.path.strip("/") and not query.keys() & {"dbname", "database"}:
        raise ValueError(f"names no database; it {_example(schemes)}")


def _redis_query(parts: SplitResult) -> str:
    """Return the query with redis-py's names for certificate requirements. Raises ValueError."""
    query = dict(parse_qsl(parts.query))
    about_tls = [name for name in query if name.startswith("ssl_")]
    if about_tls and parts.scheme != "rediss":
        raise ValueError(f"has {about_tls[0]}, which needs rediss:// instead of redis://")
    if "ssl_cert_reqs" in query:
        query["ssl_cert_reqs"] = query["ssl_cert_reqs"].lower().removeprefix("cert_")
        if query["ssl_cert_reqs"] not in _REQUIREMENTS:
            raise ValueError("has ssl_cert_reqs that is not required, optional or none")
    return urlencode(query, safe="/")
