"""What is wrong with the installation, for whoever operates it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from api_gateway.gateway import gateway_of
from api_gateway.http.auth import require_operator
from api_gateway.http.descriptions import answers
from api_gateway.http.responses import json_response
from api_gateway.live.doctor_facts import examine
from api_gateway.resources.shapes import Shape
from pipeline.maintenance.doctor import CheckResult, Severity


class FindingBody(Shape):
    """One thing that was looked at; `advice` says what to do, and is empty where all is well."""

    check: str
    severity: Severity
    detail: str
    advice: str


class Diagnosis(Shape):
    """Everything that was looked at. `ok` is false if anything failed; warnings do not count."""

    ok: bool
    findings: list[FindingBody]


def diagnosis(findings: Sequence[CheckResult]) -> dict[str, Any]:
    """The body of GET /v1/doctor."""
    return {
        "ok": all(finding.severity is not Severity.FAILED for finding in findings),
        "findings": [
            {
                "check": finding.check,
                "severity": finding.severity.value,
                "detail": finding.detail,
                "advice": finding.advice,
            }
            for finding in findings
        ],
    }


router = APIRouter(tags=["operation"], dependencies=[Depends(require_operator)])


@router.get(
    "/v1/doctor",
    responses=answers(200, Diagnosis, "What was looked at, and what to do about it.", 401, 403, 503),
    summary="Examine the installation",
)
async def doctor(request: Request) -> Response:
    """Broker timeouts, eviction, result expiry, vectors against the settings, clocks, queues without a worker, worker
    versions, the last sweep, Flower. Takes about three seconds, as every worker is given two to answer. Says nothing of
    any tenant; takes the installation's own key or one with the scope `operator`. `docs/operations.md` explains each
    check."""
    gateway = gateway_of(request)
    watched_s = gateway.probes.watched_s()
    findings = await gateway.run_heavy(
        examine,
        gateway.quick,
        gateway.broker_redis,
        gateway.settings,
        watched_s=watched_s,
        lane=gateway.lane.facts,
    )
    return json_response(diagnosis(findings))
