"""Readings of a running stack: a number for everything that could grow, by name. Linux only, because it reads /proc."""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis
from sqlalchemy import text

from benchmarks.processes import trees
from pipeline.resources import Resources
from pipeline.settings import load

Reading = dict[str, float]
_MB = 2**20
_ESTABLISHED = "01"  # in /proc/net/tcp
# Ids of tenants, queries, jobs and digests, and minutes: keys that differ in nothing else are counted together.
_VARYING = re.compile(r"(?<![A-Za-z])[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{16,}|\d{5,}")
_OF_A_TENANT = re.compile(r"^(?:test|soak)-[^:]+")


class Figures:
    """Connections of their own to the stores, and the stack's folder."""

    def __init__(self, use: Resources) -> None:
        self._use = use
        self._stack = Path(os.environ["CHORDWISE_STACK_DIR"])
        settings = load()
        self._redis = redis.Redis.from_url(settings.redis_url.get_secret_value(), decode_responses=True)
        self._ports = {
            urlsplit(url.get_secret_value()).port: name
            for name, url in (
                ("mysql", settings.mysql_url),
                ("postgres", settings.postgres_url),
                ("redis", settings.redis_url),
            )
        }

    def read(self) -> Reading:
        """Return every figure. Raises OSError, RedisError or SQLAlchemyError if a store does not answer."""
        found: Counter[str] = Counter()
        found.update(self._processes())
        for more in (self._redis_figures(), self._mysql(), self._postgres(), self._files()):
            found.update(more)
        return dict(found)

    def _processes(self) -> Reading:
        """Memory, threads, open files and connections of each service, the sum of its processes."""
        found: Reading = defaultdict(float)
        own = os.getpid()
        state = json.loads((self._stack / "run" / "state.json").read_text())
        for name, pids in {**trees(), "supervisor": [int(state["supervisor"]["pid"])]}.items():
            for pid in pids:
                with suppress(OSError):  # it ended meanwhile
                    if pid == own:
                        continue
                    memory = _memory_mb(pid)
                    found[f"memory/{name}"] += memory["Pss_Anon"]
                    found[f"memory with files/{name}"] += memory["Pss"]
                    found[f"processes/{name}"] += 1
                    found[f"threads/{name}"] += len(os.listdir(f"/proc/{pid}/task"))
                    found[f"open files/{name}"] += len(os.listdir(f"/proc/{pid}/fd"))
                    for store in self._connections(pid):
                        found[f"connections/{name} to {store}"] += 1
        return dict(found)

    def _connections(self, pid: int) -> Iterator[str]:
        """Yield the store at the other end of each connection of a process."""
        inodes = set()
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                inodes.add(os.readlink(entry))
        for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            store = self._ports.get(int(fields[2].rpartition(":")[2], 16))
            if store and fields[3] == _ESTABLISHED and f"socket:[{fields[9]}]" in inodes:
                yield store

    def _redis_figures(self) -> Reading:
        info: dict[str, Any] = self._redis.info()  # type: ignore[assignment]
        found: Reading = defaultdict(float)
        keys = list(self._redis.scan_iter(count=1000))
        for begin in range(0, len(keys), 500):
            some = keys[begin : begin + 500]
            with self._redis.pipeline(transaction=False) as pipe:
                for key in some:
                    pipe.memory_usage(key, samples=0)
                for key, size in zip(some, pipe.execute(), strict=True):
                    found[f"redis keys/{prefix(key)}"] += 1
                    found[f"redis memory/{prefix(key)}"] += (size or 0) / _MB
        channels: list[str] = self._redis.pubsub_channels()  # type: ignore[assignment]
        subscribers: list[tuple[str, int]] = self._redis.pubsub_numsub(*channels)  # type: ignore[assignment]
        return {
            **found,
            "redis/keys": len(keys),
            "redis/memory": (info["used_memory"] - info["used_memory_overhead"]) / _MB,
            "redis/overhead": info["used_memory_overhead"] / _MB,
            "redis/clients": info["connected_clients"],
            "redis/channels": len(channels),
            "redis/subscriptions": sum(count for _, count in subscribers),
            "disk/redis append-only file": info.get("aof_current_size", 0) / _MB,
        }

    def _mysql(self) -> Reading:
        with self._use.mysql.connect() as connection:
            tables = connection.execute(text("SHOW TABLES")).scalars().all()
            found = {
                f"mysql rows/{table}": float(connection.execute(text(f"SELECT COUNT(*) FROM `{table}`")).scalar_one())
                for table in tables
            }
            status: dict[str, str] = dict(connection.execute(text("SHOW GLOBAL STATUS")).tuples().all())
            pool = float(connection.execute(text("SELECT @@innodb_buffer_pool_size")).scalar_one())
        found["mysql/connections"] = float(status["Threads_connected"])
        found["mysql/history list"] = float(status.get("Innodb_history_list_length", 0))
        found["mysql/page cache"] = float(status["Innodb_buffer_pool_bytes_data"]) / _MB
        # Its memory without pages of tables and InnoDB's descriptions of them, added up by read.
        pages = float(status["Innodb_buffer_pool_pages_total"]) * float(status["Innodb_page_size"])
        found["memory/mariadb"] = -found["mysql/page cache"] * pool / pages
        return found

    def _postgres(self) -> Reading:
        with self._use.postgres.connect() as connection:
            tables = connection.execute(
                text("SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables")
            ).all()
            states = connection.execute(
                text(
                    "SELECT COALESCE(state, 'none'), COUNT(*) FROM pg_stat_activity WHERE datname IS NOT NULL GROUP BY 1"
                )
            ).all()
            rows = {
                f"postgres rows/{name}": float(connection.execute(text(f'SELECT COUNT(*) FROM "{name}"')).scalar_one())
                for name, _ in tables
            }
        return {
            **rows,
            **{f"disk/postgres {name}": size / _MB for name, size in tables},
            "postgres/connections": float(len(states)),
            "postgres/idle in transaction": float(states.count("idle in transaction")),
        }

    def _files(self) -> Reading:
        """Sizes of logs, of the keyword index, and of what the servers write."""
        found = {f"log/{file.name.partition('.')[0]}": 0.0 for file in self._stack.glob("logs/*")}
        for file in self._stack.glob("logs/*"):
            found[f"log/{file.name.partition('.')[0]}"] += file.stat().st_size / _MB
        index = self._stack / "keyword-index"
        found["disk/keyword index"] = _size_mb(index)
        found["disk/keyword index files"] = float(sum(1 for file in index.rglob("*") if file.is_file()))
        data = self._stack / "data"
        tables = data / "mariadb" / "chordwise"
        found["disk/mysql full-text index"] = _size_mb(tables, "FTS_*")
        found["disk/mysql tables"] = _size_mb(tables) - found["disk/mysql full-text index"]
        found["disk/mysql shared"] = _size_mb(data / "mariadb", "ib*")
        home = _working_folder(trees().get("postgres", []))
        if home is not None:
            found["disk/postgres WAL"] = _size_mb(home / "pg_wal")
            found["disk/postgres temporary files"] = _size_mb(home / "base" / "pgsql_tmp")
        return found


def prefix(key: str) -> str:
    """Return a key of Redis without what differs from tenant to tenant and from query to query."""
    return _VARYING.sub("*", _OF_A_TENANT.sub("{t}", key))


def _memory_mb(pid: int) -> dict[str, float]:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(rest.split()[0]) / 1024 for name, _, rest in (line.partition(":") for line in lines)}


def _working_folder(pids: list[int]) -> Path | None:
    with suppress(OSError):
        return Path(os.readlink(f"/proc/{pids[0]}/cwd")) if pids else None
    return None


def _size_mb(folder: Path, names: str = "**/*") -> float:
    total = 0
    for file in folder.glob(names):
        with suppress(OSError):
            total += file.stat().st_size if file.is_file() else 0
    return total / _MB
