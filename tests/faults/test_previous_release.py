"""Processes of the previous release and of this one serve the same documents, as they do in the middle of an upgrade."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from chordwise import Chordwise
from pipeline.maintenance.migrate_schema import upgrade
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import make_tenant, scratch_databases
from tests.support.clients.loop import PATIENCE_S
from tests.support.repository import previous_release
from tests.support.stacks.processes import environment_of, free_port, process, wait_for_http, wait_for_log, worker
from workers.names import Queue

pytestmark = pytest.mark.thorough

QUEUES = ",".join(queue.value for queue in Queue)
# A document, a question whose answer it is, and the same with another figure.
TEXTS = {
    "en": ("The pump of the north station starts at 12 bar.", "When does the pump start?", ("12 bar", "15 bar")),
    "zh": ("北站的水泵在压力达到12巴时启动。", "水泵何时启动？", ("12巴", "15巴")),
}


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return previous_release.install(tmp_path_factory.mktemp("previous"))


@pytest.fixture(params=["old", "new"])
def gateway(request: pytest.FixtureRequest, previous: Path, settings: Settings, tmp_path: Path) -> Iterator[Chordwise]:
    """A gateway of one release, and a worker of the other. The previous release made the schema, and its process runs while
    this one migrates it."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    port, is_old = free_port(), request.param == "old"
    of_previous: dict[str, Any] = {"python": previous, "cwd": elsewhere}
    with scratch_databases(settings) as fresh, ExitStack() as whole:
        environment = {
            **environment_of(fresh, redis_url=fresh.redis_url.get_secret_value(), port=port),
            "CHORDWISE_KEYWORD_ENGINE": "mysql",  # no indexer runs here
            "OPENBLAS_NUM_THREADS": "1",
        }

        def start_gateway(**release: Any) -> None:
            whole.enter_context(process("api_gateway", log=tmp_path / "gateway.log", **release, **environment))
            wait_for_http(f"http://127.0.0.1:{port}/healthz", seconds=120)

        def start_worker(**release: Any) -> None:
            whole.enter_context(worker("one", QUEUES, log=tmp_path / "worker.log", **release, **environment))
            wait_for_log(tmp_path / "worker.log", " ready.", seconds=120)

        migrate = [previous, "-m", "pipeline.maintenance.migrate_schema", "upgrade"]
        with (tmp_path / "migrate.log").open("wb") as log:
            subprocess.run(
                migrate, cwd=elsewhere, env={**os.environ, **environment}, stdout=log, stderr=log, check=True
            )
        starts: tuple[Callable[..., None], ...] = (start_gateway, start_worker)
        starts[not is_old](**of_previous)
        use = Resources(fresh)
        whole.callback(use.close)
        upgrade(use.mysql, use.postgres, fresh)
        _, key = make_tenant(use)
        starts[is_old]()
        yield whole.enter_context(Chordwise(f"http://127.0.0.1:{port}", key))


@pytest.mark.timeout(600)
class DescribeThePreviousReleaseBesideThisOne:
    def it_uploads_answers_edits_and_deletes_in_both_languages(self, gateway: Chordwise):
        for language, (text, question, (figure, other)) in TEXTS.items():

            def ask(namespace: str = language, question: str = question) -> list[str]:
                answer = gateway.query(question, namespace=namespace, timeout=PATIENCE_S, fresh=True)
                assert not answer.stats.degradations
                return [chunk.text for chunk in answer.chunks]

            document = {"document_id": "pump", "text": text}
            assert gateway.wait(gateway.ingest([document], namespace=language), timeout=PATIENCE_S).succeeded == 1
            assert ask() == [text]
            (chunk,) = gateway.chunks(namespace=language)
            edited = text.replace(figure, other)
            (result,) = gateway.edit_chunks([{"chunk_id": chunk.chunk_id, "text": edited}])
            assert result.status == "updated"
            assert ask() == [edited]
            gateway.delete_document("pump", namespace=language)
            assert ask() == []
