"""Four documents about pumps and boilers, and queries of them whose channels may take their time."""

from __future__ import annotations

from typing import Any

import httpx

from tests.support.corpora.documents import document, search

KB = "kb"
PATIENT = {"keyword": {"timeout_ms": 2000}, "semantic": {"timeout_ms": 2000}}  # a busy machine is no defect
NO_RERANK = {"enabled": False}
LIBRARY = [
    document(
        "pump",
        "离心水泵启动前应当灌满引水，并检查轴承温度。",
        title="水泵操作规程",
        author="李雷",
        type="manual",
        tags=["水泵", "操作"],
        published_at="2025-01-10T00:00:00Z",
    ),
    document(
        "repair",
        "水泵振动过大时应当停机检修，更换磨损的轴承。",
        title="检修记录",
        author="韩梅梅",
        type="note",
        tags=["水泵", "检修"],
        published_at="2025-06-01T00:00:00Z",
    ),
    document(
        "boiler",
        "锅炉水位低于下限时立即停炉，不得向炉内补水。",
        title="锅炉安全",
        author="李雷",
        type="manual",
        tags=["锅炉"],
        published_at="2026-02-01T00:00:00Z",
    ),
    document(
        "english",
        "The centrifugal pump must be primed before it is started.",
        title="Pump guide",
        author="Green",
        type="manual",
        tags=["pump"],
        published_at="2026-03-01T00:00:00Z",
    ),
]


def asked(client: httpx.Client, text: str, *, namespace: str = KB, **fields: Any) -> dict[str, Any]:
    """The answer, of channels that may take their time."""
    retrieve = {"channels": PATIENT, **fields.pop("retrieve", {})}
    return search(client, namespace, text, fresh=True, retrieve=retrieve, deadline_ms=8000, **fields)


def fused(client: httpx.Client, text: str, **fusion: Any) -> dict[str, Any]:
    """The answer in the fused order as the formula alone makes it."""
    return asked(client, text, retrieve={"fusion": {"feedback": False, **fusion}}, rerank=NO_RERANK)
