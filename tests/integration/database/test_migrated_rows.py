"""Rows from before a migration, and their state after it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from sqlalchemy import Connection, text

from pipeline.api_sources.api_source import read_source
from pipeline.database.engines import mysql_engine
from pipeline.document_sources import derived_source_id
from pipeline.documents.document_view_store import DocumentViews
from pipeline.documents.source_view_store import SourceViews
from pipeline.maintenance import migrate_schema
from pipeline.query.plan import read_plan
from pipeline.records import Namespace, TenantId
from pipeline.settings import Settings
from pipeline.tenants.quota_store import QuotaLimits, Quotas

OUTCOMES = Path(migrate_schema.__file__).parents[1] / "database/migrations/mysql/versions/0025_document_outcomes.py"
TENANT = TenantId("t")
LONG = {"retrieve": {"channels": {"keyword": {"timeout_ms": 60_000}, "semantic": {"timeout_ms": 500}}}}
SOURCE = {"url": "https://x/", "mapping": {"text": "/t"}, "timeout_ms": 9000}


def insert(connection: Connection, table: str, **values: object) -> None:
    names = ", ".join(values)
    connection.execute(
        text(f"INSERT INTO {table} (tenant_id, {names}) VALUES ('t', {', '.join(f':{name}' for name in values)})"),
        values,
    )


def old_rows(connection: Connection) -> None:
    """Four documents of one job that ended differently, and configurations with times that are too long now."""
    at = {"created_at": "2026-01-01", "updated_at": "2026-01-01"}
    insert(connection, "jobs", job_id="j", namespace="知识库", total=4, request_id="r", **at)
    for ordinal, state in enumerate(("succeeded", "failed", "cancelled", "queued")):
        published = 1 if state == "succeeded" else None
        document = {"namespace": "知识库", "document_id": state}
        insert(connection, "documents", **document, latest_generation=1, published_generation=published, **at)
        insert(
            connection,
            "generations",
            **document,
            **{"generation": 1, "job_id": "j", "tags": "[]", "metadata": "{}", "media_type": "text/plain"},
            **{"chunking": "{}", "content_hash": b"0" * 32, "created_at": "2026-01-01"},
        )
        item = {"job_id": "j", "ordinal": ordinal, "generation": 1, "state": state, "stage": "accepted"}
        insert(connection, "job_items", **item, **document, updated_at="2026-01-01")
    insert(connection, "profiles", name="p", version=1, config=json.dumps(LONG), created_at="2026-01-01")
    insert(connection, "experiments", experiment_id="e", config=json.dumps({"arms": [{"overrides": LONG}]}), **at)
    insert(connection, "api_sources", name="crm", source=json.dumps(SOURCE), **at)


def it_takes_outcomes_from_the_ledger_and_shortens_the_times_of_channels(fresh: Settings):
    found = re.search(r'down_revision = "(\d+)"', OUTCOMES.read_text(encoding="utf-8"))
    assert found is not None
    mysql = mysql_engine(fresh)
    try:
        with mysql.connect() as connection:
            migrate_schema._migrate("upgrade", found[1], "mysql", connection, fresh)
            old_rows(connection)
            connection.commit()
            migrate_schema._migrate("upgrade", "head", "mysql", connection, fresh)
            connection.commit()
            views = DocumentViews(connection, TENANT)
            shown = {view.document_id: view.status for view in views.views(namespace=None, after=None, limit=9)}
            assert shown == {"succeeded": "succeeded", "queued": "queued"}
            for state in ("failed", "cancelled"):
                [view] = views.views(namespace=Namespace("知识库"), status=state, after=None, limit=9)
                assert (view.document_id, view.status) == (state, state)
            assert Quotas(connection, TENANT, QuotaLimits()).use()["documents"][1] == 2
            config = json.loads(connection.execute(text("SELECT config FROM profiles")).scalar_one())
            channels = read_plan({}, config).retrieve.channels
            assert (channels["keyword"].timeout_ms, channels["semantic"].timeout_ms) == (2000, 500)
            arm = json.loads(connection.execute(text("SELECT config FROM experiments")).scalar_one())["arms"][0]
            assert arm["overrides"] == config
            assert (
                read_source(connection.execute(text("SELECT source FROM api_sources")).scalar_one()).timeout_ms == 2000
            )
    finally:
        mysql.dispose()


def it_derives_the_sources_of_earlier_documents(fresh: Settings):
    mysql = mysql_engine(fresh)
    try:
        with mysql.connect() as connection:
            migrate_schema._migrate("upgrade", "0024", "mysql", connection, fresh)
            old_rows(connection)
            uris = {"succeeded": "报告/甲.md", "queued": "https://example.com/ü?a=1", "cancelled": "报告/甲.md"}
            for document_id, uri in uris.items():
                change = text("UPDATE generations SET source_uri = :uri WHERE document_id = :document")
                connection.execute(change, {"uri": uri, "document": document_id})
            connection.commit()
            migrate_schema._migrate("upgrade", "head", "mysql", connection, fresh)
            connection.commit()
            found = SourceViews(connection, TENANT).page(Namespace("知识库"), limit=9)
            kinds = {"报告/甲.md": "file", "https://example.com/ü?a=1": "url"}
            assert {view.uri: (view.source_id, view.kind) for view in found} == {
                uri: (derived_source_id("t", "知识库", uri=uri, document_id="-"), kind) for uri, kind in kinds.items()
            }
            own = derived_source_id("t", "知识库", uri=None, document_id="failed")
            failed = SourceViews(connection, TENANT).one(Namespace("知识库"), own)
            assert failed is not None
            assert (failed.kind, failed.statuses["failed"], failed.media_type) == ("text", 1, "text/plain")
            migrate_schema._migrate("downgrade", "0025", "mysql", connection, fresh)
    finally:
        mysql.dispose()
