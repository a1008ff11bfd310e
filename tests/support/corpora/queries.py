"""Queries as `pipeline` takes them, written as briefly as they can be."""

from __future__ import annotations

import time
from typing import Any

from pipeline.answer.ended_query import EndedQuery
from pipeline.query.request import Query
from pipeline.records import Namespace, QueryId, TenantId


def query_of(text: str = "x", *, created_at: float | None = None, deadline_s: float = 3.0, **given: Any) -> Query:
    """Return a query ``q`` of tenant ``t`` in namespace ``n``, created now, that ends after ``deadline_s``."""
    begun = time.time() if created_at is None else created_at
    usual = {
        "query_id": QueryId("q"),
        "tenant_id": TenantId("t"),
        "request_id": "r",
        "namespaces": (Namespace("n"),),
        "created_at": begun,
        "deadline_at": begun + deadline_s,
    }
    return Query(query_text=text, **{**usual, **given})


def ended_query(query_id: str) -> EndedQuery:
    """Return an ended query of tenant ``t`` without anything special about it."""
    return EndedQuery(
        tenant_id=TenantId("t"),
        query_id=QueryId(query_id),
        runs=(),
        composed_at=0.0,
        composing_s=0.0,
        total_ms=10.0,
        degraded=False,
    )
