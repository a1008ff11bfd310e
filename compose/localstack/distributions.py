"""`make dist`: the distributions as wheels and source archives, and the JavaScript package, into `dist/`."""

import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from . import shell
from .install import PYTHON
from .places import CLIENT, DIST, LOCAL, ROOT
from .progress import Failure, say, step

JAVASCRIPT = ROOT / "clients" / "javascript"
_LOG = LOCAL / "logs" / "dist.log"
_PARTS = (CLIENT, "api_gateway", "pipeline", "workers", "celery_config.py", "pyproject.toml", "README.md")
# The tools are those of .venv, so nothing is fetched.
_BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def build() -> int:
    """Build everything from copies of the sources, so that nothing is left in them. Raises Failure."""
    DIST.mkdir(exist_ok=True)
    for old in (*DIST.glob("chordwise*.whl"), *DIST.glob("chordwise*.tar.gz"), *DIST.glob("chordwise*.tgz")):
        old.unlink()
    with tempfile.TemporaryDirectory() as scratch:
        checkout = Path(scratch) / "checkout"
        _copy_sources(checkout)
        for name, folder in (("chordwise-client", checkout / CLIENT), ("chordwise", checkout)):
            with step(name):
                _build_python(name, folder, Path(scratch))
    pack_javascript(DIST)
    for path in sorted(DIST.iterdir()):
        say(f"  {path.relative_to(ROOT)}  {path.stat().st_size / 1024:.0f} KB")
    return 0


def _copy_sources(target: Path) -> None:
    """Copy the files that git knows; without git, everything but byte code."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *_PARTS]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    names = [name for name in listing.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target / name)
    if names:
        return
    for part in _PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, target / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            target.mkdir(exist_ok=True)
            shutil.copy(ROOT / part, target / part)


def _build_python(name: str, folder: Path, scratch: Path) -> None:
    """Build the source archive, and the wheel from it: that shows that the archive is complete."""
    _run_backend("build_sdist", folder)
    (archive,) = DIST.glob(f"{name.replace('-', '_')}-[0-9]*.tar.gz")
    unpack(archive, scratch)
    _run_backend("build_wheel", scratch / archive.name.removesuffix(".tar.gz"))


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive that was made here."""
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Debian 12's Python 3.11.2 has no filters
        packed.extractall(folder)


def _run_backend(hook: str, folder: Path) -> None:
    shell.run([PYTHON, "-c", _BUILD, hook, DIST], what=f"{hook} in {folder.name}", log=_LOG, cwd=folder)


def pack_javascript(target: Path) -> Path:
    """Write the archive that `npm pack` would write, the files of package.json's list below `package/`, and return its path."""
    package = json.loads((JAVASCRIPT / "package.json").read_text(encoding="utf-8"))
    archive = target / f"{package['name']}-{package['version']}.tgz"
    with tarfile.open(archive, "w:gz") as packed:
        for name in ("package.json", *package["files"]):
            if not (JAVASCRIPT / name).is_file():
                raise Failure(f"{JAVASCRIPT / name} is missing: make client-js writes it")
            packed.add(JAVASCRIPT / name, arcname=f"package/{name}")
    return archive
