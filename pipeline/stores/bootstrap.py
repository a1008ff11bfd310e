"""Make a tenant and a key for it from a shell on the installation: `python -m pipeline.stores.bootstrap TENANT`.

Prints the key on the last line. Each call makes a new key; the others stay valid.
"""

from __future__ import annotations

import sys

from pipeline.errors import PipelineError
from pipeline.records import TenantId
from pipeline.settings import settings
from pipeline.stores.engines import mysql_engine
from pipeline.stores.tenants import TENANT_ID, Tenants
from pipeline.stores.work import unit_of_work


def main() -> int:
    """Exit code 0 when the key was printed, 1 with one sentence when not, 2 for a wrong call."""
    if len(sys.argv) != 2 or not TENANT_ID.fullmatch(sys.argv[1]):
        print("usage: python -m pipeline.stores.bootstrap TENANT (lower-case letters, digits, -)", file=sys.stderr)  # noqa: T201
        return 2
    try:
        with unit_of_work(mysql_engine(settings())) as work:
            tenants = Tenants(work.connection, TenantId(sys.argv[1]))
            tenants.create(sys.argv[1])
            key = tenants.issue_key("bootstrap")
    except PipelineError as error:
        print(f"bootstrap: {error}", file=sys.stderr)  # noqa: T201
        return 1
    print(key)  # noqa: T201 - the one time it is shown
    return 0


if __name__ == "__main__":
    sys.exit(main())
