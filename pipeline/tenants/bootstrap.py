"""Create a tenant and a new key for it: `python -m pipeline.tenants.bootstrap TENANT`. Prints the key on the last line;
with `--operator` the key may also do what concerns all tenants."""

import sys
from collections.abc import Sequence

from pipeline import local_stack
from pipeline.database.engines import mysql_engine
from pipeline.database.installation import refuse_wrong
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import PipelineError
from pipeline.records import TenantId
from pipeline.settings import settings
from pipeline.tenants.accounts import OPERATOR, RESERVED, SCOPES, TENANT_ID
from pipeline.tenants.tenant_store import Tenants


def main(arguments: Sequence[str] | None = None) -> int:
    """Return exit code 0 when the key was printed, 1 with one sentence when not, 2 for a wrong call."""
    given = sys.argv[1:] if arguments is None else arguments
    names = [argument for argument in given if argument != "--operator"]
    if len(names) != 1 or not TENANT_ID.fullmatch(names[0]):
        usage = "usage: python -m pipeline.tenants.bootstrap TENANT [--operator] (lower-case letters, digits, -)"
        print(usage, file=sys.stderr)  # noqa: T201
        return 2
    if names[0] in RESERVED:
        print(f"bootstrap: {names[0]} is a name of the installation itself", file=sys.stderr)  # noqa: T201
        return 2
    scopes = (*SCOPES, OPERATOR) if "--operator" in given else SCOPES
    if sentence := local_stack.adopt():
        print(f"bootstrap: {sentence}", file=sys.stderr)  # noqa: T201
    try:
        refuse_wrong(settings())
        with unit_of_work(mysql_engine(settings())) as work:
            tenants = Tenants(work.connection, TenantId(names[0]))
            tenants.create(names[0])
            key = tenants.issue_key("bootstrap", scopes)
    except PipelineError as error:
        print(f"bootstrap: {error}", file=sys.stderr)  # noqa: T201
        return 1
    print(key)  # noqa: T201 - the one time it is shown
    return 0


if __name__ == "__main__":
    sys.exit(main())
