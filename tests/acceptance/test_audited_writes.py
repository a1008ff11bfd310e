"""Whatever the interface can change leaves a row in the audit: for every operation it describes, tried by the owner."""

from __future__ import annotations

import pytest

from pipeline.flows.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.attacks import FOR_OPERATORS, MANY_IN_ONE, READING, attack
from tests.support.described import Operation, operations
from tests.support.planted import plant

# They try something out and change nothing.
_TRIES = {
    "POST /v1/api-sources/{name}/test",
    "POST /v1/chunks/preview",
    "POST /v1/webhooks/{webhook_id}/test",
}
_READING = READING - {"POST /v1/queries/{query_id}/feedback"}  # whoever reads may rate, and that is kept
# What was planted is not in the state in which these do anything.
_REFUSED = {
    "POST /v1/documents/{document_id}/rollback",
    "POST /v1/jobs/{job_id}/cancel",
    "POST /v1/jobs/{job_id}/pause",
    "POST /v1/jobs/{job_id}/resume",
    "POST /v1/jobs/{job_id}/retry",
    "POST /v1/profiles/{name}/rollback",
    "POST /v1/webhooks",  # an address on loopback
    "POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
    "POST /v1/webhooks/{webhook_id}/rotate",  # a secret that was never sealed
}


@pytest.fixture(scope="module")
def answered(use: Resources) -> dict[str, tuple[int, str, list[str]]]:
    """By operation: the status and body of its answer, and the actions in the audit under its request id."""
    tenant, key = make_tenant(use)
    answers = {}
    with gateway(key) as client:
        planted = plant(client, tenant, use)
        for number, operation in enumerate(sorted(filter(writes, operations()), key=destructive)):
            client.headers["X-Request-ID"] = f"write-{number}"
            answer = attack(client, operation, planted)
            answers[str(operation)] = (f"write-{number}", answer.status_code, answer.text[:300])
        rows = client.get("/v1/audit", params={"limit": 200}).json()["data"]
    actions: dict[str, list[str]] = {}
    for row in rows:
        actions.setdefault(row["request_id"], []).append(row["action"])
    return {name: (status, text, actions.get(asked, [])) for name, (asked, status, text) in answers.items()}


def writes(operation: Operation) -> bool:
    """Whether a tenant's key may change something by it."""
    if operation.method == "GET" or operation.path.startswith(FOR_OPERATORS):
        return False
    return str(operation) not in _READING | _TRIES | MANY_IN_ONE


def destructive(operation: Operation) -> tuple[bool, int]:
    """What deletes goes last, the widest of all at the end."""
    return operation.method == "DELETE", -operation.path.count("/")


class DescribeTheAudit:
    def it_holds_every_write_that_was_done(self, answered):
        done = {name: each for name, each in answered.items() if each[0] < 300}
        assert {name: each for name, each in done.items() if not each[2]} == {}

    def it_holds_no_write_that_was_refused(self, answered):
        refused = {name: each for name, each in answered.items() if each[0] >= 300}
        assert {name: each for name, each in refused.items() if each[2]} == {}
        assert refused.keys() == _REFUSED, refused
