"""Fetch documents beside the batches, in threads under their lease, each with a deadline; then queue them as if sent
with their bytes. No batch waits for a remote server."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import structlog

from pipeline.database.unit_of_work import unit_of_work
from pipeline.deadline import Deadline
from pipeline.errors import EmptyDocument, FetchUnavailable, LeaseLost, PipelineError, Rejected, Unavailable
from pipeline.ingestion.fetch_store import BytesLocation, FetchedPayloads
from pipeline.ingestion.finish_items import end
from pipeline.ingestion.retry_or_give_up import give_up_or_retry
from pipeline.jobs.claims import ItemClaim
from pipeline.jobs.lease_store import Lease
from pipeline.jobs.ledger_store import Ledger
from pipeline.outbound.fetch_client import Fetched
from pipeline.parsing.formats import charset_of
from pipeline.parsing.sniffing import media_type_of_fetched
from pipeline.records import OCTETS, JobId, TenantId
from pipeline.resources import Resources

log = structlog.get_logger(__name__)

Ring = Callable[[TenantId, JobId], object]
Ending = Fetched | Exception

_TOGETHER_S = 0.05  # fetches that end within it are written together
_LOOKUP_S = 5.0  # grace after its deadline, for a name resolution by the system, which nothing can stop
_LONGEST_MEDIA_TYPE = 127


def hand_over(tenant_id: TenantId, claims: Sequence[ItemClaim], use: Resources, *, ring: Ring) -> Sequence[ItemClaim]:
    """Start fetching documents in threads. Return the claims that can be worked on at once."""
    if not any(claim.to_fetch for claim in claims):
        return claims
    with unit_of_work(use.mysql) as work:
        store = FetchedPayloads(work.connection, tenant_id)
        known = store.places([claim.generation for claim in claims if claim.to_fetch])
    places = {claim: known[claim.generation] for claim in claims if claim.generation in known}
    if places:
        use.fetches.take(tenant_id, len(places))
        use.fetches.run(_Round(tenant_id, places, use, ring).carry_out)
    return [claim for claim in claims if claim not in places]


class _Round:
    """Documents that were claimed together and are fetched in parallel."""

    def __init__(
        self, tenant_id: TenantId, places: Mapping[ItemClaim, BytesLocation], use: Resources, ring: Ring
    ) -> None:
        self._tenant_id = tenant_id
        self._places = places
        self._use = use
        self._ring = ring
        self._ended: queue.SimpleQueue[tuple[ItemClaim, Ending]] = queue.SimpleQueue()
        self._slots = len(places)
        self._lease = Lease(use.mysql, tenant_id, list(places), lease_s=use.settings.ingest_lease_s)
        self._deadline = Deadline.after(use.settings.fetch_timeout_s + _LOOKUP_S)

    def carry_out(self) -> None:
        """Fetch until every document has ended or is lost to another worker. Never raises; the lease recovers unwritten
        results."""
        for claim, place in self._places.items():
            self._use.fetches.run(partial(self._fetch, claim, place))
        try:
            while self._lease.claims:
                self._settle(self._next_ones())
                self._renew()
        except Unavailable as error:
            log.warning("fetches_left_to_the_lease", documents=len(self._lease.claims), code=error.code)
        except Exception as error:
            # The last frame of a thread: nothing above would report the error. The lease decides about the documents.
            log.exception("fetching_bug", error=type(error).__name__, documents=len(self._lease.claims))
        finally:
            self._give_back(self._slots)

    def _fetch(self, claim: ItemClaim, place: BytesLocation) -> None:
        """Fetch one document; the work of one thread."""
        began = time.monotonic()
        try:
            ending: Ending = self._use.fetcher.fetch(place.uri)
        except PipelineError as error:
            ending = error
        except Exception as error:
            log.exception("fetch_bug", job_id=claim.job_id, ordinal=claim.ordinal)
            ending = error
        log.info(
            "document_fetched" if isinstance(ending, Fetched) else "document_not_fetched",
            ordinal=claim.ordinal,
            bytes=len(ending.body) if isinstance(ending, Fetched) else 0,
            code=None if isinstance(ending, Fetched) else getattr(ending, "code", "internal_error"),
            elapsed_ms=round((time.monotonic() - began) * 1000),
        )
        self._ended.put((claim, ending))

    def _next_ones(self) -> dict[ItemClaim, Ending]:
        """Return the fetches that have ended, waiting no longer than the lease allows."""
        patience = Deadline.after(self._use.settings.ingest_lease_s / 6)
        found: dict[ItemClaim, Ending] = {}
        while not patience.has_passed:
            try:
                claim, ending = self._ended.get(timeout=patience.left_s())
            except queue.Empty:
                break
            if claim in self._lease.claims:
                found[claim] = ending
            patience = patience.at_most(_TOGETHER_S)
        if self._deadline.has_passed:
            late = FetchUnavailable("the name of the server was not looked up in time")
            found = {**dict.fromkeys(self._lease.claims, late), **found}
        return found

    def _settle(self, endings: Mapping[ItemClaim, Ending]) -> None:
        """Write the results of fetches, those with bytes together, and release their items."""
        fetched: dict[ItemClaim, tuple[bytes, str]] = {}
        for claim, ending in endings.items():
            found = self._read(self._places[claim], ending)
            if isinstance(found, tuple):
                fetched[claim] = found
            elif isinstance(found, Rejected):
                self._park(claim, found)
            else:
                give_up_or_retry(self._tenant_id, claim, found, self._use)
        self._store(fetched)
        self._lease.release(endings)
        self._give_back(len(endings))
        for job_id in sorted({claim.job_id for claim in fetched}):
            self._ring(self._tenant_id, job_id)

    def _read(self, place: BytesLocation, ending: Ending) -> tuple[bytes, str] | Exception:
        """Return the bytes with the media type to parse them as, or the error."""
        if isinstance(ending, Exception):
            return ending
        if not ending.body:
            return EmptyDocument("the server answered with nothing")
        asked_for, _, parameters = place.media_type.partition(";")
        charset = charset_of(parameters)
        if asked_for == OCTETS:
            try:
                found = media_type_of_fetched(ending.body, declared=ending.content_type, uri=ending.uri)
            except Rejected as error:
                return error
        else:
            found, charset = asked_for, charset or charset_of((ending.content_type or "").partition(";")[2])
        if charset:
            found = f"{found.partition(';')[0]};charset={charset}"
        fits = found.isascii() and found.isprintable() and len(found) <= _LONGEST_MEDIA_TYPE
        return ending.body, found if fits else found.partition(";")[0]

    def _park(self, claim: ItemClaim, error: Rejected) -> None:
        try:
            end(self._lease, [], [(claim, error)], self._use)
        except LeaseLost as lost:
            log.warning("lease_lost", job_id=claim.job_id, ordinal=claim.ordinal, detail=str(lost))

    def _store(self, fetched: Mapping[ItemClaim, tuple[bytes, str]]) -> None:
        if not fetched:
            return
        with unit_of_work(self._use.mysql) as work:
            held = Ledger(work.connection, self._tenant_id).still_held(list(fetched))
            store = FetchedPayloads(work.connection, self._tenant_id)
            for claim in held:
                body, media_type = fetched[claim]
                store.store(claim.generation, body, media_type=media_type)
            store.queue({claim: len(fetched[claim][0]) for claim in held})

    def _renew(self) -> None:
        """Renew the lease of the documents that are still fetched, and forget those that another worker holds by now."""
        self._give_back(len(self._lease.renew_rest()))

    def _give_back(self, slots: int) -> None:
        self._slots -= slots
        self._use.fetches.give_back(self._tenant_id, slots)
