"""Every writing operation of the interface leaves a row in the audit."""

from __future__ import annotations

import pytest

from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.attacks import FOR_OPERATORS, MANY_IN_ONE, READING, attack
from tests.support.clients.operating import eventually
from tests.support.corpora.planted import plant
from tests.support.repository.described import Operation, operations

# They try something out and change nothing.
_TRIES = {
    "POST /v1/api-sources/{name}/test",
    "POST /v1/chunks/preview",
    "POST /v1/webhooks/{webhook_id}/test",
}
_READING = READING - {"POST /v1/queries/{query_id}/feedback"}  # readers may rate, and ratings are stored
# The planted objects are not in the state that these need: they are refused, or report that nothing was done.
_IDLE = {
    "POST /v1/dead-letters/replay",
    "PUT /v1/namespaces/{namespace}/imports/{import_id}/parts/{part}",  # the part is there already
    "DELETE /v1/namespaces/{namespace}",  # the store was the namespace
    "POST /openai/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/cancel",
    "PATCH /v1/documents",  # the planted document is not published
    "DELETE /v1/documents/{document_id}",  # DELETE /v1/documents took it before
    "POST /v1/documents/{document_id}/rollback",
    "POST /v1/jobs/{job_id}/cancel",
    "POST /v1/jobs/{job_id}/pause",
    "POST /v1/jobs/{job_id}/resume",
    "POST /v1/jobs/{job_id}/retry",
    "POST /v1/profiles/{name}/rollback",
    "POST /v1/query-batches/{batch_id}/cancel",
    "POST /v1/sources/{source_id}/confirm",  # nothing waits to be removed
    "POST /v1/webhooks",  # an address on loopback
    "POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
    "POST /v1/webhooks/{webhook_id}/rotate",  # a secret that was never sealed
}


# Chunks have other ids once their document was replaced, and nothing is left after the namespace.
_FIRST = ("PUT /v1/chunks", "DELETE /v1/chunks")
_LAST = (
    "DELETE /openai/v1/files/{file_id}",
    "DELETE /openai/v1/vector_stores/{vector_store_id}",
    "DELETE /v1/namespaces/{namespace}",
)


@pytest.fixture(scope="module")
def answered(use: Resources) -> dict[str, tuple[int, str, list[str]]]:
    """By operation: the status and body of its answer, and the actions in the audit under its request id."""
    tenant, key = make_tenant(use)
    answers = {}
    with gateway(key) as client:
        planted = plant(client, tenant, use)
        for number, operation in enumerate(sorted(filter(writes, operations()), key=_turn)):
            if str(operation) == "DELETE /v1/dead-letters/{letter_id}":  # it was replayed, and fails again
                letter = f"/v1/dead-letters/{planted.ids['dead-letters']}"
                eventually(lambda letter=letter: client.get(letter).status_code == 200)
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


def _turn(operation: Operation) -> tuple[int, bool, bool]:
    name = str(operation)
    return _LAST.index(name) if name in _LAST else -1, name not in _FIRST, operation.method == "DELETE"


class DescribeTheAudit:
    def it_holds_every_write_that_was_done(self, answered):
        missing = {name for name, (status, _, actions) in answered.items() if status < 300 and not actions}
        assert missing <= _IDLE, {name: answered[name] for name in missing}

    def it_holds_no_write_that_was_refused(self, answered):
        refused = {name: each for name, each in answered.items() if each[0] >= 300}
        assert {name: each for name, each in refused.items() if each[2]} == {}
        assert {name: refused[name] for name in refused.keys() - _IDLE} == {}
