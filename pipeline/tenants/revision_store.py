"""The revision of all that lists show of a tenant, by which a replica is compared with the primary server."""

from collections.abc import Mapping

from sqlalchemy import Connection, text

from pipeline.database.rows import TenantStore
from pipeline.database.statements import sql
from pipeline.records import Namespace, TenantId
from pipeline.tenants.namespace_store import Namespaces


class TenantRevision(TenantStore):
    """The revision of one tenant's documents, chunks, namespaces and jobs."""

    def read(self) -> tuple[object, ...]:
        """Return values of which one changes with every write that changes a list of the tenant's documents or jobs.

        A publication changes its namespace's revision, and progress its job's; a job counts until it ends, and its end is
        newer than all others. Reads a row of each namespace and of each unfinished job. A move copies the revisions before
        all the rows that they stand for, and opens the fence of its target last.
        """
        return tuple(self._run(_REVISION).one())


def has_reached(connection: Connection, tenant_id: TenantId, stamps: Mapping[Namespace, str]) -> bool:
    """Return whether each namespace is at this stamp or at a later revision of the same namespace, and the tenant is not
    being moved here."""
    if connection.execute(text(_CLOSED), {"tenant": tenant_id}).scalar():
        return False
    found = Namespaces(connection, tenant_id).revisions(list(stamps))
    return all(namespace in found and _is_since(found[namespace].stamp, wanted) for namespace, wanted in stamps.items())


def _is_since(stamp: str, wanted: str) -> bool:
    (number, created, *_), (least, since, *_) = stamp.split("@"), wanted.split("@")
    return stamp == wanted or (created == since and int(number) > int(least))


_OWN = "WHERE tenant_id = :tenant"
_CLOSED = f"SELECT is_closed FROM write_fences {_OWN}"
_REVISION = sql(
    f"SELECT n.*, j.*, ({_CLOSED}) AS is_closed FROM (SELECT COUNT(*) AS namespaces, SUM(revision) AS revisions,"
    f" MAX(created_at) AS last_namespace, MAX(revised_at) AS last_revision FROM namespaces {_OWN}) n"
    " JOIN (SELECT COUNT(*) AS jobs_open, SUM(revision) AS job_revisions, MAX(served_at) AS last_served,"
    f" (SELECT MAX(finished_at) FROM jobs {_OWN}) AS last_end, (SELECT MAX(created_at) FROM jobs {_OWN}) AS last_job"
    f" FROM jobs {_OWN} AND finished_at IS NULL) j"
)
