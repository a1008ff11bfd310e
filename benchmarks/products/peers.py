"""Other products with the same texts, questions and embedder, each in a virtual environment made for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.settings import settings

_ROOT = Path(__file__).resolve().parents[2]
_INSTALLED_WITHIN_S, _DONE_WITHIN_S = 600, 1800
_MOST_TEXTS = 3_000  # that LangChain adds while it is timed


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A product to compare with: its packages beside the embedder's, and the program that uses it."""

    name: str
    packages: tuple[str, ...]
    child: str


_LANGCHAIN = Peer(
    name="LangChain", packages=("langchain-postgres>=0.0.14", "psycopg[binary]>=3.2"), child="langchain_child.py"
)
_QUERIED = (
    Peer(
        name="LlamaIndex",
        packages=(
            "llama-index-core>=0.12",
            "llama-index-vector-stores-postgres>=0.4",
            "llama-index-retrievers-bm25>=0.5",
        ),
        child="llamaindex_child.py",
    ),
    Peer(
        name="Haystack",
        packages=("haystack-ai>=2.8", "pgvector-haystack>=2", "psycopg[binary]>=3.2"),
        child="haystack_child.py",
    ),
)


def measure(
    texts: Sequence[str], questions: Sequence[str], *, pool: int, top: int, concurrency: Sequence[int]
) -> dict[str, Any]:
    """Return the figures of each peer, by its name and its keyword search; ``skipped`` with the reason if it cannot be
    installed or run."""
    task = {
        "texts": list(texts),
        "questions": list(questions),
        "pool": pool,
        "top": top,
        "many": list(concurrency),
    }
    return {peer.name: _or_skipped(peer, partial(_run, peer, task)) for peer in _QUERIED}


def measure_langchain(texts: Sequence[str], *, into: Sequence[str] = ()) -> dict[str, Any]:
    """Return the figures of adding texts with its recommended HNSW index and, under ``exact``, without; or ``skipped``
    with the reason.

    ``into``: texts that the table holds before the others are added; its index is built over them.
    """
    task = {"texts": list(texts[:_MOST_TEXTS]), "into": list(into)}

    def measured() -> dict[str, Any]:
        indexed = _run(_LANGCHAIN, task | {"hnsw": True})
        return indexed if into else indexed | {"exact": _run(_LANGCHAIN, task | {"hnsw": False})}

    return _or_skipped(_LANGCHAIN, measured)


def _or_skipped(peer: Peer, measured: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    print(f"peers: {peer.name}", flush=True)
    try:
        return measured()
    except (OSError, subprocess.SubprocessError) as error:
        lines = (getattr(error, "stderr", None) or "").strip().splitlines() or [type(error).__name__]
        print(f"peers: {peer.name} is left out: {lines[-1]}", flush=True)
        return {"skipped": lines[-1]}


def _run(peer: Peer, task: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [str(installed(peer)), "-P", str(Path(__file__).with_name(peer.child))],
        input=json.dumps(task | {"url": settings().postgres_url.get_secret_value()}),
        env=os.environ | {"PYTHONPATH": str(_ROOT)},
        check=True,
        capture_output=True,
        text=True,
        timeout=_DONE_WITHIN_S,
    )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def installed(peer: Peer) -> Path:
    """Return the Python of the peer's virtual environment, made at the first call."""
    venv = _ROOT / ".local" / f"bench-{peer.name.lower()}"
    python, done = venv / "bin" / "python", venv / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, capture_output=True, text=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "-q", *peer.packages, "wordllama>=0.4"],
            check=True,
            capture_output=True,
            text=True,
            timeout=_INSTALLED_WITHIN_S,
        )
        done.touch()
    return python
