"""The garbage of a process that has started."""

from __future__ import annotations

import subprocess
import sys

# Cycles that outlive a few young collections, as those of a running query do, in a process with many objects.
_RUN = """
import collections, gc
from pipeline.garbage import keep_for_good

class Cycle:
    def __init__(self):
        self.own = self

present = [[number] for number in range(400_000)]
keep_for_good()
recent = collections.deque(maxlen=2_000)
for _ in range(300_000):
    recent.append(Cycle())
print(sum(isinstance(found, Cycle) for found in gc.get_objects()))
"""


def it_is_collected_however_many_objects_are_kept_for_good():
    done = subprocess.run([sys.executable, "-c", _RUN], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 40_000
