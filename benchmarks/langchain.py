"""LangChain's PGVectorStore with the same texts and the same embedder, in a virtual environment made for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.settings import settings

_ROOT = Path(__file__).resolve().parents[1]
_VENV = _ROOT / ".local" / "bench-langchain"
_PACKAGES = ("langchain-postgres>=0.0.14", "wordllama>=0.4", "psycopg[binary]>=3.2")
_MOST_TEXTS = 3_000  # runs that are timed
_INSTALLED_WITHIN_S, _DONE_WITHIN_S = 300, 1800


def measure(texts: Sequence[str], *, into: Sequence[str] = ()) -> dict[str, Any]:
    """Return the figures with its recommended HNSW index and, under ``exact``, without; or ``skipped`` with the reason.

    ``into``: texts that the table holds before the others are added; its index is built over them.
    """
    try:
        python = _installed()
        url = settings().postgres_url.get_secret_value()
        task = {"url": url, "texts": list(texts[:_MOST_TEXTS]), "into": list(into)}
        runs = [_run(python, task | {"hnsw": hnsw}) for hnsw in (True, False)[: 1 if into else 2]]
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or ""
        last = said.strip().splitlines()[-1] if said.strip() else type(error).__name__
        print(f"ingest: LangChain is left out: {last}", flush=True)
        return {"skipped": last}
    return runs[0] | ({"exact": runs[1]} if len(runs) > 1 else {})


def _installed() -> Path:
    python = _VENV / "bin" / "python"
    done = _VENV / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", str(_VENV)], check=True, capture_output=True, text=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "-q", *_PACKAGES],
            check=True,
            capture_output=True,
            text=True,
            timeout=_INSTALLED_WITHIN_S,
        )
        done.touch()
    return python


def _run(python: Path, task: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [str(python), "-P", str(Path(__file__).with_name("langchain_child.py"))],
        input=json.dumps(task),
        check=True,
        capture_output=True,
        text=True,
        timeout=_DONE_WITHIN_S,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
