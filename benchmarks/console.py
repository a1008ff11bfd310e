"""Section `console`: the bytes, files and time of the console's first view, cold and warm, and of all of its pages.

Needs Chromium: `python3 compose/local.py install --dev`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from compose.localstack.places import ROOT
from compose.localstack.servers.browser import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

_ROUNDS = 5
_QUIET_MS = 300  # for the modules of a page to arrive
_PAGES = re.compile(r'^\s*page\("([\w-]+)"', re.MULTILINE)
_FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
_SHOWN = "figure.chart"  # of the overview, once its figures were read


def run(*, quick: bool) -> dict[str, Any]:
    """Measure the first view in both languages, and all pages in English."""
    operator = [sys.executable, "-m", "pipeline.tenants.bootstrap", "demo", "--operator"]
    key = subprocess.run(operator, check=True, capture_output=True, text=True, cwd=ROOT).stdout.split()[-1]
    url = os.environ["CHORDWISE_URL"]
    rounds = 1 if quick else _ROUNDS
    with browser() as opened:
        first = {
            locale: _median([first_view(opened, url, key, locale=locale) for _ in range(rounds)])
            for locale in ("en-GB", "zh-CN")
        }
        return {"rounds": rounds, "first_view": first, "all_pages": all_pages(opened, url, key)}


def show(results: dict[str, Any]) -> str:
    """Return the table to print."""
    lines = ["console         files   as sent  unpacked  until shown"]
    for locale, view in results["first_view"].items():
        lines += [_line(f"{locale} {state}", view[state]) for state in ("cold", "warm")]
    return "\n".join([*lines, _line("every page", results["all_pages"])])


def first_view(opened: Browser, url: str, key: str, *, locale: str = "en-GB") -> dict[str, Any]:
    """Open the overview with an empty cache, then once more in a new tab: files of the console alone, without the API."""
    context = opened.new_context(locale=locale)
    try:
        return {state: _loaded(context, f"{url}/console/", key) for state in ("cold", "warm")}
    finally:
        context.close()


def all_pages(opened: Browser, url: str, key: str) -> dict[str, Any]:
    """Open every page of the navigation in one tab, beginning with an empty cache."""
    names = _PAGES.findall((ROOT / "api_gateway/console/js/pages.js").read_text(encoding="utf-8"))
    context = opened.new_context(locale="en-GB")
    try:
        return _loaded(context, f"{url}/console/", key, views=names)
    finally:
        context.close()


def _loaded(context: BrowserContext, address: str, key: str, *, views: list[str] | None = None) -> dict[str, Any]:
    page = context.new_page()
    page.add_init_script(
        f"sessionStorage.setItem('chordwise.key', {key!r}); performance.setResourceTimingBufferSize(5000)"
    )
    page.goto(address)
    page.locator(_SHOWN).first.wait_for()
    shown_ms = float(page.evaluate("performance.now()"))
    for view in views or ():
        page.goto(f"{address}#/{view}")
        page.get_by_role("heading", level=1).wait_for()
        page.wait_for_timeout(_QUIET_MS)
    sizes = _sizes(page)
    page.close()
    return {
        "files": len(sizes),
        "asked_for": sum(size["sent"] > 0 for size in sizes),
        "sent_bytes": sum(size["sent"] for size in sizes),
        "unpacked_bytes": sum(size["unpacked"] for size in sizes),
        "shown_ms": round(shown_ms),
    }


def _sizes(page: Page) -> list[dict[str, int]]:
    """Return the sizes of the console's files, as the browser counted them: nothing is sent for a cached one."""
    found: list[dict[str, int]] = page.evaluate(
        """() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
          .filter((entry) => new URL(entry.name).pathname.startsWith("/console/"))
          .map((entry) => ({sent: entry.transferSize, unpacked: entry.decodedBodySize}))"""
    )
    return found


def _median(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the round whose cold view took the median time."""
    return sorted(rounds, key=lambda view: view["cold"]["shown_ms"])[len(rounds) // 2]


def _line(name: str, loaded: dict[str, Any]) -> str:
    sent, unpacked = loaded["sent_bytes"] / 1000, loaded["unpacked_bytes"] / 1000
    return f"{name:14} {loaded['asked_for']:6} {sent:6.1f} kB {unpacked:6.1f} kB {loaded['shown_ms']:8} ms"


@contextmanager
def browser() -> Iterator[Browser]:
    """Start Chromium. Exits with a sentence if there is none."""
    try:
        from playwright.sync_api import sync_playwright  # of the tools for tests, which other sections do without
    except ImportError:
        sys.exit("console: no Playwright; run python3 compose/local.py install --dev")
    found = chromium()
    if found is None:
        sys.exit("console: no Chromium; run python3 compose/local.py install --dev")
    environment = {**os.environ, **found.environment}
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(found.executable), args=_FLAGS, env=environment)
        yield started
        started.close()
