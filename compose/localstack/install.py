"""The virtual environment: made from the lock files, with every hash checked, and skipped when nothing has changed."""

import hashlib
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from . import apt, locks, programs, shell, stopping, variables
from .locks import DEV_LOCK, RUNTIME_LOCKS
from .places import CLIENT, LOCAL, PROJECTS, ROOT, VENV
from .progress import Failure, say, step
from .servers import browser

PYTHON = VENV / "bin" / "python"
_LOG = LOCAL / "logs" / "install.log"
_STAMP = VENV / "chordwise-stamp"
# pip reads one index page after the other; three of them at once keep two processors busy and take half the time.
_SIDE_BY_SIDE = 3
_OWN_INDEX = re.compile(r"\.(?:index-url|extra-index-url|no-index|find-links|proxy|trusted-host|client-cert)=")
_LOCKED = ("--require-hashes", "--no-deps", "--no-compile")
# Puts the checkout into sys.path. Python asks the import hook of other editable installs only after sys.path, so that in the
# folder above a checkout named chordwise `import chordwise` would find that folder, as an empty package.
_IN_PATH = "--config-settings=editable_mode=compat"


def install(*, dev: bool, servers: bool) -> None:
    """Bring the virtual environment, and ``servers`` that do not run elsewhere, up to date side by side. Raises Failure."""
    with _one_at_a_time(), ThreadPoolExecutor(max_workers=3) as beside:
        fetching = [beside.submit(programs.fetch_missing, log=LOCAL / "logs" / "servers.log")] if servers else []
        if dev:
            fetching.append(beside.submit(browser.fetch_missing, log=LOCAL / "logs" / "browser.log"))
            fetching.append(beside.submit(_fetch_tools))
        _virtual_environment(dev=dev)
        for fetched in fetching:
            fetched.result()


def _fetch_tools() -> None:
    from tests.support.servers import tools_for_tests  # in a checkout only

    tools_for_tests.fetch_missing()


# Compiled here once: otherwise each of the stack's processes compiles all of it, ten of them concurrently.
_OURS = ("api_gateway", "chordwise", "pipeline", "workers", "celery_config.py")
_LOADED = (
    "alembic.command, celery.bin.celery, celery.bin.worker, celery.beat, fastapi, flower.command, httpx,"
    " mcp.server.streamable_http_manager, numpy, psycopg, pydantic_settings, pymysql, redis.asyncio, rich,"
    " sqlalchemy, structlog, uvicorn, wordllama"
)


def up_to_date(stamp: str, wanted: str, *, dev: bool) -> bool:
    """Return whether an environment stamped ``stamp`` serves ``wanted``: the same locks, and the tools if requested."""
    made_from, _, extent = stamp.strip().partition(" ")
    return made_from == wanted and (extent == "dev" or not dev)


def fingerprint(root: Path, python: str) -> str:
    """Return a fingerprint that changes whenever an environment made in ``root`` with ``python`` would differ."""
    digest = hashlib.sha256(f"{root}\n{python}\n{_IN_PATH}\n".encode())
    for name in (*RUNTIME_LOCKS, DEV_LOCK, *PROJECTS):
        digest.update((root / name).read_bytes())
    return digest.hexdigest()


def _virtual_environment(*, dev: bool) -> None:
    wanted = fingerprint(ROOT, sys.version)
    stamp = _STAMP.read_text(encoding="ascii") if _STAMP.is_file() else ""
    if up_to_date(stamp, wanted, dev=dev):
        return
    dev = dev or stamp.strip().endswith(" dev")
    if not _usable():
        with step(f"Python {sys.version.split()[0]}: making .venv"):
            _make()
    _STAMP.unlink(missing_ok=True)
    names = [*RUNTIME_LOCKS, *([DEV_LOCK] if dev else [])]
    with step(f"Python packages from {' and '.join(names)}", slow=True):
        installer = _install_locked([(ROOT / name).read_text(encoding="utf-8") for name in names])
    with step("Chordwise into .venv"):
        alone = ("install", "--no-deps", "--no-build-isolation", "--no-compile")
        # The root first: an older one, which held the client too, goes with it.
        installer(*alone, _IN_PATH, "--editable", ".")
        installer(*alone, "--editable", f"./{CLIENT}")
    installer("check")
    with step("Byte code of what every process loads"), ThreadPoolExecutor(1) as beside:
        compiling: list[str | Path] = [PYTHON, "-m", "compileall", "-q", *_OURS]
        ours = beside.submit(shell.run, compiling, what="compiling the project", log=_LOG, cwd=ROOT)
        shell.run([PYTHON, "-c", f"import {_LOADED}"], what="loading the packages", log=_LOG, cwd=ROOT)
        ours.result()
    _STAMP.write_text(f"{wanted} {'dev' if dev else 'runtime'}\n", encoding="ascii")


def _usable() -> bool:
    """Return whether .venv is a working environment of this Python, made in this very folder."""
    installed = shell.output([PYTHON, "-c", "import sys, pip; print(sys.prefix, sys.version_info[:2])"]).strip()
    return installed == f"{VENV} {sys.version_info[:2]}"


def _make() -> None:
    """Make .venv, with pip. Debian's Python has no ensurepip without python3-venv: then pip's wheel comes from its package."""
    shutil.rmtree(VENV, ignore_errors=True)
    shell.run([sys.executable, "-m", "venv", "--without-pip", VENV], what="making the virtual environment", log=_LOG)
    wheel = _pip_wheel()
    packages = next(VENV.glob("lib/python3*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:  # installs a pure wheel, in a fraction of ensurepip's time
        archive.extractall(packages)


def _pip_wheel() -> Path:
    ensurepip = shell.output([sys.executable, "-c", "import ensurepip; print(*ensurepip.__path__)"]).strip()
    folders = [Path(ensurepip) / "_bundled"] if ensurepip else []
    fetched = LOCAL / "pip"
    for folder in (*folders, Path("/usr/share/python-wheels"), fetched / "usr/share/python-wheels"):
        if wheels := sorted(folder.glob("pip-*.whl")):
            return wheels[-1]
    if not apt.available():
        raise Failure(f"{sys.executable} comes without pip and ensurepip: install its venv package", log=_LOG)
    with step("pip: fetching the distribution's package"):
        apt.unpack(("python3-pip-whl",), fetched, libraries=False, work=LOCAL / "apt-pip", log=_LOG)
    return sorted((fetched / "usr/share/python-wheels").glob("pip-*.whl"))[-1]


def has_own_index(settings: str) -> bool:
    """Return whether pip's ``settings``, as `pip config list` prints them, say where packages come from: uv reads none."""
    return _OWN_INDEX.search(settings) is not None


def _install_locked(texts: list[str]) -> Callable[..., None]:
    """Install every entry, dependencies ignored: they are checked at the end. uv takes a tenth of pip's time; without it, and
    for an index that only pip knows, several pips do it. Return the one that did."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "entries.txt"
        if not has_own_index(shell.output([PYTHON, "-m", "pip", "config", "list"])):
            try:
                file.write_text("".join(locks.without(text, set(locks.pins(text)) - {"uv"}) for text in texts))
                _pip("install", *_LOCKED, f"--requirement={file}")
                file.write_text("".join(texts), encoding="utf-8")
                _uv("install", *_LOCKED, f"--requirement={file}")
                return _uv
            except Failure as failure:
                say(f"  {failure}; pip installs the packages instead")
        parts = locks.shares(texts, _SIDE_BY_SIDE)
        with ThreadPoolExecutor(len(parts)) as beside:
            files = [Path(folder) / f"part-{number}.txt" for number in range(len(parts))]
            for file, text in zip(files, parts, strict=True):
                file.write_text(text, encoding="utf-8")
            for done in [beside.submit(_pip, "install", *_LOCKED, f"--requirement={file}") for file in files]:
                done.result()
    return _pip


def _pip(command: str, *arguments: str) -> None:
    settings = {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_REQUIRE_VIRTUALENV": "0",
        "PIP_PROGRESS_BAR": "off",
    }
    whole: list[str | Path] = [PYTHON, "-m", "pip", command, *arguments]
    environment = shell.plain_environment() | settings
    shell.run(whole, what=f"pip {command}", log=_LOG, environment=environment, cwd=ROOT)


def _uv(command: str, *arguments: str) -> None:
    settings = {"UV_SYSTEM_CERTS": "1", "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1"}
    whole: list[str | Path] = [VENV / "bin" / "uv", "pip", command, f"--python={PYTHON}", *arguments]
    environment = shell.plain_environment() | settings
    shell.run(whole, what=f"uv pip {command}", log=_LOG, environment=environment, cwd=ROOT)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Let a second command wait until the first has installed."""
    LOCAL.mkdir(exist_ok=True)
    with (LOCAL / "install.lock").open("w") as lock:
        if not variables.try_lock(lock):
            say("  waiting for another command that is installing ...")
            while not variables.try_lock(lock):
                stopping.pause(0.2)
        yield
