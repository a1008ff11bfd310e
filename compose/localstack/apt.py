"""The distribution's packages, unpacked into a folder of ours: without root, and without changes to the system.

apt runs with its own lists, cache and an empty list of installed packages. Signatures are checked with the
distribution's keyring as always.
"""

from __future__ import annotations

import atexit
import re
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import shell
from .places import LOCAL
from .progress import Failure, say, step

# Of a server's dependencies, only libraries are needed. The C library stays the system's: a second one would not match
# the loader. The rest is for maintainer scripts and terminals.
_LIBRARY = re.compile(r"lib(?!c6$|c-bin$|perl|pam|debian-installer|db5|newt|slang|elogind).*(?<!-perl)")
# From the machine's own apt settings, take those about reaching the mirror and checking its dates.
_OWNER_CHOICES = re.compile(r"Acquire::(?:(?:http|https|ftp)::.*|Check-Valid-Until|Check-Date|ForceIPv[46]|Retries) ")

# The lists of the machine's own release serve everything that one command unpacks: reading them takes seconds.
_LISTS = LOCAL / "apt-lists"
_reading = threading.Lock()
_read = threading.Event()

# Where Debian and Ubuntu keep the servers and their libraries; a source with none of these belongs to a third party.
_COMPONENTS = ("main", "universe")
_ONE_LINE = re.compile(r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>.+)$")


def available() -> bool:
    """Return whether this machine has apt at all."""
    return all(shutil.which(tool) for tool in ("apt-get", "apt-cache", "dpkg-deb"))


def fetch_for_tests(
    name: str, tests: str, folder: str, fetch: Callable[[], None], *, otherwise: str = "will fail"
) -> None:
    """Fetch a tool that only tests need. A failure is printed with what those ``tests`` do ``otherwise``, and stops nothing."""
    if not available():
        say(f"  {name}: not found, and there is no apt-get to fetch it with; {tests} {otherwise}")
        return
    try:
        with step(f"{name} for tests: fetching the distribution's packages into .local/{folder}", slow=True):
            fetch()
    except Failure as failure:
        say(f"  {name}: {failure}; {tests} {otherwise}")


def unpack(
    packages: tuple[str, ...],
    into: Path,
    *,
    libraries: bool,
    work: Path,
    log: Path,
    without: re.Pattern[str] | None = None,
    suite: str = "",
) -> None:
    """Download ``packages``, with ``libraries`` also the libraries they depend on, and unpack them all below ``into``.

    ``without``: libraries to leave out, and with them their own dependencies; then dependencies are followed through
    libraries alone, which takes a few more seconds. ``into`` appears only when complete. ``work`` is scratch space,
    emptied in the end. ``suite``: another release of the distribution; its own C library comes with it, because its programs
    need one that may be newer than the system's. Raises Failure.
    """
    environment = prepare(work, suite)
    _read_lists(environment, log, suite)
    names = [_actual_name(name, environment) for name in packages]
    if missing := [wanted for wanted, name in zip(packages, names, strict=True) if not name]:
        raise Failure(f"the distribution's package sources do not offer {', '.join(missing)}", log=log)
    if suite:
        names.append("libc6")
    if libraries:
        names += _libraries_of(names, environment) if without is None else _needed_of(names, without, environment)
    debs = work / "debs"
    debs.mkdir()
    shell.run(
        ["apt-get", "-q", "download", *names], what="downloading packages", log=log, environment=environment, cwd=debs
    )
    unfinished = into.with_name(f"{into.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for deb in sorted(debs.glob("*.deb")):
        shell.run(["dpkg-deb", "-x", deb, unfinished], what=f"unpacking {deb.name}", log=log)
    shutil.rmtree(into, ignore_errors=True)
    unfinished.rename(into)
    shutil.rmtree(work, ignore_errors=True)


def _read_lists(environment: Mapping[str, str], log: Path, suite: str) -> None:
    """Read the package lists, those of the machine's own release once for all that is unpacked."""
    with _reading:
        if _read.is_set() and not suite:
            return
        command = ["apt-get", "-q", "update"]
        shell.run(command, what="reading the package lists", log=log, environment=environment, may_fail=True)
        if not suite:
            _read.set()
            atexit.register(shutil.rmtree, _LISTS, ignore_errors=True)


def sources_of(suite: str) -> str:
    """Return the machine's sources of one release with its updates and security fixes. Raises Failure without any."""
    sources = _sources()
    if f" {suite} " not in sources.one_line and suite not in sources.stanzas:
        raise Failure(f"the machine's package sources do not offer {suite}")
    return sources.one_line or sources.stanzas


def prepare(work: Path, suite: str = "") -> dict[str, str]:
    """Make the private configuration in ``work``, for the machine's release or another ``suite``; return apt's environment."""
    shutil.rmtree(work, ignore_errors=True)
    lists = work / "lists" if suite else _LISTS
    for folder in (lists / "partial", work / "cache/archives/partial", work / "sources.list.d"):
        folder.mkdir(parents=True, exist_ok=True)
    (work / "status").touch()
    sources = _sources()
    if suite:
        sources = of_suite(sources, suite)
    if sources:
        (work / "sources.list.d" / "distribution.list").write_text(sources.one_line, encoding="utf-8")
        (work / "sources.list.d" / "distribution.sources").write_text(sources.stanzas, encoding="utf-8")
        where = [f'Dir::Etc::SourceList "{work}/none";', f'Dir::Etc::SourceParts "{work}/sources.list.d";']
    else:
        where = []  # no entry looks like the distribution's own: then all of the machine's
    settings = [
        f'Dir::State "{work}";',
        f'Dir::State::Status "{work}/status";',
        f'Dir::State::Lists "{lists}";',
        f'Dir::Cache "{work}/cache";',
        'Dir::Etc::Main "/dev/null";',  # hooks of the machine's own updates, and indexes of desktop applications
        'Dir::Etc::Parts "/dev/null";',
        *where,
        'APT::Sandbox::User "root";',  # an unprivileged helper could not write below a closed home folder
        'Acquire::Languages "none";',
        'Acquire::Retries "2";',
        'Acquire::http::Timeout "20";',
        'Acquire::https::Timeout "20";',
        *(
            ['Acquire::Check-Valid-Until "false";'] if suite else []
        ),  # a mirror may be behind with the indexes of unstable
        *(line for line in shell.output(["apt-config", "dump"]).splitlines() if _OWNER_CHOICES.match(line)),
    ]
    configuration = work / "apt.conf"
    configuration.write_text("\n".join(settings) + "\n", encoding="utf-8")
    return {**shell.plain_environment(), "APT_CONFIG": str(configuration), "LC_ALL": "C.UTF-8"}


def _sources() -> Sources:
    folder = Path("/etc/apt")
    one_line = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list"))]
    stanzas = sorted((folder / "sources.list.d").glob("*.sources"))
    release = Path("/etc/os-release").read_text(encoding="utf-8") if Path("/etc/os-release").exists() else ""
    codename = re.search(r"^VERSION_CODENAME=\"?([\w-]+)", release, re.MULTILINE)
    return distribution_only(
        [path.read_text(encoding="utf-8") for path in one_line if path.is_file()],
        [path.read_text(encoding="utf-8") for path in stanzas],
        codename=codename[1] if codename else "stable",
    )


def _actual_name(name: str, environment: dict[str, str]) -> str:
    """Return ``name``, or the newest package named by it and a version, as in older releases, or an empty text."""
    names = shell.output(["apt-cache", "pkgnames", name], environment=environment).split()
    if name in names:
        return name
    versioned = [other for other in names if re.fullmatch(rf"{re.escape(name)}-[\d.]+", other)]
    return max(versioned, key=lambda other: [int(part) for part in re.findall(r"\d+", other)], default="")


def _libraries_of(names: list[str], environment: dict[str, str]) -> list[str]:
    left_out = [f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")]
    listing = shell.output(["apt-cache", "depends", "--recurse", *left_out, *names], environment=environment)
    return sorted({line for line in listing.splitlines() if _LIBRARY.fullmatch(line)} - set(names))


def _needed_of(names: list[str], without: re.Pattern[str], environment: dict[str, str]) -> list[str]:
    """Return the library packages that ``names`` need directly, and the needs of those, except for ``without``."""
    libraries: set[str] = set()
    names_to_read = names
    while names_to_read:
        command = ["apt-cache", "depends", "--important", *names_to_read]
        listing = shell.output(command, environment=environment)
        needed = re.findall(r"^ [ |](?:Pre)?Depends: ([a-z0-9][a-z0-9+.-]*)$", listing, re.MULTILINE)
        names_to_read = sorted(
            {name for name in needed if _LIBRARY.fullmatch(name) and not without.match(name)} - libraries
        )
        libraries.update(names_to_read)
    return sorted(libraries - set(names))


@dataclass(frozen=True, slots=True)
class Sources:
    """apt sources in both of its notations, ready to be written to a `.list` and a `.sources` file."""

    one_line: str
    stanzas: str

    def __bool__(self) -> bool:
        return bool(self.one_line or self.stanzas)


def distribution_only(one_line_files: list[str], stanza_files: list[str], *, codename: str) -> Sources:
    """Return the entries for release ``codename``, its updates and its security fixes, without unneeded components.

    Third parties are left out: they may be slow, broken or enormous.
    """
    suites = {codename, *(f"{codename}{ending}" for ending in ("-updates", "-security", "/updates"))}
    lines = (_line_of_release(line, suites) for text in one_line_files for line in text.splitlines())
    stanzas = (_stanza_of_release(part, suites) for text in stanza_files for part in re.split(r"\n[ \t]*\n", text))
    return Sources("".join(f"{line}\n" for line in lines if line), "\n".join(stanza for stanza in stanzas if stanza))


def of_suite(sources: Sources, suite: str) -> Sources:
    """Return the sources for another release: the same mirrors, without those of updates and of security fixes alone."""
    lines = []
    for line in sources.one_line.splitlines():
        entry = _ONE_LINE.match(line)
        if entry is not None and "-" not in entry["suite"] and "/" not in entry["suite"]:
            options = f"[{entry['options']}] " if entry["options"] else ""
            lines.append(f"deb {options}{entry['uri']} {suite} {entry['components']}\n")
    stanzas = []
    for stanza in sources.stanzas.split("\n\n"):
        suites = re.search(r"^suites: (.*)$", stanza, re.MULTILINE)
        if suites is not None and any("-" not in name and "/" not in name for name in suites[1].split()):
            stanzas.append(re.sub(r"^suites: .*$", f"suites: {suite}", stanza, flags=re.MULTILINE))
    return Sources("".join(lines), "\n\n".join(stanzas))


def _line_of_release(line: str, suites: set[str]) -> str:
    match = _ONE_LINE.match(line.partition("#")[0].strip())
    if match is None or match["suite"] not in suites:
        return ""
    components = [name for name in match["components"].split() if name in _COMPONENTS]
    options = f"[{match['options']}] " if match["options"] else ""
    return f"deb {options}{match['uri']} {match['suite']} {' '.join(components)}" if components else ""


def _stanza_of_release(stanza: str, suites: set[str]) -> str:
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line[0] in " \t":  # a continuation, as of an embedded key
            fields[name] += f"\n{line}"
        else:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    chosen_suites = [suite for suite in fields.get("suites", "").split() if suite in suites]
    components = [part for part in fields.get("components", "").split() if part in _COMPONENTS]
    if "deb" not in fields.get("types", "").split() or not chosen_suites or not components:
        return ""
    if fields.get("enabled", "yes").lower() == "no":
        return ""
    fields |= {"types": "deb", "suites": " ".join(chosen_suites), "components": " ".join(components)}
    return "".join(f"{name}: {value}\n" for name, value in fields.items())
