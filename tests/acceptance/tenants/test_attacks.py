"""One tenant reaches for everything another has, through every operation the interface describes, and gets nothing."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from pipeline.database.unit_of_work import unit_of_work
from pipeline.resources import Resources
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import gateway, make_tenant
from tests.support.clients.attacks import (
    BODIES,
    FOR_OPERATORS,
    ID_PARAMETERS,
    MANY_IN_ONE,
    OTHER_PARAMETERS,
    OWN,
    READING,
    attack,
    code_of,
    leaks,
    says_nothing,
)
from tests.support.corpora.documents import search, upload
from tests.support.corpora.planted import QUESTION, Planted, audit_rows, plant
from tests.support.repository.described import Operation, operations

PUBLIC = {"GET /healthz", "GET /readyz", "GET /v1/metrics", "GET /v1/metrics/history"}
_CHANGING = {
    "last_active_at",
    "last_used_at",
    "attempts",
    "state",
    "last_attempt_at",
    "next_attempt_at",
    "ended_at",
    "last_error",
}


class Stage(NamedTuple):
    """The owner of everything, and two attackers."""

    owner: httpx.Client
    stranger: httpx.Client
    nobody: httpx.Client
    planted: Planted
    strangers_view: dict[str, Any]


@pytest.fixture(scope="module")
def stage(use: Resources) -> Iterator[Stage]:
    """Made once: the attacks change nothing, which is part of what is tested."""
    (tenant, key), (_, stranger) = make_tenant(use), make_tenant(use)
    with (
        gateway(key) as owner,
        gateway(stranger) as reaching,
        httpx.Client(base_url=os.environ["CHORDWISE_URL"]) as bare,
    ):
        before = view(reaching)
        planted = plant(owner, tenant, use)
        audit_rows(owner)
        yield Stage(owner, reaching, bare, planted, before)


def view(client: httpx.Client, ids: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the answers of every reading operation: those without an id; with ``ids``, those that take one as well."""
    found = {}
    for operation in operations():
        if operation.method != "GET" or str(operation) in PUBLIC or operation.path.startswith(FOR_OPERATORS):
            continue
        if (operation.names and ids is None) or operation.path.endswith(("/events", ".xlsx", "/export")):
            continue
        params = {name: ids[key] for name, key in ID_PARAMETERS.items() if ids and name in operation.query}
        answer = client.get(operation.at(ids or {}), params=params)
        told = answer.json() if "json" in answer.headers.get("content-type", "") else answer.text
        found[str(operation)] = (answer.status_code, steady(told) if answer.is_success else None)
    return found


def steady(value: Any) -> Any:
    """A JSON value without what changes by itself."""
    if isinstance(value, dict):
        return {name: steady(each) for name, each in value.items() if name not in _CHANGING}
    return [steady(each) for each in value] if isinstance(value, list) else value


class DescribeTheTables:
    """An operation that nobody has thought about here is one that nobody has attacked."""

    def it_knows_an_id_for_every_parameter(self, stage):
        known = {*stage.planted.ids, "embedding-migrations"}
        assert {str(each): each.names for each in operations() if not {*each.names} <= known} == {}
        asked = {(str(each), name) for each in operations() for name in each.query}
        assert {each for each in asked if each[1] not in {*ID_PARAMETERS, *OTHER_PARAMETERS}} == set()

    def it_knows_a_body_for_every_operation_that_takes_one(self):
        taking = {str(each) for each in operations() if each.media_types}
        assert taking - MANY_IN_ONE == OWN.keys() | BODIES.keys()

    def it_names_only_what_there_is(self):
        every = {str(each) for each in operations()}
        assert every >= READING | PUBLIC


class DescribeAStranger:
    def it_finds_nothing_of_anothers(self, stage):
        wrong = {}
        for operation in the_strangers():
            answer = attack(stage.stranger, operation, stage.planted)
            right = answer.status_code == 404 or (answer.is_success and says_nothing(answer))
            if not right or leaks(answer, stage.planted):
                wrong[str(operation)] = (answer.status_code, leaks(answer, stage.planted), answer.text[:300])
        assert wrong == {}

    def it_is_told_the_same_of_tenants_that_are_there_and_that_never_were(self, stage):
        ids = {**stage.planted.ids, "tenants": "never-was", "keys": "0" * 16}
        for operation in operations():
            if operation.path.startswith(FOR_OPERATORS):
                there = attack(stage.stranger, operation, stage.planted)
                never = attack(stage.stranger, operation, dataclasses.replace(stage.planted, ids=ids))
                assert there.status_code == never.status_code == 403, operation
                assert code_of(there) == code_of(never) == "insufficient_scope", operation

    def it_sees_no_more_than_before_and_the_owner_no_less(self, stage):
        before = view(stage.owner, stage.planted.ids)
        for operation in the_strangers():
            attack(stage.stranger, operation, stage.planted)
        assert differing(view(stage.stranger), stage.strangers_view) == {}
        assert differing(view(stage.owner, stage.planted.ids), before) == {}

    def it_cannot_go_on_where_the_owner_was(self, stage):
        """A cursor holds a place in the owner's lists, and says nothing in somebody else's hands."""
        tried = 0
        for operation in operations():
            if operation.method == "GET" and "cursor" in operation.query and "/export" not in operation.path:
                params = {
                    name: stage.planted.ids[key] for name, key in ID_PARAMETERS.items() if name in operation.query
                }
                if operation.path.startswith(FOR_OPERATORS):
                    continue
                page = stage.owner.get(operation.at(stage.planted.ids), params={**params, "limit": 1}).json()
                if cursor := page.get("next_cursor"):
                    answer = stage.stranger.get(operation.at(stage.planted.ids), params={**params, "cursor": cursor})
                    tried += 1
                    assert leaks(answer, stage.planted) == [], operation
                    assert answer.status_code == 404 or stage_own(answer), (operation, answer.text)
        assert tried >= 3

    def it_may_use_the_same_names_for_things_of_its_own(self, stage, client):
        """``client`` is another stranger, as this one leaves things behind."""
        before = view(stage.owner, stage.planted.ids)
        own = ("namespaces", "documents", "entities", "profiles", "experiments", "api-sources", "imports", "sources")
        its_own = {stage.planted.ids[name] for name in own}
        for operation in operations():
            if str(operation) in OWN:
                answer = attack(client, operation, dataclasses.replace(stage.planted, part=b"not what was exported"))
                assert answer.status_code < 500, (operation, answer.text)
                assert leaks(answer, stage.planted) == [], operation
        upload(client, stage.planted.namespace, [{"document_id": "mine", "text": "The pump needs oil: mine."}])
        for asked in (QUESTION, f"{QUESTION} {stage.planted.marker}"):
            answer = search(client, stage.planted.namespace, asked)
            assert answer["chunks"]
            assert all(stage.planted.marker not in chunk["text"] for chunk in answer["chunks"])
        for operation in operations():
            if operation.method == "GET" and operation.protected:
                told = leaks(attack(client, operation, stage.planted), stage.planted)
                assert [each for each in told if each not in its_own] == [], operation
        assert differing(view(stage.owner, stage.planted.ids), before) == {}

    def it_learns_nothing_from_what_anybody_may_read(self, stage):
        for public in sorted(PUBLIC | {"GET /openapi.json", "GET /docs"}):
            answer = stage.nobody.get(public.removeprefix("GET "))
            assert leaks(answer, stage.planted) == [], public


class DescribeAKey:
    def it_is_needed_everywhere(self, stage):
        for operation in operations():
            if operation.path.startswith("/v1/") and str(operation) not in PUBLIC:
                assert operation.protected, operation
            if operation.protected:
                answer = attack(stage.nobody, operation, stage.planted)
                if operation.path.startswith("/dify/"):  # its dialect has no 401
                    assert (answer.status_code, code_of(answer)) == (403, "1001"), (operation, answer.text)
                    continue
                assert answer.status_code == 401, (operation, answer.text)
                assert answer.headers["WWW-Authenticate"].startswith("Bearer"), operation
            else:
                assert str(operation) in PUBLIC

    def it_does_only_what_its_scopes_say(self, stage, use):
        before = view(stage.owner, stage.planted.ids)
        allowed = []
        for scopes in (("read",), ("read", "write"), ("write",), ("admin",)):
            with unit_of_work(use.mysql) as work:
                key = Tenants(work.connection, stage.planted.tenant).issue_key("few", scopes)
            with gateway(key) as client:
                for operation in operations():
                    if operation.protected and str(operation) not in MANY_IN_ONE and scope_of(operation) not in scopes:
                        answer = attack(client, operation, stage.planted)
                        if answer.status_code != 403 or code_of(answer) not in ("insufficient_scope", "1002"):
                            allowed.append((scopes, str(operation), answer.status_code, answer.text[:200]))
        assert allowed == []
        assert differing(without_keys(view(stage.owner, stage.planted.ids)), without_keys(before)) == {}


def scope_of(operation: Operation) -> str:
    """Return the scope that an operation requires. Endpoints of webhooks and business APIs are often secrets themselves: see
    their routes."""
    if operation.path.startswith(FOR_OPERATORS):
        return "operator"
    if str(operation) == "GET /v1/keys/current":
        return "read"
    if operation.path.startswith(("/v1/audit", "/v1/keys", "/v1/traces")):
        return "admin"
    if operation.path.startswith(("/v1/webhooks", "/v1/api-sources")):
        return "write"
    return "read" if operation.method == "GET" or str(operation) in READING else "write"


def without_keys(seen: dict[str, Any]) -> dict[str, Any]:
    """Drop keys and audit, which hold the test's own key."""
    return {name: each for name, each in seen.items() if "/v1/keys" not in name and "/v1/audit" not in name}


def the_strangers() -> list[Operation]:
    """The operations by which one tenant could reach what another has."""
    reaching = []
    for each in operations():
        names = each.names or each.media_types or set(each.query) & set(ID_PARAMETERS)
        known = str(each) in {*OWN, *MANY_IN_ONE} or each.path.startswith(FOR_OPERATORS)
        if each.protected and names and not known:
            reaching.append(each)
    return reaching


def stage_own(answer: httpx.Response) -> bool:
    """Whether an answer is a list."""
    return answer.is_success and "data" in answer.json()


def differing(now: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return the answers that differ."""
    return {name: (before.get(name), now[name]) for name in now if now[name] != before.get(name)}
