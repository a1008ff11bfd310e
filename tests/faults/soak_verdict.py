"""Tell growth without bound from noise, and from what is meant to be kept: one rule for each kind of figure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.curves import label
from benchmarks.table import row, table

Series = Mapping[str, Sequence[float]]
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#999999", "#000000")
_WIDE, _HIGH, _LEFT, _TOP, _BELOW = 900, 150, 60, 30, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Figures of a kind may grow in an hour, or in a shorter run, by ``amount`` plus ``share`` of their median. ``most``:
    a limit below which they may do anything. ``kept``: the reason why they may grow without one."""

    names: str
    amount: float = 0.0
    share: float = 0.0
    most: float | None = None
    kept: str = ""


RULES = (
    Rule(names=r"memory with files/.*", kept="pages of files, which the system takes back"),
    Rule(names=r"memory/flower", most=400.0),  # it shows the last 10,000 tasks, about 7 KB each, and orders 40,000
    Rule(names=r"memory/.*", amount=10.0, share=0.03),
    # One for each connection, of which every pool may make 16; PostgreSQL has about twelve files open for each.
    Rule(names=r"threads/mariadb|(threads|processes)/postgres", amount=20.0),
    Rule(names=r"open files/postgres", amount=240.0),
    Rule(names=r"(threads|processes|open files|connections)/.*", amount=3.0, share=0.05),
    Rule(names=r"redis/(clients|channels|subscriptions)", amount=3.0, share=0.05),
    Rule(names=r"redis keys/.*|redis/keys", amount=25.0, share=0.1),
    Rule(names=r"redis memory/.*|redis/memory|redis/overhead", amount=1.0, share=0.1),
    Rule(names=r"mysql rows/(jobs|job_items)", kept="CHORDWISE_JOB_KEEP_DAYS"),
    Rule(names=r"mysql rows/audit", kept="CHORDWISE_AUDIT_KEEP_DAYS"),
    Rule(names=r"mysql rows/idempotency_keys", kept="a day"),
    Rule(names=r"mysql rows/publications", kept="a week"),
    Rule(names=r"mysql rows/webhook_deliveries", kept="7 days after delivery"),
    Rule(names=r"mysql rows/embedding_usage", kept="CHORDWISE_USAGE_KEEP_DAYS"),
    Rule(names=r"mysql rows/erasures", kept="a row for each erased tenant"),
    Rule(names=r"mysql rows/feedback", kept="made by callers"),
    Rule(names=r"mysql rows/documents", kept="132 bytes for each id that callers ever used"),
    Rule(names=r"(mysql|postgres) rows/.*", amount=50.0, share=0.1),
    Rule(names=r"(mysql|postgres)/(connections|idle in transaction)", amount=3.0, share=0.05),
    Rule(names=r"mysql/history list", amount=2000.0),
    Rule(names=r"mysql/page cache", kept="innodb_buffer_pool_size"),
    Rule(names=r"disk/redis append-only file", most=256.0),  # rewritten at twice its size, from 64 MB on
    Rule(names=r"disk/postgres WAL", most=1100.0),  # max_wal_size
    Rule(names=r"disk/mysql full-text index", kept="words of dropped chunks, until it is built again"),
    Rule(names=r"disk/mysql tables|disk/mysql shared", kept="the tables above; InnoDB gives nothing back"),
    Rule(names=r"disk/.*", amount=8.0, share=0.15),
    Rule(names=r"log/.*", kept="rotated"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One figure after the warm-up: medians of the first and the last tenth, growth per hour, and what was allowed."""

    name: str
    first: float
    last: float
    per_hour: float
    allowed: float | None
    grows: bool
    kept: str = ""


def theil_sen(minutes: Sequence[float], values: Sequence[float]) -> float:
    """Return the median of the slopes of all pairs of points (Sen, 1968), per minute; 0 for fewer than two points. A
    third of the points may be arbitrary without moving it far."""
    x, y = np.asarray(minutes, dtype=float), np.asarray(values, dtype=float)
    if len(x) < 2:
        return 0.0
    first, second = np.triu_indices(len(x), k=1)
    return float(np.median((y[second] - y[first]) / (x[second] - x[first])))


def judge(minutes: Sequence[float], series: Series, *, warm_up_min: float) -> list[Finding]:
    """Judge every figure by its slope after the warm-up.

    A figure grows if both the whole and the second half of that time have a slope above what its rule allows for an
    hour, or for the length of a shorter run: what fills up and then stays does not. A figure that is absent from a
    reading was 0.
    """
    run_h = min(1.0, max(minutes, default=0.0) / 60)
    begin = next((number for number, minute in enumerate(minutes) if minute >= warm_up_min), len(minutes))
    half = begin + (len(minutes) - begin) // 2
    findings = []
    for name in sorted(series):
        rule = next((rule for rule in RULES if re.fullmatch(rule.names, name)), Rule(names=""))
        values = series[name]
        whole, late = (60 * theil_sen(minutes[start:], values[start:]) for start in (begin, half))
        after = values[begin:]
        tenth = max(1, len(after) // 10)
        middle = float(np.median(after)) if len(after) else 0.0
        allowed = rule.amount + rule.share * middle
        grows = min(whole, late) * run_h > allowed
        if rule.most is not None:
            allowed, grows = rule.most, max(after, default=0.0) > rule.most
        findings.append(
            Finding(
                name=name,
                first=float(np.median(after[:tenth])) if len(after) else 0.0,
                last=float(np.median(after[-tenth:])) if len(after) else 0.0,
                per_hour=min(whole, late, key=abs) if whole * late > 0 else 0.0,
                allowed=None if rule.kept else allowed,
                grows=grows and not rule.kept,
                kept=rule.kept,
            )
        )
    return findings


def as_table(findings: Sequence[Finding]) -> str:
    """Return what moved or is worth knowing as a table, what grows first."""
    shown = [f for f in findings if f.grows or abs(f.last - f.first) > 0.02 * max(1.0, f.first)]
    shown.sort(key=lambda finding: (not finding.grows, bool(finding.kept), finding.name))
    heads = ("figure", "first", "last", "per hour", "allowed", "verdict")
    return table(
        heads,
        [row(f.name, f.first, f.last, f.per_hour, "-" if f.allowed is None else f.allowed, _verdict(f)) for f in shown],
    )


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings by name, rounded."""
    return {
        f.name: {
            "first": round(f.first, 2),
            "last": round(f.last, 2),
            "per_hour": round(f.per_hour, 2),
            **({"kept": f.kept} if f.kept else {"allowed": round(f.allowed or 0.0, 2), "grows": f.grows}),
        }
        for f in findings
    }


def picture(minutes: Sequence[float], series: Series, *, warm_up_min: float) -> str:
    """Return an SVG: the curves of each kind of figure in a panel of its own, the warm-up in grey."""
    panels = {
        "memory of each service, MB": _of(series, "memory/"),
        "threads": _of(series, "threads/"),
        "connections to stores": _of(series, "connections/"),
        "keys of Redis": _of(series, "redis keys/"),
    }
    end = max(minutes, default=1.0)
    height = _TOP + len(panels) * (_HIGH + _BELOW)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDE + 20} {height}" font-family="sans-serif"'
        ' font-size="11" role="img"><title>A long run</title>',
        f'<rect width="{_LEFT + _WIDE + 20}" height="{height}" fill="#ffffff"/>',
    ]
    for number, (name, curves) in enumerate(panels.items()):
        top = _TOP + number * (_HIGH + _BELOW)
        most = max((max(values) for values in curves.values()), default=0.0) or 1.0
        grey = _WIDE * min(1.0, warm_up_min / end)
        parts += [
            f'<rect x="{_LEFT}" y="{top}" width="{grey:.0f}" height="{_HIGH}" fill="#eeeeee"/>',
            f'<rect x="{_LEFT}" y="{top}" width="{_WIDE}" height="{_HIGH}" fill="none" stroke="#999999"/>',
            label(_LEFT, top - 8, name, anchor="start", weight="bold"),
            *(
                label(_LEFT - 6, top + _HIGH * (1 - part) + 4, f"{most * part:.0f}", anchor="end")
                for part in (0, 0.5, 1)
            ),
            *(label(_LEFT + _WIDE * part, top + _HIGH + 14, f"{end * part:.0f} min") for part in (0, 0.5, 1)),
        ]
        for place, (curve, values) in enumerate(curves.items()):
            colour = _COLOURS[place % len(_COLOURS)]
            step = max(1, len(values) // 200)
            points = " ".join(
                f"{_LEFT + _WIDE * minute / end:.1f},{top + _HIGH * (1 - value / most):.1f}"
                for minute, value in list(zip(minutes, values, strict=True))[::step]
            )
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
            x, y = _LEFT + place % 6 * 155, top + _HIGH + 30 + place // 6 * 13
            parts += [
                f'<rect x="{x}" y="{y - 8}" width="9" height="9" fill="{colour}"/>',
                label(x + 13, y, curve, anchor="start"),
            ]
    return "\n".join([*parts, "</svg>", ""])


def _of(series: Series, kind: str, most: int = 12) -> dict[str, Sequence[float]]:
    """Return the largest curves of a kind, by their names without it."""
    curves = {name.removeprefix(kind): values for name, values in series.items() if name.startswith(kind)}
    return dict(sorted(curves.items(), key=lambda curve: -max(curve[1]))[:most])


def _verdict(finding: Finding) -> str:
    if finding.kept:
        return f"kept: {finding.kept}"
    return "GROWS" if finding.grows else "flat"
