"""``chordwise verify``: compare the two stores."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated

import typer
from rich.text import Text

from chordwise.api.namespaces import Alignment
from chordwise.cli import screen
from chordwise.errors import ChordwiseError


def verify(
    namespaces: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", help="Only this namespace; repeatable. Default: all.")
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Repair the differences, then compare again.")] = False,
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
    if there are any: misplaced vectors, miscounted documents, leftover rows, wrong statistics, wrong vectors of whole
    documents. Exits with 1 if there are differences; with --repair, if any remain. A repair that would delete more than
    a small share of the tenant's data withholds those deletions until --delete-share confirms them.
    """
    if delete_share is not None and not repair:
        raise typer.BadParameter("is only allowed with --repair", param_hint="--delete-share")
    with screen.connect() as client:
        first = client.verify(namespaces or None, repair=repair, delete_share=delete_share)
        final = client.verify(namespaces or None) if repair else first
    if as_json:
        screen.print_json({**final.raw, "repaired": first.repaired, "withheld": first.withheld})
    else:
        _show(final)
        if repair:
            screen.say(f"repaired {first.repaired}")
    if not final.aligned:
        advice = "the server's logs have more about the rest" if repair else "run chordwise verify --repair"
        if first.withheld:
            advice = (
                f"{first.withheld} vectors and rows of chunks were not deleted, as they are too large a share: is this the"
                " right MySQL, and is its backup complete? If so, chordwise verify --repair --delete-share 1.0 deletes them"
            )
        raise ChordwiseError(f"the stores differ ({_counts(final)}); {advice}")
    if not as_json:
        screen.say(f"aligned: {_counts(final)}")


def _show(alignment: Alignment) -> None:
    if not alignment.namespaces:
        screen.say("No namespaces.")
        return
    counts, differences = ("documents", "chunks", "vectors"), ("missing", "orphaned", "stale")
    rows = (
        (
            *(row.namespace, *(getattr(row, name) for name in counts)),
            *(Text(str(count), style="bold red" if count else "") for count in attrgetter(*differences)(row)),
        )
        for row in alignment.namespaces
    )
    screen.print_table(("namespace", *counts, *differences), rows, numbers=(*counts, *differences))


def _counts(alignment: Alignment) -> str:
    usual = [f"{getattr(alignment, kind)} {kind}" for kind in ("missing", "orphaned", "stale")]
    rare = ("misplaced", "miscounted", "leftover", "statistics", "document_vectors")
    return ", ".join(usual + [f"{count} {kind}" for kind in rare if (count := getattr(alignment, kind))])
