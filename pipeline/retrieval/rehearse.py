"""Answer a question that nobody asked, so that the first query of a process finds indexes open, statements compiled and
connections made."""

import time
import uuid
from collections.abc import Mapping
from typing import Final

from pipeline.channels.channel import Channel
from pipeline.database.unit_of_work import reading
from pipeline.models.ports import PaidEmbedder
from pipeline.query.request import Query
from pipeline.records import ChannelName, QueryId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.ask_channels import ask_side_by_side
from pipeline.retrieval.build_plan import plan_of
from pipeline.retrieval.compose import compose, render
from pipeline.tenants.namespace_store import Namespaces, tenants_with_most_chunks

_QUESTION: Final = "How does the first question find warm stores? 第一次提问怎样才能快？"
_OWN_CHANNELS: Final[tuple[ChannelName, ...]] = (ChannelName.KEYWORD, ChannelName.SEMANTIC)  # others may ask services
_WITHOUT_SERVICES: Final = {"rerank": {"enabled": False}, "fallback": {"enabled": False}}


def rehearse(use: Resources, channels: Mapping[ChannelName, Channel]) -> None:
    """Ask the largest namespace of the installation a question, compose the answer and keep nothing of it. Raises
    Unavailable."""
    if isinstance(use.embedder, PaidEmbedder):
        return
    with reading(use.mysql) as connection:
        namespaces = {
            tenant_id: Namespaces(connection, tenant_id).largest() for tenant_id in tenants_with_most_chunks(connection)
        }
    plan = plan_of(use.settings, {}, _WITHOUT_SERVICES)
    for tenant_id, namespace in namespaces.items():
        now = time.time()
        query = Query(
            query_id=QueryId(str(uuid.uuid4())),
            tenant_id=tenant_id,
            request_id="",
            query_text=_QUESTION,
            namespaces=(namespace,),
            plan=plan,
            created_at=now,
            deadline_at=now + plan.deadline_ms / 1000,
        )
        asked = {name: channels[name] for name in _OWN_CHANNELS if name in query.channels}
        envelopes, elapsed_ms = ask_side_by_side(query, asked)
        render(compose(Arrived(query=query, envelopes=envelopes, elapsed_ms=elapsed_ms), use, channels))
