"""The doctor: findings about the installation, for its operator."""

from __future__ import annotations

from fastapi import APIRouter, Depends
from starlette.responses import Response

from api_gateway.http.auth import require_operator
from api_gateway.http.descriptions import route
from api_gateway.http.fields import Shape, shown
from api_gateway.http.responses import json_response
from api_gateway.live.doctor_facts import examine
from api_gateway.resources.route_parts import CurrentGateway
from pipeline.maintenance.doctor import Severity


class FindingBody(Shape):
    """One check; `advice` says what to do, and is empty if all is well."""

    check: str
    severity: Severity
    detail: str
    advice: str


class Diagnosis(Shape):
    """All checks. `ok` is false if any failed; warnings do not count."""

    ok: bool
    findings: list[FindingBody]


router = APIRouter(tags=["operation"], dependencies=[Depends(require_operator)])


@router.get(
    "/v1/doctor", **route("Examine the installation", 200, Diagnosis, "The checks, and advice for each that failed.")
)
async def doctor(gateway: CurrentGateway) -> Response:
    """Check broker timeouts, eviction, result expiry, vectors against the settings, clocks, queues without a worker,
    worker versions, the last sweep, Flower. Takes about three seconds, as every worker has two to answer. Contains no
    tenant's data; takes the installation's own key or one with the scope `operator`. `docs/operations.md` explains each
    check."""
    findings = await gateway.run_heavy(
        examine,
        gateway.quick,
        gateway.broker_redis,
        gateway.settings,
        watched_s=gateway.probes.watched_s(),
        lane=gateway.lane.facts,
    )
    ok = all(finding.severity is not Severity.FAILED for finding in findings)
    return json_response({"ok": ok, "findings": [shown(FindingBody, finding) for finding in findings]})
