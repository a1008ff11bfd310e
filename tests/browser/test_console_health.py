"""The Health page, in both languages, while its gateway is killed and replaced by one without workers."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from playwright.sync_api import Error, Page, Route, expect
from sqlalchemy import make_url

from pipeline.database.expiring_record_store import WorkerHeartbeats
from pipeline.database.unit_of_work import unit_of_work
from pipeline.database.worker_heartbeats import FORGOTTEN_S, ProcessSign
from pipeline.resources import Resources
from pipeline.settings import Settings
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import make_tenant
from tests.support.stacks.processes import free_port, process, wait_for_http
from workers.names import Queue

_NOBODYS_DATABASE = "11"  # of Redis: no worker writes heartbeats there


@dataclass(frozen=True)
class Words:
    """The texts of the page in one language."""

    locale: str
    good: str
    silent: str
    last_answer: str
    deserted: str
    no_worker: str
    checked: str
    lost_host: str
    frozen: str


ENGLISH = Words(
    locale="en-GB",
    good="Everything answers",
    silent="The gateway does not answer",
    last_answer=r"Last answer \d+ s ago",
    deserted="Documents or queries cannot be served: Workers",
    no_worker="No worker listens",
    checked=r"checked \d+ s ago",
    lost_host=r"Host host-b has been gone since .*\(\d min\.? ago\)\. It served: Answers, Gateway, Recall\.",
    frozen=r"queries-9@x on .* has given no sign of life since .*\(\d min\.? ago\)\. It served: Recall\.",
)
CHINESE = Words(
    locale="zh-CN",
    good="一切正常",
    silent="网关没有响应",
    last_answer=r"最后一次响应在 \d+ 秒前",
    deserted="文档或查询当前不可用：Worker",
    no_worker="没有 Worker 在监听",
    checked=r"\d+ 秒前检查",
    lost_host=r"主机 host-b 已失联（最后上报：.*，\d\s?分钟前），此前承担：答案、网关、召回。",
    frozen=r"主机 .* 上的进程 queries-9@x 已失联（最后上报：.*，\d\s?分钟前），此前承担：召回。",
)


@contextmanager
def running(port: int, log: Path, **environment: str) -> Iterator[None]:
    """Run a gateway for this test on the stack's databases; kill it with -9 at the end."""
    environment["CHORDWISE_GATEWAY_PORT"] = str(port)
    with process("api_gateway", log=log, ending=signal.SIGKILL, **environment):
        wait_for_http(f"http://127.0.0.1:{port}/healthz", seconds=90)
        yield


@contextmanager
def vanished(host: str, redis_url: str, *, living: str) -> Iterator[Callable[[], None]]:
    """Leave the signs of a host whose processes were last heard of five minutes ago, and of one process on a living host;
    yield a call that brings the host back."""
    processes = [
        ProcessSign(host=host, name=f"queries@{host}", serves=("answer", "recall")),
        ProcessSign(host=host, name="gateway", serves=("gateway",)),
        ProcessSign(host=living, name="queries-9@x", serves=("recall",)),
    ]
    with redis.Redis.from_url(redis_url) as client:
        signs = WorkerHeartbeats(client)
        for sign in processes:
            signs.sign(sign)
            client.pexpire(f"chordwise:process:{sign.process_id}", int((FORGOTTEN_S - 300) * 1000))
        yield lambda: signs.sign(processes[1])
        for sign in processes:
            signs.withdraw_sign(sign)


def leave_out_the_disk(page: Page) -> None:
    """Take the check of this machine's disk out of the answers of /readyz: how full it is belongs to no test."""

    def answer(route: Route) -> None:
        try:
            answered = route.fetch()
            body = answered.json()
        except Error:  # the gateway is gone
            route.abort()
            return
        if body.get("dependencies", {}).pop("disk_space", None):
            body["failing"] = [name for name in body["failing"] if name != "disk_space"]
        route.fulfill(response=answered, json=body)

    page.route("**/readyz", answer)


class DescribeHealth:
    @pytest.mark.thorough
    @pytest.mark.refused
    def it_shows_at_once_that_the_gateway_has_gone_and_what_the_next_one_says(
        self, console, settings: Settings, use: Resources, tmp_path: Path
    ):
        port = free_port()
        tenant_id, _ = make_tenant(use)
        with unit_of_work(use.mysql) as work:
            key = Tenants(work.connection, tenant_id).issue_key("operator", scopes=("read", "operator"))
        operator = console(key=key, url=f"http://127.0.0.1:{port}")
        opened = {words: console(locale=words.locale, url=f"http://127.0.0.1:{port}") for words in (ENGLISH, CHINESE)}
        with running(port, tmp_path / "first.log"):
            for words, made in opened.items():
                leave_out_the_disk(made.page)
                made.open("health")
                expect(made.page.locator(".verdict.good")).to_have_text(re.compile(words.good))
                expect(made.page.get_by_text(re.compile(words.checked)).first).to_be_visible()
        for words, made in opened.items():
            verdict = made.page.locator(".verdict")
            expect(verdict).to_contain_text(words.silent, timeout=5_000)
            expect(verdict).to_contain_text(re.compile(words.last_answer))
            expect(made.page.get_by_text(words.good)).to_have_count(0)
            expect(made.page.locator(".health.stale")).to_have_count(2)
        url = make_url(settings.redis_url.get_secret_value()).set(database=_NOBODYS_DATABASE).render_as_string(False)
        with (
            vanished("host-b", url, living=settings.host) as come_back,
            running(port, tmp_path / "second.log", CHORDWISE_REDIS_URL=url, CHORDWISE_BROKER_URL=url),
        ):
            for words, made in opened.items():
                expect(made.page.locator(".verdict.bad")).to_contain_text(words.deserted)
                expect(made.page.get_by_text(words.no_worker)).to_have_count(len(Queue))
                expect(made.page.locator(".stale")).to_have_count(0)
                expect(made.page.get_by_role("alert")).to_have_count(0)
                expect(made.page.get_by_text(re.compile(words.lost_host))).to_be_visible()
                expect(made.open("overview").get_by_text(re.compile(words.lost_host))).to_be_visible()
                expect(made.page.get_by_text(re.compile(words.frozen))).to_be_visible()
                made.open("health")
                expect(made.page.get_by_text(re.compile(words.frozen))).to_be_visible()
            silent = operator.open("health").get_by_role("listitem").filter(has_text="queries-9@x")
            silent.get_by_role("button", name="Dismiss").click()
            for words, made in opened.items():
                expect(made.page.get_by_text(re.compile(words.frozen))).to_have_count(0)
            come_back()
            for words, made in opened.items():
                expect(made.page.get_by_text(re.compile(words.lost_host))).to_have_count(0)
