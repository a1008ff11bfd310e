"""Uploads that need no work: those that say what searches see already, and those that came too late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from pipeline.core.recipe import same_fields
from pipeline.flows.closing import close
from pipeline.flows.resources import Resources
from pipeline.records import Generation, TenantId
from pipeline.stores.documents import Source
from pipeline.stores.generations import Generations, Standing
from pipeline.stores.jobs import Claim, Ledger
from pipeline.stores.retired import Retired
from pipeline.stores.work import unit_of_work

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What became of claims when they were held against what is shown. ``unchanged`` ones have ended; ``overtaken``
    ones are to be closed; ``replacing`` ones would take the place of something."""

    unchanged: frozenset[Claim] = frozenset()
    overtaken: tuple[Claim, ...] = ()
    replacing: frozenset[Claim] = frozenset()

    @property
    def ended(self) -> frozenset[Claim]:
        """Those that need no further work."""
        return self.unchanged | set(self.overtaken)


def compare(
    tenant_id: TenantId, claims: Sequence[Claim], sources: Mapping[Generation, Source], use: Resources
) -> Compared:
    """End those claims whose upload is what searches see already, and tell which others replace something.

    The first upload of a document costs nothing here. Which upload is the later one is decided by the numbers they
    were accepted under: once one is found unchanged, every earlier one that is still under way is overtaken.
    """
    later = [claim for claim in claims if claim.generation.number > 1 and claim.generation in sources]
    if not later:
        return Compared()
    with unit_of_work(use.mysql) as work:
        found = Generations(work.connection, tenant_id).standing([claim.generation for claim in later])
    alike = [claim for claim in later if _is_shown_already(sources[claim.generation], found[claim.generation], use=use)]
    unchanged = _end(tenant_id, _complete(tenant_id, alike, found, use), sources, use) if alike else []
    return Compared(
        unchanged=frozenset(unchanged),
        overtaken=tuple(claim for claim in later if found[claim.generation].overtaken),
        replacing=frozenset(claim for claim in later if found[claim.generation].shown is not None),
    )


def _is_shown_already(source: Source, standing: Standing, *, use: Resources) -> bool:
    return (
        standing.recipe is not None
        and standing.model == use.embedder.model
        and standing.rows == standing.chunk_count
        and same_fields(standing.fields, source.fields)
        and standing.recipe == source.recipe
    )


def _complete(
    tenant_id: TenantId, alike: Sequence[Claim], found: Mapping[Generation, Standing], use: Resources
) -> list[Claim]:
    """Those whose shown generation has all its vectors too: handing a document in again mends what was lost of it."""
    shown = {claim: found[claim.generation].shown for claim in alike}
    counts = use.vectors(tenant_id).counts([each for each in shown.values() if each is not None])
    return [c for c, each in shown.items() if each is not None and counts[each] == found[c.generation].chunk_count]


def _end(
    tenant_id: TenantId, claims: Sequence[Claim], sources: Mapping[Generation, Source], use: Resources
) -> list[Claim]:
    """Look again with the documents held still, and end those of which it is still true."""
    if not claims:
        return []
    with unit_of_work(use.mysql) as work:
        ledger, generations = Ledger(work.connection, tenant_id), Generations(work.connection, tenant_id)
        ledger.hold(claims)
        standing = generations.standing([claim.generation for claim in claims], lock=True)
        still = [c for c in claims if _is_shown_already(sources[c.generation], standing[c.generation], use=use)]
        if not still:
            return []
        chunks = {claim: standing[claim.generation].chunk_count for claim in still}
        ledger.succeed(chunks, outcome="unchanged", reused=chunks)
        generations.settle([claim.generation for claim in still])
        # An attempt that was overtaken by an edit of the document, say, may have begun to write: that goes as usual.
        generations.discard([claim.generation for claim in still if not claim.may_have_rows])
        Retired(work.connection, tenant_id).add([claim.generation for claim in still if claim.may_have_rows])
        close(tenant_id, still, ledger, use, work)
    log.info("documents_unchanged", documents=len(still), chunks=sum(chunks.values()))
    return still
