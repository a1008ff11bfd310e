"""A real Chromium, and the console in it. Everything a page says of itself is collected: a test in which the console
logged an error or broke its content security policy fails, whatever else it looked at."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from compose.localstack.servers.browser import chromium
from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant

_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--in-process-gpu",
]
_PATIENCE_MS = 20_000  # for one thing to appear, on a busy machine
expect.set_options(timeout=_PATIENCE_MS)
_WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", ({ violatedDirective: rule, blockedURI: what }) =>
  window.violations.push(`${rule}: ${what}`));
"""


@dataclass(kw_only=True)
class Console:
    """One tab with the console, and what it said and asked for."""

    page: Page
    key: str
    client: httpx.Client
    gateway_url: str
    errors: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The page's address."""
        return f"{self.gateway_url}/console/"

    def open(self, view: str = "") -> Page:
        """Go to a view with the key already in the tab, as after a reload."""
        self.page.add_init_script(f"sessionStorage.setItem('chordwise.key', '{self.key}')")
        self.page.goto(f"{self.url}#/{view}")
        self.page.get_by_role("heading", level=1).wait_for()
        return self.page

    def scrolls_sideways(self) -> bool:
        """Whether something is wider than the window."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))

    def complaints(self, *, refused: bool) -> list[str]:
        """Return the errors of the page; with ``refused``, without those of failed requests."""
        said = [each for each in self.errors if not (refused and each.startswith("Failed to load resource"))]
        return said + list(self.page.evaluate("window.violations"))


@pytest.fixture(scope="package")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One for the files of this folder, and closed with them: while it is open, its event loop is in the way of asynchronous
    tests."""
    found = chromium()
    if found is None:
        pytest.fail("the tests of the console need Chromium: python3 compose/local.py install --dev", pytrace=False)
    environment: dict[str, Any] = {**os.environ, **found.environment, "HOME": str(tmp_path_factory.mktemp("home"))}
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=str(found.executable), args=_FLAGS, env=environment, chromium_sandbox=False
        )
        yield started
        started.close()


Opened = Callable[..., Console]


@pytest.fixture
def console(browser: Browser, use: Resources, request: pytest.FixtureRequest) -> Iterator[Opened]:
    """Opens tabs of new tenants; looks at what they said when the test is over."""
    opened: list[tuple[BrowserContext, Console]] = []

    def open_one(
        *, width: int = 1280, height: int = 800, key: str | None = None, url: str = "", **look: Any
    ) -> Console:
        context = browser.new_context(viewport={"width": width, "height": height}, **{"locale": "en-GB", **look})
        context.set_default_timeout(_PATIENCE_MS)
        context.add_init_script(_WATCH)
        page = context.new_page()
        key = key or make_tenant(use)[1]
        url = url or os.environ["CHORDWISE_URL"]
        made = Console(page=page, key=key, client=gateway(key), gateway_url=url)
        page.on("console", lambda said: made.errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: made.errors.append(str(error)))
        page.on("request", lambda sent: made.addresses.append(sent.url))
        opened.append((context, made))
        return made

    yield open_one
    refused = request.node.get_closest_marker("refused") is not None
    complaints = [each for _, made in opened for each in made.complaints(refused=refused)]
    leaked = [address for _, made in opened for address in made.addresses if made.key in address]
    for context, made in opened:
        context.close()
        made.client.close()
    assert complaints == []
    assert leaked == []


@pytest.fixture(scope="session")
def pictures() -> Path | None:
    """Where tests leave screenshots to look at, if CHORDWISE_TEST_PICTURES names a folder."""
    named = os.environ.get("CHORDWISE_TEST_PICTURES")
    if not named:
        return None
    Path(named).mkdir(parents=True, exist_ok=True)
    return Path(named)
