"""Chordwise's own services, in one table: the gateway, a worker per role, the indexer and Flower. The worker `upkeep` is the
clock as well."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass

from workers.roles import LEAN, ROLES

from .places import ROOT, VENV, StackFolder
from .probes import Probe, answers, answers_as, log_says
from .processes import Program

# A process gets no secret that it does not use: reading a worker's environment must not give operator rights.
_OPERATORS = frozenset(
    {"CHORDWISE_ADMIN_KEY", "CHORDWISE_API_KEY", "CHORDWISE_FLOWER_PASSWORD", "CHORDWISE_OIDC", "FLOWER_BASIC_AUTH"}
)
_OF_TENANTS = frozenset({"CHORDWISE_SECRET_KEY", "CHORDWISE_API_SECRETS"})
_OF_MODELS = frozenset({"OPENAI_API_KEY", "CHORDWISE_RERANK_API_KEY", "CHORDWISE_EMBEDDING_NEXT_API_KEY"})
_OF_STORES = frozenset({"CHORDWISE_MYSQL_URL", "CHORDWISE_POSTGRES_URL"})
_WORKER_READY = r"@\S+ ready\b"
_INDEXER_READY = r"indexer_(ready|not_needed)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One row of the table. ``arguments`` start with a program in `.venv/bin`; `programs` fills in `{run}` and
    `{flower_port}`. ``withheld``: variables to remove from the service's environment."""

    name: str
    arguments: tuple[str, ...]
    queues: tuple[str, ...] = ()
    withheld: frozenset[str] = _OPERATORS


def _words(command: str) -> tuple[str, ...]:
    return tuple(command.split())


def _worker(role: str, *options: str, name: str = "") -> Service:
    """Return the worker of a role of `workers.roles`; ``name`` tells a second one of the role from the first."""
    command = ("chordwise-server", "worker", "--role", role, *(("--name", name) if name else ()), *options)
    return Service(name=f"worker-{name or role}", arguments=command, queues=ROLES[role].queues)


SERVICES = (
    Service(
        name="gateway",
        arguments=("chordwise-server", "gateway"),
        withheld=_OPERATORS - {"CHORDWISE_ADMIN_KEY", "CHORDWISE_OIDC"},  # for keys of operators, and sign-on
    ),
    _worker("ingest"),
    _worker("long"),
    _worker("queries"),
    _worker("queries", name="queries-2"),
    _worker("compute"),
    _worker("upkeep", "--clock", "{run}/beat-schedule"),
    # One for each host that runs query workers.
    Service(
        name="indexer",
        arguments=("chordwise-server", "indexer"),
        withheld=_OPERATORS | _OF_TENANTS | _OF_MODELS | {"CHORDWISE_POSTGRES_URL"},
    ),
    Service(
        name="flower",
        # kwargs are the ids of tenant and job or query, and nothing else: workers/dispatch.py.
        arguments=_words(
            "celery -A workers.observer flower --address=127.0.0.1 --port={flower_port} --enable-events=False --max-tasks=10000"
            " --tasks-columns=name,kwargs,uuid,state,received,runtime,worker"
        ),
        withheld=(_OPERATORS | _OF_TENANTS | _OF_MODELS | _OF_STORES) - {"FLOWER_BASIC_AUTH"},
    ),
)


def programs(
    folder: StackFolder, environment: Mapping[str, str], *, gateway_port: int, flower_port: int, installation_id: str
) -> list[Program]:
    """Return the table as programs of one stack, whose gateway is known by the ``installation_id`` of its stores."""
    listening = {"gateway": gateway_port, "flower": flower_port}
    probes: dict[str, Probe] = {
        "gateway": answers_as(gateway_port, installation_id),
        "indexer": log_says(_INDEXER_READY),
        "flower": answers(flower_port, "/healthcheck"),
    }
    blanks = {"run": str(folder.run), "flower_port": str(flower_port)}
    return [
        Program(
            name=service.name,
            command=(
                str(VENV / "bin" / service.arguments[0]),
                *(part.format(**blanks) for part in service.arguments[1:]),
            ),
            log=folder.logs / f"{service.name}.log",
            ready=probes.get(service.name, log_says(_WORKER_READY)),
            port=listening.get(service.name),
            environment={
                name: value for name, value in {**LEAN, **environment}.items() if name not in service.withheld
            },
            cwd=ROOT,
            stop_signal=signal.SIGTERM,
            grace_s=10.0,
        )
        for service in SERVICES
    ]
