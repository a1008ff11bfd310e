"""Uploads and queries of two tenants through the proxy of the gateways, each result noted with its time."""

from __future__ import annotations

import itertools
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

import httpx

from pipeline.records import TenantId
from tests.faults.chaos_checks import Expected
from tests.support.clients.doors import Seen, openai, polled, waiting

DEADLINE_S: Final = 3.0  # of a query, by default
LATE_S: Final = 0.25
DOORS: Final = ("upload", "waiting", "polled", "openai", "console")
Outcome = Literal["ok", "degraded", "failed", "refused", "proxy", "wrong"]
_EVER: Final = "ever"  # the document that is replaced again and again
_REFUSALS: Final = {"overloaded", "store_unavailable", "store_read_only"}
_PAUSE_S: Final = 0.15
_SENTENCES: Final = 60  # some chunks
_REQUEST = re.compile(r" \(request [0-9a-f-]+\)")
_VERSION = re.compile(r"In version (\d+) of (\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One request or query. ``outcome`` proxy: answered or ended by the proxy of the gateways, not by a gateway."""

    door: str
    started: float
    took_s: float
    outcome: Outcome
    said: str = ""
    is_mixed: bool = False

    @property
    def is_late(self) -> bool:
        """Return whether a query took longer than promised."""
        return self.door in DOORS[1:4] and self.took_s > DEADLINE_S + LATE_S


class _FromProxy(Exception):
    """The proxy answered because no gateway did."""


@dataclass(kw_only=True)
class Tenant:
    """A tenant with its client. ``expected``: the texts of its documents that were accepted last."""

    tenant_id: TenantId
    client: httpx.Client
    namespace: str = "ha"
    expected: Expected = field(default_factory=dict)


class Load:
    """One uploader and one asker of each tenant, which run between `resume` and `pause`."""

    def __init__(self, tenants: Iterable[Tenant]) -> None:
        self.done: list[Operation] = []
        self._goes_on, self._ends = threading.Event(), threading.Event()
        self._at_rest: list[threading.Event] = []
        self._threads = []
        for tenant in tenants:
            for act in (_uploads(tenant), _questions(tenant)):
                at_rest = threading.Event()
                self._at_rest.append(at_rest)
                self._threads.append(threading.Thread(target=self._repeat, args=(act, at_rest), daemon=True))
        for thread in self._threads:
            thread.start()

    def resume(self) -> None:
        """Begin, or go on."""
        self._goes_on.set()

    def pause(self) -> None:
        """Stop once what was begun has ended; an upload is accepted by then."""
        self._goes_on.clear()
        for at_rest in self._at_rest:
            assert at_rest.wait(180), "an upload was not accepted for minutes"

    def close(self) -> None:
        """End."""
        self._ends.set()
        self._goes_on.set()
        for thread in self._threads:
            thread.join(60)

    def since(self, moment: float, until: float = float("inf")) -> list[Operation]:
        """Return the operations that began in this time."""
        return [each for each in self.done if moment <= each.started < until]

    def _repeat(self, act: Callable[[], tuple[Operation, bool]], at_rest: threading.Event) -> None:
        while not self._ends.is_set():
            if not self._goes_on.is_set():
                at_rest.set()
                self._goes_on.wait()
                at_rest.clear()
            is_over = False
            while not (is_over or self._ends.is_set()):
                operation, is_over = act()
                self.done.append(operation)
                time.sleep(_PAUSE_S)


def _uploads(tenant: Tenant) -> Callable[[], tuple[Operation, bool]]:
    """Return a function that uploads the next document, or the same again with its key until it is accepted."""
    numbers = itertools.count()
    waiting_for_answer: list[tuple[str, str, str]] = []

    def act() -> tuple[Operation, bool]:
        if not waiting_for_answer:
            number = next(numbers)
            name = _EVER if number % 3 == 0 else f"d{number:04d}"
            waiting_for_answer.append((name, _text(tenant, number, name), uuid.uuid4().hex))
        name, text, key = waiting_for_answer[0]
        body = {"namespace": tenant.namespace, "documents": [{"document_id": name, "text": text}]}
        send = partial(tenant.client.post, "/v1/documents", json=body, headers={"Idempotency-Key": key})
        operation = _judged("upload", lambda: _of_upload(send()))
        if operation.outcome == "ok":
            tenant.expected[name] = text
            waiting_for_answer.clear()
        return operation, not waiting_for_answer

    return act


def _text(tenant: Tenant, number: int, name: str) -> str:
    """Return a text each sentence of which names its version: several chunks if it is the one that is replaced."""
    of = tenant.tenant_id.replace("-", "")
    sentences = [
        f"In version {number} of {of} the fox {name} sleeps behind barn {place}." for place in range(_SENTENCES)
    ]
    return " ".join(sentences if name == _EVER else sentences[:3])


def _of_upload(answer: httpx.Response) -> tuple[Outcome, str]:
    code = "" if answer.status_code == 202 else str(answer.json().get("code"))
    if answer.status_code == 202:
        return "ok", ""
    is_promised = answer.status_code == 503 or code == "idempotency_key_in_use"
    if is_promised and "Retry-After" in answer.headers:
        return "refused", code
    return "wrong", f"{answer.status_code} {answer.text[:200]}"


def _questions(tenant: Tenant) -> Callable[[], tuple[Operation, bool]]:
    """Return a function that asks through one door after the other."""
    ways: dict[str, Callable[[Any, str], Seen]] = {"waiting": waiting, "polled": polled, "openai": openai}
    turns = itertools.cycle((*ways, "console"))

    def act() -> tuple[Operation, bool]:
        door = next(turns)
        if door == "console":
            return _judged(door, lambda: _of_console(tenant.client)), True
        question = f"a fox sleeps behind the barn {uuid.uuid4().hex[:6]}"
        return _judged(door, lambda: _of_query(ways[door](tenant, question), door), tenant), True

    return act


def _of_console(client: httpx.Client) -> tuple[Outcome, str]:
    """Look at what the console's first page and its page of jobs read."""
    for path in ("/console", "/v1/jobs?limit=5"):
        answer = client.get(path, follow_redirects=True)
        if answer.status_code == 503 and "Retry-After" in answer.headers:
            return "refused", str(answer.json().get("code"))
        if answer.status_code != 200:
            return "wrong", f"{path} {answer.status_code} {answer.text[:200]}"
    return "ok", ""


def _of_query(seen: Seen, door: str) -> tuple[Outcome, str, list[str]]:
    if seen.documents is None:
        is_refused = seen.code in _REFUSALS or door == "openai"  # which has one kind of error, a 503
        return "refused" if is_refused else "failed", f"{seen.code}: {_REQUEST.sub('', seen.said)}", []
    if seen.lost:
        return "degraded", ", ".join(sorted(seen.lost)), seen.texts
    return ("ok", "", seen.texts) if seen.documents else ("wrong", "an empty answer that names no loss", [])


def _judged(door: str, act: Callable[[], Any], tenant: Tenant | None = None) -> Operation:
    started = time.monotonic()
    texts: list[str] = []
    try:
        outcome, said, *rest = act()
        texts = rest[0] if rest else []
    except (_FromProxy, httpx.TransportError) as error:
        outcome, said = "proxy", f"{type(error).__name__} {error}"
    except (AssertionError, ValueError, KeyError) as error:
        outcome, said = "wrong", f"{type(error).__name__}: {str(error)[:300]}"
    took_s = time.monotonic() - started
    mixed = tenant is not None and _is_mixed(tenant, texts)
    return Operation(door=door, started=started, took_s=took_s, outcome=outcome, said=said, is_mixed=mixed)


def _is_mixed(tenant: Tenant, texts: list[str]) -> bool:
    """Return whether an answer has two versions of one document, or a text of somebody else."""
    versions = {match for text in texts if f"fox {_EVER} " in text for match in _VERSION.findall(text)}
    owners = {owner for text in texts for _, owner in _VERSION.findall(text)}
    return len(versions) > 1 or bool(owners - {tenant.tenant_id.replace("-", "")})


def client(url: str, key: str) -> httpx.Client:
    """Return a client that tells answers of the proxy from those of a gateway."""

    def check(answer: httpx.Response) -> None:
        if answer.status_code in (502, 503, 504) and answer.headers.get("content-type", "").startswith("text/html"):
            raise _FromProxy(answer.status_code)

    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=url, headers=headers, timeout=20, event_hooks={"response": [check]})


def summed(operations: Iterable[Operation]) -> Counter[str]:
    """Return how often each outcome is there, as words."""
    return Counter(
        f"{each.outcome} {each.said}".strip() for each in operations if each.outcome not in ("ok", "degraded")
    )
