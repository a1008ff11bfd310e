"""Texts for measuring recall: questions from the audit, and stored chunks to derive questions from."""

from __future__ import annotations

import uuid

from sqlalchemy import Connection, text

from pipeline.records import TenantId
from pipeline.tenants.audit_store import SEARCH

_ROWS_READ = 1000


def recent_questions(mysql: Connection, tenant_id: TenantId, *, most: int) -> list[str]:
    """Return the newest distinct questions; none unless CHORDWISE_AUDIT_QUERY_TEXT stores their texts."""
    values = {"tenant": tenant_id, "search": SEARCH, "read": _ROWS_READ}
    return list(dict.fromkeys(mysql.execute(_QUESTIONS, values).scalars()))[:most]


def random_texts(mysql: Connection, tenant_id: TenantId, *, most: int) -> list[str]:
    """Return the beginnings of the tenant's chunks at random: ids are hashes, so any range of ids is a random sample."""
    values = {"tenant": tenant_id, "most": most}
    texts = list(mysql.execute(_TEXTS, values | {"after": str(uuid.uuid4())}).scalars())
    if len(texts) < most:
        texts += mysql.execute(_TEXTS, {"tenant": tenant_id, "after": "", "most": most - len(texts)}).scalars()
    return texts


_QUESTIONS = text(
    "SELECT query_text FROM (SELECT query_text FROM audit WHERE tenant_id = :tenant AND action = :search"
    " ORDER BY at DESC LIMIT :read) newest WHERE query_text IS NOT NULL"
)

_TEXTS = text(
    "SELECT LEFT(text, 2000) FROM chunks WHERE tenant_id = :tenant AND chunk_id > :after ORDER BY chunk_id LIMIT :most"
)
