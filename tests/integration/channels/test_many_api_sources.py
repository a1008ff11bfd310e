"""More business APIs than one query asks: the first eight are asked, the others are named."""

from __future__ import annotations

import dataclasses
import uuid
from ipaddress import ip_network

from pipeline.administration import edit_api_sources
from pipeline.api_sources.api_source import ApiMapping, ApiSource
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.records import ChannelName, QueryId
from pipeline.retrieval.make_channels import make_channels
from tests.support.corpora.queries import query_of
from tests.support.servers.business_api import business_api, says


class DescribeTooManySources:
    def it_names_those_that_are_not_asked(self, use_alone, tenant, namespace):
        limits = {"api_allow_networks": (ip_network("127.0.0.0/8"),)}
        here = dataclasses.replace(use_alone, settings=use_alone.settings.model_copy(update=limits))
        with business_api() as api:
            for number in range(9):
                api.answers[f"/{number}"] = says({"hits": [{"id": f"i{number}", "body": "valve"}]})
                source = ApiSource(url=f"{api.url}/{number}", mapping=ApiMapping(items="/hits", id="/id", text="/body"))
                edit_api_sources.put(tenant, f"source{number}", source, here, values={}, kept=())
            query = query_of(
                "valve",
                query_id=QueryId(str(uuid.uuid4())),
                tenant_id=tenant,
                namespaces=(namespace,),
                plan=Plan(retrieve=RetrievePlan(channels={"api": ChannelPlan(timeout_ms=5000)})),
                deadline_s=10,
            )
            found = make_channels(here)[ChannelName.API].recall(query)
        assert {each.document_id for each in found.supplied} == {f"i{number}" for number in range(8)}
        assert found.guard is not None
        assert "lost" not in found.guard  # which would say that the answer is degraded
        assert found.guard["remark"]["code"] == "too_many_sources"
        assert found.guard["remark"]["detail"].endswith(": source8")
        here.close()
