"""Sample data for the pictures: enough that no page of the console is empty."""

import itertools
import json
import time
from typing import Any, Final

import httpx
from playwright.sync_api import Page

from compose.localstack.places import ROOT

_SAMPLES = ROOT / "api_gateway/console/samples"
_NAMESPACE: Final = "sample-en"
_QUESTIONS: Final = (
    "Explain fault code E04",
    "How much data can a database restore lose?",
    "Which battery does the meter need?",
    "Who leads the bridge of an incident?",
)
_WITHIN_S = 120.0

Body = dict[str, Any]

_PAIRS = (
    "Q: May I open the pump housing myself?\nA: No. Opening it ends the warranty; ask an authorised workshop.\n\n"
    "Q: How long does a refund take?\nA: Five working days after the parcel has arrived in the warehouse."
)
_SETTINGS: Final[dict[str, Body]] = {
    "/v1/dictionary": {
        "synonyms": [["pump", "circulator"], ["退款", "退钱"]],
        "stop_words": ["please"],
        "phrases": ["dry running"],
    },
    "/v1/profiles/short": {"config": {"top_k": 3}},
    "/v1/profiles/manuals": {"config": {"top_k": 5, "retrieve": {"time_decay": {"half_life_days": 365}}}},
    "/v1/experiments/shorter-answers": {
        "experiment": {"arms": [{"name": "control", "share": 0.5}, {"name": "short", "share": 0.5, "profile": "short"}]}
    },
    "/v1/api-sources/orders": {
        "url": "https://shop.example.com/orders",
        "mapping": {"items": "/orders", "id": "/number", "title": "/article", "text": "/status"},
    },
    "/v1/entities": {
        "namespace": _NAMESPACE,
        "entities": [
            {
                "entity_id": "hp-200",
                "name": "HP-200",
                "type": "pump",
                "story_time": 1,
                "state": {"location": "boiler room", "hours": 7900},
            }
        ],
    },
}
_ADDITIONS: Final[tuple[tuple[str, Body], ...]] = (
    (
        "/v1/documents",
        {"namespace": "faq", "chunking": {"strategy": "qa"}, "documents": [{"document_id": "service", "text": _PAIRS}]},
    ),
    (
        "/v1/examples",
        {
            "namespace": "examples",
            "examples": {
                "qa_examples": [
                    {
                        "user_input": "The pump shows E04, what now?",
                        "agent_response": "Fill and vent the housing, then hold RESET for three seconds.",
                    }
                ]
            },
        },
    ),
    ("/v1/webhooks", {"url": "http://127.0.0.1:9/chordwise"}),
    ("/v1/keys", {"name": "importer", "scopes": ["read", "write"]}),
)


def add(url: str, key: str) -> dict[str, str]:
    """Add sample data; return the views to show by the name of their picture. Raises httpx.HTTPStatusError."""
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60) as client:
        for language in ("zh", "en"):
            sample = json.loads((_SAMPLES / f"{language}.json").read_text(encoding="utf-8"))
            job = _post(client, "/v1/documents", {name: sample[name] for name in ("namespace", "documents")})
        for path, body in _SETTINGS.items():
            _sent(client.put(path, json=body), path)
        for path, body in _ADDITIONS:
            _post(client, path, body)
        files = {"file": ("meeting-notes.pdf", b"%PDF-1.7 not a document", "application/pdf")}
        _sent(client.post("/v1/files", data={"namespace": _NAMESPACE}, files=files), "/v1/files")
        _wait_for_jobs(client)
        queries = [_ask(client, text) for text in _QUESTIONS]
    return {
        "job": f"jobs/{job['job_id']}",
        "document": f"documents/{_NAMESPACE}/pump-faults",
        "trace": f"traces/{queries[0]}",
    }


def make_traffic(url: str, key: str, *, seconds: float) -> None:
    """Ask the sample questions again and again, every third time from the cache, for lines over time."""
    until = time.monotonic() + seconds
    anew = itertools.cycle((True, True, False))
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=30) as client:
        while time.monotonic() < until:
            for question in _QUESTIONS:
                asked = {"query_text": question, "namespaces": [_NAMESPACE]}
                headers = {"Prefer": "wait=5"} | ({"Cache-Control": "no-cache"} if next(anew) else {})
                response = client.post("/v1/queries", json=asked, headers=headers)
                if response.status_code != httpx.codes.SERVICE_UNAVAILABLE:  # of a busy machine: the lines show it
                    _sent(response, "a query")
            time.sleep(1)


def prepare(page: Page, name: str) -> None:
    """Do what makes a page worth a picture: ask, find, verify, choose a namespace, give a text to cut."""
    if name == "entities":
        page.get_by_label("Namespace").first.fill(_NAMESPACE)
    if name == "alignment":
        page.get_by_role("button", name="Verify", exact=True).click()
        page.locator(".verdict").wait_for()
    if name == "find":
        page.locator(".find-page input").fill("pump")
        page.keyboard.press("Enter")
        page.locator("main table").wait_for()
    if name == "preview":
        page.get_by_label("Text").fill(_PAIRS)
        page.locator("main form button.primary").click()
    if name == "playground":
        page.get_by_label("Question").fill(_QUESTIONS[0])
        ask = page.get_by_role("button", name="Ask", exact=True)
        ask.click()
        page.locator(".side-result .hit, .side-result [role=alert]").first.wait_for()
        ask.click()  # the first answer of a busy machine may lack a channel
        page.locator(".side-result").get_by_text("HP-200 fault codes").first.wait_for()


def _ask(client: httpx.Client, text: str) -> str:
    query = _post(client, "/v1/rag/debug", {"query_text": text, "namespaces": [_NAMESPACE], "top_k": 5})
    if query.get("chunks"):
        rating = {"rating": "good", "chunk_id": query["chunks"][0]["chunk_id"]}
        _post(client, f"/v1/queries/{query['query_id']}/feedback", rating)
    return str(query["query_id"])


def _wait_for_jobs(client: httpx.Client) -> None:
    until = time.monotonic() + _WITHIN_S
    while any(job["finished_at"] is None for job in _sent(client.get("/v1/jobs?limit=50"), "/v1/jobs")["data"]):
        if time.monotonic() > until:
            raise TimeoutError("the sample documents were not ingested in time")
        time.sleep(0.5)


def _post(client: httpx.Client, path: str, body: Body) -> Body:
    return _sent(client.post(path, json=body), path)


def _sent(response: httpx.Response, path: str) -> Body:
    if response.is_error:
        raise RuntimeError(f"{path} answers {response.status_code}: {response.text[:500]}")
    answer: Body = response.json() if response.content else {}
    return answer
