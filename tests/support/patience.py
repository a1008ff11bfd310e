"""How long tests that measure time may be kept waiting by the machine they run on."""

from __future__ import annotations

# What may pass beyond a promised time on a machine that is shared. Whatever hangs or is slow in such a test is so for
# longer than the promise and this together, so that waiting for it is told from being held up.
SPARE_S = 3.0
