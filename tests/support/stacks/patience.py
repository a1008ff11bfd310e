"""How long tests that measure time may be kept waiting by the machine they run on."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

# What may pass beyond a promised time on a machine that is shared. Whatever hangs or is slow in such a test is so for
# longer than the promise and this together, so that waiting for it is told from being held up.
SPARE_S = 3.0


class Ticks(NamedTuple):
    """What the processors have spent since the machine began: in all, and on other machines of their host."""

    total: int
    stolen: int

    @classmethod
    def now(cls) -> Ticks:
        """As Linux counts them."""
        counted = [int(each) for each in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]
        return cls(sum(counted), counted[7])

    def stolen_since(self) -> float:
        """The share of the processors that this machine wanted and did not get, from then to now."""
        total, stolen = Ticks.now()
        return (stolen - self.stolen) / max(1, total - self.total)
