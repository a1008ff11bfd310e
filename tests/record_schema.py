"""Write the record of the schema anew: `make schema`, after a migration was added or changed."""

from __future__ import annotations

import sys
from pathlib import Path

from pipeline.database import schema
from pipeline.settings import settings
from tests.conftest import databases_of_its_own

FILE = Path(schema.__file__).parent / "migrations" / schema.RECORD


def main() -> int:
    """Migrate two empty databases on the stack's servers and keep what the migrations made."""
    with (
        databases_of_its_own(settings()) as use,
        use.mysql.connect() as mysql,
        use.postgres.connect() as postgres,
    ):
        FILE.write_text(schema.record(mysql, postgres), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
