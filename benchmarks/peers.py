"""LlamaIndex and Haystack with the same questions and chunks, each in a virtual environment made for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.settings import settings

_ROOT = Path(__file__).resolve().parents[1]
_INSTALLED_WITHIN_S, _DONE_WITHIN_S = 600, 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A product to compare with: its packages, and the program that queries it."""

    name: str
    packages: tuple[str, ...]
    child: str


PEERS = (
    Peer(
        name="LlamaIndex",
        packages=(
            "llama-index-core>=0.12",
            "llama-index-vector-stores-postgres>=0.4",
            "llama-index-retrievers-bm25>=0.5",
            "wordllama>=0.4",
        ),
        child="llamaindex_child.py",
    ),
    Peer(
        name="Haystack",
        packages=("haystack-ai>=2.8", "pgvector-haystack>=2", "psycopg[binary]>=3.2", "wordllama>=0.4"),
        child="haystack_child.py",
    ),
)


def measure(
    texts: Sequence[str], asked: Sequence[str], *, pool: int, top: int, concurrency: Sequence[int]
) -> dict[str, Any]:
    """Return the figures of each peer, by its name and its keyword search; ``skipped`` with the reason if it cannot be
    installed or run."""
    task = {
        "url": settings().postgres_url.get_secret_value(),
        "texts": list(texts),
        "questions": list(asked),
        "pool": pool,
        "top": top,
        "many": list(concurrency),
    }
    return {peer.name: _measured(peer, task) for peer in PEERS}


def _measured(peer: Peer, task: dict[str, Any]) -> dict[str, Any]:
    print(f"query: {peer.name}", flush=True)
    try:
        done = subprocess.run(
            [str(_installed(peer)), "-P", str(Path(__file__).with_name(peer.child))],
            input=json.dumps(task),
            env=os.environ | {"PYTHONPATH": str(_ROOT)},
            check=True,
            capture_output=True,
            text=True,
            timeout=_DONE_WITHIN_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or ""
        last = said.strip().splitlines()[-1] if said.strip() else type(error).__name__
        print(f"query: {peer.name} is left out: {last}", flush=True)
        return {"skipped": last}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _installed(peer: Peer) -> Path:
    venv = _ROOT / ".local" / f"bench-{peer.name.lower()}"
    python, done = venv / "bin" / "python", venv / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, capture_output=True, text=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "-q", *peer.packages],
            check=True,
            capture_output=True,
            text=True,
            timeout=_INSTALLED_WITHIN_S,
        )
        done.touch()
    return python
