"""One tenant's namespace on real stores, filled and asked in this process, without Celery."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.answer.result import Answer
from pipeline.channels.channel import Channel
from pipeline.ingestion.accept import Batch, accept
from pipeline.query.request import Query
from pipeline.records import ChannelName, DocumentFields, DocumentId, Filters, Namespace, QueryId, TenantId, Upload
from pipeline.resources import Resources
from pipeline.retrieval.build_plan import plan_of
from pipeline.retrieval.compose import render
from pipeline.retrieval.make_channels import make_channels
from tests.support.stacks.one_job import ingest_batch
from tests.support.stacks.one_query import ask_in_process


@dataclass(frozen=True)
class Corner:
    """Documents go in with `fill`, answers come out of `ask`."""

    use: Resources
    tenant: TenantId
    namespace: Namespace

    def fill(self, texts: Mapping[str, str], fields: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Ingest plain texts by document id, with the fields that some of them have."""
        uploads = tuple(
            Upload(
                document_id=DocumentId(document_id),
                fields=DocumentFields(**(fields or {}).get(document_id, {})),
                body=body.encode(),
                media_type="text/plain",
            )
            for document_id, body in texts.items()
        )
        batch = Batch(
            tenant_id=self.tenant, namespace=self.namespace, request_id="r", entries=uploads, on_conflict="replace"
        )
        ticket = accept(batch, self.use, ring=lambda ticket: None)
        while ingest_batch(self.tenant, ticket.job_id, self.use, ring=lambda *_: None):
            pass

    def query(self, text: str, *, filters: Filters | None = None, deadline_s: float = 20.0, **asked: Any) -> Query:
        """A query with the settings' plan, and what is asked for over it."""
        now = time.time()
        return Query(
            query_id=QueryId(str(uuid.uuid4())),
            tenant_id=self.tenant,
            request_id="r",
            query_text=text,
            namespaces=(self.namespace,),
            filters=filters or Filters(),
            plan=plan_of(self.use.settings, {}, asked),
            created_at=now,
            deadline_at=now + deadline_s,
            trace=True,
        )

    def ask(self, query: Query, channels: Mapping[ChannelName, Channel] | None = None) -> Answer:
        """The answer, of the real channels unless others are given."""
        return ask_in_process(query, self.use, make_channels(self.use) if channels is None else channels)


def documents(answer: Answer) -> list[str]:
    """The documents of an answer in order, as often as they occur."""
    return [chunk.document_id for chunk in answer.chunks]


def timeless(answer: Answer | bytes) -> str:
    """An answer as JSON without its timings."""
    found = json.loads(answer if isinstance(answer, bytes) else render(answer))
    found["stats"].pop("latency_ms")
    return json.dumps(found, ensure_ascii=False)
