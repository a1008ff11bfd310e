"""Read the files of a branch of a git repository with the program ``git``: a shallow clone without a work tree, so that no
hook, filter, link or submodule of the repository means anything here."""

import base64
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from pipeline.errors import FetchFailed, FetchRefused, FetchUnavailable
from pipeline.outbound.addresses import Network
from pipeline.sources.entry import Entry
from pipeline.sources.folder_client import open_folder
from pipeline.sources.guard import addresses_of

SCHEMES = ("git+https", "git+http", "git+file")
_CLONE_S, _READ_S = 600.0, 60.0
_HOST = re.compile(r"[a-z0-9_][a-z0-9_.-]*")
_FILE_MODES = ("100644", "100755", "100664")


class GitReader:
    """The files of one commit."""

    def __init__(self, repository: Path, folder: str) -> None:
        self._repository = repository
        self._below = f"{folder}/" if folder else ""

    def entries(self) -> Iterator[Entry]:
        """Yield the files of the commit; the version is the hash of the content."""
        listing = ["ls-tree", "-r", "-z", "--long", "HEAD"]
        with subprocess.Popen(_git(self._repository, listing), stdout=subprocess.PIPE, env=_environment({})) as running:
            assert running.stdout is not None
            for line in _lines(running.stdout.fileno()):
                yield from self._entry(line)
        if running.returncode:
            raise FetchFailed("the repository has no commit that can be read")

    def _entry(self, line: bytes) -> Iterator[Entry]:
        about, _, name = line.partition(b"\t")
        mode, _, blob, size = about.decode().split()
        path = name.decode("utf-8", "backslashreplace")
        if not path.startswith(self._below):
            return
        path = path.removeprefix(self._below)
        if name.decode("utf-8", "replace").encode() != name:
            yield Entry(path=path, skipped="its name is not UTF-8")
        elif mode not in _FILE_MODES:
            yield Entry(path=path, skipped="it is a link or a submodule")
        else:
            yield Entry(path=path, version=blob, size=int(size))

    def read(self, path: str, most_bytes: int) -> bytes:
        """Return the content."""
        wanted = ["cat-file", "blob", f"HEAD:{self._below}{path}"]
        try:
            done = subprocess.run(
                _git(self._repository, wanted), capture_output=True, timeout=_READ_S, env=_environment({}), check=False
            )
        except subprocess.TimeoutExpired:
            raise FetchUnavailable("git did not answer in time") from None
        if done.returncode:
            raise FileNotFoundError(path)
        return done.stdout[: most_bytes + 1]


def open_repository(
    url: str, secret: Mapping[str, str], *, permitted: Sequence[Network], allowed: Sequence[Path]
) -> GitReader:
    """Clone ``git+https://host/repository[@branch][#folder]`` without its history. Raises FetchRefused, FetchFailed and
    FetchUnavailable."""
    parts = urlsplit(url.removeprefix("git+"))
    path, at, branch = parts.path.partition("@")
    if at and (not branch or branch.startswith("-")):
        raise FetchRefused("the URL names no branch behind @")
    settings = {"core.hooksPath": os.devnull, "core.fsmonitor": "false", "http.followRedirects": "false",
                "http.proxy": "", "protocol.allow": "never", f"protocol.{parts.scheme}.allow": "always",
                "safe.directory": "*", "credential.helper": "", "transfer.fsckObjects": "true"}  # fmt: skip
    if parts.scheme == "file":
        open_folder(parts._replace(path=path, fragment="").geturl(), {}, allowed=allowed)
        address = str(_own_repository(Path(unquote(path)).resolve()))
    else:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        host = _host_of(parts)
        # git looks the name up itself: it is given the address that was checked, under the very name that it looks up.
        settings["http.curloptResolve"] = f"{host}:{port}:{','.join(addresses_of(host, port, permitted))}"
        if secret:
            pair = f"{secret.get('username', '')}:{secret.get('password', secret.get('token', ''))}"
            settings["http.extraHeader"] = f"Authorization: Basic {base64.b64encode(pair.encode()).decode()}"
        shown = f"[{host}]" if ":" in host else host
        address = f"{parts.scheme}://{shown}:{port}{path}"
    target = Path(tempfile.mkdtemp(prefix="chordwise-git-"))
    command = ["clone", "--quiet", "--bare", "--depth=1", "--single-branch", "--no-tags", "--no-local"]
    command += [*(["--branch", branch] if branch else []), "--", address, str(target)]
    try:
        done = subprocess.run(
            ["git", *command], capture_output=True, timeout=_CLONE_S, env=_environment(settings), check=False
        )
    except subprocess.TimeoutExpired:
        raise FetchUnavailable(f"the repository was not cloned within {_CLONE_S:g} s") from None
    except FileNotFoundError:
        raise FetchRefused("the program git is not installed here") from None
    if done.returncode:
        raise FetchFailed("the repository, or its branch, cannot be cloned")
    return GitReader(target, parts.fragment.strip("/"))


def _own_repository(folder: Path) -> Path:
    """Return the folder in which git finds the repository. Raises FetchRefused if its objects lie in another one, which may be
    outside of the allowed folders."""
    inner = folder / ".git"
    for each in (folder, inner, inner / ".git"):
        shares = any((each / name).exists() for name in ("objects/info/alternates", "commondir"))
        parts = [each / name for name in ("", "objects", "objects/info", "objects/pack", "refs", "packed-refs")]
        if (
            shares
            or folder.is_file()
            or inner.is_file()
            or not all(part.resolve().is_relative_to(folder) for part in parts)
        ):
            raise FetchRefused("the repository shares the objects of another one: follow a whole clone of it")
    return inner if inner.is_dir() else folder


def _host_of(parts: SplitResult) -> str:
    """Return the host in ASCII, since git's own encoding of other letters differs in places. Raises FetchRefused for one that
    git would take for something else, such as ``-a``, which tells curl to forget the address of ``a``."""
    host = (parts.hostname or "").rstrip(".")
    if ":" not in host:
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            host = ""
        if not _HOST.fullmatch(host):
            raise FetchRefused("the URL names no host that git can ask")
    return host


def _git(repository: Path, command: Sequence[str]) -> list[str]:
    return ["git", "--git-dir", str(repository), *command]


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which git reads no configuration but this, which no list of processes shows."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "HOME": os.devnull,  # curl would send the passwords of ~/.netrc
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "GIT_CONFIG_COUNT": str(len(settings)),
    }
    for number, (name, value) in enumerate(settings.items()):
        environment |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return environment


def _lines(stream: int) -> Iterator[bytes]:
    """Yield what a program writes with a zero byte after each line."""
    rest = b""
    while piece := os.read(stream, 2**16):
        *whole, rest = (rest + piece).split(b"\0")
        yield from whole
