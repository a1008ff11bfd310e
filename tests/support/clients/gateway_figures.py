"""Figures of a gateway, read from the page that Prometheus reads."""

from __future__ import annotations


def resident_bytes(page: str) -> float:
    """Return the memory of the process that answered with ``page``."""
    name = "process_resident_memory_bytes "
    return next(float(line.removeprefix(name)) for line in page.splitlines() if line.startswith(name))
