"""Rows of a database that the revisions before the first release made, once the code of today migrates it."""

from __future__ import annotations

from sqlalchemy import Connection, text

from pipeline.database.engines import mysql_engine
from pipeline.documents.document_view_store import DocumentViews
from pipeline.documents.document_views import DocumentSelection
from pipeline.maintenance.migrate_schema import upgrade_mysql
from pipeline.records import Namespace, TenantId
from pipeline.settings import Settings
from pipeline.tenants.quota_store import QuotaLimits, Quotas

LAST_BEFORE_THE_RELEASE = "0029"
TENANT = TenantId("t")


def insert(connection: Connection, table: str, **values: object) -> None:
    names = ", ".join(values)
    connection.execute(
        text(f"INSERT INTO {table} (tenant_id, {names}) VALUES ('t', {', '.join(f':{name}' for name in values)})"),
        values,
    )


def old_rows(connection: Connection) -> None:
    """Four documents of one job that ended differently."""
    at = {"created_at": "2026-01-01", "updated_at": "2026-01-01"}
    insert(connection, "jobs", job_id="j", namespace="知识库", total=4, request_id="r", **at)
    for ordinal, state in enumerate(("succeeded", "failed", "cancelled", "queued")):
        document = {"namespace": "知识库", "document_id": state}
        ended = {f"{state}_generation": 1} if state in ("failed", "cancelled") else {}
        published = 1 if state == "succeeded" else None
        insert(connection, "documents", **document, **ended, latest_generation=1, published_generation=published, **at)
        insert(
            connection,
            "generations",
            **document,
            **{"generation": 1, "job_id": "j", "tags": "[]", "metadata": "{}", "media_type": "text/plain"},
            **{"chunking": "{}", "content_hash": b"0" * 32, "created_at": "2026-01-01"},
        )
        item = {"job_id": "j", "ordinal": ordinal, "generation": 1, "state": state, "stage": "accepted"}
        insert(connection, "job_items", **item, **document, updated_at="2026-01-01")


def it_continues_with_a_database_at_the_last_revision_before_the_release(fresh: Settings):
    mysql = mysql_engine(fresh)
    try:
        upgrade_mysql(mysql, fresh)
        with mysql.begin() as connection:
            connection.execute(text("DROP INDEX attachments_by_job ON attachments"))  # of the revisions since
            at = {"revision": LAST_BEFORE_THE_RELEASE}  # the name that the first revision must have
            connection.execute(text("UPDATE schema_version_mysql SET version_num = :revision"), at)
            old_rows(connection)
        upgrade_mysql(mysql, fresh)
        with mysql.connect() as connection:
            views = DocumentViews(connection, TENANT)
            shown = {view.document_id: view.status for view in views.views(DocumentSelection(), reads_as=None, limit=9)}
            assert shown == {"succeeded": "succeeded", "queued": "queued"}
            for state in ("failed", "cancelled"):
                selection = DocumentSelection(namespace=Namespace("知识库"), status=state)
                [view] = views.views(selection, reads_as=None, limit=9)
                assert (view.document_id, view.status) == (state, state)
            assert Quotas(connection, TENANT, QuotaLimits()).use()["documents"][1] == 2
    finally:
        mysql.dispose()
