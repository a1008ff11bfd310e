"""What the doctor found, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from api_gateway.wire.shapes import Shape
from pipeline.core.diagnosis import Finding, Severity


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


def diagnosis(findings: Sequence[Finding]) -> dict[str, Any]:
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
