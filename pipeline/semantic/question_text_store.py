"""Texts for measuring recall: questions from the audit, and questions of a few words derived from stored chunks.

Whole texts would not do: an index is built from them, so it finds their neighbours more often than a question's.
"""

import random
import uuid
from collections.abc import Iterable

from sqlalchemy import Connection, text

from pipeline.keyword.terms import holds_unspaced
from pipeline.query.keywords import keywords_of
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


_FEWEST, _MOST = 2, 5
_READ = 2000  # characters of a text
_WORDS = 200


def short_questions(texts: Iterable[str], *, seed: int) -> list[str]:
    """Return two to five keywords of each text, in their order; all keywords of a shorter text; nothing for a text
    without any.

    Deterministic for a given seed.
    """
    rng = random.Random(seed)
    questions = []
    for passage in texts:
        words = keywords_of(passage[:_READ], most=_WORDS)
        chosen = sorted(rng.sample(range(len(words)), min(len(words), rng.randint(_FEWEST, _MOST))))
        questions.append(("" if holds_unspaced(passage) else " ").join(words[index] for index in chosen))
    return [question for question in questions if question]
