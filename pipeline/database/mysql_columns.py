"""Name the column types of MySQL and MariaDB, and shorten the definitions in `mysql_tables`."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Column, Index, MetaData, Table, text
from sqlalchemy.dialects.mysql import BIGINT, BINARY, CHAR, DATETIME, INTEGER, TINYINT, VARCHAR
from sqlalchemy.dialects.mysql import DOUBLE as MYSQL_DOUBLE
from sqlalchemy.types import TypeEngine, UserDefinedType

metadata: Final = MetaData()

# Every text column states its collation: the defaults of MariaDB and MySQL differ.
UTF8: Final[dict[str, Any]] = {"charset": "utf8mb4", "collation": "utf8mb4_bin"}
ASCII: Final[dict[str, Any]] = {"charset": "ascii", "collation": "ascii_bin"}


class JsonText(UserDefinedType[str]):
    """JSON that stores write and read as text. MySQL has a type for it; for MariaDB it is LONGTEXT with a check."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Return the name of the type."""
        return "JSON"


def utf8(length: int) -> VARCHAR:
    """Return VARCHAR for text of any script, compared by its code points."""
    return VARCHAR(length, **UTF8)


def ascii_(length: int) -> VARCHAR:
    """Return VARCHAR for words and ids of this product."""
    return VARCHAR(length, **ASCII)


TIME = DATETIME(fsp=6)  # UTC, without a zone
UINT, UBIGINT = INTEGER(unsigned=True), BIGINT(unsigned=True)
FLAG = TINYINT()  # 0 or 1
DOUBLE = MYSQL_DOUBLE(asdecimal=False)  # read as float, not as Decimal
UUID = CHAR(36, **ASCII)
SHA256 = BINARY(32)
NAME = utf8(64)  # names and ids that users choose
JSON = JsonText()

# Columns that mean the same in every key they are part of.
_KEYS: dict[str, TypeEngine[Any]] = {
    "tenant_id": ascii_(64),
    "namespace": NAME,
    "document_id": NAME,
    "generation": UINT,
    "ordinal": UINT,
    "job_id": UUID,
    "webhook_id": UUID,
    "file_id": NAME,
}


def key(*names: str, **types: TypeEngine[Any]) -> list[Column[Any]]:
    """Return the columns of the primary key in order: well-known ones by name, then others with their types."""
    columns = {**{name: _KEYS[name] for name in names}, **types}
    return [Column(name, kind, primary_key=True, autoincrement=False) for name, kind in columns.items()]


def required(kind: TypeEngine[Any], *names: str, default: str | None = None) -> list[Column[Any]]:
    """Return NOT NULL columns of one type. ``default``: of the server, as SQL."""
    return [
        Column(name, kind, nullable=False, server_default=None if default is None else text(default)) for name in names
    ]


def optional(kind: TypeEngine[Any], *names: str) -> list[Column[Any]]:
    """Return columns of one type that may be NULL."""
    return [Column(name, kind, nullable=True) for name in names]


def table(name: str, *parts: Sequence[Column[Any]] | Index) -> Table:
    """Return a table of `metadata` with these columns and indexes."""
    flat = [item for part in parts for item in ([part] if isinstance(part, Index) else part)]
    return Table(
        name, metadata, *flat, mysql_engine="InnoDB", mysql_default_charset="utf8mb4", mysql_collate="utf8mb4_bin"
    )
