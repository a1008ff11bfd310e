"""Bring the terms of older chunks up to today's rules (`core.terms.VERSION`), in the background and without embedding.

Some documents at a time are locked as an edit locks them; rows whose terms differ are written, the statistics follow, and
the namespace's revision moves, so that every index outside of MySQL reads them again. A step that dies is repeated.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Final

import structlog

from pipeline.core.indexed_fields import Indexed, indexed, title_terms
from pipeline.core.terms import tokenizer_of
from pipeline.flows.resources import Resources
from pipeline.records import ChunkId, Namespace, TenantId
from pipeline.stores.chunk_edits import ChunkEdits
from pipeline.stores.outdated_terms import OutdatedGeneration, OutdatedTerms
from pipeline.stores.owned import OwnedChunk
from pipeline.stores.statistics import Statistics
from pipeline.stores.work import UnitOfWork, unit_of_work

log = structlog.get_logger(__name__)

_STEP_S: Final = 2.0  # a step ends after the batch that passes this
_DOCUMENTS_AT_ONCE: Final = 100
_CHUNKS_AT_ONCE: Final = 500


def renew_terms(tenant_id: TenantId, use: Resources) -> int:
    """Renew the terms of a tenant's older chunks for some seconds; return how many differed. Raises Conflict on a lost
    race; commits stay."""
    ends, changed = time.monotonic() + _STEP_S, 0
    while time.monotonic() < ends:
        with unit_of_work(use.mysql) as work:
            due = OutdatedTerms(work.connection, tenant_id).due(limit=_DOCUMENTS_AT_ONCE)
            if not due:
                break
            namespace = due[0].generation.scope.namespace
            some = _bounded([each for each in due if each.generation.scope.namespace == namespace])
            changed += _renew(tenant_id, namespace, some, work)
    if changed:
        log.info("terms_renewed", tenant_id=tenant_id, chunks=changed)
    return changed


def _bounded(due: list[OutdatedGeneration]) -> list[OutdatedGeneration]:
    """Return the first of them, as many as have few chunks together, and one at least."""
    total = 0
    for place, each in enumerate(due):
        total += each.chunk_count
        if total > _CHUNKS_AT_ONCE:
            return due[: max(1, place)]
    return due


def _renew(tenant_id: TenantId, namespace: Namespace, due: list[OutdatedGeneration], work: UnitOfWork) -> int:
    outdated, documents = OutdatedTerms(work.connection, tenant_id), {each.generation.document_id for each in due}
    ChunkEdits(work.connection, tenant_id).lock(namespace, sorted(documents))
    rewritten: list[tuple[ChunkId, Indexed]] = []
    removed: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    added: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    for each in due:
        chunks, is_shown = outdated.chunks(each.generation)
        for chunk, found_by in _differing(chunks):
            rewritten.append((chunk.chunk_id, found_by))
            if is_shown:
                document_id = each.generation.document_id
                removed[document_id] += [chunk.terms] if chunk.enabled else []
                added[document_id] += [found_by.terms] if chunk.enabled else []
    outdated.rewrite(rewritten)
    outdated.settle([each.generation for each in due])
    if added:
        Statistics(work.connection, tenant_id).count(
            namespace,
            [terms for of_one in added.values() for terms in of_one],
            [terms for of_one in removed.values() for terms in of_one],
            document_ids=[each.generation.document_id for each in due if each.generation.document_id in added],
        )
    return len(rewritten)


def _differing(chunks: list[OwnedChunk]) -> list[tuple[OwnedChunk, Indexed]]:
    """Return the chunks that have other terms by today's rules, with these."""
    if not chunks:
        return []
    first = chunks[0]
    title, tokenizer = title_terms(first.fields.title), tokenizer_of(first.generation.scope)
    by_rule = (
        (chunk, indexed(chunk.passage, title, strategy=chunk.chunking.strategy, tokenizer=tokenizer))
        for chunk in chunks
    )
    return [
        (chunk, found_by)
        for chunk, found_by in by_rule
        if found_by.terms != chunk.terms or found_by.fields != chunk.field_terms
    ]
