"""Fetch documents beside the batches, in threads under their lease, then queue them as if sent with their bytes."""

import queue
import time
from collections.abc import Mapping, Sequence
from functools import partial

import structlog

from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.deadline import Deadline
from pipeline.errors import EmptyDocument, FetchUnavailable, LeaseLost, PipelineError, Rejected
from pipeline.ingestion.claimed_items import Lease, end, give_up_or_retry
from pipeline.ingestion.fetch_store import FetchedPayloads, Location
from pipeline.ingestion.yield_turn import Notify
from pipeline.jobs.ledger_store import ItemClaim, Ledger
from pipeline.outages import OutageTolerated
from pipeline.outbound.fetch_client import Fetched
from pipeline.parsing.formats import charset_of
from pipeline.parsing.sniffing import media_type_of_fetched
from pipeline.records import OCTETS, TenantId
from pipeline.resources import Resources

log = structlog.get_logger(__name__)

Ending = Fetched | Exception

_TOGETHER_S = 0.05  # fetches that end within it are written together
_LOOKUP_S = 5.0  # grace after its deadline, for a name resolution by the system, which nothing can stop
_LONGEST_MEDIA_TYPE = 127


def start_fetches(
    tenant_id: TenantId, claims: Sequence[ItemClaim], use: Resources, *, notify: Notify
) -> Sequence[ItemClaim]:
    """Start fetching the documents without bytes, in threads. Return the other claims."""
    if not any(claim.to_fetch for claim in claims):
        return claims
    with unit_of_work(use.mysql) as work:
        store = FetchedPayloads(work.connection, tenant_id)
        by_generation = store.locations([claim.generation for claim in claims if claim.to_fetch])
    locations = {claim: by_generation[claim.generation] for claim in claims if claim.generation in by_generation}
    if locations:
        use.fetches.take(tenant_id, len(locations))
        use.fetches.run(_FetchRound(tenant_id, locations, use, notify).carry_out)
    return [claim for claim in claims if claim not in locations]


class _FetchRound:
    """Documents that were claimed together and are fetched in parallel."""

    def __init__(
        self, tenant_id: TenantId, locations: Mapping[ItemClaim, Location], use: Resources, notify: Notify
    ) -> None:
        self._tenant_id = tenant_id
        self._locations = locations
        self._use = use
        self._notify = notify
        self._ended: queue.SimpleQueue[tuple[ItemClaim, Ending]] = queue.SimpleQueue()
        self._slots = len(locations)
        self._lease = Lease(use.mysql, tenant_id, list(locations), lease_s=use.settings.ingest_lease_s)
        self._deadline = Deadline.after(use.fetcher.timeout_s + _LOOKUP_S)

    def carry_out(self) -> None:
        """Fetch until every document has ended or is lost to another worker. Never raise: the lease puts the rest back."""
        for claim, location in self._locations.items():
            self._use.fetches.run(partial(self._fetch, claim, location[0]))
        try:
            with OutageTolerated(self._leave_to_the_lease):
                while self._lease.claims:
                    self._settle(self._next_endings())
                    self._renew()
        except Exception as error:
            # The last frame of a thread: nothing above would report the error. The lease decides about the documents.
            log.exception("fetching_bug", error=type(error).__name__, documents=len(self._lease.claims))
        finally:
            self._give_back(self._slots)

    def _leave_to_the_lease(self, error: PipelineError) -> None:
        log.warning("fetches_left_to_the_lease", documents=len(self._lease.claims), code=error.code)

    def _fetch(self, claim: ItemClaim, uri: str) -> None:
        """Fetch one document; the work of one thread."""
        began = time.monotonic()
        try:
            ending: Ending = self._use.fetcher.fetch(uri)
        except PipelineError as error:
            ending = error
        except Exception as error:
            log.exception("fetch_bug", job_id=claim.job_id, ordinal=claim.ordinal)
            ending = error
        elapsed_ms = round((time.monotonic() - began) * 1000)
        if isinstance(ending, Fetched):
            size = len(ending.body)
            log.info("document_fetched", ordinal=claim.ordinal, bytes=size, code=None, elapsed_ms=elapsed_ms)
        else:
            code = getattr(ending, "code", "internal_error")
            log.info("document_not_fetched", ordinal=claim.ordinal, bytes=0, code=code, elapsed_ms=elapsed_ms)
        self._ended.put((claim, ending))

    def _next_endings(self) -> dict[ItemClaim, Ending]:
        """Return the fetches that have ended, waiting no longer than the lease allows."""
        patience = Deadline.after(self._use.settings.ingest_lease_s / 6)
        endings: dict[ItemClaim, Ending] = {}
        while not patience.has_passed:
            try:
                claim, ending = self._ended.get(timeout=patience.left_s())
            except queue.Empty:
                break
            if claim in self._lease.claims:
                endings[claim] = ending
            patience = patience.at_most(_TOGETHER_S)
        if self._deadline.has_passed:
            late = FetchUnavailable("the name of the server was not looked up in time")
            endings = {**dict.fromkeys(self._lease.claims, late), **endings}
        return endings

    def _settle(self, endings: Mapping[ItemClaim, Ending]) -> None:
        """Write the results of fetches, those with bytes together, and release their items."""
        fetched: dict[ItemClaim, tuple[bytes, str]] = {}
        for claim, ending in endings.items():
            payload = self._read(self._locations[claim][1], ending)
            if isinstance(payload, tuple):
                fetched[claim] = payload
            elif isinstance(payload, Rejected):
                self._fail(claim, payload)
            else:
                give_up_or_retry(self._tenant_id, claim, payload, self._use)
        self._store(fetched)
        self._lease.release(endings)
        self._give_back(len(endings))
        for job_id in sorted({claim.job_id for claim in fetched}):
            self._notify(self._tenant_id, job_id)

    def _read(self, expected: str, ending: Ending) -> tuple[bytes, str] | Exception:
        """Return the bytes with the media type to parse them as, or the error."""
        if isinstance(ending, Exception):
            return ending
        if not ending.body:
            return EmptyDocument("the server answered with nothing")
        requested, _, parameters = expected.partition(";")
        charset = charset_of(parameters)
        if requested == OCTETS:
            try:
                media_type = media_type_of_fetched(ending.body, declared=ending.content_type, uri=ending.uri)
            except Rejected as error:
                return error
        else:
            media_type, charset = requested, charset or charset_of((ending.content_type or "").partition(";")[2])
        if charset:
            media_type = f"{media_type.partition(';')[0]};charset={charset}"
        fits = media_type.isascii() and media_type.isprintable() and len(media_type) <= _LONGEST_MEDIA_TYPE
        return ending.body, media_type if fits else media_type.partition(";")[0]

    def _fail(self, claim: ItemClaim, error: Rejected) -> None:
        try:
            end(self._lease, [], [(claim, error)], self._use)
        except LeaseLost as lost:
            log.warning("lease_lost", job_id=claim.job_id, ordinal=claim.ordinal, detail=str(lost))

    @retry_conflicts()
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
