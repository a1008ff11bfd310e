"""Manage the sources that are followed, and start their runs as jobs."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from importlib.metadata import entry_points
from typing import Any, Final
from urllib.parse import urlsplit

import structlog

from chordwise.contract.source import FollowedSource
from pipeline.administration.delete_documents import delete_source
from pipeline.administration.run_source import sealed_row
from pipeline.database.encryption import SecretCipher
from pipeline.database.rows import now, to_json
from pipeline.database.unit_of_work import UnitOfWork, retry_conflicts, unit_of_work
from pipeline.document_sources import derived_source_id
from pipeline.documents.followed_store import FollowedSources
from pipeline.errors import FetchRefused
from pipeline.ingestion.yield_turn import Notify
from pipeline.jobs.job_view_store import JobViews
from pipeline.jobs.ledger_store import Ledger, NewItem
from pipeline.outbound.post_client import NotAllowed, require_host
from pipeline.records import IngestQueue, JobId, Namespace, Priority, TenantId
from pipeline.resources import Resources
from pipeline.settings import Settings
from pipeline.sources.entry import GROUP
from pipeline.sources.folder_client import open_folder
from pipeline.tenants.audit_store import Audit

log = structlog.get_logger(__name__)

MOST_SOURCES: Final = 100  # of one tenant
_STARTED_AT_ONCE: Final = 20
_LOOK_AGAIN_S: Final = 60.0  # at a source whose last run has not ended


class TooManyFollowed(Exception):
    """The tenant follows as many sources as allowed."""


def follow(
    tenant_id: TenantId,
    namespace: Namespace,
    url: str,
    use: Resources,
    *,
    every_s: int,
    rules: Sequence[Mapping[str, Any]],
    secret: Mapping[str, str] | None,
    source_id: str | None,
    request_id: str,
    notify: Notify,
) -> tuple[str, bool]:
    """Follow a source; return its id and whether it is new. A run begins at once.

    A source that is followed already gets the new interval, rules and secret. Raises NotAllowed for its address,
    TooManyFollowed."""
    _require_address(url, secret or {}, use.settings)
    source_id = source_id or derived_source_id(tenant_id, namespace, uri=url, document_id="")
    row = sealed_row(tenant_id, namespace, source_id)
    sealed = None if secret is None else SecretCipher(use.settings.secret_key).seal(secret, belongs_to=row)

    @retry_conflicts()
    def write() -> bool:
        with unit_of_work(use.mysql) as work:
            store = FollowedSources(work.connection, tenant_id)
            count = store.lock()
            earlier = store.one(namespace, source_id, lock=True)
            if earlier is None and count >= MOST_SOURCES:
                raise TooManyFollowed(f"There are {MOST_SOURCES} followed sources already, and no more may be added.")
            if secret is None and earlier is not None and earlier.has_secret and _server(earlier.url) != _server(url):
                raise NotAllowed(
                    "invalid_url", "is on another server now, so its secret must be given again, or {} for none"
                )
            store.put(namespace, source_id, url, every_s, to_json(list(rules)), sealed)
            Audit(work.connection, tenant_id).wrote("source_follow", namespaces=[namespace], ids=[source_id])
            _start(tenant_id, namespace, source_id, work, request_id=request_id, notify=notify)
        return earlier is None

    is_new = write()
    log.info("source_added", tenant_id=tenant_id, source_id=source_id, is_new=is_new)
    return source_id, is_new


@retry_conflicts()
def run_now(
    tenant_id: TenantId, namespace: Namespace, source_id: str, use: Resources, *, request_id: str, notify: Notify,
    confirm: bool = False,
) -> JobId | None:  # fmt: skip
    """Begin a run, and return its job, or that of the run under way. ``confirm``: the run may remove the documents that wait
    for it. None if there is no such source, or nothing to confirm."""
    with unit_of_work(use.mysql) as work:
        store = FollowedSources(work.connection, tenant_id)
        if store.one(namespace, source_id, lock=True) is None or (confirm and not store.confirm(namespace, source_id)):
            return None
        action = "source_confirm" if confirm else "source_run"
        Audit(work.connection, tenant_id).wrote(action, namespaces=[namespace], ids=[source_id])
        return _start(tenant_id, namespace, source_id, work, request_id=request_id, notify=notify)


@retry_conflicts()
def schedule(tenant_id: TenantId, namespace: Namespace, source_id: str, use: Resources, *, paused: bool) -> bool:
    """Pause a source, or let its next run be due now. False if there is none."""
    with unit_of_work(use.mysql) as work:
        done = FollowedSources(work.connection, tenant_id).schedule(namespace, source_id, None if paused else now())
        if done:
            action = "source_pause" if paused else "source_resume"
            Audit(work.connection, tenant_id).wrote(action, namespaces=[namespace], ids=[source_id])
    return done


def remove(
    tenant_id: TenantId, namespace: Namespace, source_id: str, use: Resources, *, keep_documents: bool
) -> int | None:
    """Follow a source no longer and delete its documents, unless they are kept; return how many were deleted, None without
    such a source. A run under way ends without handing in anything more."""

    @retry_conflicts()
    def forget() -> bool:
        with unit_of_work(use.mysql) as work:
            removed = FollowedSources(work.connection, tenant_id).remove(namespace, source_id)
            if removed:
                Audit(work.connection, tenant_id).wrote("source_unfollow", namespaces=[namespace], ids=[source_id])
        return removed

    followed = forget()
    deleted = None if keep_documents else delete_source(tenant_id, namespace, source_id, use)
    return deleted if deleted is not None or not followed else 0


def start_due(tenant_id: TenantId, use: Resources, *, notify: Notify) -> int:
    """Begin the runs of a tenant that are due; return how many."""
    with unit_of_work(use.mysql) as work:
        due = FollowedSources(work.connection, tenant_id).due(_STARTED_AT_ONCE)
    started = 0
    for namespace, source_id in due:
        with unit_of_work(use.mysql) as work:
            store = FollowedSources(work.connection, tenant_id)
            source = store.one(namespace, source_id, lock=True)
            if source is None or source.next_run_at is None:
                continue
            if _under_way(tenant_id, source, work):
                store.schedule(
                    namespace, source_id, now() + timedelta(seconds=min(_LOOK_AGAIN_S, source.every_seconds))
                )
                continue
            job_id = _start(tenant_id, namespace, source_id, work, request_id=f"source:{uuid.uuid4()}", notify=notify)
            started += job_id is not None
    return started


def _start(
    tenant_id: TenantId, namespace: Namespace, source_id: str, work: UnitOfWork, *, request_id: str, notify: Notify
) -> JobId | None:
    """Open the job of a run, whose first item is the run itself; return it, or that of the run under way."""
    store = FollowedSources(work.connection, tenant_id)
    source = store.one(namespace, source_id, lock=True)
    if source is None:
        return None
    if (running := _under_way(tenant_id, source, work)) is not None:
        return running
    job_id = JobId(str(uuid.uuid4()))
    items = [NewItem(ordinal=0, document_id=None, body_bytes=1)]
    ledger = Ledger(work.connection, tenant_id)
    ledger.open(job_id, namespace, request_id, items, priority=Priority.BULK, queue=IngestQueue.SOURCE)
    store.began(namespace, source_id, job_id, after_s=source.every_seconds)
    work.after_commit(lambda: notify(tenant_id, job_id, IngestQueue.SOURCE))
    return job_id


def _under_way(tenant_id: TenantId, source: FollowedSource, work: UnitOfWork) -> JobId | None:
    if source.job_id is None:
        return None
    job_id = JobId(source.job_id)
    return job_id if JobViews(work.connection, tenant_id).is_finished(job_id) is False else None


def _server(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


_WITH_HOST: Final = ("http", "https", "git+http", "git+https", "sftp", "webdav", "webdavs")
_WITH_BUCKET: Final = ("s3", "gs", "az")
_FOLDERS: Final = ("file", "git+file")


def _require_address(url: str, secret: Mapping[str, str], settings: Settings) -> None:
    """Refuse a URL that no run could read, and one of a private address. The run checks each connection again."""
    try:
        parts, endpoint = urlsplit(url), urlsplit(secret.get("endpoint_url", ""))
        host, _, _ = parts.hostname or "", parts.port, endpoint.port  # both ports raise if they are none
    except ValueError:
        raise NotAllowed("invalid_url", "is not a URL, or the secret's endpoint_url is none") from None
    if not url.isprintable() or " " in url:
        raise NotAllowed("invalid_url", "must not hold white space or control characters")
    if "@" in parts.netloc:
        raise NotAllowed("invalid_url", "must not hold a user or a password: they belong into the secret")
    if parts.scheme in _FOLDERS:
        path = parts._replace(scheme="file", path=parts.path.partition("@")[0], fragment="").geturl()
        try:
            open_folder(path, {}, allowed=settings.source_folders)
        except FetchRefused as error:
            raise NotAllowed("address_not_allowed", str(error)) from None
    elif parts.scheme in _WITH_HOST or parts.scheme in _WITH_BUCKET:
        if not parts.netloc:
            raise NotAllowed("invalid_url", "names no host or bucket")
        if endpoint.scheme not in ("", "http", "https"):
            raise NotAllowed("invalid_url", "has a secret whose endpoint_url begins with neither http:// nor https://")
        named = host if parts.scheme in _WITH_HOST else endpoint.hostname
        if named:
            require_host(named, permitted=settings.fetch_networks)
    elif not entry_points(group=GROUP, name=parts.scheme):
        known = ", ".join((*_FOLDERS, *_WITH_HOST, *_WITH_BUCKET))
        raise NotAllowed(
            "invalid_url", f"begins with none of {known}, followed by ://, nor with the scheme of a package"
        )
