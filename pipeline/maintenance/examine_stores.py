"""Examine the stores for `maintenance.doctor`, without writing. Every function raises StoreUnavailable."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import redis
from sqlalchemy import Connection, text

from chordwise.contract.process import REMEDIES
from pipeline.database import clock_skew, redis_checks
from pipeline.database.clock_skew import skew
from pipeline.database.engines import mysql_errors, postgres_errors, redis_errors
from pipeline.database.expiring_record_store import FullStores
from pipeline.database.schema import check_mysql_writes, check_writable, mysql_server
from pipeline.database.unit_of_work import unit_of_work
from pipeline.database.worker_heartbeats import silent_processes
from pipeline.distances import MEASURES
from pipeline.documents import alignment_store
from pipeline.embedding import space_store
from pipeline.errors import Misconfigured, PipelineError, WrongInstallation
from pipeline.maintenance import doctor
from pipeline.maintenance.doctor import CheckResult
from pipeline.maintenance.migrate_schema import check
from pipeline.metrics.meter_store import read_totals
from pipeline.models.make_models import check_embedder
from pipeline.outages import OutageTolerated
from pipeline.records import EmbeddingSpace
from pipeline.resources import Resources
from pipeline.semantic import vector_index_store

_PING = text("SELECT 1")
_MODEL_S = 3.0  # for one vector
_CROWDED = 0.8  # of the connections that may be open at once
_MYSQL_NOW = text("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1000000.0")
_POSTGRES_NOW = text("SELECT EXTRACT(EPOCH FROM clock_timestamp())")
_TOKEN_SIZES = text("SELECT @@innodb_ft_min_token_size, @@innodb_ft_max_token_size")


def ping_mysql(use: Resources) -> None:
    """Return if MySQL answers."""
    with mysql_errors(), use.mysql.connect() as connection:
        connection.execute(_PING)


def write_mysql(use: Resources) -> None:
    """Return if MySQL takes writes."""
    with mysql_errors(), use.mysql.begin() as connection:
        check_mysql_writes(connection)


def ping_postgres(use: Resources) -> None:
    """Return if PostgreSQL answers."""
    with postgres_errors(), use.postgres.connect() as connection:
        connection.execute(_PING)


def write_postgres(use: Resources) -> None:
    """Return if PostgreSQL takes writes."""
    with postgres_errors(), use.postgres.connect() as connection:
        check_writable(connection)


def ping_redis(use: Resources) -> None:
    """Return if Redis takes writes and messages."""
    with redis_errors():
        redis_checks.ping_redis(use.redis)


def greet_redis(use: Resources) -> None:
    """Return if Redis answers."""
    with redis_errors():
        use.quick_redis.ping()


def mysql_skew(use: Resources, *, clock: Callable[[], float] = time.time) -> float:
    """Return the skew of MySQL's clock; see `skew`."""
    with mysql_errors(), use.mysql.connect() as connection:
        return skew(lambda: _number(connection, _MYSQL_NOW), clock=clock)


def postgres_skew(use: Resources, *, clock: Callable[[], float] = time.time) -> float:
    """Return the skew of PostgreSQL's clock; see `skew`."""
    with postgres_errors(), use.postgres.connect() as connection:
        return skew(lambda: _number(connection, _POSTGRES_NOW), clock=clock)


def redis_skew(use: Resources, *, clock: Callable[[], float] = time.time) -> float:
    """Return the skew of Redis' clock; see `skew`."""
    with redis_errors():
        return clock_skew.redis_skew(use.quick_redis, clock=clock)


def _number(connection: Connection, statement: Any) -> float:
    return float(connection.execute(statement).scalar_one())


def server_versions(use: Resources) -> dict[str, str]:
    """Return the servers' names with their versions. A Redis whose user may not run INFO is left out."""
    with mysql_errors(), use.mysql.connect() as connection:
        name, version = mysql_server(connection)
    found = {name: version.partition("-")[0]}
    with postgres_errors(), use.postgres.connect() as connection:
        found["PostgreSQL"] = str(connection.execute(text("SHOW server_version")).scalar_one()).partition(" ")[0]
        extension = text("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
        found["pgvector"] = str(connection.execute(extension).scalar_one())
    with redis_errors(), suppress(redis.exceptions.NoPermissionError):
        facts: dict[str, Any] = use.quick_redis.info("server")  # type: ignore[assignment]
        valkey = facts.get("valkey_version")
        found["Valkey" if valkey else "Redis"] = str(valkey or facts["redis_version"])
    return found


# The user's limit or the server's, with the connections that count towards it; the first is 0 or -1 without a limit.
_MYSQL_CONNECTIONS = text(
    "SELECT @@max_user_connections, COUNT(*), @@max_connections FROM information_schema.processlist"
    " WHERE user = SUBSTRING_INDEX(CURRENT_USER(), '@', 1)"
)
_POSTGRES_CONNECTIONS = text(
    "SELECT rolconnlimit, COUNT(a.pid) FILTER (WHERE a.usename = rolname), current_setting('max_connections')::int,"
    " COUNT(a.pid) FROM pg_roles, pg_stat_activity a WHERE rolname = current_user GROUP BY rolname, rolconnlimit"
)


def mysql_connections(use: Resources) -> CheckResult:
    """Check how many connections to MySQL are left."""
    with mysql_errors(), use.mysql.connect() as connection:
        limit, ours, most = connection.execute(_MYSQL_CONNECTIONS).one()
    return connections_left("MySQL", used=ours, most=limit if limit > 0 else most)


def postgres_connections(use: Resources) -> CheckResult:
    """Check how many connections to PostgreSQL are left."""
    with postgres_errors(), use.postgres.connect() as connection:
        limit, ours, most, every = connection.execute(_POSTGRES_CONNECTIONS).one()
    return connections_left("PostgreSQL", used=ours if limit > 0 else every, most=limit if limit > 0 else most)


def connections_left(server: str, *, used: int, most: int) -> CheckResult:
    """Check that a server has connections left for this installation's user."""
    check, detail = f"connections:{server.lower()}", f"{used} of {most} connections are in use"
    if most and used > _CROWDED * most:
        advice = (
            f"raise the limit of the user or of {server}, or lower CHORDWISE_STORE_POOL_SIZE:"
            " what gets none answers 503, and work waits"
        )
        return doctor.warning(check, detail, advice)
    return doctor.ok(check, detail)


def note_full(error: BaseException, use: Resources) -> None:
    """Report a store to every gateway if the error says that it is full."""
    FullStores(use.quick_redis).note(error)


def full_stores(use: Resources) -> list[str]:
    """Return a sentence for each store that refused a write in the last two minutes because it was full."""
    return FullStores(use.quick_redis).all()


def store_space(sentences: Sequence[str]) -> CheckResult:
    """Check that no store was full lately. ``sentences``: of each that refused a write."""
    check = "store_space"
    if not sentences:
        return doctor.ok(check, "no store refused a write for want of space in the last two minutes")
    return doctor.failed(check, "; ".join(sentences), REMEDIES[check])


def silent(use: Resources) -> CheckResult:
    """Check that every process that did not end in order gives signs of life."""
    return doctor.silent(silent_processes(use.heartbeats.processes()))


def disk_space(use: Resources) -> CheckResult:
    """Check the disks that the installation's processes see."""
    return doctor.disk_space(use.heartbeats.disks())


def circuits(use: Resources) -> CheckResult:
    """Check that no part is left out of every tenant's queries after failures in a row."""
    return doctor.circuits(use.breakers.open_to_all())


def fulltext(use: Resources) -> CheckResult:
    """Check the lengths of the terms that FULLTEXT indexes."""
    with mysql_errors(), use.mysql.connect() as connection:
        shortest, longest = connection.execute(_TOKEN_SIZES).one()
    return doctor.fulltext(int(shortest), int(longest))


_PACKET = text("SELECT @@GLOBAL.max_allowed_packet")


def packet(use: Resources) -> CheckResult:
    """Check the size of the statements that MySQL takes."""
    with mysql_errors(), use.mysql.connect() as connection:
        takes = int(connection.execute(_PACKET).scalar_one())
    return doctor.packet(takes, needed=2 * use.settings.max_document_bytes)


def schema(use: Resources) -> CheckResult:
    """Check the schema as `migrate check` does."""
    try:
        check(use.mysql, use.postgres, use.settings)
    except Misconfigured as error:
        return doctor.schema(str(error))
    return doctor.schema(None)


def eviction(name: str, client: redis.Redis) -> CheckResult:
    """Check a Redis's behaviour when full, by INFO, which more services allow than CONFIG."""
    with redis_errors():
        try:
            memory: dict[str, Any] = client.info("memory")  # type: ignore[assignment]
        except redis.exceptions.NoPermissionError:
            return doctor.eviction(name, None)
    return doctor.eviction(name, memory)


def vectors(use: Resources) -> list[CheckResult]:
    """Check each table of vectors that searches or writers use. Raises Misconfigured."""
    with mysql_errors(), use.mysql.connect() as connection:
        live = space_store.live(connection, space_store.base_space(use.settings))
    with postgres_errors(), use.postgres.connect() as connection:
        shapes = [(space, space_store.table_shape(connection, space)) for space in live.every]
        found = vector_index_store.summaries(connection)
    wanted = MEASURES[use.settings.pgvector_distance].operator_class
    return [
        doctor.vectors(
            space.table,
            shape,
            dimension=space.dimension,
            operator_class=wanted,
            indexes=[each for each in found if each.table == space.table],
        )
        for space, shape in shapes
    ]


def models(use: Resources) -> list[CheckResult]:
    """Return the model of each live space, and whether a local one can be loaded here, or its service answers."""
    findings = []
    for space in use.spaces.live().every:
        detail = f"space {space.number}: {space.model}, {space.dimension} numbers, {space.provider}"
        failures: list[PipelineError] = []
        with OutageTolerated(failures.append, also=(Misconfigured,)):
            embedder = use.spaces.embedder(space)
            if space.provider != "local":
                check_embedder(embedder, timeout_s=_MODEL_S)
        findings.append(_without_model(failures[0], space, detail) if failures else doctor.ok("model", detail))
    return findings


def _without_model(error: PipelineError, space: EmbeddingSpace, detail: str) -> CheckResult:
    advice = "see that the service runs; meanwhile documents wait, and queries lack the semantic channel"
    judged = doctor.failed
    if isinstance(error, Misconfigured):
        advice = "do so for the gateway and every worker: docs/embedding.md"
        # Workers may have a key that this gateway lacks.
        judged = doctor.failed if space.provider == "local" else doctor.warning
    return judged("model", f"{detail}: {error}", advice)


def installation(use: Resources) -> CheckResult:
    """Check whether MySQL, PostgreSQL and Redis belong to one installation."""
    try:
        use.installation.confirm_redis()
    except WrongInstallation as error:
        return doctor.installation(None, str(error))
    return doctor.installation(use.installation.known)


def deletions(use: Resources) -> CheckResult:
    """Check whether the reconciler withholds large deletions until an operator confirms them."""
    with unit_of_work(use.mysql) as work:
        withheld = alignment_store.withheld_by_tenant(work.connection)
    return doctor.deletions({str(tenant_id): count for tenant_id, count in withheld.items()})


def longest_task_s(use: Resources) -> float:
    """Return the upper bucket bound of the longest task in the metrics, 0 without any."""
    bounds = [
        float(part)
        for (name, part, _), count in read_totals(use.quick_redis).items()
        if name == "chordwise_task_seconds" and count and part not in ("sum", "+Inf", "")
    ]
    return max(bounds, default=0.0)
