"""The channel of business APIs: each source of the tenant is called over HTTP and returns whole passages."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from sqlalchemy import Engine

from pipeline.api_sources.api_answer import Passages, passages_of
from pipeline.api_sources.api_client import ApiCaller
from pipeline.api_sources.api_request import request_of, values_of
from pipeline.api_sources.api_source import StoredSource
from pipeline.api_sources.api_source_store import ApiSources
from pipeline.api_sources.header_secrets import HeaderSecrets
from pipeline.channels.circuit_breaker_store import Breakers, CircuitPass
from pipeline.database.unit_of_work import reading
from pipeline.deadline import Deadline
from pipeline.errors import ApiSourceFailed, ApiSourceTimedOut, CircuitOpen, PipelineError, Unavailable
from pipeline.query.channel_options import ApiOptions, options_of
from pipeline.query.request import Query, Recalled, SuppliedPassage
from pipeline.records import ChannelName, ChunkId
from pipeline.telemetry import tracing
from pipeline.threads import start_call

_MOST_SOURCES = 8  # of one query
_CALL_SHARE = 0.9  # share of the channel's time, after which remaining sources are abandoned


@dataclass(frozen=True, slots=True)
class ApiChannel:
    """The channel over the stored API sources, with a circuit breaker for each."""

    mysql: Engine
    caller: ApiCaller
    secrets: HeaderSecrets
    breakers: Breakers
    name: ChannelName = ChannelName.API

    def recall(self, query: Query) -> Recalled:
        """Return the passages of all sources, best first. ``guard`` names failed sources. Raises if all sources fail."""
        allowed_s = query.timeout_ms_of(self.name) / 1000
        deadline = Deadline.after(allowed_s * _CALL_SHARE)
        sources, unasked = self._sources(query)
        is_late = query.deadline.left_s() < allowed_s
        passages: list[tuple[SuppliedPassage, float]] = []
        errors: list[tuple[str, PipelineError]] = []
        running: list[tuple[str, CircuitPass, Future[Passages]]] = []
        for source in sources:
            permit = self.breakers.enter(self.name, query.tenant_id, source=source.name)
            if permit is None:
                errors.append((source.name, CircuitOpen("failed repeatedly; its circuit is open")))
            else:
                running.append((source.name, permit, start_call(self.ask, source, query)))
        for name, permit, future in running:
            failure: PipelineError | None = None
            try:
                passages += _result(future, name, deadline).found
            except PipelineError as error:
                failure = error
                errors.append((name, error))
            # If the query had too little time left, its timeout says nothing about the source.
            if not (is_late and isinstance(failure, ApiSourceTimedOut)):
                self.breakers.leave(permit, failed=isinstance(failure, Unavailable))
        if errors and len(errors) == len(sources):
            raise errors[0][1]
        plan = query.plan.channels.get(self.name)
        least = (plan.min_score if plan else None) or 0.0
        ranked = sorted(passages, key=lambda pair: (-pair[1], pair[0].chunk_id))
        best = [pair for pair in ranked if pair[1] >= least][: query.pool_of(self.name)]
        return Recalled(
            chunk_ids=tuple(ChunkId(passage.chunk_id) for passage, _ in best),
            scores=tuple(score for _, score in best),
            upper_bound=1.0,
            zero=0.0,
            supplied=tuple(passage for passage, _ in best),
            guard=_guard(errors, unasked),
        )

    def score(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:  # noqa: ARG002 - the port's
        """Return nothing: an API cannot score passages that it did not return."""
        return {}

    def ask(self, stored: StoredSource, query: Query) -> Passages:
        """Call one source. Raises ApiSourceUnavailable, ApiSourceFailed, Misconfigured for a header without a value."""
        source = stored.source
        namespace = source.serves(query.namespaces)
        if namespace is None:
            return Passages()
        answer = self.caller.call(
            request_of(source, values_of(query)),
            headers={
                "X-Request-ID": query.request_id,
                **tracing.outgoing(),
                **self.secrets.headers(query.tenant_id, stored),
            },
            timeout_s=min(source.timeout_ms, query.timeout_ms_of(self.name) * _CALL_SHARE) / 1000,
            max_bytes=source.max_bytes,
        )
        return passages_of(
            answer, source, name=stored.name, tenant_id=query.tenant_id, namespace=namespace, filters=query.filters
        )

    def _sources(self, query: Query) -> tuple[list[StoredSource], list[StoredSource]]:
        """Return the sources to call, and those beyond the limit."""
        named = options_of(ApiOptions, query.plan.channels.get(self.name)).named
        with reading(self.mysql) as connection:
            store = ApiSources(connection, query.tenant_id)
            enabled = [stored for stored in (store.named(named) if named else store.all()) if stored.source.enabled]
        missing = set(named).difference(source.name for source in enabled)
        if missing:
            raise ApiSourceFailed(f"no enabled API source is named {min(missing)}", code="api_source_not_found")
        serving = [stored for stored in enabled if stored.source.serves(query.namespaces) is not None]
        return serving[:_MOST_SOURCES], serving[_MOST_SOURCES:]


def _result(future: Future[Passages], name: str, deadline: Deadline) -> Passages:
    try:
        return future.result(timeout=deadline.left_s())
    except TimeoutError:
        future.cancel()
        raise ApiSourceTimedOut(f"the API source {name} did not answer in time") from None


def _guard(
    errors: Sequence[tuple[str, PipelineError]], unasked: Sequence[StoredSource]
) -> dict[str, dict[str, str]] | None:
    """Report failed sources as a loss, and sources beyond the limit as a remark."""
    guard = {}
    if errors:
        failures = (f"{name}: {error}" for name, error in errors)
        guard["lost"] = {"code": errors[0][1].code, "detail": "; ".join(failures)}
    if unasked:
        names = ", ".join(source.name for source in unasked)
        remark = f"not called, since a query calls at most {_MOST_SOURCES} sources: {names}"
        guard["remark"] = {"code": "too_many_sources", "detail": remark}
    return guard or None
