"""Three documents and two curated answers about a cooling pump, and queries of all their sources."""

from __future__ import annotations

from typing import Any

import httpx

from tests.support.corpora.documents import document, search
from tests.support.servers.business_api import BusinessApi

KB = "kb"
WEIGHTS = {"keyword": 0.3, "semantic": 0.6, "faq": 0.1}
PATIENT = {name: {"weight": weight, "timeout_ms": 2000} for name, weight in WEIGHTS.items()}
OFF = {"enabled": False}
QUESTION = "How often does the cooling pump need oil?"
DOCUMENTS = [
    document("oil", "The cooling pump needs oil every week.", title="Oil"),
    document("filter", "The filter of the cooling pump is changed once a year.", title="Filter"),
    document("heron", "The heron stands in the reeds.", title="Birds"),
]
MAPPING = {"items": "/hits", "id": "/id", "text": "/text", "score": "/score"}
SAME = {"hits": [{"id": "x", "text": "the COOLING pump  needs oil every week.", "score": 0.9}]}


def asked(client: httpx.Client, text: str = QUESTION, **fields: Any) -> dict[str, Any]:
    """The answer of the three stored sources, or of the channels that are given."""
    retrieve = {"channels": PATIENT, **fields.pop("retrieve", {})}
    return search(client, KB, text, fresh=True, retrieve=retrieve, deadline_ms=8000, **fields)


def with_api(client: httpx.Client, api: BusinessApi, **fields: Any) -> None:
    made = client.put("/v1/api-sources/crm", json={"url": f"{api.url}/crm", "mapping": MAPPING, **fields})
    assert made.status_code in (200, 201), made.text
