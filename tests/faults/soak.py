"""`make soak`: an hour of mixed load on a stack of its own, after which nothing may have grown that nothing bounds.

Every ten seconds every figure is read (soak_figures), and kept in the stack's folder; at the end each is judged by its
slope after a warm-up (soak_verdict). The table goes to the terminal, the results and a picture to benchmarks/results.
Exits 1 if something grows, or if more than one action of a hundred failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

from redis import RedisError
from sqlalchemy.exc import SQLAlchemyError

from pipeline.resources import Resources
from pipeline.settings import load
from tests.faults.soak_figures import Figures, Reading
from tests.faults.soak_load import Load, loaded
from tests.faults.soak_verdict import Finding, as_json, as_table, judge, picture

_RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
_EVERY_S = 10.0
_WARM_UP, _LEAST_WARM_UP_MIN = 0.3, 10.0  # of the time; until connections are pooled and bounded caches are full
_FAILED_SHARE = 0.01
_STOPPED = threading.Event()  # asked to end before its time: judge what there is


def main(arguments: list[str]) -> int:
    """Run, judge, report."""
    chosen = _parser().parse_args(arguments)
    if chosen.again:
        return _report(_read(chosen.again), Path(), {})
    file = Path(os.environ["CHORDWISE_STACK_DIR"]) / "soak.jsonl"
    file.unlink(missing_ok=True)
    seed = chosen.seed if chosen.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"soak: {chosen.minutes:g} minutes, seed {seed}; every reading is in {file}", flush=True)
    use = Resources(load())
    figures = Figures(use)
    with loaded(use, seed=seed) as running:
        began = time.monotonic()
        while (passed_s := time.monotonic() - began) < 60 * max(chosen.minutes, 2 * _LEAST_WARM_UP_MIN):
            try:
                _keep(file, passed_s / 60, figures.read())
            except (OSError, RedisError, SQLAlchemyError) as error:
                print(f"soak: no reading after {passed_s / 60:.1f} min: {type(error).__name__}", flush=True)
            if int(passed_s) % 300 < _EVERY_S:
                print(f"soak: {passed_s / 60:.0f} min, {running.done.total()} actions", flush=True)
            if _STOPPED.wait(max(0.0, _EVERY_S - (time.monotonic() - began - passed_s))):
                break
    return max(_report(_read(file), _RESULTS, _counts(running)), _failures(running))


def _keep(file: Path, minute: float, reading: Reading) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps({"minute": round(minute, 3), **{k: round(v, 3) for k, v in reading.items()}}) + "\n")


def _read(file: Path) -> list[Reading]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _report(readings: list[Reading], results: Path, counts: dict[str, int]) -> int:
    minutes = [reading.pop("minute") for reading in readings]
    names = sorted({name for reading in readings for name in reading})
    series = {name: [reading.get(name, 0.0) for reading in readings] for name in names}
    warm_up_min = max(_LEAST_WARM_UP_MIN, _WARM_UP * max(minutes, default=0.0))
    findings = judge(minutes, series, warm_up_min=warm_up_min)
    print(as_table(findings), flush=True)
    if counts:
        summary = {"minutes": round(max(minutes)), "warm_up_min": round(warm_up_min, 1), "actions": counts}
        text = json.dumps({**summary, "figures": as_json(findings)}, indent=1)
        (results / "soak.json").write_text(text + "\n", encoding="utf-8")
        svg = picture(minutes, series, warm_up_min=warm_up_min)
        (results / "soak.svg").write_text(svg, encoding="utf-8")
    return _verdict([finding for finding in findings if finding.grows], len(findings))


def _verdict(growing: list[Finding], judged: int) -> int:
    for finding in growing:
        print(f"GROWS  {finding.name}: {finding.per_hour:,.1f} an hour, {finding.allowed:,.1f} allowed", flush=True)
    print(f"soak: {judged} figures, {len(growing) or 'none'} grow without bound", flush=True)
    return 1 if growing else 0


def _counts(running: Load) -> dict[str, int]:
    return dict(sorted(running.done.items())) | {"failed": running.refused.total()}


def _failures(running: Load) -> int:
    for sentence, count in running.refused.most_common(20):
        print(f"failed {count} times: {sentence}", flush=True)
    failed, done = running.refused.total(), running.done.total()
    print(f"soak: {done} actions, {failed} failed", flush=True)
    return 1 if failed > _FAILED_SHARE * done else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="how long the load runs, twice the warm-up of 10 minutes at least"
    )
    parser.add_argument("--seed", type=int, help="the load of an earlier run, as far as time allows")
    parser.add_argument("--again", type=Path, metavar="FILE", help="judge the readings of an earlier run")
    return parser


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _STOPPED.set())
    sys.exit(main(sys.argv[1:]))
