"""Run the demo, add sample data, and take a picture of the demo's output, of every page of the console, of the API reference,
of Flower and of the dashboard for Grafana, into docs/images.

Reads the variables of a stack. ``CHORDWISE_GRAFANA_URL``: a Grafana with the dashboard, to be photographed instead of drawing
it. ``--only NAME …`` takes some of the pictures. Exits 1 if a page cannot be shown.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from PIL import Image
from playwright.sync_api import Browser, Error, HttpCredentials, Page, ViewportSize, sync_playwright

from compose.localstack.places import ROOT, StackFolder
from compose.localstack.servers.browser import chromium
from compose.pictures import samples, terminal
from compose.pictures.dashboard import BOARD, Figures, draw, scraped

IMAGES = ROOT / "docs/images"
_GALLERY = ROOT / "docs/pictures.md"
_WORDS = ROOT / "api_gateway/console/messages/en/common.json"
_PAGES = ROOT / "api_gateway/console/js/pages.js"
_TITLES = {
    "job": "A job",
    "document": "A document",
    "trace": "The trace of a query",
    "reference": "API reference",
    "flower-workers": "Flower: workers",
    "flower-tasks": "Flower: tasks",
    "grafana": "The dashboard for Grafana",
}
_DRAWN = """
Drawn by `make pictures` from the dashboard's JSON with the console's charts, not by Grafana, which it does not install; the
figures are those of a Prometheus that read this stack. With `CHORDWISE_GRAFANA_URL` it takes the picture in that Grafana.
"""
_IMPORT = """
To have the dashboard in your Grafana, choose *Dashboards*, *New*, *Import*, upload `compose/grafana/chordwise.json`, and
choose the Prometheus that reads `/v1/metrics` ([metrics](metrics.md)).
"""
_NAMED = re.compile(r'^\s*page\("([\w-]+)"', re.MULTILINE)
_WIDTH, _HEIGHT, _TALLEST = 1360, 850, 1500
_PATIENCE_MS = 120_000  # for one thing to appear, on a busy machine
_QUIET_MS = 1500  # after the last request, for charts to be drawn
_TRAFFIC_S = 150.0  # of queries before overview and dashboard are taken, so that their lines have a few points
_LAST = ("console/overview", "grafana")
_SCRAPED_EVERY_S = 5
_COLORS = 128  # of a picture: a third of the bytes, and no difference to be seen on flat surfaces


def main() -> int:
    """Take the pictures."""
    parser = argparse.ArgumentParser(prog="make pictures")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="names of pictures, without .png")
    only = set(parser.parse_args().only)
    with scraped(
        os.environ["CHORDWISE_URL"], StackFolder("pictures").run / "prometheus", every_s=_SCRAPED_EVERY_S
    ) as figures:
        return take_all(only, figures)


def take_all(only: set[str], figures: Figures) -> int:
    """Make what the pictures show and take them. Returns the exit code."""
    url = os.environ["CHORDWISE_URL"]
    operator = [sys.executable, "-m", "pipeline.tenants.bootstrap", "demo", "--operator"]
    key = subprocess.run(operator, check=True, capture_output=True, text=True, cwd=ROOT).stdout.split()[-1]
    demo = subprocess.run(
        [sys.executable, "compose/demo/run.py"], check=True, capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": "120"},
    ).stdout  # fmt: skip
    wanted = subjects(samples.add(url, key))
    (IMAGES / "console").mkdir(parents=True, exist_ok=True)
    _GALLERY.write_text(gallery(list(wanted)), encoding="utf-8")
    failed = []
    with browser() as opened:
        if not only or "demo" in only:
            page = opened.new_page(viewport={"width": 1060, "height": 400}, color_scheme="dark")
            page.set_content(terminal.page_of(demo))
            save(page, IMAGES / "demo.png", whole=True)
        names = [name for name in wanted if not only or Path(name).stem in only]
        lasting = iter([_TRAFFIC_S])
        for name in sorted(names, key=lambda name: name in _LAST):
            if name in _LAST:
                samples.make_traffic(url, key, seconds=next(lasting, 0.0))
            try:
                if name == "grafana":
                    take_dashboard(opened, url, figures, IMAGES / f"{name}.png")
                else:
                    take(opened, f"{url}/{wanted[name]}", key, IMAGES / f"{name}.png")
                print(f"  {name}")
            except Error as error:
                failed.append(name)
                print(f"  {name} FAILED: {error.message.splitlines()[0]}", file=sys.stderr)
    return 1 if failed else 0


def subjects(records: dict[str, str]) -> dict[str, str]:
    """Return the address of each picture, below the gateway's. Every page of the console's own list is there."""
    pages = _NAMED.findall(_PAGES.read_text(encoding="utf-8"))
    views = {name: name for name in pages} | records
    console = {f"console/{name}": f"console/#/{view}" for name, view in views.items()}
    others = {"reference": "docs#/ask_v1_queries_post", "flower-workers": "", "flower-tasks": "tasks", "grafana": ""}
    return console | others


def gallery(names: list[str]) -> str:
    """Return the page that shows the pictures, under the titles of the console."""
    titles = json.loads(_WORDS.read_text(encoding="utf-8"))["nav"] | _TITLES
    shown = [f"## {titles[Path(name).name]}\n\n![{titles[Path(name).name]}](images/{name}.png)\n" for name in names]
    head = "# Pictures\n\nThe console, the API reference and Flower with sample data, as `make pictures` takes them.\n"
    below = _IMPORT if "CHORDWISE_GRAFANA_URL" in os.environ else _DRAWN + _IMPORT
    return "\n".join([head, *shown]) + below


def take_dashboard(opened: Browser, url: str, figures: Figures, file: Path) -> None:
    """Save the dashboard: of the Grafana named by the environment, with its login in the address if it has one, else drawn."""
    named = urlsplit(os.environ.get("CHORDWISE_GRAFANA_URL", ""))
    login = HttpCredentials(username=named.username, password=named.password or "") if named.username else None
    size = ViewportSize(width=_WIDTH, height=_HEIGHT)
    context = opened.new_context(viewport=size, locale="en-GB", color_scheme="light", http_credentials=login)
    try:
        if named.netloc:
            page = context.new_page()
            address = urlunsplit(named._replace(netloc=named.netloc.rpartition("@")[2])).rstrip("/")
            page.goto(f"{address}/d/{BOARD['uid']}?kiosk&from=now-15m&to=now")
            page.set_viewport_size(
                {"width": _WIDTH, "height": 2 * _TALLEST}
            )  # all panels, which draw when they are seen
        else:
            page = draw(context, url, figures)
        page.wait_for_timeout(2 * _QUIET_MS)
        save(page, file, whole=True)
    finally:
        context.close()


def take(opened: Browser, address: str, key: str, file: Path) -> None:
    """Open an address as somebody who is signed in, and save what is to be seen once it is quiet."""
    login: HttpCredentials | None = None
    if file.stem.startswith("flower"):
        address = f"{os.environ['CHORDWISE_FLOWER_URL']}/{'tasks' if file.stem.endswith('tasks') else 'workers'}"
        login = {"username": os.environ["CHORDWISE_FLOWER_USER"], "password": os.environ["CHORDWISE_FLOWER_PASSWORD"]}
    size = ViewportSize(width=_WIDTH, height=_HEIGHT)
    context = opened.new_context(viewport=size, locale="en-GB", color_scheme="light", http_credentials=login)
    context.set_default_timeout(_PATIENCE_MS)
    try:
        page = context.new_page()
        page.add_init_script(f"sessionStorage.setItem('chordwise.key', {key!r})")
        page.goto(address)
        if login is None:
            page.get_by_role("heading", level=1).wait_for()
        samples.prepare(page, file.stem)
        page.wait_for_timeout(_QUIET_MS)
        height = int(page.evaluate("document.documentElement.scrollHeight"))
        page.set_viewport_size({"width": _WIDTH, "height": max(_HEIGHT, min(height, _TALLEST))})
        page.wait_for_timeout(_QUIET_MS)
        save(page, file)
    finally:
        context.close()


def save(page: Page, file: Path, *, whole: bool = False) -> None:
    """Write the picture with few colours."""
    page.screenshot(path=file, full_page=whole)
    with Image.open(file) as picture:
        few = picture.convert("RGB").quantize(_COLORS, dither=Image.Dither.NONE)
    few.save(file, optimize=True)


@contextmanager
def browser() -> Iterator[Browser]:
    """Start Chromium. Exits with a sentence if there is none."""
    found = chromium()
    if found is None:
        sys.exit("pictures: no Chromium; run python3 compose/local.py install --dev")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=str(found.executable), args=flags, env={**os.environ, **found.environment}
        )
        yield started
        started.close()


if __name__ == "__main__":
    sys.exit(main())
