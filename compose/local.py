#!/usr/bin/env python3
"""The local stack's command line; `make` calls it. See `python3 compose/local.py --help`.

This file is limited to syntax that old Pythons can read, so that they can report what is missing or hand over to a
newer one.
"""

import os
import shutil
import subprocess
import sys

OLDEST = (3, 11)
NAMES = ("python3", "python3.13", "python3.12", "python3.11", "python3.14")


def newer_python():
    """Return the path of a Python on PATH that is new enough, or None."""
    question = "import sys; sys.exit(sys.version_info[:2] < {!r})".format(OLDEST)  # noqa: UP032 - old Pythons read this
    for name in NAMES:
        path = shutil.which(name)
        # Version managers put names on PATH that only print a complaint, so run each one.
        if path and subprocess.call([path, "-c", question], stderr=subprocess.DEVNULL) == 0:
            return path
    return None


def main():
    """Run the command with a Python that is new enough; exit 1 when there is none."""
    if sys.version_info[:2] < OLDEST:
        path = newer_python()
        if path is None:
            sys.exit("Chordwise needs Python 3.11 or newer, and none is on PATH: install python3.11 or later.")
        os.execv(path, [path, os.path.abspath(__file__)] + sys.argv[1:])  # noqa: RUF005 - as above
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    from compose.localstack.cli import main as run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
