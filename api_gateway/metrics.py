"""The gateway's own metrics. Labels are templates and numbers, never ids."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

REQUESTS = Counter("chordwise_gateway_requests", "Answered requests.", ["method", "route", "status"])
LATENCY = Histogram(
    "chordwise_gateway_request_seconds",
    "Seconds from the first byte of a request to the end of its answer; waiting that was asked for is included.",
    ["method", "route", "status"],
    buckets=(0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.3, 2.6, 5.2, 10, 30, 60),
)
WAITERS = Gauge("chordwise_gateway_waiters", "Requests that wait for a job or a query.")
