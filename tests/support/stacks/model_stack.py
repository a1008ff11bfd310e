"""A gateway and workers of a test's own, which ask a language model that the test has in its hands."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
from sqlalchemy import make_url

from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import gateway, make_tenant
from tests.support.corpora.documents import document, upload
from tests.support.servers.openai_server import OpenAIServer
from tests.support.stacks.processes import environment_of, free_port, process, wait_for_http, wait_for_log, worker

DEADLINE_S = 4.0
EXPAND, ROUTE, REWRITE = "查询扩展员", "调度员", "查询分析员"  # words of the prompts


class Served(NamedTuple):
    """The gateway, the model, and the worker that asks it."""

    client: httpx.Client
    model: OpenAIServer
    asking: subprocess.Popen[bytes]


@contextmanager
def model_stack(
    settings: Settings,
    use: Resources,
    logs: Path,
    *,
    redis_database: int,
    queues: Sequence[str] = ("recall,answer,rerank",),
) -> Iterator[Served]:
    """Its Redis database is its own, so that no other worker takes its queries; its documents lie with the stack's, whose
    gateway and workers take them in. ``queues``: those of each worker, the one that asks the model last.
    """
    redis_url = make_url(settings.redis_url.get_secret_value()).set(database=str(redis_database))
    _, key = make_tenant(use)
    port = free_port()
    _hand_in(key)
    with OpenAIServer() as model, ExitStack() as workers:
        environment = {
            **environment_of(settings, redis_url=redis_url.render_as_string(False), port=port),
            "CHORDWISE_QUERY_DEADLINE_MS": str(int(DEADLINE_S * 1000)),
            "CHORDWISE_LLM_MODEL": "a-language-model",
            "CHORDWISE_LLM_INPUT_PRICE_PER_MILLION": "3",
            "CHORDWISE_LLM_OUTPUT_PRICE_PER_MILLION": "15",
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": "not-a-real-key",
        }
        with (
            process("api_gateway", log=logs / "gateway.log", ending=signal.SIGKILL, **environment),
            httpx.Client(
                base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}, timeout=30
            ) as client,
        ):
            for number, some in enumerate(queues):
                log = logs / f"worker-{number}.log"
                asking = workers.enter_context(
                    worker(f"u-{number}", some, log=log, ending=signal.SIGKILL, **environment)
                )
            wait_for_http(f"http://127.0.0.1:{port}/healthz", seconds=90)
            for number in range(len(queues)):
                wait_for_log(logs / f"worker-{number}.log", " ready.", seconds=90)
            yield Served(client, model, asking)


def _hand_in(key: str) -> None:
    with gateway(key) as client:
        job = upload(
            client,
            "kb",
            [
                document("button", "Hold the button for ten seconds to reset the router."),
                document("clip", "Factory defaults of the gateway device come back with a paper clip."),
                document("tea", "绿茶用八十度的水冲泡。"),
                document("torque", "PPR-9087 is tightened with 12 Nm."),
            ],
        )
    assert job["status"] == "succeeded"
