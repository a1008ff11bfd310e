"""The distribution's packages, unpacked into a folder of ours: without root, and without changes to the system.

apt runs with its own lists, cache and an empty list of installed packages. Signatures are checked with the
distribution's keyring as always.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from . import shell
from .apt_sources import Sources, distribution_only
from .progress import Failure

# Of a server's dependencies, only libraries are needed. The C library stays the system's: a second one would not match
# the loader. The rest is for maintainer scripts and terminals.
_LIBRARY = re.compile(r"lib(?!c6$|c-bin$|perl|pam|debian-installer|db5|newt|slang|elogind).*(?<!-perl)")
# From the machine's own apt settings, take those about reaching the mirror and checking its dates.
_OWNER_CHOICES = re.compile(r"Acquire::(?:(?:http|https|ftp)::.*|Check-Valid-Until|Check-Date|ForceIPv[46]|Retries) ")


def available() -> bool:
    """Return whether this machine has apt at all."""
    return all(shutil.which(tool) for tool in ("apt-get", "apt-cache", "dpkg-deb"))


def unpack(
    packages: tuple[str, ...],
    into: Path,
    *,
    libraries: bool,
    work: Path,
    log: Path,
    without: re.Pattern[str] | None = None,
) -> None:
    """Download ``packages``, with ``libraries`` also the libraries they depend on, and unpack them all below ``into``.

    ``without``: libraries to leave out, and with them their own dependencies; then dependencies are followed through
    libraries alone, which takes a few more seconds. ``into`` appears only when complete. ``work`` is scratch space,
    emptied in the end. Raises Failure.
    """
    environment = _prepare(work)
    shell.run(
        ["apt-get", "-q", "update"], what="reading the package lists", log=log, environment=environment, may_fail=True
    )
    names = [_actual_name(name, environment) for name in packages]
    if missing := [wanted for wanted, name in zip(packages, names, strict=True) if not name]:
        raise Failure(f"the distribution's package sources do not offer {', '.join(missing)}", log=log)
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


def _prepare(work: Path) -> dict[str, str]:
    """Make the private configuration; return apt's environment."""
    shutil.rmtree(work, ignore_errors=True)
    for folder in ("lists/partial", "cache/archives/partial", "sources.list.d"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    sources = _sources()
    if sources:
        (work / "sources.list.d" / "distribution.list").write_text(sources.one_line, encoding="utf-8")
        (work / "sources.list.d" / "distribution.sources").write_text(sources.stanzas, encoding="utf-8")
        where = [f'Dir::Etc::SourceList "{work}/none";', f'Dir::Etc::SourceParts "{work}/sources.list.d";']
    else:
        where = []  # no entry looks like the distribution's own: then all of the machine's
    settings = [
        f'Dir::State "{work}";',
        f'Dir::State::Status "{work}/status";',
        f'Dir::State::Lists "{work}/lists";',
        f'Dir::Cache "{work}/cache";',
        'Dir::Etc::Main "/dev/null";',  # hooks of the machine's own updates, and indexes of desktop applications
        'Dir::Etc::Parts "/dev/null";',
        *where,
        'APT::Sandbox::User "root";',  # an unprivileged helper could not write below a closed home folder
        'Acquire::Languages "none";',
        'Acquire::Retries "2";',
        'Acquire::http::Timeout "20";',
        'Acquire::https::Timeout "20";',
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
    """Return ``name``, or the newest package of that name with a version at its end (older releases have those), or an
    empty text."""
    known = shell.output(["apt-cache", "pkgnames", name], environment=environment).split()
    if name in known:
        return name
    versioned = [other for other in known if re.fullmatch(rf"{re.escape(name)}-[\d.]+", other)]
    return max(versioned, key=lambda other: [int(part) for part in re.findall(r"\d+", other)], default="")


def _libraries_of(names: list[str], environment: dict[str, str]) -> list[str]:
    """Return the library packages that ``names`` need, directly or not."""
    left_out = [f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")]
    listing = shell.output(["apt-cache", "depends", "--recurse", *left_out, *names], environment=environment)
    return sorted({line for line in listing.splitlines() if _LIBRARY.fullmatch(line)} - set(names))


def _needed_of(names: list[str], without: re.Pattern[str], environment: dict[str, str]) -> list[str]:
    """Return the library packages that ``names`` need directly, and the needs of those, except for ``without``."""
    found: set[str] = set()
    looking = names
    while looking:
        command = ["apt-cache", "depends", "--important", *looking]
        listing = shell.output(command, environment=environment)
        needed = re.findall(r"^ [ |](?:Pre)?Depends: ([a-z0-9][a-z0-9+.-]*)$", listing, re.MULTILINE)
        looking = sorted({name for name in needed if _LIBRARY.fullmatch(name) and not without.match(name)} - found)
        found.update(looking)
    return sorted(found - set(names))
