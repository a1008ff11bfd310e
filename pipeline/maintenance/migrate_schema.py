"""Upgrade or check both schemas: `python -m pipeline.maintenance.migrate_schema upgrade | downgrade | check | plan | adopt`.

`downgrade --to SIDE:REVISION` takes one side back, as often as given; `downgrade --to base` drops every table.
`plan` prints the revisions that `upgrade` would run, with each of their statements.
`adopt` upgrades and makes PostgreSQL and Redis those of this MySQL, whatever they belonged to.
"""

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources.abc import Traversable
from typing import Final, Literal

from sqlalchemy import Connection, Engine, text

from pipeline.database import installation, schema
from pipeline.database.engines import engines, mysql_errors, postgres_errors
from pipeline.database.schema import Side
from pipeline.database.schema_revisions import (
    BASE,
    MIGRATIONS,
    known_revisions,
    refuse_downgrade,
    refuse_unknown,
    revision_of,
    revisions,
    run_alembic,
)
from pipeline.database.store_errors import MYSQL, POSTGRES, location
from pipeline.distances import MEASURES
from pipeline.embedding import space_store
from pipeline.errors import Misconfigured, PipelineError
from pipeline.maintenance.plan_migrations import plan
from pipeline.records import EmbeddingSpace
from pipeline.settings import Settings, settings

# Two migrations at once would both find the tables missing. Any constants will do; they name the locks. MySQL's locks are
# those of the whole server, on which other installations may have databases.
_POSTGRES_LOCK = 0x63686F7264
_MYSQL_LOCK = "CONCAT('chordwise_migrations.', LEFT(SHA2(DATABASE(), 256), 32))"
_OTHER_MIGRATION_S = 60.0  # one without statements of large tables ends by then
_RUNNING = "another migration is running; run this one again when that one has ended"
_LOOK_AGAIN_S = 0.5
# Of a large table an index takes longer than any statement of a gateway; given up by the client, MySQL goes on with it.
_LONGEST_STATEMENT_S = 86_400.0
# A statement that waits for a long transaction has all others of its table wait behind it.
_LONGEST_LOCK_WAIT_S = 60


def upgrade(mysql: Engine, postgres: Engine, use: Settings, *, wait_s: float = _OTHER_MIGRATION_S) -> str:
    """Run pending migrations and return the installation's id. ``wait_s``: for another migration to end. Raises
    WrongInstallation before any change, StoreUnavailable if another migration goes on."""
    _refuse_unfit(mysql, postgres)
    installation.refuse_strangers(mysql, postgres, use)
    _upgrade(mysql, postgres, use, wait_s)
    return installation.establish(mysql, postgres, use)


def adopt(mysql: Engine, postgres: Engine, use: Settings) -> str:
    """Upgrade, make PostgreSQL and Redis those of this MySQL, whichever installation they belonged to, and return its id."""
    _refuse_unfit(mysql, postgres)
    _upgrade(mysql, postgres, use)
    return installation.establish(mysql, postgres, use, adopt=True)


def _refuse_unfit(mysql: Engine, postgres: Engine) -> None:
    """Raise StoreMisconfigured if one of the servers cannot be migrated, before the other one is changed."""
    with mysql_errors(), mysql.connect() as connection:
        schema.check_mysql(connection)
    with postgres_errors(), postgres.connect() as connection:
        schema.check_postgres(connection, create=True)
        if revision_of("postgres", connection) != known_revisions("postgres")[-1]:
            schema.check_create(connection)


def _upgrade(mysql: Engine, postgres: Engine, use: Settings, wait_s: float = _OTHER_MIGRATION_S) -> None:
    upgrade_mysql(mysql, use, wait_s=wait_s)
    with _migrating_postgres(postgres, wait_s) as connection:
        schema.check_postgres(connection, create=True)
        _migrate("upgrade", "head", "postgres", connection, use)
    _make_lost_spaces(mysql, postgres, use)


def upgrade_mysql(mysql: Engine, use: Settings, *, wait_s: float = _OTHER_MIGRATION_S) -> None:
    """Run the pending migrations of MySQL alone. Raises StoreUnavailable as `upgrade`."""
    with _migrating_mysql(mysql, wait_s) as connection:
        schema.check_mysql(connection)
        _migrate("upgrade", "head", "mysql", connection, use)


@contextmanager
def _migrating_mysql(mysql: Engine, wait_s: float) -> Iterator[Connection]:
    """Provide a connection beside which no other one migrates. Raises StoreUnavailable if another one goes on to."""
    with mysql_errors(), mysql.connect() as connection:
        if connection.execute(text(f"SELECT GET_LOCK({_MYSQL_LOCK}, :wait)"), {"wait": wait_s}).scalar_one() != 1:
            raise location(MYSQL, mysql.url).away(_RUNNING)
        try:
            connection.execute(text(f"SET SESSION lock_wait_timeout = {_LONGEST_LOCK_WAIT_S}"))
            yield connection
            connection.commit()
        finally:
            connection.execute(text("SET SESSION lock_wait_timeout = DEFAULT"))
            connection.execute(text(f"SELECT RELEASE_LOCK({_MYSQL_LOCK})"))


@contextmanager
def _migrating_postgres(postgres: Engine, wait_s: float) -> Iterator[Connection]:
    """Provide a connection as `_migrating_mysql` does."""
    ends = time.monotonic() + wait_s
    with postgres_errors(), postgres.connect() as connection:
        while not connection.execute(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": _POSTGRES_LOCK}).scalar_one():
            connection.commit()
            if time.monotonic() >= ends:
                raise location(POSTGRES, postgres.url).away(_RUNNING)
            time.sleep(_LOOK_AGAIN_S)
        connection.commit()
        try:
            connection.execute(text(f"SET SESSION lock_timeout = '{_LONGEST_LOCK_WAIT_S}s'"))
            connection.commit()
            yield connection
            connection.commit()
        finally:
            connection.rollback()  # a failed transaction takes no further statement, and would hide why it failed
            connection.execute(text("RESET lock_timeout"))
            connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": _POSTGRES_LOCK})
            connection.commit()


def _make_lost_spaces(mysql: Engine, postgres: Engine, use: Settings) -> None:
    """Create empty tables for live spaces without one, as in a new PostgreSQL; `verify --repair` fills them."""
    base = space_store.base_space(use)
    with mysql_errors(), mysql.connect() as connection:
        live = space_store.live(connection, base)
    with postgres_errors(), postgres.connect() as connection:
        lost = [space for space in live.every if space_store.table_shape(connection, space) is None]
    for space in lost:
        space_store.create_table(postgres, space, like=base)


Target = Mapping[Side, str]
EVERYTHING: Final[Target] = {"mysql": BASE, "postgres": BASE}


def downgrade(
    mysql: Engine, postgres: Engine, use: Settings, *, to: Target, wait_s: float = _OTHER_MIGRATION_S
) -> None:
    """Take each side of ``to`` back to a revision; with `EVERYTHING` all data is lost. Raises Misconfigured before any
    change if one cannot be, StoreUnavailable as `upgrade`."""
    check_downgrade(mysql, postgres, to=to)
    if "postgres" in to:
        with _migrating_postgres(postgres, wait_s) as connection:
            _migrate("downgrade", to["postgres"], "postgres", connection, use)
    if "mysql" in to:
        with _migrating_mysql(mysql, wait_s) as connection:
            if to["mysql"] == BASE:
                installation.release_redis(mysql, use)
            _migrate("downgrade", to["mysql"], "mysql", connection, use)


def check_downgrade(mysql: Engine, postgres: Engine, *, to: Target, migrations: Traversable = MIGRATIONS) -> None:
    """Raise Misconfigured if a side of ``to`` cannot be taken back that far."""
    present = revisions(mysql, postgres)
    for side, revision in to.items():
        refuse_downgrade(side, present[side] or None, revision, migrations)


def _target(words: Sequence[str]) -> Target:
    """Return the revisions that ``--to`` names. Raises Misconfigured."""
    if list(words) == [BASE]:
        return EVERYTHING
    named = [re.fullmatch(r"(mysql|postgres):(\d{4})", word) for word in words]
    if not named or None in named:
        raise Misconfigured(
            "downgrade needs --to SIDE:REVISION, such as --to mysql:0034 or --to postgres:0007, or --to base, which drops"
            " every table"
        )
    return {match[1]: match[2] for match in named if match}  # type: ignore[misc]  # the pattern allows sides alone


def check(mysql: Engine, postgres: Engine, use: Settings) -> None:
    """Compare servers and schemas with code and settings. Raises Misconfigured: a version too old, a revision, table,
    column or index missing, or vectors of another dimension or distance."""
    with mysql_errors(), mysql.connect() as connection:
        schema.check_mysql(connection)
        _check_revision("mysql", connection)
        _check_complete("mysql", connection)
        schema.check_writes("mysql", connection)
        schema.check_clock(connection)
        live = space_store.live(connection, space_store.base_space(use))
    with postgres_errors(), postgres.connect() as connection:
        schema.check_postgres(connection)
        _check_revision("postgres", connection)
        for space in live.every:
            _check_space(connection, space, use)
        tables = [space.table for space in live.every]
        _check_complete("postgres", connection, vector_tables=tables)
        schema.check_writes("postgres", connection, vector_tables=tables)


class SchemaCheck:
    """A `check` for frequent callers: a complete schema is checked again only after ``fresh_s`` seconds."""

    def __init__(
        self, mysql: Callable[[], Engine], postgres: Callable[[], Engine], use: Settings, *, fresh_s: float = 30.0
    ) -> None:
        self._mysql = mysql
        self._postgres = postgres
        self._use = use
        self._fresh_s = fresh_s
        self._checked_at: float | None = None

    def __call__(self) -> None:
        """Run the check if it is due. Raises what `check` raises."""
        age_s = self.age_s
        if age_s is None or age_s >= self._fresh_s:
            self._checked_at = None
            began = time.monotonic()
            check(self._mysql(), self._postgres(), self._use)
            self._checked_at = began

    @property
    def age_s(self) -> float | None:
        """The seconds since the last successful check; None after a check that failed."""
        return None if self._checked_at is None else time.monotonic() - self._checked_at


_MOST_NAMED = 10
_UPGRADE = "run python -m pipeline.maintenance.migrate_schema upgrade"


def _check_complete(side: Side, connection: Connection, *, vector_tables: Sequence[str] = ()) -> None:
    missing = schema.missing(side, connection, vector_tables=vector_tables)
    if missing:
        named = "; ".join(missing[:_MOST_NAMED])
        more = f"; and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
        server = location(MYSQL if side == "mysql" else POSTGRES, connection.engine.url)
        raise server.refused(
            f"the schema lacks {named}{more}; docs/troubleshooting.md (Parts of the schema are missing) says how to put it"
            f" back; user {server.user} must see it"
        )


def _check_space(connection: Connection, space: EmbeddingSpace, use: Settings) -> None:
    shape = space_store.table_shape(connection, space)
    if shape is None:
        raise Misconfigured(f"PostgreSQL has no table {space.table}: {_UPGRADE}")
    if shape.dimension != space.dimension:
        is_first = space.number == space_store.FIRST
        setting = "CHORDWISE_EMBEDDING_DIM" if is_first else f"the dimension of space {space.number}"
        raise Misconfigured(
            f"{setting} is {space.dimension} but the stored vectors have {shape.dimension} dimensions:"
            " docs/model-migration.md says how to move to another model"
        )
    expected = MEASURES[use.pgvector_distance].operator_class
    wrong = ", ".join(name for name, operator_class in shape.indexes if operator_class != expected)
    if shape.operator_class != expected or wrong:
        made = wrong or shape.operator_class
        raise Misconfigured(f"CHORDWISE_PGVECTOR_DISTANCE needs {expected} but the vector store was made with {made}")


def _check_revision(side: Side, connection: Connection) -> None:
    """Raise Misconfigured for an older revision. A newer one, of the release that is being rolled out, is as good as this
    code's own if nothing is missing."""
    revision, newest = revision_of(side, connection), known_revisions(side)[-1]
    if revision is None or revision < newest:
        raise Misconfigured(
            f"the {side} schema is at revision {revision or 'none'}, this code needs {newest}: {_UPGRADE}"
        )


def _migrate(
    direction: Literal["upgrade", "downgrade"], to: str, side: Side, connection: Connection, use: Settings
) -> None:
    refuse_unknown(side, revision_of(side, connection))
    connection.commit()  # Alembic begins transactions of its own
    run_alembic(direction, to, side, connection, use)


def check_all(mysql: Engine, postgres: Engine, use: Settings) -> str:
    """Check both schemas and all stores' installations; return the id. Raises Misconfigured, WrongInstallation."""
    check(mysql, postgres, use)
    return installation.confirm_stores(mysql, postgres, use)


_ACTIONS: dict[str, Callable[[Engine, Engine, Settings], str | None]] = {
    "upgrade": upgrade,
    "check": check_all,
    "plan": plan,
    "adopt": adopt,
}


TO_HELP = "for downgrade, once or for both sides: such as mysql:0034 or postgres:0007; base drops every table"


def main(arguments: Sequence[str] | None = None, use: Settings | None = None) -> int:
    """Run the command line: exit code 0 when done, 1 with one sentence on standard error when not."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.maintenance.migrate_schema", description=__doc__)
    parser.add_argument("action", choices=[*_ACTIONS, "downgrade"])
    parser.add_argument("--to", action="append", default=[], metavar="SIDE:REVISION", help=TO_HELP)
    chosen = parser.parse_args(arguments)
    if chosen.to and chosen.action != "downgrade":
        parser.error("--to belongs to downgrade")
    try:
        use = use or settings()
        to = _target(chosen.to) if chosen.action == "downgrade" else {}
        with engines(use, timeout_s=_LONGEST_STATEMENT_S) as (mysql, postgres):
            if chosen.action == "downgrade":
                downgrade(mysql, postgres, use, to=to)
                return 0
            action = _ACTIONS[chosen.action]
            result = action(mysql, postgres, use)
    except PipelineError as error:
        print(f"migrate: {error}", file=sys.stderr)  # noqa: T201 - this is a command
        return 1
    if result is not None:
        print(result if action is plan else f"installation {result}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
