"""RabbitMQ as the broker: the stack's own node, on loopback only. The installed package of the distribution, or the same
unpacked below `.local/`."""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .. import apt
from ..places import LOCAL, StackFolder
from ..probes import log_says
from ..processes import Program
from ..programs import loader_environment
from ..progress import Failure, step
from ..variables import write_private

PORTS = ("rabbitmq", "rabbitmq_nodes", "epmd")
STARTS_WITHIN_S = 180.0  # a quarter of a minute on an idle machine, loading code all the time

# Debian's path; the wrapper in /usr/sbin insists on the system's account and folders.
_SERVER = "usr/lib/rabbitmq/bin/rabbitmq-server"
_ERLANG = "usr/lib/erlang"
_UNPACKED = LOCAL / "rabbitmq"
_USER = "chordwise"
_ERLANG_APPLICATIONS = (
    *("asn1", "base", "crypto", "eldap", "ftp", "inets", "mnesia", "os-mon", "parsetools", "public-key"),
    *("runtime-tools", "snmp", "ssl", "syntax-tools", "tftp", "tools", "xmerl"),
)
PACKAGES = ("rabbitmq-server", *(f"erlang-{name}" for name in _ERLANG_APPLICATIONS))


@dataclass(frozen=True, slots=True, kw_only=True)
class RabbitMq:
    """RabbitMQ's executables. ``path``: the folder of Erlang's; ``environment``: by which unpacked ones find libraries."""

    server: Path
    epmd: Path
    path: str
    environment: Mapping[str, str] = field(default_factory=dict)


def installed() -> RabbitMq | None:
    """Return the RabbitMQ of CHORDWISE_LOCAL_RABBITMQ, that of the system, or the unpacked one; None when there is none."""
    other = os.environ.get("CHORDWISE_LOCAL_RABBITMQ", "")
    for root in (Path(other),) if other else (Path("/"), _UNPACKED):
        erlang = root / _ERLANG / "bin"
        if (root / _SERVER).is_file() and (erlang / "epmd").exists():
            environment = loader_environment(root) if root == _UNPACKED else {}
            return RabbitMq(server=root / _SERVER, epmd=erlang / "epmd", path=str(erlang), environment=environment)
    return None


def fetch_missing(*, log: Path) -> None:
    """Unpack RabbitMQ if there is none. Raises Failure."""
    if installed() is not None:
        return
    if not apt.available():
        raise Failure("RabbitMQ must be installed first (there is no apt-get here to fetch it with)")
    with step("RabbitMQ: fetching the distribution's packages into .local/rabbitmq", slow=True):
        unfinished = _UNPACKED.with_name("rabbitmq.fetched")
        apt.unpack(PACKAGES, unfinished, libraries=True, work=LOCAL / "apt-rabbitmq", log=log)
        move_erlang(unfinished, to=_UNPACKED)
        unfinished.rename(_UNPACKED)


def move_erlang(root: Path, *, to: Path) -> None:
    """Tell Erlang's start script its folder: it knows that of the package only."""
    start = root / _ERLANG / "bin" / "erl"
    text = start.read_text(encoding="utf-8")
    start.write_text(text.replace(f"ROOTDIR=/{_ERLANG}", f"ROOTDIR='{to / _ERLANG}'"), encoding="utf-8")


def _found() -> RabbitMq:
    found = installed()
    if found is None:
        raise Failure("RabbitMQ is not installed: apt-get install --no-install-recommends rabbitmq-server")
    return found


def url(password: str, *, port: int) -> str:
    """Return the broker's address, for CHORDWISE_BROKER_URL."""
    return f"amqp://{_USER}:{password}@127.0.0.1:{port}//"


def epmd(folder: StackFolder, *, port: int) -> Program:
    """Return epmd, Erlang's registry of node names. Start it first: a node without one starts one that outlives it."""
    found = _found()
    return Program(
        name="epmd",
        command=(str(found.epmd), "-port", str(port), "-address", "127.0.0.1", "-d"),
        log=folder.logs / "epmd.log",
        ready=log_says(r"epmd running"),
        environment=_erlang(found, folder, epmd_port=port),
        cwd=Path("/"),
    )


def program(folder: StackFolder, password: str, *, port: int, nodes_port: int, epmd_port: int) -> Program:
    """Return the server as a Program. Write its settings, with the password, into a file for its owner only."""
    found = _found()
    data = folder.data / "rabbitmq"
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    cookie = data / ".erlang.cookie"
    if not cookie.exists():
        write_private(cookie, secrets.token_hex(20))
    cookie.chmod(0o600)  # Erlang accepts no other mode
    settings = folder.run / "rabbitmq.conf"
    write_private(settings, configuration(password, port=port))
    return Program(
        name="rabbitmq",
        command=(str(found.server), "-noinput"),
        log=folder.logs / "rabbitmq.log",
        ready=log_says(r"Server startup complete"),
        environment={
            **_erlang(found, folder, epmd_port=epmd_port),
            "HOME": str(data),
            "RABBITMQ_NODENAME": f"chordwise-{port}@localhost",
            "RABBITMQ_CONFIG_FILE": str(settings),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_MNESIA_BASE": str(data / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder.logs),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(data / "enabled_plugins"),
            "RABBITMQ_DIST_PORT": str(nodes_port),
            "RABBITMQ_ALLOW_INPUT": "1",  # so that the started process is the server itself and receives signals
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1",
        },
        cwd=Path("/"),
        grace_s=20.0,
        umask=0o077,  # it makes a second log, of upgrades
    )


def configuration(password: str, *, port: int) -> str:
    """Return the settings file: one listener on loopback, one user, and the lines of CHORDWISE_LOCAL_RABBITMQ_SETTINGS."""
    return f"""listeners.tcp.1 = 127.0.0.1:{port}
default_user = {_USER}
default_pass = {password}
log.console = true
log.console.level = info
vm_memory_high_watermark.absolute = 512MB
disk_free_limit.absolute = 50MB
{os.environ.get("CHORDWISE_LOCAL_RABBITMQ_SETTINGS", "")}
"""


def _erlang(found: RabbitMq, folder: StackFolder, *, epmd_port: int) -> dict[str, str]:
    return {
        **found.environment,
        "PATH": f"{found.path}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "LC_ALL": "C.UTF-8",
        "HOME": str(folder.data),
        "ERL_EPMD_PORT": str(epmd_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
    }
