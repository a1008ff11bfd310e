"""The number of commands that counting costs Redis, the same on a fast and on a slow machine."""

from __future__ import annotations

import redis

from pipeline.metrics.definitions import METRICS
from pipeline.metrics.meter_store import Meter
from tests.conftest import redis_of_its_own


class DescribeTheCommandsOfAProcess:
    def it_sends_one_script_of_few_commands_however_much_was_counted(self, settings):
        with redis_of_its_own(settings) as url, redis.Redis.from_url(url) as client:
            for queries in (1, 1, 100):  # Redis learns the script with the first
                meter = Meter(client, soon_s=3600)  # a slow moment may be longer than the usual second
                with client.monitor() as sent:
                    for _ in range(queries):
                        for spec in METRICS.values():
                            count = meter.observe if spec.kind == "histogram" else meter.count
                            count(spec.name, 1.0, **dict.fromkeys(spec.labels, "x"))
                    meter.close()
                    client.echo("end")
                    commands = []
                    while not (command := sent.next_command())["command"].startswith("ECHO"):
                        if command["db"] == client.get_connection_kwargs()["db"]:
                            commands.append(command["command"].split()[0].upper())
            # A new connection, after a slow moment, selects its database first; another test that looks for a database of its
            # own tries to take this one.
            assert [name for name in commands if name not in ("SELECT", "SET")] == [
                "EVALSHA",
                "HLEN",
                "HMGET",
                "HSET",
                "HMGET",
                "HSET",
                "EXPIRE",
            ]
