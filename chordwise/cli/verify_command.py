"""``chordwise verify``: do the two stores hold the same?"""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from chordwise.api.namespaces import Alignment
from chordwise.cli import screen
from chordwise.errors import ChordwiseError


def verify(
    namespaces: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", help="Only this one; repeat for more. Default: all.")
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Put right what differs, then look again.")] = False,
    delete_share: Annotated[
        float | None,
        typer.Option(
            "--delete-share",
            min=0.0,
            max=1.0,
            metavar="SHARE",
            help="With --repair: confirm that up to this share of all vectors and chunk rows may be deleted.",
        ),
    ] = None,
    as_json: screen.Json = False,
) -> None:
    """Compare the text store with the vector store.

    missing: chunks without a vector. orphaned: vectors without a chunk. stale: vectors of an older text. Named only
    where there are any: misplaced vectors, miscounted documents, leftover rows, wrong statistics, wrong
    vectors of whole documents. Exits with 1 if
    there is any; with --repair, if any is left. A repair that would delete more than a small share of what the tenant
    has withholds those deletions until --delete-share confirms them.
    """
    if delete_share is not None and not repair:
        raise typer.BadParameter("it confirms what --repair may delete", param_hint="--delete-share")
    with screen.connect() as client:
        found = client.verify(namespaces or None, repair=repair, delete_share=delete_share)
        left = client.verify(namespaces or None) if repair else found
    if as_json:
        screen.print_json({**left.raw, "repaired": found.repaired, "withheld": found.withheld})
    else:
        _show(left)
        if repair:
            screen.say(f"repaired {found.repaired}")
    if not left.aligned:
        advice = (
            "what is left needs a closer look at the server's logs" if repair else "chordwise verify --repair mends it"
        )
        if found.withheld:
            advice = (
                f"{found.withheld} vectors and rows of chunks were not deleted, as they are too large a share: is this the"
                " right MySQL, and is its backup complete? If so, chordwise verify --repair --delete-share 1.0 deletes them"
            )
        raise ChordwiseError(f"the stores differ ({_counts(left)}); {advice}")
    if not as_json:
        screen.say(f"aligned: {_counts(left)}")


def _show(alignment: Alignment) -> None:
    counts = ("documents", "chunks", "vectors", "missing", "orphaned", "stale")
    table = screen.table("namespace", *counts, numbers=counts)
    for row in alignment.namespaces:
        numbers = [Text(f"{getattr(row, name)}") for name in counts]
        for number in numbers[3:]:
            number.stylize("" if number.plain == "0" else "bold red")
        table.add_row(Text(screen.clean(row.namespace)), *numbers)
    screen.stdout().print(table if alignment.namespaces else "No namespaces.")


def _counts(alignment: Alignment) -> str:
    rare = [
        (getattr(alignment, kind), kind)
        for kind in ("misplaced", "miscounted", "leftover", "statistics", "document_vectors")
    ]
    named = "".join(f", {count} {kind}" for count, kind in rare if count)
    return f"{alignment.missing} missing, {alignment.orphaned} orphaned, {alignment.stale} stale{named}"
