"""Every operation answers any input as its OpenAPI description says."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from pipeline.database.unit_of_work import unit_of_work
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import gateway, make_tenant
from tests.support.corpora.hostile_ids import HOSTILE_IDS
from tests.support.repository.described import description, operations

PART = "application/vnd.chordwise.part"
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
_PARAMETER = re.compile(r"\{\w+\}")

# Few examples of each operation, always the same, to take half a minute. More find more.
EXAMPLES = int(os.environ.get("CHORDWISE_TEST_EXAMPLES", "2"))
BOUNDED = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@schemathesis.serializer(PART)
def _as_bytes(_: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


@pytest.fixture(scope="module")
def described() -> Any:
    """The interface of the running stack."""
    return schemathesis.openapi.from_dict(description())


@pytest.fixture(scope="module")
def operators_key(use) -> str:
    """A key for tenants too, whose routes the other is refused at the door."""
    tenant_id, _ = make_tenant(use)
    with unit_of_work(use.mysql) as work:
        return Tenants(work.connection, tenant_id).issue_key("operator", ("read", "write", "admin", "operator"))


@pytest.mark.timeout(400)  # of a machine on which much else is going on
class DescribeEveryOperation:
    @pytest.mark.parametrize(
        "which",
        [(0,), pytest.param(range(1, 8), marks=pytest.mark.thorough)],
        ids=["every eighth", "the others"],
    )
    def it_answers_as_it_is_described(self, described, key, operators_key, which):
        wrong = {}
        for number, found in enumerate(described.get_all_operations()):
            if number % 8 not in which:
                continue
            operation = found.ok()
            chosen = operators_key if operation.path.startswith("/v1/tenants") else key
            try:
                asked_at_random(operation, {"Authorization": f"Bearer {chosen}"})
            except (Failure, FailureGroup) as failure:
                wrong[operation.label] = "; ".join(str(each) for each in getattr(failure, "exceptions", [failure]))
        assert wrong == {}

    @pytest.mark.parametrize("at_length", [False, pytest.param(True, marks=pytest.mark.thorough)])
    def it_says_that_a_strange_id_is_none(self, operators_key, at_length):
        """Some of the strings at one operation of each kind of id, which all of them read alike; at length every string there,
        and two at each other operation."""
        wrong, kinds = {}, set()
        with gateway(operators_key) as client:
            for number, operation in enumerate(operations()):
                told = description()["paths"][operation.path][operation.method.lower()]
                parameters = [each for each in told.get("parameters", []) if each["in"] == "query"]
                if not operation.protected or not (operation.names or parameters):
                    continue
                kind = operation.names or operation.path
                some = HOSTILE_IDS[number % 12 :: 12]
                strings = (some if at_length else []) if kind in kinds else HOSTILE_IDS if at_length else some
                kinds.add(kind)
                for strange in strings:
                    answer = _ask(client, operation, strange, parameters)
                    described = str(answer.status_code) in told["responses"]
                    if answer.status_code >= 500 or not described or "X-Injected" in answer.headers:
                        wrong[str(operation), strange[:20]] = (answer.status_code, answer.text[:200])
        assert wrong == {}


def asked_at_random(operation: Any, headers: dict[str, str]) -> None:
    """Raises Failure, or a group of them, for the smallest request that is answered otherwise than described."""
    # A stream of events is described as text: what each of them holds is tested where they are made.
    checks = [check for check in CHECKS if check is not response_schema_conformance or operation.path[-7:] != "/events"]

    @BOUNDED
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        case.call_and_validate(base_url=os.environ["CHORDWISE_URL"], headers=headers, checks=checks, timeout=60)

    ask()


def _ask(client: httpx.Client, operation: Any, strange: str, parameters: list[dict[str, Any]]) -> httpx.Response:
    """One request with the string in the place of every id, and of every parameter that is a text."""
    path = _PARAMETER.sub(quote(strange, safe=""), operation.path)
    texts = {each["name"]: strange for each in parameters if "string" in str(each["schema"])}
    required = {each["name"]: "kb" for each in parameters if each.get("required")}
    chosen = required if operation.names else {**required, **texts}
    return client.request(operation.method, path, params=chosen, json={} if operation.media_types else None)
