"""`python -m tests`: the whole suite, side by side where tests do not mind each other. With arguments: pytest, once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

# Tests wait for processes, deadlines and servers more than they compute. A file stays with one process, because what is
# set up for it (databases, gateways) costs more than most tests.
_TOGETHER = ("-n", "4", "--dist", "loadfile", "-m", "not alone")
_ALONE = ("-m", "alone")


def main(arguments: Sequence[str]) -> int:
    """0 if everything passed."""
    runs = [tuple(arguments)] if arguments else [_TOGETHER, _ALONE]
    codes = [subprocess.run([sys.executable, "-m", "pytest", *run], check=False).returncode for run in runs]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
