"""Follow a source: list it, compare it with its documents, take in what is new or changed, and remove what is gone.

A run is the first item of its job, under a lease like any other, in a thread of a worker for documents. It lists in a
process of its own, so a store that hangs or lies costs its run alone. A killed run is taken again and begins anew; what it
has handed in by then has the version of its file and is left alone.
"""

import hashlib
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Final, Literal

import structlog

from chordwise.contract.source import FollowedSource, SourceChange, SourceRun
from pipeline.administration.delete_documents import delete_documents
from pipeline.chunking.strategies.registry import complete
from pipeline.database.encryption import SecretCipher
from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.deadline import Deadline
from pipeline.document_sources import SourceRef
from pipeline.documents.followed_store import FollowedSources
from pipeline.errors import (
    FetchFailed,
    FetchRefused,
    LeaseLost,
    Misconfigured,
    PipelineError,
    Rejected,
    TenantGone,
    Unavailable,
)
from pipeline.ingestion.accept import Batch, accept_more
from pipeline.ingestion.claimed_items import Lease, close_jobs, retry_delay_s
from pipeline.ingestion.run import take_next
from pipeline.ingestion.yield_turn import Notify
from pipeline.jobs.ledger_store import WORKER_LOST, ItemClaim, Ledger
from pipeline.outages import tolerate_outage
from pipeline.parsing.sniffing import media_type_of_fetched
from pipeline.records import DocumentId, FailureReason, IngestQueue, Namespace, TenantId, Upload
from pipeline.resources import Resources
from pipeline.sources.entry import MOST_FILES, Entry
from pipeline.sources.listing_store import ListedFile, Listing
from pipeline.sources.path_rules import document_of, version_of
from pipeline.sources.source_process import PATIENCE, SourceProcess

log = structlog.get_logger(__name__)

Action = Literal["added", "changed", "removed", "skipped"]

GONE_SHARE: Final = 0.2  # of a source's documents that a run removes without a confirmation
_MOST_CHANGES: Final = 100  # files of a run that are named
_TRIES: Final = 3  # of a run whose store does not answer; the next run comes anyway
_TOGETHER, _TOGETHER_BYTES = 64, 4 * 1024 * 1024  # documents handed in at once
_MOST_OPEN: Final = 512  # documents of a run under way: their bytes wait in MySQL
_LOOK_AGAIN_S: Final = 0.5
_LONGEST_WAIT_S: Final = 900.0  # for these, as while the job is paused; then the run goes back
_LISTING_S: Final = 3600.0
_REFUSED: Final = "it could not be made searchable, and is tried again once it changes"
_JSON_LINES: Final = (".jsonl", ".ndjson")
_COMPARED, _REMOVED = 1000, 100  # documents in a transaction
_AT_ONCE = threading.BoundedSemaphore(2)  # runs of a process


class Held(Unavailable):
    """The documents of the run do not get on, as while its job is paused."""

    code = "run_waits"


def run_next(use: Resources, *, notify: Notify, patience: tuple[float, float] = PATIENCE) -> bool:
    """Take the run of the next tenant and carry it out in a thread; return whether there was one. A process that is busy with
    runs leaves them to others, and to the sweeper's next notification. Raises StoreUnavailable."""
    if not _AT_ONCE.acquire(blocking=False):
        return False
    with ExitStack() as place:
        place.callback(_AT_ONCE.release)
        batch = take_next(use, queue=IngestQueue.SOURCE)
        if batch is None:
            return False

        def carry_out() -> None:
            try:
                carry_out_run(batch.tenant_id, batch.claims[0], use, notify=notify, patience=patience)
            finally:
                _AT_ONCE.release()
            if batch.successor:
                notify(batch.successor.tenant_id, batch.successor.job_id, IngestQueue.SOURCE)

        use.fetches.run(carry_out)
        place.pop_all()  # the thread gives it back
    return True


def carry_out_run(
    tenant_id: TenantId, claim: ItemClaim, use: Resources, *, notify: Notify, patience: tuple[float, float] = PATIENCE
) -> None:
    """Carry out a claimed run. Never raises: what it cannot write is left to its lease."""
    with tolerate_outage(log.warning, "run_left_to_the_lease", also=(LeaseLost, TenantGone), job_id=claim.job_id):
        run = _Run(tenant_id, claim, use, notify, patience)
        try:
            if claim.attempts > use.settings.ingest_max_attempts:  # each of its workers died, so none wrote an error
                raise PipelineError("its worker ended without a result", code=WORKER_LOST)
            run.follow()
        except (LeaseLost, TenantGone):
            raise
        except PipelineError as error:
            run.fail(error)
        except Exception as error:
            log.exception("run_bug", job_id=claim.job_id)
            run.fail(error)


class _Run:
    """One run of a source."""

    def __init__(
        self, tenant_id: TenantId, claim: ItemClaim, use: Resources, notify: Notify, patience: tuple[float, float]
    ) -> None:
        self._tenant_id, self._claim, self._use, self._notify = tenant_id, claim, use, notify
        self._lease = Lease(use.mysql, tenant_id, [claim], lease_s=use.settings.ingest_lease_s)
        self._patience = patience
        self._source: FollowedSource | None = None
        self._source_id, self._confirmed = "", 0
        self._counts = dict.fromkeys(("added", "changed", "removed", "skipped"), 0)
        self._changes: list[SourceChange] = []
        self._listing: Listing | None = None
        self._began = datetime.now(UTC)
        self._known = 0

    @property
    def _namespace(self) -> Namespace:
        return self._claim.generation.scope.namespace

    def follow(self) -> None:
        """List, compare, hand in, remove. Raises LeaseLost, TenantGone, FetchRefused, FetchFailed, FetchUnavailable and what
        the stores raise; what was handed in stays."""
        source, secret = self._read_source()
        settings = self._use.settings
        with closing(Listing()) as listing:
            self._listing = listing
            with SourceProcess(
                source.url,
                secret,
                networks=settings.fetch_networks,
                folders=settings.source_folders,
                most_bytes=settings.max_document_bytes,
                meanwhile=self._lease.renew_if_due,
                patience=self._patience,
            ) as process:
                hides = self._list(source, process, listing)
                self._compare(listing)
                self._hand_in(source, process, listing)
            held = self._remove_gone(listing, hides=hides)
            self._end(held)

    def _read_source(self) -> tuple[FollowedSource, Mapping[str, str]]:
        with unit_of_work(self._use.mysql) as work:
            found = FollowedSources(work.connection, self._tenant_id).of_job(self._namespace, self._claim.job_id)
        if found is None:
            raise FetchRefused("the source is followed no longer, or has a later run")
        self._source_id, self._source, sealed, self._confirmed = found
        if sealed is None:
            return self._source, {}
        sealed_for = sealed_row(self._tenant_id, self._namespace, self._source_id)
        return self._source, SecretCipher(self._use.settings.secret_key).open(sealed, belongs_to=sealed_for)

    def _list(self, source: FollowedSource, process: SourceProcess, listing: Listing) -> bool:
        """Write down what the source lists; return whether it hides files, so that nothing counts as gone."""
        hides, deadline = False, Deadline.after(_LISTING_S)
        for entries in process.entries():
            for entry in entries:
                hides |= entry.hides
                self._note_entry(source, entry, listing)
            if listing.listed > MOST_FILES:
                raise FetchFailed(f"the source has more than {MOST_FILES} files: follow its folders one by one")
            if deadline.has_passed:
                raise FetchFailed(f"listing the source took longer than {_LISTING_S / 60:g} minutes")
            self._lease.renew_if_due()
        return hides

    def _note_entry(self, source: FollowedSource, entry: Entry, listing: Listing) -> None:
        if entry.skipped:
            self._note("skipped", entry.path, entry.skipped)
            return
        document = document_of(entry.path, source.rules)
        if document is None:
            self._note("skipped", entry.path, "a rule skips it")
        elif entry.size is not None and entry.size > self._use.settings.max_document_bytes:
            self._note("skipped", entry.path, f"it has more than {self._use.settings.max_document_bytes} bytes")
        else:
            document_id, fields = document
            version = None if entry.version is None else version_of(entry.version, fields)
            if not listing.add(document_id, entry.path, version):
                self._note("skipped", entry.path, f"another file is document {document_id}")

    def _compare(self, listing: Listing) -> None:
        """Compare the documents of the source with the listing, page by page."""
        last = ""
        while True:
            with unit_of_work(self._use.mysql) as work:
                store = FollowedSources(work.connection, self._tenant_id)
                rows = store.versions(self._namespace, self._source_id, after=last, limit=_COMPARED)
            groups = [(document_id, list(each)) for document_id, each in groupby(rows, key=itemgetter(0))]
            if len(rows) == _COMPARED and len(groups) > 1:
                groups.pop()  # its uploads may go on in the next page
            if not groups:
                return
            listing.compare({document_id: each[-1][2] for document_id, each in groups})
            self._known += len(groups)
            last = groups[-1][0]
            self._lease.renew_if_due()

    def _hand_in(self, source: FollowedSource, process: SourceProcess, listing: Listing) -> None:
        """Read the files that differ, and hand them in, some at a time."""
        uploads: list[tuple[ListedFile, Upload]] = []
        for files in listing.different():
            refused = self._refused(source, files)
            for file in files:
                self._lease.renew_if_due()
                upload = self._upload(source, process, file, listing, refused)
                if upload is None:
                    continue
                uploads.append((file, upload))
                if len(uploads) >= _TOGETHER or sum(len(each.body) for _, each in uploads) >= _TOGETHER_BYTES:
                    self._accept(uploads)
                    uploads = []
        self._accept(uploads)

    def _refused(self, source: FollowedSource, files: Sequence[ListedFile]) -> Mapping[DocumentId, bytes]:
        """Return the versions in which these files could not become documents."""
        found = (document_of(path, source.rules) for path, _, _ in files)
        with unit_of_work(self._use.mysql) as work:
            store = FollowedSources(work.connection, self._tenant_id)
            return store.refused(self._namespace, [document[0] for document in found if document is not None])

    def _upload(
        self,
        source: FollowedSource,
        process: SourceProcess,
        file: ListedFile,
        listing: Listing,
        refused: Mapping[DocumentId, bytes],
    ) -> Upload | None:
        """Return a file as an upload; None if it is the same after all, or no document, which is noted."""
        path, listed, known = file
        document = document_of(path, source.rules)
        assert document is not None
        document_id, fields = document
        if listed is not None and listed == refused.get(document_id):
            self._note("skipped", path, _REFUSED)
            return None
        try:
            body = process.read(path, self._use.settings.max_document_bytes)
            if body is None:
                raise Rejected("it went away during the run")
            if not body or body.isspace():
                raise Rejected("it is empty")
            media_type = media_type_of_fetched(body, declared=None, uri=f"/{path}")
            if path.lower().endswith(_JSON_LINES):
                raise Rejected("JSON lines are many documents: send them to /v1/files")
        except Rejected as error:
            self._note("skipped", path, str(error))
            if known is not None and not isinstance(error, FetchFailed | FetchRefused):  # a refused file may come back
                listing.drop([document_id])
            return None
        version = listed or version_of(hashlib.sha256(body).hexdigest(), fields)
        if version == refused.get(document_id):
            self._note("skipped", path, _REFUSED)
            return None
        if version == known:
            listing.unchanged += 1
            return None
        use = self._use.settings
        usual = {"max_tokens": use.chunk_max_tokens, "overlap": use.chunk_overlap}
        return Upload(
            document_id=document_id,
            fields=fields,
            body=body,
            media_type=media_type,
            source_uri=f"{source.url.partition('#')[0].rstrip('/')}/{path}"[:2048],
            chunking=complete("sentences", {}, usual),
            source=SourceRef(kind=None, source_id=self._source_id),
            source_version=version,
        )

    def _accept(self, uploads: Sequence[tuple[ListedFile, Upload]]) -> None:
        """Hand in documents as items of this job, unless they belong to another followed source."""
        if not uploads:
            return
        self._wait_for_room()
        taken = self._write([upload for _, upload in uploads])
        for (path, _, known), upload in uploads:
            if owner := taken.get(upload.document_id):
                reason = (
                    f"document {upload.document_id} belongs to source {owner}: give one of them other ids by a rule"
                )
                self._note("skipped", path, reason)
            else:
                self._note("added" if known is None else "changed", path, "new" if known is None else "changed")
        self._notify(self._tenant_id, self._claim.job_id)

    @retry_conflicts()
    def _write(self, uploads: Sequence[Upload]) -> Mapping[DocumentId, str]:
        with self._lease.held() as (work, _):
            store = FollowedSources(work.connection, self._tenant_id)
            if store.one(self._namespace, self._source_id, lock=True) is None:
                raise FetchRefused("the source is followed no longer")
            ids = [upload.document_id for upload in uploads]
            taken = store.owners(self._namespace, self._source_id, ids)
            entries = [upload for upload in uploads if upload.document_id not in taken]
            if entries:
                batch = Batch(
                    tenant_id=self._tenant_id, namespace=self._namespace, request_id=self._request_id, entries=entries
                )
                accept_more(batch, self._claim.job_id, work, self._use)
        return taken

    @property
    def _request_id(self) -> str:
        return f"source:{self._claim.job_id}"

    def _wait_for_room(self) -> None:
        patience = Deadline.after(_LONGEST_WAIT_S)
        while True:
            with unit_of_work(self._use.mysql) as work:
                if Ledger(work.connection, self._tenant_id).open_items(self._claim.job_id) <= _MOST_OPEN:
                    return
            if patience.has_passed:
                raise Held("the documents of the run wait for workers, or its job is paused")
            self._lease.renew_if_due()
            time.sleep(_LOOK_AGAIN_S)

    def _remove_gone(self, listing: Listing, *, hides: bool) -> int | None:
        """Remove the documents whose files are gone; return how many wait for a confirmation instead, None if none."""
        gone = listing.count_gone()
        if not gone:
            return None
        if hides:
            self._note("skipped", "", f"{gone} documents are not listed, and stay while a part cannot be read")
            return None
        too_many = not listing.listed or gone > self._known * GONE_SHARE
        if too_many and gone > self._confirmed:
            return gone
        for ids in listing.gone(_REMOVED):
            self._lease.renew()
            delete_documents(self._tenant_id, self._namespace, ids, self._use)
            for document_id in ids:
                self._note("removed", document_id, "it is gone from the source")
        return None

    def _note(self, action: Action, path: str, reason: str) -> None:
        self._counts[action] += 1
        if len(self._changes) < _MOST_CHANGES:
            self._changes.append(SourceChange(path=path[:1024], action=action, reason=reason[:255]))

    def _report(self, error: str | None) -> SourceRun:
        listing = self._listing
        return SourceRun(
            started_at=self._began,
            ended_at=datetime.now(UTC),
            listed=listing.listed if listing else 0,
            unchanged=listing.unchanged if listing else 0,
            error=error,
            changes=tuple(self._changes),
            **self._counts,
        )

    @retry_conflicts()
    def _end(self, held: int | None) -> None:
        with self._lease.held() as (work, ledger):
            ledger.succeed({self._claim: 0}, outcome="listed")
            store = FollowedSources(work.connection, self._tenant_id)
            store.note(self._namespace, self._source_id, self._report(None), held=held)
            close_jobs(self._tenant_id, [self._claim.job_id], ledger, self._use, work)
        log.info("source_followed", job_id=self._claim.job_id, held=held, **self._counts)

    @retry_conflicts()
    def fail(self, error: Exception) -> None:
        """End the run, or put it back for another attempt if the store did not answer. Documents stay as they are."""
        code = getattr(error, "code", "internal_error")
        detail = error.public if isinstance(error, PipelineError) else f"unexpected {type(error).__name__}"
        waits = isinstance(error, Held)
        again = waits or (isinstance(error, Unavailable | Misconfigured) and self._claim.attempts < _TRIES)
        with self._lease.held() as (work, ledger):
            if again:
                delay_s = retry_delay_s(self._claim.attempts, asked_s=60.0 if waits else None)
                ledger.put_back([self._claim], delay_s=delay_s, code=code, detail=detail, counted=not waits)
            else:
                bug = not isinstance(error, PipelineError)
                reason = FailureReason.BUG if bug else FailureReason.GAVE_UP
                ledger.fail([self._claim], code=code, detail=detail, reason=reason)
                if (source := self._source) is not None:
                    store = FollowedSources(work.connection, self._tenant_id)
                    store.note(self._namespace, self._source_id, self._report(detail), held=source.held_removals)
            close_jobs(self._tenant_id, [self._claim.job_id], ledger, self._use, work)
        log.info("source_not_followed", job_id=self._claim.job_id, code=code, attempts=self._claim.attempts)


def sealed_row(tenant_id: TenantId, namespace: Namespace, source_id: str) -> str:
    """Return the name of the row to which a secret is bound."""
    return f"{tenant_id}/source/{namespace}/{source_id}"
