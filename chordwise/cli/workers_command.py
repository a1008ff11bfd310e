"""``chordwise workers``: the running workers, and the processes that vanished."""

from typing import Annotated

import typer
from typer import Argument

from chordwise.cli import screen

workers = typer.Typer(
    help="Running workers and silent processes: list, silent, dismiss. Uses CHORDWISE_ADMIN_KEY, or else CHORDWISE_API_KEY"
    " of a key with the scope operator.",
    no_args_is_help=True,
)


@workers.command("list")
def list_workers() -> None:
    """List the running workers with host and queues."""
    with screen.connect_as_operator() as client:
        found = client.workers()
    screen.print_list(
        found,
        ("name", "host", "queues", "last seen"),
        lambda each: (each.name, each.host, ", ".join(each.queues), each.last_seen),
        empty="No worker is running.",
    )


@workers.command()
def silent() -> None:
    """List the processes of every role that vanished without ending in order."""
    with screen.connect_as_operator() as client:
        found = client.silent_processes()
    screen.print_list(
        found,
        ("host", "name", "served", "since"),
        lambda each: (each.host, each.name, ", ".join(each.served), each.since),
        empty="No process is silent.",
    )


@workers.command()
def dismiss(
    host: Annotated[str, Argument(help="Its host, as chordwise workers silent names it.")],
    name: Annotated[str, Argument(help="Its name, as chordwise workers silent names it.")],
) -> None:
    """Forget a silent process that is not to come back."""
    with screen.connect_as_operator() as client:
        client.dismiss_process(host, name)
    screen.say(f"forgotten: {name} on {host}")
