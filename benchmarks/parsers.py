"""Our parsers beside two programs that turn files into Markdown: cases that come out right by kind, time and memory.

The files and their expectations are those of `tests/spec/files`. The Markdown of another program is cut into chunks as a
file of its own. Expectations of warnings are left out, because the others have none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

from benchmarks.products.peers import Peer, installed
from tests.support.corpora.file_cases import CASES, FILES, Read, read, wrong_in

_ROOT = Path(__file__).resolve().parents[1]
_PAGE = _ROOT / "docs" / "formats.md"
_BEGIN, _END = "<!-- table of make bench ARGS=parsers -->", "<!-- end of the table -->"
_WITHIN_S: Final = 600
_PEERS: Final = (
    Peer(name="markitdown", packages=("markitdown[all]==0.1.9",), child="parser_child.py"),
    Peer(name="kreuzberg", packages=("kreuzberg>=4.10,<5",), child="parser_child.py"),
)
_KINDS: Final = {
    "A": "headers of tables",
    "B": "merged cells",
    "C": "blocks within cells",
    "D": "words that a reader sees",
    "E": "numbers and formulas",
    "F": "values as a sheet shows them",
    "G": "what a reader does not see",
    "H": "numbers of lists, clauses and headings",
    "I": "later parts of long tables and rows",
    "J": "slightly wrong files",
    "K": "unreadable content",
    "L": "order and lines of PDF pages",
    "M": "text formats",
    "N": "what was right from the start",
}


def run() -> dict[str, Any]:
    """Return for each program: right cases by kind, processor time, memory, and the files that it refused."""
    paths = sorted({str(FILES / case["file"]) for case in CASES})
    found: dict[str, Any] = {"cases": Counter(case["kind"] for case in CASES)}
    found["ours"] = _figures(_told("ours", Path(sys.executable), paths), None)
    for peer in _PEERS:
        try:
            told = _told(peer.name, installed(peer), paths)
        except (OSError, subprocess.SubprocessError) as error:
            found[peer.name] = {"skipped": type(error).__name__}
            continue
        found[peer.name] = _figures(told, told["texts"])
    return found


def show(results: dict[str, Any]) -> str:
    """Return the table, and write it into docs/formats.md if every program was measured."""
    programs = ["ours", *(peer.name for peer in _PEERS)]
    table = _table(results, programs)
    if all("right" in results[program] for program in programs):
        before, _, rest = _PAGE.read_text("utf-8").partition(_BEGIN)
        _PAGE.write_text(f"{before}{_BEGIN}\n{table}\n{_END}{rest.partition(_END)[2]}", "utf-8")
    return table


def _told(program: str, python: Path, paths: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [str(python), "-P", str(_ROOT / "benchmarks" / "products" / "parser_child.py"), program],
        input=json.dumps(paths),
        env=os.environ | ({"PYTHONPATH": str(_ROOT)} if program == "ours" else {}),
        check=True,
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
    )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _figures(told: dict[str, Any], texts: dict[str, str | None] | None) -> dict[str, Any]:
    """Return the figures of one program. ``texts``: what another program made of each file."""
    right: Counter[str] = Counter()
    for case in CASES:
        path = FILES / case["file"]
        if texts is None:
            seen = read(path)
        elif (text := texts[str(path)]) is None:
            seen = Read(original=path.read_bytes(), error="refused")
        else:
            seen = read(path, text=text)
        wrong = set(wrong_in(seen, case)) - {"warn"}
        if seen.error:
            wrong -= {"error"}  # the others have no codes
        right[case["kind"]] += not wrong
    refused = sorted(Path(path).name for path, text in told["texts"].items() if text is None)
    return {"right": right, "cpu_s": round(told["cpu_s"], 2), "memory_mb": round(told["memory_mb"]), "refused": refused}


def _table(results: dict[str, Any], programs: list[str]) -> str:
    def cell(program: str, kind: str) -> str:
        figures = results[program]
        return str(figures["right"][kind]) if "right" in figures else "–"

    lines = [f"| kind | cases | {' | '.join(programs)} |", "|---|---|" + "---|" * len(programs)]
    for kind, count in sorted(results["cases"].items()):
        cells = " | ".join(cell(program, kind) for program in programs)
        lines.append(f"| {_KINDS.get(kind, kind)} | {count} | {cells} |")
    for name, field in (("right in all", "right"), ("processor time, s", "cpu_s"), ("largest memory, MB", "memory_mb")):
        values = [results[program].get(field, "–") for program in programs]
        shown = [str(sum(value.values())) if isinstance(value, dict) else str(value) for value in values]
        lines.append(f"| {name} | {sum(results['cases'].values()) if field == 'right' else ''} | {' | '.join(shown)} |")
    return "\n".join(lines)
