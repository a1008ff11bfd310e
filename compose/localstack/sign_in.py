"""The link that signs in to the console: a one-time code whose key waits in a private folder for the gateway."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

from . import variables


def link(url: str, key: str, folder: Path) -> str:
    """Return an address of the console that signs in with ``key``, once, within ten minutes, on this machine. Links
    that were made before end.

    The code stands behind the `#`, which a browser sends to no server, and the key in no address. The name of its file
    is the hash of the code, so that reading a list of the folder signs nobody in.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for file in folder.iterdir():
        file.unlink(missing_ok=True)
    code = secrets.token_urlsafe(32)
    variables.write_private(folder / hashlib.sha256(code.encode()).hexdigest(), key)
    return f"{url}/console/#/sign-in/{code}"
