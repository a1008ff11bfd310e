"""The installation's id in MySQL (authoritative), PostgreSQL and Redis, and their comparison, before any deletion that
MySQL asks for. A folder of keyword indexes has the id in a file, which `keyword_index.index_folder` compares."""

import re
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

import structlog
from sqlalchemy import Connection, Engine, exc, inspect, text

from pipeline.database.engines import engines, mysql_errors, postgres_errors, redis_errors
from pipeline.database.one_primary import claim_for_good, refusal_of
from pipeline.database.redis_connections import brief_redis
from pipeline.database.rows import now, slices
from pipeline.database.statements import sql
from pipeline.errors import WrongInstallation
from pipeline.outages import tolerate_outage
from pipeline.settings import Settings
from pipeline.store_urls import hosts_of

log = structlog.get_logger(__name__)

_NOT_COMPARED = "installation_not_compared"

KEY: Final = "chordwise:installation"  # in Redis
ADOPT: Final = "python -m pipeline.maintenance.migrate_schema adopt"

_SAMPLED_TENANTS = 20
_SAMPLED_CHUNKS = 10  # of vectors sampled in each table
_SHARE_KNOWN = 0.5  # of the sampled vectors; from this share on, an unnamed store belongs to this MySQL
_SCANNED_AT_ONCE = 1000

# Keys that a previous installation left in Redis and that are wrong for this one: cached answers, running queries,
# messages, searches on their way into the audit. docs/data-model.md names each.
_LEFT_IN_REDIS = re.compile(
    rb"[^:]+:(query|answer|understood|vectors|audit|requests|writing|notified|computation|session)(:.*)?"
    rb"|chordwise:(audit|vectors|circuits|pace)(:.*)?|ingest|long|batch|recall|answer|rerank|compute|upkeep|unacked.*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The variable that names a store, and the store's URL without password and options."""

    variable: str
    url: str

    def __str__(self) -> str:
        return f"{self.variable} ({self.url})"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationClaim:
    """The installation that a store belongs to; ``installation_id`` None: none yet, or no table."""

    address: Address
    installation_id: str | None


def addresses(settings: Settings) -> dict[Literal["mysql", "postgres", "redis", "broker"], Address]:
    """Return every store that has the id. The broker is included only if it is another Redis."""
    stores: dict[Literal["mysql", "postgres", "redis", "broker"], Address] = {
        "mysql": Address(variable="CHORDWISE_MYSQL_URL", url=_shown(settings.mysql_url.get_secret_value())),
        "postgres": Address(variable="CHORDWISE_POSTGRES_URL", url=_shown(settings.postgres_url.get_secret_value())),
        "redis": Address(variable="CHORDWISE_REDIS_URL", url=_shown(settings.redis_url.get_secret_value())),
    }
    if has_redis_broker(settings):
        stores["broker"] = Address(variable="CHORDWISE_BROKER_URL", url=_shown(settings.broker))
    return stores


def compare(record: InstallationClaim, other: InstallationClaim) -> str:
    """Return the id of the installation that both stores belong to. Raises WrongInstallation unless there is one."""
    if record.installation_id is not None and record.installation_id == other.installation_id:
        return record.installation_id
    if record.installation_id is None and other.installation_id is None:
        raise WrongInstallation(
            f"{record.address} and {other.address} belong to no installation yet:"
            " run python -m pipeline.maintenance.migrate_schema upgrade"
        )
    raise WrongInstallation(
        f"{record.address} belongs to {named(record)}, but {other.address} to {named(other)}:"
        f" correct the address that is wrong, or run {ADOPT} if this MySQL is to be their record from now on"
    )


def has_redis_broker(settings: Settings) -> bool:
    """Return whether messages go through another Redis than results and caches."""
    return settings.has_redis_as_broker and settings.broker != settings.redis_url.get_secret_value()


def named(claim: InstallationClaim) -> str:
    """Return a description of a store's owner."""
    return "no installation yet" if claim.installation_id is None else f"installation {claim.installation_id}"


def _shown(url: str) -> str:
    """Return a URL without password and options; options may be secret too."""
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0].partition(":")[0]
    return f"{parts.scheme}://{user}{'@' if user else ''}{','.join(hosts_of(url))}{parts.path}"


class Installation:
    """This process's installation: its first confirmed id, and the check that its stores belong to it. Thread-safe."""

    def __init__(
        self,
        settings: Settings,
        *,
        mysql: Callable[[], Engine],
        postgres: Callable[[], Engine],
        on_refusal: Callable[[], object] = lambda: None,
    ) -> None:
        """``on_refusal`` is called before WrongInstallation is raised; it must not raise."""
        self._settings = settings
        self._mysql = mysql
        self._postgres = postgres
        self._on_refusal = on_refusal
        self._lock = threading.Lock()
        self._own: str | None = None
        self._timeline = ""
        self._confirmed_at = float("-inf")

    @property
    def known(self) -> str | None:
        """Return the process's own id, None before the first confirmation."""
        return self._own

    def confirm(self, connection: Connection | None = None, *, within_s: float = 0.0) -> str:
        """Return the id that MySQL and PostgreSQL agree on.

        ``connection``: the one whose rows decide deletions. ``within_s``: the age of an earlier comparison to accept.
        Raises WrongInstallation, StoreUnavailable, Misconfigured without a schema.
        """
        with self._lock:
            if self._own is not None and time.monotonic() - self._confirmed_at < within_s:
                return self._own
        with self._refusing():
            installation_id = self._compared(connection)
        with self._lock:
            self._own, self._confirmed_at = installation_id, time.monotonic()
        return installation_id

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Log WrongInstallation and call ``on_refusal`` before it leaves the block."""
        try:
            yield
        except WrongInstallation as error:
            log.error("wrong_installation", detail=str(error))
            with self._lock:
                self._confirmed_at = float("-inf")
            self._on_refusal()
            raise

    def _compared(self, connection: Connection | None) -> str:
        with mysql_errors(), ExitStack() as stack:
            asked = connection if connection is not None else stack.enter_context(self._mysql().connect())
            ours, refusal = id_in(asked), refusal_of(asked)
        with postgres_errors(), self._postgres().connect() as reading:
            theirs = id_in(reading)
            timeline = timeline_in(reading)
        where = addresses(self._settings)
        record, other = where["mysql"], where["postgres"]
        installation_id = compare(
            InstallationClaim(address=record, installation_id=ours),
            InstallationClaim(address=other, installation_id=theirs),
        )
        if self._own not in (None, installation_id):
            raise WrongInstallation(
                f"{record} and {other} belong to installation {installation_id} now, and belonged to {self._own} when this"
                " process started: correct the addresses, or restart every process of the installation"
            )
        if refusal:
            raise WrongInstallation(refusal, two_primaries="MySQL")
        if timeline is not None:
            self._refuse_former_primary(timeline, other)
        return installation_id

    def _refuse_former_primary(self, timeline: str, address: Address) -> None:
        """Raise WrongInstallation if this process has seen a later timeline of PostgreSQL: each promotion begins one."""
        with self._lock:
            if timeline >= self._timeline:
                self._timeline = timeline
                return
        raise WrongInstallation(
            f"{address} answers on timeline {int(timeline, 16)}, and answered on {int(self._timeline, 16)} before: a former"
            " primary server takes writes beside its successor; end it, or keep the address from it. After restoring an older"
            " backup, restart every process of the installation",
            two_primaries="PostgreSQL",
        )

    def confirm_redis(self) -> None:
        """Compare Redis and a broker Redis with MySQL, or claim it. Raises WrongInstallation, StoreUnavailable."""
        installation_id = self.confirm()
        with self._refusing():
            confirm_redis(installation_id, self._settings)

    def refuse_wrong(self) -> None:
        """Raise WrongInstallation if the stores do not belong together. Skips stores that are unavailable."""
        with tolerate_outage(log.warning, _NOT_COMPARED, but=(WrongInstallation,), detail=True):
            self.confirm_redis()


def confirm_stores(mysql: Engine, postgres: Engine, settings: Settings) -> str:
    """Compare all stores when a process starts; return the id. Redis may be away. Raises WrongInstallation."""
    own = Installation(settings, mysql=lambda: mysql, postgres=lambda: postgres).confirm()
    with tolerate_outage(log.warning, _NOT_COMPARED, but=(WrongInstallation,), detail=True, store="redis"):
        confirm_redis(own, settings)
    return own


def refuse_wrong(settings: Settings) -> None:
    """Raise WrongInstallation if the stores do not belong together. Skips stores that are unavailable."""
    with engines(settings) as (mysql, postgres):
        Installation(settings, mysql=lambda: mysql, postgres=lambda: postgres).refuse_wrong()


def establish(mysql: Engine, postgres: Engine, settings: Settings, *, adopt: bool = False) -> str:
    """Give both stores one id after a migration, claim Redis, and return the id. ``adopt``: PostgreSQL and Redis take
    MySQL's. Raises WrongInstallation as ``refuse_strangers``."""
    if not adopt:
        refuse_strangers(mysql, postgres, settings)
    with mysql_errors(), mysql.begin() as connection:
        own = id_in(connection)
        if own is None and not adopt:
            with postgres_errors(), postgres.connect() as reading:
                own = id_in(reading)
        connection.execute(_INSERT_MYSQL, {"installation": own or str(uuid.uuid4()), "now": now()})
        own = id_in(connection)  # a concurrent migration may have written it first
    assert own is not None
    with postgres_errors(), postgres.begin() as connection:
        connection.execute(_ADOPT_POSTGRES if adopt else _INSERT_POSTGRES, {"installation": own})
    confirmed = Installation(settings, mysql=lambda: mysql, postgres=lambda: postgres).confirm()
    with tolerate_outage(log.warning, _NOT_COMPARED, but=(WrongInstallation,), detail=True, store="redis"):
        if adopt:
            _adopt_redis(own, settings)
        confirm_redis(own, settings)
        if adopt:
            redis_url = settings.redis_url.get_secret_value()
            with mysql_errors(), mysql.connect() as connection, brief_redis(redis_url) as client, redis_errors():
                claim_for_good(connection, client)
    return confirmed


def refuse_strangers(mysql: Engine, postgres: Engine, settings: Settings) -> None:
    """Raise WrongInstallation if a migration would join two installations; change nothing. A store without an id may
    join if PostgreSQL has no vectors or MySQL knows most chunks of a sample."""
    where = addresses(settings)
    with mysql_errors(), mysql.connect() as connection:
        record = InstallationClaim(address=where["mysql"], installation_id=id_in(connection))
    with postgres_errors(), postgres.connect() as connection:
        other = InstallationClaim(address=where["postgres"], installation_id=id_in(connection))
        sample = {} if record.installation_id and other.installation_id else _sample(connection)
    if record.installation_id and other.installation_id:
        compare(record, other)
        return
    if not sample:
        return
    vectors = sum(len(ids) for ids in sample.values())
    with mysql_errors(), mysql.connect() as connection:
        known = _known(connection, sample)
    if known < _SHARE_KNOWN * vectors:
        raise WrongInstallation(
            f"{record.address} belongs to {named(record)} and knows {known} of {vectors} chunks whose vectors were"
            f" sampled in {other.address}, which belongs to {named(other)}: correct the address that is wrong, or run"
            f" {ADOPT} if this MySQL is to be their record from now on"
        )


def confirm_redis(own: str, settings: Settings) -> None:
    """Compare Redis, and another broker Redis, with ``own``; claim one without id. Raises as `confirm_redis` there."""
    where = addresses(settings)
    for address, url in _redis_urls(settings).items():
        with brief_redis(url) as client, redis_errors():
            claim = client.get(KEY)
            if claim is None:
                client.set(KEY, own, nx=True)
                claim = client.get(KEY)
        theirs = claim.decode() if isinstance(claim, bytes) else None
        if theirs != own:
            raise WrongInstallation(
                f"{address} belongs to installation {theirs}, but {where['mysql']} to installation {own}:"
                " give each installation a Redis database of its own, as queues and cached answers would mix, or run"
                f" {ADOPT} if the other installation is gone"
            )


def release_redis(mysql: Engine, settings: Settings) -> None:
    """Remove this installation's claim on Redis, before its schema is downgraded."""
    with mysql_errors(), mysql.connect() as connection:
        own = id_in(connection)
    url = settings.redis_url.get_secret_value()
    with tolerate_outage(log.warning, "redis_not_released"), brief_redis(url) as client, redis_errors():
        if own is not None and client.get(KEY) == own.encode():
            client.delete(KEY)


def _adopt_redis(own: str, settings: Settings) -> None:
    """Claim the Redis and delete the leftovers of another installation, or of an older state of this one."""
    for url in _redis_urls(settings).values():
        with brief_redis(url) as client, redis_errors():
            keys = [key for key in client.scan_iter(count=_SCANNED_AT_ONCE) if _LEFT_IN_REDIS.fullmatch(key)]
            for batch in slices(keys, _SCANNED_AT_ONCE):
                client.unlink(*batch)
            client.set(KEY, own)


def _redis_urls(settings: Settings) -> dict[Address, str]:
    """Return the URL of Redis, and of a broker that is another one."""
    where = addresses(settings)
    broker = {where["broker"]: settings.broker} if "broker" in where else {}
    return {where["redis"]: settings.redis_url.get_secret_value(), **broker}


def id_in(connection: Connection) -> str | None:
    """Return the id in MySQL or PostgreSQL, None without one or its table. A missing table ends PostgreSQL's
    transaction: do not use ``connection`` afterwards."""
    try:
        installation_id = connection.execute(_READ).scalar_one_or_none()
    except exc.ProgrammingError:
        if connection.dialect.name == "postgresql":
            connection.rollback()
        return None
    return None if installation_id is None else str(installation_id)


def timeline_in(postgres: Connection) -> str | None:
    """Return PostgreSQL's timeline as eight hexadecimal digits, which grows when a standby is promoted; None on a standby, or
    on a service that does not name it."""
    try:
        timeline: str | None = postgres.execute(_TIMELINE).scalar_one()
    except (exc.ProgrammingError, exc.NotSupportedError):
        postgres.rollback()
        return None
    return timeline


def _sample(postgres: Connection) -> dict[str, list[str]]:
    """Return ids of chunks with vectors, by tenant; digests, so their order is random. Empty without any."""
    sample: defaultdict[str, list[str]] = defaultdict(list)
    for table in postgres.execute(_VECTOR_TABLES).scalars().all():
        for tenant_id in postgres.execute(text(_TENANTS.format(table=table)), {"limit": _SAMPLED_TENANTS}).scalars():
            ids = postgres.execute(text(_CHUNKS.format(table=table)), {"tenant": tenant_id, "limit": _SAMPLED_CHUNKS})
            sample[tenant_id] += map(str, ids.scalars())
    return sample


def _known(mysql: Connection, sample: dict[str, list[str]]) -> int:
    if not inspect(mysql).has_table("chunks"):
        return 0
    return sum(
        mysql.execute(_COUNT_CHUNKS, {"tenant": tenant_id, "ids": ids}).scalar_one()
        for tenant_id, ids in sample.items()
    )


_TIMELINE = text("SELECT CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END")

_READ = text("SELECT installation_id FROM installation WHERE id = 1")

_INSERT_MYSQL = text(
    "INSERT IGNORE INTO installation (id, installation_id, created_at) VALUES (1, :installation, :now)"
)

_INSERT_POSTGRES = text(
    "INSERT INTO installation (id, installation_id) VALUES (1, :installation) ON CONFLICT (id) DO NOTHING"
)

_ADOPT_POSTGRES = text(
    "INSERT INTO installation (id, installation_id) VALUES (1, :installation)"
    " ON CONFLICT (id) DO UPDATE SET installation_id = excluded.installation_id"
)

_VECTOR_TABLES = text(
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
    " AND relname ~ '^chunk_embeddings(_[0-9]+)?$' ORDER BY relname"
)

# Jumps from one tenant to the next instead of reading every row.
_TENANTS = """
WITH RECURSIVE found AS (
    (SELECT tenant_id FROM {table} ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT e.tenant_id FROM {table} e WHERE e.tenant_id > found.tenant_id ORDER BY e.tenant_id LIMIT 1)
    FROM found WHERE found.tenant_id IS NOT NULL
)
SELECT tenant_id FROM found WHERE tenant_id IS NOT NULL LIMIT :limit
"""

_CHUNKS = "SELECT chunk_id FROM {table} WHERE tenant_id = :tenant ORDER BY chunk_id LIMIT :limit"

_COUNT_CHUNKS = sql("SELECT COUNT(*) FROM chunks WHERE tenant_id = :tenant AND chunk_id IN :ids")
