"""Start a module as systemd does, with a listening socket: `python -m tests.support.servers.hand_over FD MODULE`."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    os.dup2(int(sys.argv[1]), 3)
    os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
    os.execv(sys.executable, [sys.executable, "-m", *sys.argv[2:]])
