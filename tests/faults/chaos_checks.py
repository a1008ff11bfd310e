"""Invariants after the chaos, counted in the stores."""

from __future__ import annotations

from sqlalchemy import Connection, text

from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.cut_document import assembled, cut_document
from pipeline.keyword.terms import Tokenizer
from pipeline.parsing.formats import parse
from pipeline.records import Chunk, Chunking, DocumentId, Generation, Namespace, Scope, TenantId
from pipeline.resources import Resources

Expected = dict[str, str]  # document id -> the text that was accepted last

_MOST_CHUNKS = 10_000


def unfinished(connection: Connection, tenant_id: TenantId) -> str:
    """Describe a tenant's unfinished work in a phrase; empty if there is none."""
    values = {"tenant": tenant_id}
    counts = {
        "items open": "SELECT COUNT(*) FROM job_items WHERE tenant_id = :tenant AND state IN ('queued', 'running')",
        "jobs open": "SELECT COUNT(*) FROM jobs WHERE tenant_id = :tenant AND finished_at IS NULL",
        "generations to drop": "SELECT COUNT(*) FROM retired_generations WHERE tenant_id = :tenant",
    }
    found = {name: connection.execute(text(query), values).scalar_one() for name, query in counts.items()}
    return ", ".join(f"{tenant_id}: {count} {name}" for name, count in found.items() if count)


def broken_promises(use: Resources, tenant_id: TenantId, namespace: str, expected: Expected) -> list[str]:
    """A sentence for each promise that does not hold for a tenant; none when all do."""
    scope = Scope(tenant_id=tenant_id, namespace=Namespace(namespace))
    with unit_of_work(use.mysql) as work:
        found = [
            *_items(work.connection, tenant_id),
            *_documents(work.connection, scope, expected, use),
            *_size(work.connection, scope),
        ]
    return [f"{tenant_id}: {sentence}" for sentence in found]


def _items(connection: Connection, tenant_id: TenantId) -> list[str]:
    rows = connection.execute(
        text(
            "SELECT state, error_code, COUNT(*) FROM job_items WHERE tenant_id = :tenant AND state <> 'succeeded'"
            " GROUP BY state, error_code"
        ),
        {"tenant": tenant_id},
    )
    return [f"{count} items are {state} ({code})" for state, code, count in rows]


def _documents(connection: Connection, scope: Scope, expected: Expected, use: Resources) -> list[str]:
    """Every accepted document is shown, whole, in the version that was accepted last, and once."""
    rows = connection.execute(
        text(
            "SELECT c.document_id, c.text, d.published_generation = c.generation AS shown FROM chunks c"
            " LEFT JOIN documents d ON d.tenant_id = c.tenant_id AND d.namespace = c.namespace"
            " AND d.document_id = c.document_id WHERE c.tenant_id = :tenant AND c.namespace = :namespace"
            " ORDER BY c.document_id, c.generation, c.ordinal"
        ),
        {"tenant": scope.tenant_id, "namespace": scope.namespace},
    ).all()
    shown: dict[str, list[str]] = {}
    left_over = 0
    for document_id, chunk, is_shown in rows:
        if is_shown:
            shown.setdefault(document_id, []).append(chunk)
        else:
            left_over += 1
    chunking = Chunking(max_tokens=use.settings.chunk_max_tokens, overlap=use.settings.chunk_overlap)
    wanted = {name: [c.passage.text for c in _chunks(scope, name, body, chunking)] for name, body in expected.items()}
    lost = sorted(name for name in wanted if name not in shown)
    other = sorted(name for name, texts in wanted.items() if name in shown and shown[name] != texts)
    return [
        *([f"{len(lost)} documents lost: {lost[:5]}"] if lost else []),
        *([f"{len(other)} documents show other chunks than they should: {other[:5]}"] if other else []),
        *([f"{len(set(shown) - set(wanted))} documents nobody sent"] if set(shown) - set(wanted) else []),
        *([f"{left_over} chunks of generations that are not shown"] if left_over else []),
    ]


def _chunks(scope: Scope, name: str, body: str, chunking: Chunking) -> list[Chunk]:
    parsed = parse(body.encode(), media_type="text/plain", filename=None)
    generation = Generation(scope=scope, document_id=DocumentId(name), number=1)
    options = {"title": None, "chunking": chunking, "tokenizer": Tokenizer(scope), "most": _MOST_CHUNKS}
    return assembled(cut_document(parsed, **options), generation).chunks


def _size(connection: Connection, scope: Scope) -> list[str]:
    """The namespace counts the shown chunks and their terms."""
    values = {"tenant": scope.tenant_id, "namespace": scope.namespace}
    where = "WHERE tenant_id = :tenant AND namespace = :namespace"
    counted = f"SELECT chunk_count, term_count FROM namespaces {where}"
    size = connection.execute(text(counted), values).one_or_none()
    there = f"SELECT COUNT(*), COALESCE(SUM(term_count), 0) FROM chunks {where}"
    actual = tuple(map(int, connection.execute(text(there), values).one()))
    if size is None or tuple(size) == actual:
        return []
    return [f"the namespace counts {tuple(size)} chunks and terms, there are {actual}"]
