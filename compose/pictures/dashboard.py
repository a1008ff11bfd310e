"""The dashboard of compose/grafana, drawn without Grafana: the panels of its JSON, their PromQL answered by a real Prometheus
that reads the stack's gateway, in a page of the console's own charts."""

import json
import math
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from playwright.sync_api import BrowserContext, Page

from compose.localstack import ports
from compose.localstack.places import ROOT
from tests.support.servers.tools_for_tests import prometheus

BOARD: Final[Mapping[str, Any]] = json.loads((ROOT / "compose/grafana/chordwise.json").read_text(encoding="utf-8"))
PANELS: Final = tuple(panel for panel in BOARD["panels"] if panel["type"] != "row")
_SCRIPT = Path(__file__).with_name("dashboard.js")
_CONFIG = """global: {{scrape_interval: {every_s}s}}
scrape_configs:
  - job_name: chordwise
    metrics_path: /v1/metrics
    static_configs: [{{targets: ["{target}"]}}]
"""
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light"><title>{title}</title>
<link rel="stylesheet" href="css/base.css"><link rel="stylesheet" href="css/views.css">
<link rel="stylesheet" href="vendor/uplot.css">
<body><script type="application/json" id="panels">{panels}</script><script type="module" src="dashboard.js"></script></body>
</html>
"""
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_POINTS: Final = 120
_STARTS_WITHIN_S: Final = 30.0

Series = dict[str, Any]


class Figures:
    """The answers of one Prometheus."""

    def __init__(self, address: str, *, every_s: int) -> None:
        self._client = httpx.Client(base_url=address, timeout=30)
        self._every_s = every_s
        self._since = time.time()

    def at(self) -> list[float]:
        """Return the moments of a chart, in seconds since the epoch: up to 120 since the first scrape."""
        until = time.time()
        step = max(self._every_s, math.ceil((until - self._since) / _POINTS))
        return [self._since + step * number for number in range(int((until - self._since) / step) + 1)]

    def lines(self, target: Mapping[str, str], at: list[float]) -> list[Series]:
        """Return a panel's named series with a value or None for each moment. Raises httpx.HTTPStatusError."""
        step = at[1] - at[0] if len(at) > 1 else self._every_s
        asked = {"query": target["expr"], "start": at[0], "end": at[-1], "step": step}
        results = self._read("query_range", asked)
        return [
            {"name": _name(target["legendFormat"], found["metric"]), "values": _aligned(found["values"], at, step)}
            for found in sorted(results, key=lambda found: sorted(found["metric"].items()))
        ]

    def count_scrapes(self) -> int:
        """Return how many scrapes of the gateway succeeded."""
        answer = self._read("query", {"query": 'sum(sum_over_time(up{job="chordwise"}[1h]))'})
        return int(float(answer[0]["value"][1])) if answer else 0

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _read(self, path: str, parameters: Mapping[str, Any]) -> list[Series]:
        response = self._client.get(f"/api/v1/{path}", params=parameters)
        response.raise_for_status()
        results: list[Series] = response.json()["data"]["result"]
        return results


@contextmanager
def scraped(url: str, folder: Path, *, every_s: int) -> Iterator[Figures]:
    """Run a Prometheus that reads the gateway at this address. Raises RuntimeError if it does not start."""
    program = prometheus()
    if program is None:
        raise RuntimeError("no Prometheus; run python3 compose/local.py install --dev")
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "prometheus.yaml"
    config.write_text(_CONFIG.format(every_s=every_s, target=urlsplit(url).netloc), encoding="utf-8")
    port = ports.choose((9090,), set())
    address = f"http://127.0.0.1:{port}"
    command = [str(program), f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
               f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]  # fmt: skip
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            _wait_until_ready(process, address, log=folder / "log")
            figures = Figures(address, every_s=every_s)
            yield figures
            figures.close()
        finally:
            process.terminate()


def draw(context: BrowserContext, url: str, figures: Figures) -> Page:
    """Open the dashboard's panels in a page below the gateway's console, whose modules draw them."""
    at = figures.at()
    panels = [
        {**panel, "lines": [line for target in panel.get("targets", ()) for line in figures.lines(target, at)]}
        for panel in BOARD["panels"]
    ]
    shown = json.dumps({"title": BOARD["title"], "at": at, "panels": panels}).replace("<", "\\u003c")
    page = context.new_page()
    page.route("**/console/dashboard.js", lambda route: route.fulfill(path=_SCRIPT, content_type="text/javascript"))
    body = _PAGE.format(title=BOARD["title"], panels=shown)
    page.route("**/console/dashboard.html", lambda route: route.fulfill(body=body, content_type="text/html"))
    page.goto(f"{url}/console/dashboard.html")
    page.locator(".panel").last.wait_for()
    return page


def _name(legend: str, labels: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: labels.get(found[1], ""), legend).strip()


def _aligned(values: list[tuple[float, str]], at: list[float], step: float) -> list[float | None]:
    """Return one value for each moment; None where there is none, or no number."""
    known = {round((moment - at[0]) / step): float(value) for moment, value in values}
    return [value if math.isfinite(value := known.get(place, math.nan)) else None for place in range(len(at))]


def _wait_until_ready(process: subprocess.Popen[bytes], address: str, *, log: Path) -> None:
    until = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"{address}/-/ready", timeout=1).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"Prometheus did not start: {log.read_text(errors='replace')[-500:]}")
