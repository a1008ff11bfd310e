"""How long a person needs in the console for three tasks, without typing an id: a browser that acts at a human pace.

Needs Chromium: `python3 compose/local.py install --dev`. Stops the stack's ingest worker for a while.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.console import browser
from compose.localstack.places import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

_LOOK_S, _READ_S, _KEY_MS = 1.0, 2.0, 60
_WITHIN_MS = 120_000
_NOTICED_S = 5.0  # a worker without heartbeats is missing after three


class Person:
    """Looks before each click, types key by key, and reads what appears."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def click(self, target: Locator) -> None:
        """Find the control and click it."""
        target.wait_for(timeout=_WITHIN_MS)
        time.sleep(_LOOK_S)
        target.click()

    def type(self, label: str, text: str) -> None:
        """Click a field and type into it."""
        field = self.page.get_by_label(label, exact=True)
        self.click(field)
        field.press_sequentially(text, delay=_KEY_MS)

    def go(self, name: str) -> None:
        """Follow a link of the navigation."""
        self.click(self.page.get_by_role("navigation").get_by_role("link", name=name, exact=True))

    def read(self, target: Locator) -> str:
        """Wait for a text to appear and read it."""
        target.wait_for(timeout=_WITHIN_MS)
        time.sleep(_READ_S)
        return " ".join(target.inner_text().split())

    def upload(self, folder: Path, namespace: str) -> None:
        """Upload a folder."""
        self.go("Upload")
        chooser = self.page.get_by_label("Folder", exact=True)
        chooser.wait_for(state="attached")
        time.sleep(_LOOK_S)
        chooser.set_input_files(folder)
        self.type("Namespace", namespace)
        self.click(self.page.get_by_role("button", name="Upload", exact=True))


def run() -> dict[str, Any]:
    """Walk the paths. The texts are those that the person read at the end."""
    operator = [sys.executable, "-m", "pipeline.tenants.bootstrap", "demo", "--operator"]
    key = subprocess.run(operator, check=True, capture_output=True, text=True, cwd=ROOT).stdout.split()[-1]
    paths: dict[str, Any] = {}
    with browser() as opened, tempfile.TemporaryDirectory() as scratch:
        page = opened.new_page(viewport={"width": 1360, "height": 850}, locale="en-GB")
        page.goto(f"{os.environ['CHORDWISE_URL']}/console/")
        person = Person(page)
        own, damaged = _folders(Path(scratch))
        with _timed(paths, "a first answer over an own folder") as path:
            person.type("API key", key)
            person.click(page.get_by_role("button", name="Sign in"))
            person.upload(own, "own")
            person.read(page.locator("section .badge").first.filter(has_text="Succeeded"))
            person.go("Playground")
            person.type("Question", "How long is a backup kept?")
            person.click(page.get_by_role("button", name="Ask", exact=True))
            path["read"] = person.read(page.locator(".side-result .hit").first)[:120]
        with _timed(paths, "which document of this upload is missing, and why") as path:
            person.upload(damaged, "damaged")
            path["read"] = person.read(page.locator("main").get_by_text("damaged and cannot be opened").first)[:120]
        with _timed(paths, "the same, later") as path:
            person.go("Overview")
            person.click(page.locator(".attention a[href='#/dead-letters']"))
            path["read"] = person.read(page.locator("main tbody tr").first)[:120]
        with _stopped("worker-ingest"), _timed(paths, "which worker is stuck") as path:
            person.go("Overview")
            person.click(
                page.locator(".attention a[href='#/health']").filter(has_text=re.compile("ingest", re.I)).first
            )
            path["read"] = person.read(page.locator("main [role=status]").first)[:120]
    return {"pace": {"look_s": _LOOK_S, "read_s": _READ_S, "key_ms": _KEY_MS}, "paths": paths}


def show(results: dict[str, Any]) -> str:
    """Return the lines to print."""
    return "\n".join(f"{path['seconds']:6.1f} s  {name}: {path['read']}" for name, path in results["paths"].items())


def _folders(scratch: Path) -> tuple[Path, Path]:
    """Return two folders of twelve pages; a damaged PDF is in the second."""
    pages = sorted((ROOT / "docs").glob("*.md"))[:11]
    folders = scratch / "own", scratch / "damaged"
    for folder in folders:
        folder.mkdir()
        for page in pages:
            (folder / page.name).write_bytes(page.read_bytes())
        (folder / "backups.md").write_text("# Backups\n\nA backup is kept for thirty days.\n", encoding="utf-8")
    (folders[1] / "contract.pdf").write_bytes(b"%PDF-1.7 cut off")
    return folders


@contextmanager
def _timed(paths: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    path: dict[str, Any] = {}
    began = time.monotonic()
    yield path
    paths[name] = {"seconds": round(time.monotonic() - began, 1), **path}


@contextmanager
def _stopped(name: str) -> Iterator[None]:
    """Freeze a process of this stack, and wait until it is missed."""
    state = json.loads((Path(os.environ["CHORDWISE_STACK_DIR"]) / "run/state.json").read_text(encoding="utf-8"))
    pid = int(state["processes"][name]["pid"])
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(_NOTICED_S)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
