"""The commands: `install`, `up`, `down`, `with`, `check`, `dist`, `image`, `lock`."""

import argparse
import re
import subprocess
import sys
import time

from . import image, shell, stopping
from .background import down, supervise, up
from .distributions import build
from .install import install
from .locks import lock
from .places import LOCAL, ROOT, VENV
from .progress import Failure, say
from .servers import rabbitmq
from .stack import Stack

_TOOLS = (
    ("format", "ruff format --check ."),
    ("lint", "ruff check ."),
    ("types", "mypy"),
    ("types of the local stack", "mypy -p compose.localstack"),
    ("import contracts", "lint-imports"),
    ("unit tests", "pytest tests/unit tests/spec"),
)


def main(arguments: list[str]) -> int:
    """Run one command. Exit code 0: done, 1: failed (one sentence on standard error), 2: usage."""
    ours, command = _split(arguments)
    parser = _parser()
    chosen = parser.parse_args(ours)
    if (chosen.action == "with") != bool(command):
        parser.error("`with` takes a command after --, and nothing else does")
    stopping.listen()
    try:
        return _run(chosen, command)
    except stopping.Stopped as stopped:
        print("stopped", file=sys.stderr)
        return stopped.exit_code
    except OSError as error:  # a full disk, or a folder of another user: the system's own message is the clearest
        print(f"error: {error.strerror}: {error.filename}", file=sys.stderr, flush=True)
        return 1
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr, flush=True)
        if failure.log is not None:
            print(f"  log: {failure.log}", file=sys.stderr, flush=True)
        return 1


def _run(chosen: argparse.Namespace, command: list[str]) -> int:
    match chosen.action:
        case "install":
            install(dev=chosen.dev, servers=not chosen.no_servers)
            return 0
        case "with":
            install(dev=chosen.dev, servers=True)
            if chosen.rabbitmq:
                rabbitmq.fetch_missing(log=LOCAL / "logs" / "install.log")
            synced, rabbit = not chosen.no_sync, chosen.rabbitmq
            with Stack(chosen.name, fresh=chosen.fresh, synced=synced, rabbitmq=rabbit) as stack:
                stack.start(servers_only=chosen.servers_only)
                return stack.run(command)
        case "up":
            return up(adopt=chosen.adopt)
        case "supervise":
            return supervise(adopt=chosen.adopt)
        case "down":
            return down()
        case "check":
            install(dev=True, servers=False)
            return _check()
        case "dist":
            install(dev=False, servers=False)
            return build()
        case "image":
            install(dev=False, servers=False)
            return image.build(base=chosen.base)
        case _:
            return lock(upgrade=chosen.upgrade)


def _check() -> int:
    """Run every tool of `make check` in turn, so that one run shows every fault; return 1 if any complains."""
    environment = shell.plain_environment()
    failed = []
    for title, command in _TOOLS:
        tool, *arguments = command.split()
        arguments = [part for part in arguments if not part.startswith("tests/") or (ROOT / part).is_dir()]
        started = time.monotonic()
        code = subprocess.call([str(VENV / "bin" / tool), *arguments], cwd=ROOT, env=environment)
        stopping.check()
        say(f"  {title}: {'ok' if code == 0 else 'FAILED'}, {time.monotonic() - started:.1f} s")
        if code != 0:
            failed.append(title)
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at + 1 :]


def _stack_name(text: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", text) or text == "up":
        raise argparse.ArgumentTypeError(
            "a stack is named with small letters, digits and hyphens; `up` is `make up`'s own"
        )
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="compose/local.py", description="The local stack: servers and services on this machine."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="COMMAND")
    installing = actions.add_parser(
        "install", help="make .venv from the lock files and fetch the servers that are missing"
    )
    installing.add_argument("--dev", action="store_true", help="with the tools for tests and checks")
    installing.add_argument("--no-servers", action="store_true", help="the Python packages alone")
    starting = actions.add_parser("up", help="start the stack in the background and print where it is")
    actions.add_parser("down", help="end it")
    using = actions.add_parser(
        "with", help="start a stack, run a command with its variables, end it: with NAME [options] -- COMMAND"
    )
    using.add_argument("name", type=_stack_name, metavar="NAME")
    using.add_argument("--fresh", action="store_true", help="with empty servers")
    using.add_argument(
        "--no-sync",
        action="store_true",
        help="with servers that do not wait for the disk; only the machine may not crash",
    )
    using.add_argument("--rabbitmq", action="store_true", help="with RabbitMQ as the broker")
    using.add_argument("--servers-only", action="store_true", help="no schemas, no services")
    using.add_argument("--dev", action="store_true", help="with the tools for tests and checks")
    actions.add_parser("check", help="format, lint, types, import contracts, unit tests")
    actions.add_parser("dist", help="build both distributions and the JavaScript package into dist/")
    building = actions.add_parser(
        "image", help="build the container image by its Dockerfile, without an engine's daemon"
    )
    building.add_argument(
        "--base", default="", metavar="IMAGE", help="upon this one with Python 3.11, by its whole name"
    )
    locking = actions.add_parser("lock", help="write the lock files anew from pyproject.toml")
    locking.add_argument("--upgrade", action="store_true", help="take the newest versions")
    supervising = actions.add_parser("supervise", help="what `up` runs in the background")
    for action in (starting, supervising):
        action.add_argument(
            "--adopt", action="store_true", help="the vectors and the Redis of another installation become this MySQL's"
        )
    return parser
