"""Flower as it is run: asks for a password, shows whose task it is, and never what is in a document."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import make_url

from compose.localstack.services import SERVICES
from tests.support.operating import eventually
from tests.support.processes import free_port, process, wait_for_http, wait_for_log

SECRET = "zwiebelkuchen"  # in the error of the task that fails
LOGIN = ("operator", "let-me-in")


@pytest.fixture(scope="module")
def flower(settings, tmp_path_factory) -> Iterator[str]:
    """The address of a Flower with the local stack's own arguments, beside a worker that fails a task."""
    logs = tmp_path_factory.mktemp("flower")
    url = make_url(settings.redis_url.get_secret_value()).set(database="14").render_as_string(False)
    port = free_port()
    environment = {
        "CHORDWISE_REDIS_URL": url,
        "CHORDWISE_BROKER_URL": url,
        "FLOWER_BASIC_AUTH": ":".join(LOGIN),
        "PLANTED_TEXT": SECRET,
    }
    [row] = [service for service in SERVICES if service.name == "flower"]
    arguments = [part.format(flower_port=port, run="") for part in row.arguments]
    arguments[arguments.index("workers.app")] = "tests.support.failing_worker"
    flags = [
        "-n",
        "failing@%h",
        "-Q",
        "ingest",
        "--pool",
        "solo",
        "--without-gossip",
        "--without-mingle",
        "-l",
        "INFO",
        "-E",
    ]
    with (
        process(*arguments, log=logs / "flower.log", **environment),
        process(
            "celery", "-A", "tests.support.failing_worker", "worker", *flags, log=logs / "worker.log", **environment
        ),
    ):
        wait_for_http(f"http://127.0.0.1:{port}/healthcheck")
        wait_for_log(logs / "worker.log", " ready.")
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def task(flower: str, settings) -> dict[str, Any]:
    """A task that failed, as Flower's interface tells of it."""
    from celery import Celery

    url = make_url(settings.redis_url.get_secret_value()).set(database="14").render_as_string(False)
    sender = Celery("sender", broker=url, set_as_current=False)
    sender.config_from_object("celery_config")
    sender.conf.broker_url = url

    def look() -> dict[str, Any] | None:
        ids = {"tenant_id": "acme", "job_id": "job-7"}
        sender.send_task("ingest.batch", kwargs=ids, queue="ingest", argsrepr="()", kwargsrepr=repr(ids))
        time.sleep(0.5)
        listed = httpx.get(f"{flower}/api/tasks", auth=LOGIN, timeout=10).json()
        return next((each for each in listed.values() if each["state"] == "FAILURE"), None)

    found = eventually(look, within_s=40)
    sender.close()
    return found


class DescribeFlower:
    @pytest.mark.parametrize("path", ["/", "/workers", "/tasks", "/api/workers", "/api/tasks"])
    def it_asks_for_a_password(self, flower, path):
        assert httpx.get(f"{flower}{path}").status_code == 401
        assert httpx.get(f"{flower}{path}", auth=("operator", "wrong")).status_code == 401
        assert httpx.get(f"{flower}{path}", auth=LOGIN, follow_redirects=True).status_code == 200

    def it_shows_whose_task_it_is(self, task, flower):
        assert "acme" in task["kwargs"]
        assert "job-7" in task["kwargs"]
        assert "kwargs" in httpx.get(f"{flower}/tasks", auth=LOGIN).text

    def it_names_the_kind_of_a_failure_and_nothing_that_was_in_it(self, task, flower):
        assert task["exception"] == "RuntimeError"
        told = [httpx.get(f"{flower}{path}", auth=LOGIN).text for path in (f"/task/{task['uuid']}", "/api/tasks")]
        assert not any(SECRET in page for page in told)

    def it_listens_on_loopback_alone(self):
        [row] = [service for service in SERVICES if service.name == "flower"]
        assert "--address=127.0.0.1" in row.arguments
