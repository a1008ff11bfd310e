"""The server's command line, `chordwise-server`: start a role, migrate the schemas, back up, restore, make a first key."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline import local_stack
from pipeline.errors import PipelineError
from workers.roles import LEAN, ROLES, clock_command, worker_command

if TYPE_CHECKING:
    from pipeline.settings import Settings

# Commands that a person gives in a shell, and no supervisor starts with settings of its own.
_FOR_OPERATORS = ("backup", "restore", "key")
_EPILOG = (
    "Settings come from the environment; .env.example lists them. Without any address of a server there, key, "
    "backup and restore use the servers of `make up`. Exit code 1 with one sentence if it fails."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Roles replace this process, so that signals reach them. Exit code 0 when done, 1 with one
    sentence on standard error when not, 2 for a wrong call."""
    chosen = parser().parse_args(arguments)
    if chosen.command in _FOR_OPERATORS and (sentence := local_stack.adopt()):
        print(f"{chosen.command}: {sentence}", file=sys.stderr)  # noqa: T201
    run: Callable[[argparse.Namespace], int] = chosen.run
    try:
        return run(chosen)
    except PipelineError as error:
        return _refused(f"{chosen.command}: {error}")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; ``run`` of its result runs the command."""
    whole = argparse.ArgumentParser(prog="chordwise-server", description=__doc__, epilog=_EPILOG)
    commands = whole.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], about: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=about, description=about, epilog=_EPILOG)
        added.set_defaults(run=run, command=name)
        return added

    command("gateway", lambda _: _become([sys.executable, "-m", "api_gateway"]), "serve HTTP")
    worker = command("worker", _worker, "take tasks of one role from the broker")
    worker.add_argument("--role", required=True, choices=list(ROLES), help="decides its queues and its pool")
    worker.add_argument("--name", default="", help="unique on its host; by default the role's name")
    worker.add_argument("--concurrency", type=_positive, default=0, help="processes or threads; by default the role's")
    about_clock = "be a clock as well: a file for the times of the last messages"
    worker.add_argument("--clock", default="", metavar="SCHEDULE", help=about_clock)
    command("indexer", lambda _: _become([sys.executable, "-m", "workers.indexer"]), "keep this host's keyword index")
    clock = command("clock", _clock, "send periodic tasks; of several clocks one is active")
    clock.add_argument("--schedule", type=Path, required=True, help="a file for the times of the last messages")
    migrate = command("migrate", _migrate, "bring both schemas to this version")
    about_actions = (
        "plan: print the missing revisions; upgrade: apply them; downgrade: go back to --to; check: exit with 1 unless the "
        "schemas match; adopt: let PostgreSQL and Redis of another installation become this MySQL's"
    )
    migrate.add_argument("action", choices=["plan", "upgrade", "downgrade", "check", "adopt"], help=about_actions)
    about_to = "of downgrade: mysql:0034; base drops every table"
    migrate.add_argument("--to", action="append", default=[], metavar="SIDE:REVISION", help=about_to)
    backup = command("backup", _back_up, "write both databases into a new folder")
    restore = command("restore", _restore, "load a backup into two empty databases and repair what differs")
    for dump in (backup, restore):
        dump.add_argument("folder", type=Path, help="the backup's folder")
    key = command("key", _key, "create a tenant, and print a new key for it")
    key.add_argument("tenant", help="its id; an existing one gets a further key")
    key.add_argument("--operator", action="store_true", help="the key may also do what concerns all tenants")
    return whole


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _become(command: list[str]) -> int:
    """Replace this process by a command of the same installation, which allocates sparingly unless told otherwise."""
    os.environ.update({**LEAN, **os.environ})
    beside = Path(sys.executable).parent / command[0]
    program = str(beside) if beside.exists() else shutil.which(command[0]) or command[0]
    try:
        os.execv(program, [program, *command[1:]])
    except OSError as error:
        return _refused(f"{command[0]}: {error.strerror}")


def _worker(chosen: argparse.Namespace) -> int:
    return _become(worker_command(chosen.role, name=chosen.name, concurrency=chosen.concurrency, clock=chosen.clock))


def _clock(chosen: argparse.Namespace) -> int:
    return _become(clock_command(str(chosen.schedule)))


def _migrate(chosen: argparse.Namespace) -> int:
    from pipeline.maintenance import migrate_schema

    return migrate_schema.main([chosen.action, *(f"--to={word}" for word in chosen.to)])


def _key(chosen: argparse.Namespace) -> int:
    from pipeline.tenants import bootstrap

    return bootstrap.main([chosen.tenant, *(["--operator"] if chosen.operator else [])])


def _back_up(chosen: argparse.Namespace) -> int:
    from pipeline.maintenance.back_up import back_up

    manifest = back_up(_settings(), chosen.folder)
    size = sum(file.stat().st_size for file in chosen.folder.iterdir())
    print(f"installation {manifest.installation_id}: {size / 1e6:.1f} MB in {chosen.folder}")  # noqa: T201
    return 0


def _restore(chosen: argparse.Namespace) -> int:
    from chordwise.contract.namespace import Alignment
    from pipeline.maintenance.back_up import restore
    from pipeline.records import TenantId

    def report(tenant_id: TenantId, result: Alignment) -> None:
        documents = sum(namespace.documents for namespace in result.namespaces)
        print(f"tenant {tenant_id}: {documents} documents, {result.repaired} differences repaired")  # noqa: T201

    manifest = restore(chosen.folder, _settings(), on_tenant=report)
    print(f"installation {manifest.installation_id} as of {manifest.made_at}")  # noqa: T201
    return 0


def _settings() -> Settings:
    """Return the settings after sending log lines to standard error, apart from the output of the command."""
    from pipeline.settings import settings
    from pipeline.telemetry.logs import configure_logging

    configure_logging(settings().log_level, service="server")
    return settings()


def _refused(sentence: str) -> int:
    print(sentence, file=sys.stderr)  # noqa: T201 - the one sentence an operator looks for
    return 1


if __name__ == "__main__":
    sys.exit(main())
