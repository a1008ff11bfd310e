"""URLs of the stores and the broker, of one server or of several that take over from each other.

Two databases are named with all their servers, tried in order: ``mysql+pymysql://user@one:3306,two:3306/db``, or in
SQLAlchemy's form ``…@/db?host=one:3306&host=two:3306``, which is the one that leaves this module. A Redis is named by its
sentinels: ``redis+sentinel://one:26379,two:26379/name/0``, ``rediss+sentinel://`` with TLS.
"""

import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from pydantic import SecretStr

_REQUIREMENTS = {"required": ssl.CERT_REQUIRED, "optional": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}
_NO = ("false", "0", "no")
_TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
# The same parameters of PyMySQL and libpq; libpq's sslrootcert may also name the system's authorities.
_FILES = (*_TLS_FILES, "ssl_ca", "ssl_cert", "ssl_key", "sslrootcert", "sslcert", "sslkey")
_DATABASES = {"mysql+pymysql": 3306, "postgresql+psycopg": 5432}  # with the default port
_SENTINEL_PORT: Final = 26379
_SENTINELS: Final = "redis+sentinel://:password@one:26379,two:26379,three:26379/name/0"
_OLD_SENTINEL: Final = "sentinel"  # Celery's name of the scheme, which is read as redis+sentinel
REDIS_SCHEMES: Final = ("redis", "rediss", "redis+sentinel", "rediss+sentinel", _OLD_SENTINEL)
_SOCKETS = {"host", "hostaddr", "service", "unix_socket", "read_default_file"}
_UNQUOTED = (
    "has a character in its user or password that must be percent-encoded, such as @ / # ? %;"
    " leave the password out of the URL and put it as it is into {password_variable}"
)


def completed(
    url: SecretStr, password: SecretStr | None, *, schemes: tuple[str, ...], password_variable: str
) -> SecretStr:
    """Return ``url`` with the quoted password unless it has one, and several hosts of a database in SQLAlchemy's form.
    Raises ValueError that continues the variable's name."""
    if not url.get_secret_value().strip():
        raise ValueError(f"is empty; it {_example(schemes)}")
    unquoted = _UNQUOTED.format(password_variable=password_variable)
    brokers = url.get_secret_value().split(";") if "amqp" in schemes else [url.get_secret_value()]
    return SecretStr(";".join(_completed(one, password, schemes=schemes, unquoted=unquoted) for one in brokers))


def _completed(url: str, password: SecretStr | None, *, schemes: tuple[str, ...], unquoted: str) -> str:
    parts = _split(url, schemes)
    if parts.scheme.endswith("sentinel"):
        parts = _named_sentinels(parts)
    if not _reads_as_meant(parts):
        raise ValueError(unquoted)
    _require_address(parts, schemes)
    if parts.scheme.startswith("redis"):
        parts = parts._replace(query=_redis_query(parts))
    for name, value in parse_qsl(parts.query):
        if name in _FILES and value != "system" and not Path(value).is_file():
            raise ValueError(f"has {name}, but there is no such file: {value}")
    user, at, hosts = parts.netloc.rpartition("@")
    if password and ":" not in user:
        user, at = f"{user}:{quote(password.get_secret_value(), safe='')}", "@"
    if parts.scheme in _DATABASES and "," in hosts:
        query = [*(("host", host) for host in hosts.split(",")), *parse_qsl(parts.query)]
        parts, hosts = parts._replace(query=urlencode(query, safe=":/[]")), ""
    return urlunsplit(parts._replace(netloc=f"{user}{at}{hosts}"))


def hosts_of(url: str) -> tuple[str, ...]:
    """Return every host of a URL, each with its port if it names one, in order; none for a socket."""
    parts = urlsplit(url)
    hosts = [host for host in parts.netloc.rpartition("@")[2].split(",") if host]
    return tuple(hosts or [value for name, value in parse_qsl(parts.query) if name == "host"])


def host_and_port(host: str, port: int) -> tuple[str, int]:
    """Split ``host:port``, with or without a port, which is then ``port``. Raises ValueError."""
    parts = urlsplit(f"//{host}")
    if not parts.hostname:
        raise ValueError(f"no host in {host!r}")
    return parts.hostname, parts.port or port


@dataclass(frozen=True, slots=True, kw_only=True)
class SentinelUrl:
    """A Redis that sentinels name. ``name``: of the primary server among those that they watch; ``server``: a URL with the
    user, the database and the options of that server, and a host that means nothing; the account of the sentinels
    themselves is separate."""

    nodes: tuple[tuple[str, int], ...]
    name: str
    server: str
    username: str | None
    password: str | None

    @property
    def database(self) -> str:
        """Return the number of the database."""
        return urlsplit(self.server).path.strip("/")


def sentinel_url(url: str) -> SentinelUrl | None:
    """Return the parts of a completed URL of sentinels, None for another URL."""
    parts = urlsplit(url)
    if not parts.scheme.endswith("+sentinel"):
        return None
    user, at, hosts = parts.netloc.rpartition("@")
    name, _, database = parts.path.strip("/").partition("/")
    query = dict(parse_qsl(parts.query))
    account = {part: query.pop(f"sentinel_{part}", None) for part in ("username", "password")}
    server = parts._replace(
        scheme=parts.scheme.removesuffix("+sentinel"),
        netloc=f"{user}{at}{name}",
        path=f"/{database or 0}",
        query=urlencode(query, safe="/"),
    )
    return SentinelUrl(
        nodes=tuple(host_and_port(host, _SENTINEL_PORT) for host in hosts.split(",")),
        name=unquote(name),
        server=urlunsplit(server),
        username=account["username"],
        password=account["password"],
    )


def _named_sentinels(parts: SplitResult) -> SplitResult:
    """Return the parts with the scheme ``redis+sentinel`` for ``sentinel``. Raises ValueError without a primary's name."""
    name, _, database = parts.path.strip("/").partition("/")
    form = f"as in {_SENTINELS}"
    if ";" in f"{parts.netloc}{parts.path}":
        raise ValueError(f"names its sentinels in several URLs; name them in one, {form}")
    if not name or name.isdecimal():
        raise ValueError(
            f"does not name the primary server that the sentinels watch; name it before the database, {form}"
        )
    if database and not database.isdecimal():
        raise ValueError(f"has a database that is no number, {form}")
    scheme = f"redis+{parts.scheme}" if parts.scheme == _OLD_SENTINEL else parts.scheme
    return parts._replace(scheme=scheme)


def for_celery(url: str) -> tuple[str, dict[str, Any] | None]:
    """Split a URL into one without TLS parameters and the options of ``broker_use_ssl`` and ``redis_backend_use_ssl``; None
    for one without TLS. A certificate that names the host is required unless the URL says otherwise."""
    if (of := sentinel_url(url)) is not None:
        server, tls = for_celery(of.server)
        rest = urlsplit(server)._replace(scheme="sentinel")
        user, at, _ = rest.netloc.rpartition("@")
        one_each = [urlunsplit(rest._replace(netloc=f"{user}{at}{host}:{port}")) for host, port in of.nodes]
        return ";".join(one_each), tls
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
    user, _, hosts = parts.netloc.rpartition("@")
    try:
        for host in hosts.split(",") if hosts else ():
            host_and_port(host, 0)
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
    *others, last = [f"{scheme}://" for scheme in schemes if scheme != _OLD_SENTINEL]
    accepted = f"must begin with {', '.join(others)}{' or ' if others else ''}{last}"
    if schemes[0] not in _DATABASES:
        return accepted
    return f"{accepted}, as in {schemes[0]}://user:password@host:{_DATABASES[schemes[0]]}/database"


def _require_address(parts: SplitResult, schemes: tuple[str, ...]) -> None:
    """Raise ValueError for a database URL without a host or a database. A socket replaces the host."""
    if parts.scheme not in _DATABASES:
        return
    query = dict(parse_qsl(parts.query))
    if not hosts_of(urlunsplit(parts)) and not query.keys() & _SOCKETS:
        raise ValueError(f"names no host; it {_example(schemes)}")
    if not parts.path.strip("/") and not query.keys() & {"dbname", "database"}:
        raise ValueError(f"names no database; it {_example(schemes)}")


def _redis_query(parts: SplitResult) -> str:
    """Return the query with redis-py's names for certificate requirements. Raises ValueError."""
    query = dict(parse_qsl(parts.query))
    about_tls = [name for name in query if name.startswith("ssl_")]
    if about_tls and not parts.scheme.startswith("rediss"):
        needed = parts.scheme.replace("redis", "rediss", 1)
        raise ValueError(f"has {about_tls[0]}, which needs {needed}:// instead of {parts.scheme}://")
    if "ssl_cert_reqs" in query:
        query["ssl_cert_reqs"] = query["ssl_cert_reqs"].lower().removeprefix("cert_")
        if query["ssl_cert_reqs"] not in _REQUIREMENTS:
            raise ValueError("has ssl_cert_reqs that is not required, optional or none")
    return urlencode(query, safe="/")
