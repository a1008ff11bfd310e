"""The server's command line, `chordwise-server`: start a role, migrate the schemas, back up, restore, make a first key."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from workers.roles import ROLES, clock_command, worker_command

_EPILOG = "Settings come from the environment; docs/settings.md lists them. Exit code 1 with one sentence if it fails."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Roles replace this process, so that signals reach them. Exit code 0 when done, 1 with one
    sentence on standard error when not, 2 for a wrong call."""
    chosen = parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = chosen.run
    return run(chosen)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; ``run`` of its result runs the command."""
    whole = argparse.ArgumentParser(prog="chordwise-server", description=__doc__, epilog=_EPILOG)
    commands = whole.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], about: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=about, description=about, epilog=_EPILOG)
        added.set_defaults(run=run)
        return added

    command("gateway", lambda _: _become([sys.executable, "-m", "api_gateway"]), "serve HTTP")
    worker = command("worker", _worker, "take tasks of one role from the broker")
    worker.add_argument("--role", required=True, choices=list(ROLES))
    worker.add_argument("--name", default="", help="unique on its host; by default the role's name")
    worker.add_argument("--concurrency", type=_positive, default=0, help="processes or threads; by default the role's")
    command("indexer", lambda _: _become([sys.executable, "-m", "workers.indexer"]), "keep this host's keyword index")
    clock = command("clock", _clock, "send periodic tasks; of several clocks one is active")
    clock.add_argument("--schedule", type=Path, required=True, help="a file for the times of the last messages")
    migrate = command("migrate", _migrate, "bring both schemas to this version")
    migrate.add_argument("action", choices=["plan", "upgrade", "downgrade", "check", "adopt"])
    command("backup", _back_up, "write both databases into a new folder").add_argument("folder", type=Path)
    restore = command("restore", _restore, "load a backup into two empty databases and repair what differs")
    restore.add_argument("folder", type=Path)
    key = command("key", _key, "create a tenant, and print a new key for it")
    key.add_argument("tenant")
    key.add_argument("--operator", action="store_true", help="the key may also do what concerns all tenants")
    return whole


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _become(command: list[str]) -> int:
    """Replace this process by a command of the same installation."""
    beside = Path(sys.executable).parent / command[0]
    program = str(beside) if beside.exists() else shutil.which(command[0]) or command[0]
    try:
        os.execv(program, [program, *command[1:]])
    except OSError as error:
        return _refused(f"{command[0]}: {error.strerror}")


def _worker(chosen: argparse.Namespace) -> int:
    return _become(worker_command(chosen.role, name=chosen.name, concurrency=chosen.concurrency))


def _clock(chosen: argparse.Namespace) -> int:
    return _become(clock_command(str(chosen.schedule)))


def _migrate(chosen: argparse.Namespace) -> int:
    from pipeline.maintenance import migrate_schema

    return migrate_schema.main([chosen.action])


def _key(chosen: argparse.Namespace) -> int:
    from pipeline.tenants import bootstrap

    return bootstrap.main([chosen.tenant, *(["--operator"] if chosen.operator else [])])


def _back_up(chosen: argparse.Namespace) -> int:
    from pipeline.database.engines import engines
    from pipeline.errors import PipelineError
    from pipeline.maintenance.back_up import back_up
    from pipeline.settings import settings

    try:
        with engines(settings()) as (mysql, postgres):
            manifest = back_up(mysql, postgres, settings(), chosen.folder)
    except PipelineError as error:
        return _refused(f"backup: {error}")
    size = sum(file.stat().st_size for file in chosen.folder.iterdir())
    print(f"installation {manifest.installation_id}: {size / 1e6:.1f} MB in {chosen.folder}")  # noqa: T201
    return 0


def _restore(chosen: argparse.Namespace) -> int:
    from pipeline.database.engines import engines
    from pipeline.errors import PipelineError
    from pipeline.maintenance.back_up import restore
    from pipeline.maintenance.verify import AlignmentReport
    from pipeline.records import TenantId
    from pipeline.settings import settings

    def report(tenant_id: TenantId, result: AlignmentReport) -> None:
        documents = sum(namespace.documents for namespace in result.namespaces)
        print(f"tenant {tenant_id}: {documents} documents, {result.repaired} differences repaired")  # noqa: T201

    try:
        with engines(settings()) as (mysql, postgres):
            manifest = restore(chosen.folder, mysql, postgres, settings(), on_tenant=report)
    except PipelineError as error:
        return _refused(f"restore: {error}")
    print(f"installation {manifest.installation_id} as of {manifest.made_at}")  # noqa: T201
    return 0


def _refused(sentence: str) -> int:
    print(sentence, file=sys.stderr)  # noqa: T201 - the one sentence an operator looks for
    return 1


if __name__ == "__main__":
    sys.exit(main())
