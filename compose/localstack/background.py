"""`up` and `down`: a stack whose supervisor continues after the command has returned."""

import hashlib
import secrets
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from . import probes, processes, shell, state, stopping, variables
from .endpoints import flower_login
from .install import install
from .places import ENVIRONMENT, ROOT, VENV, StackFolder, stack_names
from .progress import Failure, say, step
from .stack import Stack, end_leftovers

_UP = StackFolder("up")
_LOG = _UP.logs / "supervisor.log"
_OPERATORS = "ops"  # the tenant of the operator's key: a session of the console belongs to one


def up(*, adopt: bool = False) -> int:
    """Start the stack `up` in the background and wait until it is ready; if it already runs, only print its addresses.

    Verify the key with a real call before printing it. Raises Failure if the gateway rejects it.
    """
    install(dev=False, servers=True)
    running = state.read(_UP)
    if not (state.is_held(_UP) and running is not None and running.ready):
        code = _start_and_follow(adopt=adopt)
        if code != 0:
            return code
    _try_key()
    _print_addresses()
    return 0


def supervise(*, adopt: bool = False) -> int:
    """Run the stack until a signal ends it, as the background process of `up`. Its output is the supervisor's log."""
    with Stack("up", adopt=adopt) as stack:
        stack.start(servers_only=False)
        stack.watch()
    return 0


def down() -> int:
    """End the stack `up`, and the remains of killed commands of this checkout. Return when all processes are gone."""
    running = state.read(_UP)
    ended = 0
    if running is not None and state.is_held(_UP) and running.supervisor.alive:
        with step("stack 'up': ended", slow=True):
            processes.end_stranger(running.supervisor, grace_s=90.0)
        ended += 1
    for name in stack_names():
        folder = StackFolder(name)
        with suppress(Failure), state.held(folder):  # held by another command, so nothing in it is left over
            ended += end_leftovers(folder)
    if not ended:
        say("  nothing was running")
    return 0


def _start_and_follow(*, adopt: bool) -> int:
    """Start the supervisor unless one is starting already; repeat its output until the stack is ready or has failed."""
    _UP.make()
    seen = _LOG.stat().st_size if _LOG.exists() else 0
    supervisor: subprocess.Popen[bytes] | None = None
    if not state.is_held(_UP):
        with variables.open_log(_LOG) as log:
            supervisor = subprocess.Popen(
                [sys.executable, str(ROOT / "compose" / "local.py"), "supervise", *(["--adopt"] if adopt else [])],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                start_new_session=True,
            )
    try:
        while True:
            over = supervisor.poll() is not None if supervisor else not state.is_held(_UP)
            started = state.read(_UP)
            seen = _repeat(_LOG, seen)
            if started is not None and started.ready and started.supervisor.alive:
                return 0
            if over:
                return 1
            stopping.pause(0.1)
    except stopping.Stopped:
        if supervisor is not None:
            supervisor.terminate()
            supervisor.wait()
            _repeat(_LOG, seen)
        raise


def _repeat(log: Path, seen: int) -> int:
    """Print the additions to ``log`` after ``seen`` bytes, complaints on standard error; return the new length."""
    with log.open("rb") as file:
        file.seek(seen)
        added = file.read()
    complete = added[: added.rfind(b"\n") + 1]
    for line in complete.decode("utf-8", "replace").splitlines():
        print(line, file=sys.stderr if line.startswith("error:") else sys.stdout, flush=True)
    return seen + len(complete)


def password_notice(shown: Path, password: str, *, where: str) -> str:
    """Return the text about Flower's password: itself when it was just generated, afterwards its location. A password
    from FLOWER_BASIC_AUTH is never repeated."""
    if flower_login() is None and not shown.exists():
        shown.touch(mode=0o600)
        return f"password {password}, shown this once and kept as CHORDWISE_FLOWER_PASSWORD in {where}"
    return f"password CHORDWISE_FLOWER_PASSWORD in {where}"


def _try_key() -> None:
    """Make one real call with the key and the gateway address that `up` prints."""
    client = variables.read(ENVIRONMENT)
    port = urlsplit(client.get("CHORDWISE_URL", "")).port or 0
    status = probes.key_status(port, client.get("CHORDWISE_API_KEY", ""))
    if status == 200:
        return
    answer = f"answers {status}" if status else "does not answer"
    raise Failure(
        f"the gateway at 127.0.0.1:{port} {answer} to the key in {ENVIRONMENT.relative_to(ROOT)}: its database does not"
        " know the key, or it is not this stack's gateway; `make down` and `make up` make a new key",
        log=_UP.logs / "gateway.log",
    )


def _print_addresses() -> None:
    addresses = variables.read(_UP.environment)
    url = addresses.get("CHORDWISE_URL")
    if not url:
        raise Failure("the stack 'up' does not say where it is", log=_LOG)
    here = _UP.path.relative_to(ROOT)
    password = password_notice(
        _UP.path / "flower-told", addresses["CHORDWISE_FLOWER_PASSWORD"], where=f"{here / 'env'}"
    )
    codes = _UP.sign_in
    link = sign_in_link(url, addresses["CHORDWISE_API_KEY"], codes)
    operators = sign_in_link(url, _operator_key(addresses), codes, beside=True)
    say(
        f"Chordwise is up; `make down` ends it.\n"
        f"  sign in   {link}\n"
        f"            (tenant demo, in a browser on this machine; once, within ten minutes; `make up` prints another)\n"
        f"  operator  {operators}\n"
        f"            (in the same way; sees the whole installation, with a key of tenant {_OPERATORS})\n"
        f"  gateway   {url}\n"
        f"  console   {url}/console\n"
        f"  API docs  {url}/docs\n"
        f"  metrics   {url}/v1/metrics\n"
        f"  Flower    {addresses['CHORDWISE_FLOWER_URL']}  (user {addresses['CHORDWISE_FLOWER_USER']}, {password})\n"
        f"  key       CHORDWISE_API_KEY in {ENVIRONMENT}, tenant demo\n"
        f"  logs      {here / 'logs'}"
    )


def _operator_key(addresses: Mapping[str, str]) -> str:
    """Return an operator's key that the gateway accepts: the saved one, or a new one. Raises Failure."""
    file = _UP.run / "operator-key"
    saved = file.read_text(encoding="ascii") if file.is_file() else ""
    port = urlsplit(addresses["CHORDWISE_URL"]).port or 0
    if saved and probes.key_status(port, saved) == 200:
        return saved
    made = shell.secret_line(
        [VENV / "bin" / "chordwise-server", "key", _OPERATORS, "--operator"],
        what="making an operator's key",
        log=_UP.logs / "migrate.log",
        environment={**shell.plain_environment(), **addresses},
        cwd=ROOT,
    )
    variables.write_private(file, made)
    return made


def sign_in_link(url: str, key: str, folder: Path, *, beside: bool = False) -> str:
    """Return an address of the console that signs in with ``key``, once, within ten minutes, on this machine. Links
    that were made before end, unless it is to stand ``beside`` them.

    The code stands behind the `#`, which a browser sends to no server, and the key in no address. The name of its file
    is the hash of the code, so that reading a list of the folder signs nobody in.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for file in () if beside else folder.iterdir():
        file.unlink(missing_ok=True)
    code = secrets.token_urlsafe(32)
    variables.write_private(folder / hashlib.sha256(code.encode()).hexdigest(), key)
    return f"{url}/console/#/sign-in/{code}"
