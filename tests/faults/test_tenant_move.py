"""A tenant moves to a second pair of servers and its mover is killed twice, while queries and uploads go on."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL

import pytest
import structlog
from pydantic import SecretStr

from chordwise import Chordwise
from pipeline.database.unit_of_work import reading
from pipeline.maintenance import migrate_schema
from pipeline.maintenance.tenant_rows_store import tables_of_mysql
from pipeline.maintenance.verify import verify
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.setting_values import StorePair
from pipeline.settings import Settings
from pipeline.tenants.placement import Placement, PlacementState
from pipeline.tenants.placement_store import Placements
from tests.conftest import make_tenant, scratch_databases
from tests.support.clients.loop import PATIENCE_S, Loop
from tests.support.servers.own_stores import own_mariadb, own_postgres
from tests.support.stacks.connections import in_mysql
from tests.support.stacks.processes import end, environment_of, free_port, process, small_installation

pytestmark = [pytest.mark.calm, pytest.mark.thorough]

log = structlog.get_logger(__name__)

# Documents before the move: enough for a mover to be killed while it copies, and a large tenant.
CORPORA = pytest.mark.parametrize(("documents", "paragraphs"), [(500, 1), (5_000, 10)], ids=["small", "large"])
_AT_ONCE = 500
_WORDS = 40  # in a paragraph, which is a chunk
TEXTS = ("The pump starts at {n} bar and the valve opens.", "第{n}号水泵启动，阀门随后打开。")


@pytest.fixture
def installation(settings: Settings, tmp_path: Path) -> Iterator[tuple[Resources, TenantId, str, str, dict[str, str]]]:
    """A gateway, two workers for all queues, a clock, and two pairs of servers."""
    with (
        scratch_databases(settings) as first,
        own_mariadb(tmp_path) as mysql,
        own_postgres(tmp_path) as postgres,
        ExitStack() as whole,
    ):
        b = StorePair(mysql_url=SecretStr(f"{mysql.url}?charset=utf8mb4"), postgres_url=SecretStr(postgres.url))
        config = first.model_copy(update={"store_pairs": {"b": b}})
        assert migrate_schema.main(["upgrade"], config) == 0
        use = Resources(config)
        whole.callback(use.close)
        tenant_id, key = make_tenant(use)
        pairs = {"b": {"mysql_url": b.mysql_url.get_secret_value(), "postgres_url": b.postgres_url.get_secret_value()}}
        redis_url = config.redis_url.get_secret_value()
        environment = {
            **environment_of(config, redis_url=redis_url, port=free_port()),
            "CHORDWISE_STORE_PAIRS": json.dumps(pairs),
            "CHORDWISE_SWEEP_INTERVAL_S": "1",
            "CHORDWISE_QUERY_DEADLINE_MS": "10000",  # on a busy machine too
            "CHORDWISE_RETIRED_GRACE_S": "10",
            "CHORDWISE_RESULT_CACHE_TTL_S": "0",
        }
        url = small_installation(environment, tmp_path, whole)
        yield use, tenant_id, url, key, environment


def _document(number: int, paragraphs: int) -> dict[str, str]:
    """A document whose every paragraph is a chunk with words of its own."""
    words = random.Random(number)
    others = (" ".join(f"w{words.randrange(50_000)}" for _ in range(_WORDS)) for _ in range(paragraphs - 1))
    return {"document_id": f"d{number}", "text": "\n\n".join([TEXTS[number % 2].format(n=number), *others])}


def _placement(use: Resources, tenant_id: TenantId) -> Placement:
    with reading(use.mysql) as connection:
        return Placements(connection, tenant_id).find()


def _kill_when(state: PlacementState, use: Resources, tenant_id: TenantId, running) -> bool:  # type: ignore[no-untyped-def]
    """Kill the mover once the tenant is in this state; False if it ended before."""
    while running.poll() is None:
        if _placement(use, tenant_id).state is state:
            time.sleep(0.05)
            end(running, SIGKILL)
            return True
    return False


@pytest.mark.timeout(1800)
class DescribeAMoveUnderLoad:
    @CORPORA
    def it_loses_nothing_and_answers_throughout(self, installation, tmp_path, documents, paragraphs):
        use, tenant_id, url, key, environment = installation
        numbers = itertools.count()
        uploaded: list[str] = []
        command = ("workers.server", "tenants", "move", tenant_id, "--to", "b")
        patience_s = 2 * PATIENCE_S
        with Chordwise(url, key, timeout=patience_s) as client, Chordwise(url, key, timeout=patience_s) as other:

            def upload(count: int = 2, paragraphs: int = 1) -> None:
                sent = [_document(n, paragraphs) for n in itertools.islice(numbers, count)]
                job = client.ingest(sent, namespace="kb", chunking={"max_tokens": 60})
                done = client.wait(job, timeout=4 * PATIENCE_S)
                assert done.done
                assert not done.errors
                uploaded.extend(document["document_id"] for document in sent)

            def ask() -> None:
                for question in ("pump valve", "水泵 阀门"):
                    assert other.query(question, namespace="kb", timeout=PATIENCE_S, fresh=True).chunks

            for _ in range(0, documents, _AT_ONCE):
                upload(_AT_ONCE, paragraphs)
            with Loop(ask) as queries, Loop(upload) as uploads:
                queries.goes_on()
                killed = []
                for number, state in enumerate((PlacementState.COPYING, PlacementState.FROZEN)):
                    with process(*command, log=tmp_path / f"killed-{number}.log", **environment) as mover:
                        killed.append(_kill_when(state, use, tenant_id, mover))
                    uploads.goes_on()
                    queries.goes_on()
                with process(*command, log=tmp_path / "move.log", **environment) as mover:
                    assert mover.wait(timeout=600) == 0, (tmp_path / "move.log").read_text()
                queries.goes_on()
                uploads.goes_on()
            said = (tmp_path / "move.log").read_text()
            log.info(
                "moved",
                killed=killed,
                queries=queries.done,
                jobs=uploads.done,
                query_s=round(queries.slowest_s, 1),
                job_s=round(uploads.slowest_s, 1),
                move=said.splitlines()[-1],
            )
            for name in uploaded[:2] + uploaded[-20:]:
                assert client.document(name, namespace="kb") is not None
        assert killed == [True, True]
        there = use.of_pair("b")
        shown = in_mysql(
            there,
            "SELECT document_id FROM documents WHERE tenant_id = :tenant AND published_generation IS NOT NULL",
            tenant=tenant_id,
        )
        assert {row.document_id for row in shown} == set(uploaded)
        assert _placement(use, tenant_id) == Placement(tenant_id=tenant_id, pair="b")
        report = verify(tenant_id, None, there, repair=False)
        assert (report.missing, report.orphaned, report.stale) == (0, 0, 0)
        for table in tables_of_mysql():
            (left,) = in_mysql(use, f"SELECT COUNT(*) FROM {table.name} WHERE tenant_id = :tenant", tenant=tenant_id)
            assert left[0] == 0, table.name
