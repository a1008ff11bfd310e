"""`make image`: carry out the Dockerfile here without an engine's daemon, and list what the image holds.

By default the base is made of the distribution's packages, because a registry may be out of reach: Debian 12 with its own
Python 3.11. The wheels are fetched beforehand, so that no step of the Dockerfile has a network.
"""

import json
import tempfile
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import quote

from . import apt, shell
from .install import PYTHON
from .places import DIST, LOCAL, ROOT
from .progress import Failure, say, step
from .servers import podman

_LOG = LOCAL / "logs" / "image.log"
_FOLDER = LOCAL / "image"
_RELEASE = "bookworm"
_BASE = f"localhost/chordwise-base:{_RELEASE}"
_BASE_PACKAGES = "python-is-python3,python3-venv,ca-certificates,netbase,tzdata"
# As in the slim images of registries.
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")
PIP_SECRET = "[global]\nno-index = true\nfind-links = /mnt\n"
_SBOM_LOCK = ROOT / "compose" / "sbom" / "requirements.lock"
_SPEC = "1.6"
_TARGET = '#!/bin/sh\nPYTHONPATH=/app exec /opt/chordwise/bin/python "$@"\n'
_VALIDATE = f"""import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
sys.exit(str(JsonStrictValidator(SchemaVersion.V{_SPEC.replace(".", "_")}).validate_str(sys.stdin.read()) or "") or 0)
"""
# Python and the system first, because a base may have a Python that is none of its packages.
_DEBIAN = r""". /etc/os-release && echo "$ID $VERSION_ID" && python -c 'import platform; print(platform.python_version())' &&
dpkg-query --show --showformat='${Package}\t${Version}\t${Architecture}\t${source:Package}\n'"""


def tag() -> str:
    """Return the image's name here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return f"localhost/{project['name']}:{project['version']}"


def build(*, base: str) -> int:
    """Build the image and its bill of materials upon ``base``, by default one made here. Raises Failure."""
    engine, image = podman.fetch_missing(), tag()
    _FOLDER.mkdir(parents=True, exist_ok=True)
    if not base:
        _make_base(engine)
    wheels = _packages(ROOT / "requirements.lock", _FOLDER / "wheels", "download", "--dest")
    with step(f"{image} by compose/Dockerfile, without a network", slow=True), tempfile.TemporaryDirectory() as scratch:
        secret = Path(scratch) / "pip.conf"
        secret.write_text(PIP_SECRET, encoding="utf-8")
        options = [f"--tag={image}", f"--file={ROOT / 'compose/Dockerfile'}", "--format=docker", "--network=none"]
        options.append(f"--build-arg=PYTHON_IMAGE={base or _BASE}")
        options += [f"--volume={wheels}:/mnt:ro", f"--secret=id=pip,src={secret}"]
        shell.run([engine, "build", *options, ROOT], what="building the image", log=_LOG)
    size = int(shell.output([engine, "image", "inspect", "--format", "{{.Size}}", image]))
    bill = _write_bill(engine, image)
    say(f"  {image}: {size / 1e6:.0f} MB; run it with {engine.relative_to(ROOT)}")
    say(f"  {bill.relative_to(ROOT)}: {len(json.loads(bill.read_text(encoding='utf-8'))['components'])} components")
    return 0


def _make_base(engine: Path) -> None:
    """Import a minimal system with Python, unless that was done before."""
    if shell.output([engine, "images", "--quiet", _BASE]):
        return
    if not apt.available():
        raise Failure("there is no apt here to make a base with; --base names another one")
    program, environment = podman.mmdebstrap()
    archive = _FOLDER / "base.tar"
    options = [f"--dpkgopt={option}" for option in ("force-unsafe-io", *(f"path-exclude={path}" for path in _LEFT_OUT))]
    options.append(f"--include={_BASE_PACKAGES}")
    with step(f"Debian {_RELEASE} with Python, from the distribution's mirror", slow=True):
        command: shell.Command = [program, "--variant=minbase", "--mode=root", *options, _RELEASE, archive, "-"]
        sources = apt.sources_of(_RELEASE)
        shell.run(command, what="making a base", log=_LOG, environment=environment, stdin=sources)
        shell.run([engine, "import", archive, _BASE], what="importing the base", log=_LOG)
        archive.unlink()


def _packages(lock: Path, into: Path, action: str, option: str) -> Path:
    """Let pip `download` or `install` what ``lock`` names for the image's Python into a folder; once for each lock."""
    stamp = into / "lock"
    wanted = lock.read_text(encoding="utf-8")
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return into
    flags = ["--quiet", "--require-hashes", "--no-deps", "--only-binary=:all:", "--python-version=3.11"]
    with step(f"packages of {lock.relative_to(ROOT)} into {into.relative_to(ROOT)}", slow=True):
        shell.run(["rm", "-rf", into], what="removing older packages", log=_LOG)
        into.mkdir(parents=True)
        command: shell.Command = [PYTHON, "-m", "pip", action, *flags, option, into, "--requirement", lock]
        shell.run(command, what=f"pip {action}", log=_LOG)
    stamp.write_text(wanted, encoding="utf-8")
    return into


def _write_bill(engine: Path, image: str) -> Path:
    """Write the bill of materials as CycloneDX, unless it is there: Python's packages, listed in the image and Debian's."""
    name, version = image.removeprefix("localhost/").split(":")
    bill = DIST / f"{name}-{version}.image.cdx.json"
    digest = shell.output([engine, "image", "inspect", "--format", "{{.Digest}}", image]).strip()
    purl = f"pkg:oci/{name}@{quote(digest, safe='')}?tag={version}"
    if bill.is_file() and json.loads(bill.read_text(encoding="utf-8"))["metadata"]["component"]["purl"] == purl:
        return bill
    _packages(_SBOM_LOCK, _FOLDER / "sbom" / "packages", "install", "--target")
    target = _FOLDER / "sbom" / "python"
    target.write_text(_TARGET, encoding="utf-8")
    target.chmod(0o755)
    run: list[str | Path] = [engine, "run", "--rm", "--interactive", "--network=none", "--no-healthcheck"]
    tools = ["--volume", f"{target.parent}:/sbom:ro", "--env=PYTHONPATH=/sbom/packages", image]
    with step("bill of materials", slow=True):
        environment = ["python", "-m", "cyclonedx_py", "environment", "--spec-version", _SPEC, "/sbom/python"]
        whole: dict[str, Any] = json.loads(_printed([*run, *tools, *environment]))
        system, python, *packages = _printed([*run, image, "sh", "-c", _DEBIAN]).splitlines()
        whole["components"] += [_debian_component(*line.split("\t")) for line in packages]
        for kind, (part, number) in (("operating-system", system.split()), ("platform", ("cpython", python))):
            whole["components"].append({"bom-ref": kind, "type": kind, "name": part, "version": number})
        component = {"bom-ref": "image", "type": "container", "name": name, "version": version, "purl": purl}
        whole["metadata"]["component"] = component
        text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
        shell.run([*run, *tools, "python", "-c", _VALIDATE], what="checking the bill", log=_LOG, stdin=text)
    DIST.mkdir(exist_ok=True)
    bill.write_text(text, encoding="utf-8")
    return bill


def _debian_component(name: str, version: str, architecture: str, source: str) -> dict[str, Any]:
    purl = f"pkg:deb/debian/{quote(name, safe='')}@{quote(version, safe='')}?arch={architecture}&distro={_RELEASE}"
    origin = [{"name": "debian:source", "value": source}]
    return {"bom-ref": purl, "type": "library", "name": name, "version": version, "purl": purl, "properties": origin}


def _printed(command: shell.Command) -> str:
    with tempfile.TemporaryFile() as printed:
        shell.run(command, what="listing what the image holds", log=_LOG, stdout=printed)
        printed.seek(0)
        return printed.read().decode()
