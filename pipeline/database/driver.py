"""Statements that a query makes every time, handed to the driver as it takes them.

SQLAlchemy looks at a `text()` and its values anew for each execution, to put lists into it and to convert what has a type
of its own. Where the driver does all of that itself, it is a third of what such a statement costs the process.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from sqlalchemy import Connection

_NAMED = re.compile(r"(?<![:\w]):(\w+)")


def execute(connection: Connection, statement: str, values: dict[str, Any]) -> Any:
    """The result of a statement with ``:names`` in it, as in `text()`. For PyMySQL a list is what stands after ``IN``,
    and must not be empty; for psycopg it is an array."""
    return connection.exec_driver_sql(_for_drivers(statement), values)


@functools.lru_cache(maxsize=256)
def _for_drivers(statement: str) -> str:
    return _NAMED.sub(r"%(\1)s", statement.replace("%", "%%"))
