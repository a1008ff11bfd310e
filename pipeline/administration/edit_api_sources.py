"""Store, try out and delete API sources."""

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from ipaddress import ip_address

import structlog

from chordwise.contract.api_source import TriedPassage, TriedSource
from pipeline.administration.call_store import call_store
from pipeline.api_sources.api_answer import Passages
from pipeline.api_sources.api_source import ApiSource, StoredSource
from pipeline.api_sources.api_source_store import ApiSources
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import PipelineError
from pipeline.outbound.addresses import is_within, may_connect
from pipeline.outbound.web import web_address
from pipeline.query.plan import ChannelPlan
from pipeline.query.request import Query, copied
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.retrieval.make_channels import header_secrets, make_api_channel

log = structlog.get_logger(__name__)

MOST_SOURCES = 20  # of one tenant


class TooManySources(Exception):
    """The tenant has as many sources as allowed."""


class SourceFlaw(Exception):
    """A flaw in a source's description; ``pointer``: its location."""

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(detail)
        self.pointer = pointer


list_api_sources = call_store(ApiSources, ApiSources.all)
find_api_source = call_store(ApiSources, ApiSources.one)
remove_api_source = call_store(ApiSources, ApiSources.remove)


def put(
    tenant_id: TenantId,
    name: str,
    source: ApiSource,
    use: Resources,
    *,
    values: Mapping[str, str],
    kept: Collection[str],
) -> tuple[StoredSource, bool]:
    """Store a source and return whether it is new. ``values``: header values to store; ``kept``: headers whose stored
    value stays, for the same server only. Raises SourceFlaw, TooManySources."""
    _require_address(source, use)
    secrets = header_secrets(use)
    for header, secret in source.headers.items():
        if secret is not None and not secrets.knows(tenant_id, secret):
            raise SourceFlaw(f"/headers/{header}", "names a secret that the installation does not have for this tenant")
    with unit_of_work(use.mysql) as work:
        store = ApiSources(work.connection, tenant_id)
        count = store.lock()
        before = store.one(name)
        if before is None and count >= MOST_SOURCES:
            raise TooManySources(f"There are {MOST_SOURCES} API sources already, and no more may be added.")
        opened = secrets.opened(tenant_id, before) if before is not None and kept else {}
        for header in kept:
            if before is None or header not in opened:
                raise SourceFlaw(f"/headers/{header}", "has no stored value that could be kept")
            if _origin(before.source) != _origin(source):
                detail = "must be given again, because the source is on another server now"
                raise SourceFlaw(f"/headers/{header}", detail)
        headers = {**{header: opened[header] for header in kept}, **values}
        store.put(name, source, secrets.encrypted(tenant_id, name, headers))
        stored = store.one(name)
    assert stored is not None
    log.info("api_source_put", tenant_id=tenant_id, source=name, new=before is None)
    return stored, before is None


def try_out(tenant_id: TenantId, stored: StoredSource, query: Query, use: Resources) -> TriedSource:
    """Call a source as a query would, with the source's own full time limit, enabled or not."""
    patient = ChannelPlan(timeout_ms=2 * stored.source.timeout_ms + 100)
    retrieve = replace(query.plan.retrieve, channels={"api": patient}, method="hybrid")
    trial_query = replace(query, tenant_id=tenant_id, plan=replace(query.plan, retrieve=retrieve))
    started = time.perf_counter()
    try:
        passages, error = make_api_channel(use).ask(stored, trial_query), None
    except PipelineError as raised:
        passages, error = Passages(), raised
    elapsed_ms = (time.perf_counter() - started) * 1000
    log.info("api_source_tried", tenant_id=tenant_id, source=stored.name, code=error.code if error else None)
    return TriedSource(
        ok=error is None,
        code=error.code if error else None,
        detail=str(error) if error else None,
        elapsed_ms=round(elapsed_ms, 3),
        passages=tuple(copied(TriedPassage, passage, score=score) for passage, score in passages.found),
        left_out=dict(passages.left_out),
    )


def _require_address(source: ApiSource, use: Resources) -> None:
    """Check a host that is an IP address now; a name may resolve to another address by the time of a call."""
    address = web_address(source.url)
    permitted = use.settings.api_allow_networks
    try:
        ip_address(address.host)
    except ValueError:
        return
    if not may_connect(address.host, permitted=permitted):
        raise SourceFlaw("/url", "is not on the public internet, nor in a network that the installation permits")
    if address.scheme == "http" and not is_within(address.host, permitted):
        raise SourceFlaw("/url", "must be https, because it is in no network that the installation permits")


def _origin(source: ApiSource) -> tuple[str, str, int]:
    address = web_address(source.url)
    return address.scheme, address.host, address.port
