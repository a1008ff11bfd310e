"""Reading and cutting: from claimed documents to chunks that stand aside, not yet shown."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.core.assembling import assemble_all
from pipeline.core.packed_chunks import UNMARKED, Mark
from pipeline.core.packing import is_packed
from pipeline.core.terms import tokenizer_of
from pipeline.errors import Rejected
from pipeline.flows.closing import end
from pipeline.flows.resources import Resources
from pipeline.flows.unchanged import compare
from pipeline.flows.unpacking import unpacked
from pipeline.records import Chunk, DocumentFields, ParentChunk, Stage, TenantId
from pipeline.stores.chunks import Chunks
from pipeline.stores.documents import Documents, Source
from pipeline.stores.imports import mark_chunks
from pipeline.stores.jobs import Claim, Ledger
from pipeline.stores.parents import Parents
from pipeline.stores.work import unit_of_work

_TITLE_LENGTH = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A claimed document that has become chunks. ``reused``: how many of them needed no embedding. ``marks`` and
    ``vectors``, by ordinal: what chunks that were imported brought with them."""

    claim: Claim
    fields: DocumentFields
    title: str | None
    chunks: Sequence[Chunk]
    recipe: bytes
    replaces: bool  # searches see an earlier generation of it, whose vectors may be good for this one too
    reused: int = 0
    parents: Sequence[ParentChunk] = ()
    marks: Mapping[int, Mark] = field(default_factory=dict)
    vectors: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)
    model: str = ""  # that made these vectors

    @property
    def searchable(self) -> Sequence[Chunk]:
        """Its chunks but those that are switched off, which have no vector and count in no statistics."""
        if not self.marks:
            return self.chunks
        return [chunk for chunk in self.chunks if self.marks.get(chunk.ordinal, UNMARKED).enabled]

    @property
    def to_embed(self) -> Sequence[Chunk]:
        """Searchable chunks that brought no vector."""
        if not self.vectors:
            return self.searchable
        return [chunk for chunk in self.searchable if chunk.ordinal not in self.vectors]


def prepare(tenant_id: TenantId, claims: Sequence[Claim], use: Resources) -> list[Prepared]:
    """Read and cut, renewing the lease while it takes long. What is at fault is parked here, alone, and what is shown
    already, or was overtaken, ends here."""
    with unit_of_work(use.mysql) as work:
        sources = Documents(work.connection, tenant_id).sources([claim.generation for claim in claims])
    compared = compare(tenant_id, claims, sources, use)
    prepared: list[Prepared] = []
    refused: list[tuple[Claim, Rejected]] = []
    gone = list(compared.overtaken)
    renewed = time.monotonic()
    claims = [claim for claim in claims if claim not in compared.ended]
    for claim in claims:
        if time.monotonic() - renewed > use.settings.ingest_lease_s / 6:
            _renew(tenant_id, claims, {item.claim for item in prepared}, use)
            renewed = time.monotonic()
        source = sources.get(claim.generation)
        if source is None:
            gone.append(claim)
            continue
        try:
            prepared.append(_cut(claim, source, claim in compared.replacing, use))
        except Rejected as error:
            refused.append((claim, error))
    end(tenant_id, gone, refused, use)
    return prepared


def _renew(tenant_id: TenantId, claims: Sequence[Claim], parsed: set[Claim], use: Resources) -> None:
    """Keep the lease on all, and note which are parsed: whoever follows the job sees it move."""
    with unit_of_work(use.mysql) as work:
        ledger = Ledger(work.connection, tenant_id)
        ledger.hold(claims)
        for stage, some in (
            (Stage.PARSED, [claim for claim in claims if claim in parsed]),
            (Stage.ACCEPTED, [claim for claim in claims if claim not in parsed]),
        ):
            ledger.advance(some, stage, lease_s=use.settings.ingest_lease_s)
    use.bells.progressed(tenant_id, claims[0].job_id)


def _cut(claim: Claim, source: Source, replaces: bool, use: Resources) -> Prepared:
    if is_packed(source.media_type):
        packed = unpacked(source, claim.generation, tokenizer_of(claim.generation.scope), use)
        return Prepared(
            claim=claim,
            fields=source.fields,
            title=source.fields.title,
            chunks=packed.chunks,
            parents=packed.parents,
            marks=packed.marks,
            vectors=packed.vectors,
            model=packed.model,
            recipe=source.recipe,
            replaces=replaces,
        )
    parsed = use.parser.parse(source.body, media_type=source.media_type, filename=source.source_uri)
    title = (source.fields.title or parsed.title or "")[:_TITLE_LENGTH] or None
    found = assemble_all(
        parsed,
        claim.generation,
        title=title,
        chunking=source.chunking,
        tokenizer=tokenizer_of(claim.generation.scope),
        limit=use.settings.max_chunks_per_document,
    )
    return Prepared(
        claim=claim,
        fields=source.fields,
        title=title,
        chunks=found.chunks,
        parents=found.parents,
        recipe=source.recipe,
        replaces=replaces,
    )


def write_aside(tenant_id: TenantId, prepared: Sequence[Prepared], chunks: Sequence[Chunk], use: Resources) -> None:
    claims = [item.claim for item in prepared]
    again = [claim.generation for claim in claims if claim.may_have_rows]
    with unit_of_work(use.mysql) as work:
        ledger = Ledger(work.connection, tenant_id)
        ledger.hold(claims)
        Chunks(work.connection, tenant_id).write(chunks, again=again)
        mark_chunks(work.connection, tenant_id, {item.claim.generation: item.marks for item in prepared if item.marks})
        Parents(work.connection, tenant_id).write([parent for item in prepared for parent in item.parents])
        ledger.advance(claims, Stage.CHUNKED, lease_s=use.settings.ingest_lease_s)


def advance(tenant_id: TenantId, claims: Sequence[Claim], stage: Stage, use: Resources) -> None:
    with unit_of_work(use.mysql) as work:
        ledger = Ledger(work.connection, tenant_id)
        ledger.hold(claims)
        ledger.advance(claims, stage, lease_s=use.settings.ingest_lease_s)
