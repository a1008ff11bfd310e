"""Simulated hosts: process groups with a name, a keyword index and an allowance of processor time of their own, which share
one set of stores and one network."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from benchmarks import processes
from compose.localstack import ports

KINDS = ("gateway", "queries", "ingest", "indexer")
STORES = ("mariadb", "postgres", "redis")
EVERYTHING = float(os.cpu_count() or 1)
_UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")
_PERIOD_US, _LONG_PERIOD_US = 20_000, 100_000  # the kernel grants at least a millisecond in each
_PREFERRED = 8  # times the usual weight
_STARTS_WITHIN_S = 300.0
_ENDS_WITHIN_S = 20.0
_JOIN = ("sh", "-c", 'echo $$ > "$0" && exec "$@"')  # a process counts from its first moment, with all that it starts


class Allowance:
    """A control group that limits the processor time of its processes; version 1 or 2. Needs the right to make one. Up to
    the limit, its processes go before those of the rest of the machine, whose load would show in the figures."""

    def __init__(self, name: str) -> None:
        self._unified = _UNIFIED.exists()
        root = Path("/sys/fs/cgroup") if self._unified else Path("/sys/fs/cgroup/cpu")
        self.folder = root / f"chordwise-bench-{os.getpid()}-{name}"
        self.members = self.folder / "cgroup.procs"
        try:
            self.folder.mkdir()
            self.limit(None)
        except OSError as error:
            raise SystemExit(f"hosts: no control group for processor time can be made here: {error}") from None

    def limit(self, cores: float | None) -> None:
        """Allow so many processors' time; None for any, without preference."""
        period = _PERIOD_US if cores is None or cores >= 0.1 else _LONG_PERIOD_US
        quota = None if cores is None else max(1000, int(cores * period))
        times = 1 if cores is None else _PREFERRED
        if self._unified:
            (self.folder / "cpu.weight").write_text(str(100 * times))
            (self.folder / "cpu.max").write_text(f"{'max' if quota is None else quota} {period}")
            return
        (self.folder / "cpu.shares").write_text(str(1024 * times))
        (self.folder / "cpu.cfs_quota_us").write_text("-1")
        (self.folder / "cpu.cfs_period_us").write_text(str(period))
        (self.folder / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))

    def take(self, pids: Sequence[int]) -> None:
        """Count these processes, and all that they start from now on."""
        for pid in pids:
            with suppress(ProcessLookupError):
                self.members.write_text(str(pid))

    def held_back(self) -> tuple[int, int]:
        """Return the periods so far in which the processes wanted time, and those in which they had to wait for more."""
        found = dict(line.split() for line in (self.folder / "cpu.stat").read_text().splitlines())
        return int(found.get("nr_periods", 0)), int(found.get("nr_throttled", 0))

    def close(self) -> None:
        """Remove the group; processes that are left move to the one above."""
        for pid in self.members.read_text().split():
            with suppress(OSError):
                (self.folder.parent / "cgroup.procs").write_text(pid)
        with suppress(OSError):
            self.folder.rmdir()


@dataclass(slots=True)
class Host:
    """One simulated host: a gateway, a worker for queries, one for documents with one process, an indexer."""

    name: str
    folder: Path
    port: int
    allowance: Allowance
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def client(self) -> httpx.Client:
        """Return a client of the host's gateway, with the key of the stack's first tenant."""
        headers = {"Authorization": f"Bearer {os.environ['CHORDWISE_API_KEY']}"}
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=120)

    def start(self) -> None:
        """Start the host's processes."""
        environment = {
            **os.environ,
            "CHORDWISE_HOST_NAME": self.name,
            "CHORDWISE_KEYWORD_INDEX_DIR": str(self.folder / "keyword-index"),
            "CHORDWISE_GATEWAY_PORT": str(self.port),
            "OPENBLAS_NUM_THREADS": "1",
        }
        commands = {
            "gateway": ["gateway"],
            "queries": ["worker", "--role", "queries", "--name", f"queries-{self.name}"],
            "ingest": ["worker", "--role", "ingest", "--name", f"ingest-{self.name}", "--concurrency", "1"],
            "indexer": ["indexer"],
        }
        for kind in KINDS:
            server = [str(Path(sys.executable).parent / "chordwise-server"), *commands[kind]]
            with (self.folder / f"{kind}.log").open("wb") as log:
                self.running[kind] = subprocess.Popen(
                    [*_JOIN, str(self.allowance.members), *server],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )

    def wait(self, workers: int) -> None:
        """Wait until the gateway serves, ``workers`` workers take queries and as many take documents."""
        ends = time.monotonic() + _STARTS_WITHIN_S
        while time.monotonic() < ends:
            if ended := [kind for kind, process in self.running.items() if process.poll() is not None]:
                said = (self.folder / f"{ended[0]}.log").read_text(errors="replace")
                raise SystemExit(f"hosts: {ended[0]} of {self.name} ended: {said[-500:]}")
            with suppress(httpx.TransportError), self.client as client:
                checks = client.get("/readyz").json()["dependencies"]
                if all(checks[f"queue:{queue}"].get("workers") == workers for queue in ("recall", "answer", "ingest")):
                    return
            time.sleep(0.5)
        raise SystemExit(f"hosts: {self.name} did not start within {_STARTS_WITHIN_S:.0f} s")

    def is_indexed(self, page: str) -> bool:
        """Return whether the host's keyword index has every change, by a gateway's metrics."""
        label = re.escape(f'{{host="{self.name}"}}')
        figures = {
            name: re.search(rf"^chordwise_keyword_index_{name}{label} (\S+)$", page, re.MULTILINE)
            for name in ("lag_revisions", "built_ratio")
        }
        lag, built = (float(found[1]) if found else -1.0 for found in figures.values())
        return lag == 0.0 and built == 1.0

    def cpu_seconds(self) -> dict[str, float]:
        """Return the processor time of each kind of process so far."""
        return {kind: processes.tree_cpu_seconds(process.pid) for kind, process in self.running.items()}

    def end(self) -> None:
        """End the processes in order, or kill them."""
        for process in self.running.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        ends = time.monotonic() + _ENDS_WITHIN_S
        for process in self.running.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=max(0.1, ends - time.monotonic()))
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.allowance.close()


@contextmanager
def simulated_hosts(count: int) -> Iterator[list[Host]]:
    """Yield hosts that are not started, and end those that were."""
    reserved = ports.Reservations()
    taken: set[int] = set()
    with TemporaryDirectory(prefix="chordwise-hosts-") as folder:
        hosts: list[Host] = []
        try:
            for number in range(1, count + 1):
                name = f"host-{number}"
                (Path(folder) / name).mkdir()
                port = ports.choose([], taken, free=reserved.take)
                hosts.append(Host(name, Path(folder) / name, port, Allowance(name)))
            yield hosts
        finally:
            for host in hosts:
                host.end()
            reserved.close()


@contextmanager
def preferred_stores() -> Iterator[Mapping[str, Allowance]]:
    """Give the stores, and this process, groups of their own until the block ends; yield those of the stores."""
    members = {name: processes.trees()[name] for name in STORES} | {"client": [os.getpid()]}
    allowances = {name: Allowance(name) for name in members}
    try:
        for name, allowance in allowances.items():
            allowance.take(members[name])
            allowance.limit(EVERYTHING)
        yield {name: allowances[name] for name in STORES}
    finally:
        for allowance in allowances.values():
            allowance.limit(None)
            allowance.close()
