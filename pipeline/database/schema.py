"""Check the servers' versions, and compare a live schema with the one that `make schema` records. Additional tables,
columns and indexes are allowed."""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from typing import Literal

from sqlalchemy import Connection, exc, text

from pipeline.database.clock_skew import refuse_skew, skew
from pipeline.database.store_errors import (
    DIRECT,
    MYSQL,
    POSTGRES,
    Location,
    create_extension,
    grant_schema,
    grant_tables,
    location,
)

Side = Literal["mysql", "postgres"]

RECORD = "schema.json"  # in the folder of the migrations
VECTORS = "chunk_embeddings"  # the recorded table that every table of vectors is a copy of
Version = tuple[int, ...]

LEAST_PACKET = 4 * 1024 * 1024  # bytes; rows are written in statements of one megabyte, escaped
OLDEST_MYSQL: Version = (8, 0)
OLDEST_MARIADB: Version = (10, 6)
OLDEST_POSTGRES: Version = (13,)  # pgvector's own oldest
OLDEST_PGVECTOR: Version = (0, 7)  # the first with halfvec

_EXTENSION = text(
    "SELECT (SELECT extversion FROM pg_extension WHERE extname = 'vector'),"
    " (SELECT default_version FROM pg_available_extensions WHERE name = 'vector')"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTable:
    """Columns with their types, and indexes with their definitions (``unique btree (tenant_id, chunk_id)``), by name."""

    columns: dict[str, str] = field(default_factory=dict)
    indexes: dict[str, str] = field(default_factory=dict)


Tables = Mapping[str, RecordedTable]


def read(side: Side, connection: Connection) -> dict[str, RecordedTable]:
    """Return every table of the connection's database (MySQL) or current schema (PostgreSQL) that the user may see."""
    columns, indexes = (_MYSQL_COLUMNS, _MYSQL_INDEXES) if side == "mysql" else (_POSTGRES_COLUMNS, _POSTGRES_INDEXES)
    definition = _mysql_definition if side == "mysql" else _postgres_definition
    tables: dict[str, RecordedTable] = {}
    for table, column, kind in connection.execute(columns).all():
        tables.setdefault(table, RecordedTable()).columns[column] = _plain_type(kind)
    for table, index, *parts in connection.execute(indexes).all():
        if table in tables:
            tables[table].indexes[index] = definition(*parts)
    return tables


def recorded(side: Side) -> dict[str, RecordedTable]:
    """Return the schema that the migrations of this version make."""
    record = json.loads((files("pipeline.database") / "migrations" / RECORD).read_text(encoding="utf-8"))
    return {name: RecordedTable(**table) for name, table in record[side].items()}


def record(mysql: Connection, postgres: Connection) -> str:
    """Return the content of the record file for two freshly migrated databases. Alembic's own tables are left out: their
    collation is the database's default, which differs between servers."""
    sides = {"mysql": read("mysql", mysql), "postgres": read("postgres", postgres)}
    for side, tables in sides.items():
        del tables[f"schema_version_{side}"]
    return json.dumps(sides, default=asdict, indent=1, sort_keys=True) + "\n"


def missing(side: Side, connection: Connection, *, vector_tables: Iterable[str] = ()) -> list[str]:
    """Return what the live schema lacks. ``vector_tables``: live spaces, each compared with the recorded one."""
    wanted, live = dict(recorded(side)), read(side, connection)
    template = wanted.pop(VECTORS, None)
    lacks = [line for name, table in wanted.items() for line in _differences(name, table, live.get(name))]
    if template is not None:
        for name in vector_tables:
            lacks += _differences(name, template, live.get(name), names_matter=False)
    return lacks


def _differences(
    name: str, wanted: RecordedTable, found: RecordedTable | None, *, names_matter: bool = True
) -> Iterator[str]:
    if found is None:
        yield f"table {name}"
        return
    for column, kind in wanted.columns.items():
        if column not in found.columns:
            yield f"column {name}.{column}"
        elif not _holds(found.columns[column], kind):
            yield f"column {name}.{column} ({kind}; it is {found.columns[column]})"
    copies = set(found.indexes.values())
    for index, definition in wanted.indexes.items():
        if names_matter and index not in found.indexes:
            yield f"index {index} of {name} ({definition})"
        elif names_matter and found.indexes[index] != definition:
            yield f"index {index} of {name} ({definition}; it is {found.indexes[index]})"
        elif not names_matter and definition not in copies:
            yield f"index of {name} ({definition})"


def _holds(found: str, wanted: str) -> bool:
    """Return whether a column holds all values of the recorded one: same type, or the same with more characters."""
    if found == wanted:
        return True
    pattern = re.compile(r"((?:var)?(?:char|binary))\((\d+)\)(.*)")
    live, recorded_type = pattern.fullmatch(found), pattern.fullmatch(wanted)
    if live is None or recorded_type is None:
        return False
    return live.group(1, 3) == recorded_type.group(1, 3) and int(live[2]) >= int(recorded_type[2])


def _plain_type(kind: str) -> str:
    """Return a column type without integer widths, MariaDB's JSON and the dimension of vectors."""
    kind = re.sub(r"\b((?:tiny|small|medium|big)?int)\(\d+\)", r"\1", kind)
    return "longtext utf8mb4_bin" if kind == "json" else re.sub(r"\bhalfvec\(\d+\)", "halfvec", kind)


def _mysql_definition(is_not_unique: int, kind: str, columns: str) -> str:
    made = "fulltext" if kind == "FULLTEXT" else f"{'' if is_not_unique else 'unique '}{kind.lower()}"
    return f"{made} ({columns})"


def _postgres_definition(definition: str) -> str:
    """Return PostgreSQL's definition of an index without the names of index and table."""
    made = re.fullmatch(r"CREATE (UNIQUE )?INDEX .+? ON (?:ONLY )?\S+ USING (.+)", definition)
    return f"{'unique ' if made[1] else ''}{made[2]}" if made else definition


_MYSQL_COLUMNS = text(
    "SELECT c.table_name, c.column_name,"
    " CONCAT(c.column_type, IF(c.collation_name IS NULL, '', CONCAT(' ', c.collation_name)))"
    " FROM information_schema.columns c WHERE c.table_schema = DATABASE() ORDER BY c.table_name, c.ordinal_position"
)
_MYSQL_INDEXES = text(
    "SELECT s.table_name, s.index_name, MAX(s.non_unique), MAX(s.index_type), GROUP_CONCAT("
    "CONCAT(s.column_name, IF(s.sub_part IS NULL, '', CONCAT('(', s.sub_part, ')'))) ORDER BY s.seq_in_index SEPARATOR ', ')"
    " FROM information_schema.statistics s WHERE s.table_schema = DATABASE() GROUP BY s.table_name, s.index_name"
)
_POSTGRES_COLUMNS = text(
    "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_class c"
    " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
    " WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace ORDER BY c.relname, a.attnum"
)
_POSTGRES_INDEXES = text(
    "SELECT c.relname, i.relname, pg_get_indexdef(x.indexrelid) FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid"
    " JOIN pg_class i ON i.oid = x.indexrelid"
    " WHERE x.indisvalid AND c.relnamespace = current_schema()::regnamespace AND c.relname !~ '^pg_'"
)


def check_mysql(connection: Connection) -> None:
    """Compare the version of MySQL or MariaDB with the oldest supported one. Raises StoreMisconfigured."""
    name, seen = mysql_server(connection)
    oldest = OLDEST_MARIADB if name == "MariaDB" else OLDEST_MYSQL
    if _version(seen) < oldest:
        at = location(MYSQL, connection.engine.url)
        raise at.refused(f"the server is {name} {seen}, but {name} {_dotted(oldest)} or newer is needed; upgrade it")
    read_only, packet = connection.execute(text("SELECT @@GLOBAL.read_only, @@GLOBAL.max_allowed_packet")).one()
    at = location(MYSQL, connection.engine.url)
    # A user with SUPER could write to a replica, which would differ from its primary from then on.
    if str(read_only) not in ("0", "OFF"):
        raise at.read_only("read_only")
    if int(packet) < LEAST_PACKET:
        raise at.refused(
            f"the server takes statements of {int(packet):,} bytes (max_allowed_packet), and documents need"
            f" {LEAST_PACKET:,}; set max_allowed_packet=128M"
        )


_NOW = text("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1000000.0")


def check_clock(connection: Connection, *, clock: Callable[[], float] = time.time) -> None:
    """Compare this host's clock with MySQL's. Raises StoreMisconfigured if they differ by ten seconds or more."""
    skew_s = skew(lambda: float(connection.execute(_NOW).scalar_one()), clock=clock)
    refuse_skew(location(MYSQL, connection.engine.url), skew_s)


# Each needs a right that the product has to have, and none finds a row.
_WRITES = (
    text("INSERT INTO installation SELECT * FROM installation WHERE id = 0"),
    text("UPDATE installation SET installation_id = '' WHERE id = 0"),
    text("DELETE FROM installation WHERE id = 0"),
)
_UNWRITABLE = text(
    "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace"
    " AND relname = ANY(:names) AND NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')"
    " AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')) ORDER BY relname"
)


def check_writes(side: Side, connection: Connection, *, vector_tables: Iterable[str] = ()) -> None:
    """Raise StoreMisconfigured if the user may not write in a migrated database. Changes nothing."""
    if side == "mysql":
        for statement in _WRITES:
            connection.execute(statement)
        connection.rollback()
        return
    names = [*recorded("postgres"), *vector_tables]
    if tables := connection.execute(_UNWRITABLE, {"names": names}).scalars().all():
        at = location(POSTGRES, connection.engine.url)
        raise at.refused(f"permission denied for table {tables[0]}; as an administrator run: {grant_tables(at)}")


def check_mysql_writes(connection: Connection) -> None:
    """Send a write that finds no row, of a single statement. Raises SQLAlchemyError if the server takes no writes."""
    connection.execute(_WRITES[1])


def check_writable(connection: Connection) -> None:
    """Raise StoreReadOnly if PostgreSQL takes no writes: a standby, or one set to read only."""
    if connection.execute(text("SHOW transaction_read_only")).scalar_one() == "on":
        raise location(POSTGRES, connection.engine.url).read_only("read only")


def check_create(connection: Connection) -> None:
    """Raise StoreMisconfigured if PostgreSQL's user may not create tables."""
    allowed = text("SELECT has_schema_privilege(current_schema(), 'CREATE')")
    if not connection.execute(allowed).scalar_one():
        at = location(POSTGRES, connection.engine.url)
        raise at.refused(f"permission denied for schema public; as an administrator run: {grant_schema(at)}")


def mysql_server(connection: Connection) -> tuple[str, str]:
    """Return MySQL or MariaDB, and the version as the server writes it."""
    version, comment = connection.execute(text("SELECT VERSION(), @@version_comment")).one()
    # MariaDB behind a proxy may call itself 5.5.5-10.11.6-MariaDB.
    return "MariaDB" if "mariadb" in f"{version}{comment}".lower() else "MySQL", str(version).removeprefix("5.5.5-")


def check_postgres(
    connection: Connection,
    *,
    create: bool = False,
    oldest: Version = OLDEST_POSTGRES,
    pgvector: Version = OLDEST_PGVECTOR,
) -> None:
    """Check PostgreSQL and pgvector for age. ``create``: add the extension. Raises StoreMisconfigured."""
    at = location(POSTGRES, connection.engine.url)
    server = str(connection.execute(text("SHOW server_version")).scalar_one())
    if _version(server) < oldest:
        raise at.refused(f"the server is version {server}, but {_dotted(oldest)} or newer is needed; upgrade it")
    if connection.execute(text("SHOW jit")).scalar_one() == "on":
        raise at.refused(f"a pooler in between drops the settings of sessions; {DIRECT.format(variable=at.variable)}")
    check_writable(connection)
    if (encoding := connection.execute(text("SHOW server_encoding")).scalar_one()) != "UTF8":
        remedy = f'CREATE DATABASE "{at.database}" OWNER "{at.user}" ENCODING \'UTF8\' TEMPLATE template0'
        raise at.refused(
            f"the database stores text as {encoding}, which lacks most characters; make a new one: {remedy}"
        )
    installed, available = connection.execute(_EXTENSION).one()
    needed = f"{_dotted(pgvector)} or newer is needed"
    if installed is None:
        if available is None or _version(available) < pgvector:
            seen = "has no pgvector" if available is None else f"has pgvector {available}"
            raise at.refused(f"the server {seen}, but {needed}; {_install(server)}, then run: {create_extension(at)}")
        if not create:
            raise at.refused(f"the extension vector (pgvector) is not in this database; run: {create_extension(at)}")
        _create(connection, at, available)
    elif _version(installed) < pgvector:
        update = create_extension(at, "ALTER EXTENSION vector UPDATE")
        seen = f"the extension vector (pgvector) in this database is {installed}, but {needed}"
        if available is None or _version(available) < pgvector:
            raise at.refused(f"{seen}; {_install(server)}, then run: {update}")
        raise at.refused(f"{seen}, and the server has {available}; run: {update}")


def _create(connection: Connection, at: Location, available: str) -> None:
    try:
        connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
        connection.commit()
    except exc.ProgrammingError as error:
        if getattr(error.orig, "sqlstate", None) != "42501":
            raise
        raise at.refused(
            f"the extension vector (pgvector {available}) is not in this database, and the user {at.user} may not create"
            f" it; as a superuser run: {create_extension(at)}"
        ) from error


def _install(server: str) -> str:
    return f"install pgvector on the server (for example the package postgresql-{_version(server)[0]}-pgvector)"


def _version(text_: str) -> Version:
    """Return the leading numbers of a version: (10, 11, 6) of ``10.11.6-MariaDB``."""
    found = re.match(r"\d+(?:\.\d+)*", text_)
    return tuple(int(part) for part in found[0].split(".")) if found else (0,)


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
