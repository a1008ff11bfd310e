"""The same product with models behind the OpenAI protocol: embeddings, reranking by a language model, and its failures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from sqlalchemy import make_url

from pipeline.maintenance.migrate_schema import upgrade
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import make_tenant
from tests.support.corpora.documents import document, found_documents, search, upload
from tests.support.servers.openai_answers import hangs, refused
from tests.support.servers.openai_server import OpenAIServer
from tests.support.stacks.processes import free_port, process, wait_for_http, wait_for_log, worker

DIMENSION = 64


class Served(NamedTuple):
    """A gateway whose workers use a model service, and that service."""

    client: httpx.Client
    service: OpenAIServer


@pytest.fixture
def served(fresh: Settings, tmp_path: Path) -> Iterator[Served]:
    """Databases, a gateway and workers of the test's own, with another dimension than the stack has."""
    settings = fresh.model_copy(update={"embedding_dim": DIMENSION})
    redis_url = make_url(settings.redis_url.get_secret_value()).set(database="6").render_as_string(False)
    own = Resources(settings)
    upgrade(own.mysql, own.postgres, settings)
    _, key = make_tenant(own)
    own.close()
    port = free_port()
    with OpenAIServer(dimension=DIMENSION) as service:
        environment = {
            "CHORDWISE_MYSQL_URL": settings.mysql_url.get_secret_value(),
            "CHORDWISE_POSTGRES_URL": settings.postgres_url.get_secret_value(),
            "CHORDWISE_REDIS_URL": redis_url,
            "CHORDWISE_BROKER_URL": redis_url,
            "CHORDWISE_GATEWAY_PORT": str(port),
            "CHORDWISE_EMBEDDING_PROVIDER": "openai",
            "CHORDWISE_EMBEDDING_MODEL": "a-model",
            "CHORDWISE_EMBEDDING_DIM": str(DIMENSION),
            "CHORDWISE_LLM_MODEL": "a-language-model",
            "CHORDWISE_LLM_TIMEOUT_S": "0.8",
            "CHORDWISE_RESULT_CACHE_TTL_S": "0",  # every query is to ask the service
            "OPENAI_BASE_URL": service.url,
            "OPENAI_API_KEY": "not-a-real-key",
        }
        with (
            process("api_gateway", log=tmp_path / "gateway.log", **environment),
            worker("served-ingest", "ingest", log=tmp_path / "ingest.log", **environment),
            worker("served", "recall,answer,rerank", log=tmp_path / "queries.log", **environment),
            httpx.Client(
                base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}, timeout=30
            ) as client,
        ):
            wait_for_http(f"http://127.0.0.1:{port}/healthz")
            for name in ("ingest", "queries"):
                wait_for_log(tmp_path / f"{name}.log", " ready.")
            yield Served(client, service)


@pytest.mark.thorough
class DescribeAModelService:
    def it_embeds_and_reranks_and_names_what_fails(self, served):
        client, service = served
        job = upload(
            client,
            "kb",
            [
                document("router", "Hold the button for ten seconds to reset the router.", title="Router"),
                document("paint", "The router is blue, and so is the box of the router.", title="Paint"),
                document("tea", "绿茶用八十度的水冲泡。", title="绿茶"),
            ],
        )
        assert job["status"] == "succeeded"
        assert {body["model"] for body in service.seen("embeddings")} == {"a-model"}
        whole = search(client, "kb", "how to reset the router", top_k=3, enable_expand=False)
        assert found_documents(whole)[0] == "router"
        assert not whole["stats"]["degraded"]
        assert [chunk["rerank"] is not None for chunk in whole["chunks"]] == [True] * len(whole["chunks"])
        assert len(service.seen("chat")) == 1
        for broken in (refused(500), hangs()):
            service.always["chat"] = broken
            answer = search(client, "kb", "how to reset the router", top_k=3, enable_expand=False)
            assert found_documents(answer)[0] == "router"
            assert [lost["part"] for lost in answer["stats"]["degradations"]] == ["rerank"]
        service.always["embeddings"] = refused(503)
        answer = search(client, "kb", "绿茶的水温", enable_rerank=False, enable_expand=False)
        assert found_documents(answer) == ["tea"]
        assert [lost["part"] for lost in answer["stats"]["degradations"]] == ["semantic"]
