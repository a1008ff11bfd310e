"""A query that a gateway stored and never sent, as one that was killed a moment later."""

from __future__ import annotations

import uuid

import pytest

from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.records import ChannelName, Namespace, QueryId
from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.corpora.documents import document, upload
from tests.support.corpora.queries import query_of

DOCUMENTS = [
    document("pump", "The pump PPR-9087 starts when the valve is open."),
    document("水泵", "阀门打开后水泵自动启动，启动前检查油位。"),
]
_BOTH = {name: ChannelPlan() for name in (ChannelName.KEYWORD, ChannelName.SEMANTIC)}


class DescribeAQueryOfAGatewayThatIsGone:
    @pytest.mark.parametrize(("text", "found"), [("When does the pump start?", "pump"), ("水泵什么时候启动", "水泵")])
    def it_is_answered_within_its_deadline_where_its_client_waits(self, use: Resources, text: str, found: str):
        tenant_id, key = make_tenant(use)
        with gateway(key) as client:
            upload(client, "kb", DOCUMENTS)
            query = query_of(
                text,
                query_id=QueryId(str(uuid.uuid4())),
                tenant_id=tenant_id,
                namespaces=(Namespace("kb"),),
                plan=Plan(retrieve=RetrievePlan(channels=_BOTH)),
            )
            use.queries(tenant_id).open(query)
            answer = client.get(f"/v1/queries/{query.query_id}", params={"wait": 10}).json()
        assert (answer["status"], answer["stats"]["degradations"]) == ("succeeded", [])
        assert answer["chunks"][0]["document_id"] == found
