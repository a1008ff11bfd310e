"""``chordwise models``: move the installation to another embedding model, step by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from chordwise.api.migrations import EmbeddingMigration
from chordwise.cli import screen
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError, InvalidInput

models = typer.Typer(
    help="Move the installation to another embedding model. Reads CHORDWISE_ADMIN_KEY, or else CHORDWISE_API_KEY of a"
    " key with the scope operator.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Number = Annotated[int | None, typer.Argument(metavar="[NUMBER]", help="Which move; default: the latest.")]


@models.command()
def migrate(
    provider: Annotated[str, typer.Option("--provider", help="local or openai.")],
    model: Annotated[str, typer.Option("--model", help="Its name: docs/embedding.md, or at the service.")],
    dimension: Annotated[int, typer.Option("--dimension", min=1, help="Length of its vectors.")],
    service: Annotated[
        str, typer.Option("--service", help="default, or next: the one at CHORDWISE_EMBEDDING_NEXT_BASE_URL.")
    ] = "default",
    as_json: screen.Json = False,
) -> None:
    """Begin to make the vectors of another model beside those in use."""
    with screen.connect_as_operator() as client:
        _show(client.start_migration(provider=provider, model=model, dimension=dimension, service=service), as_json)


@models.command()
def status(number: Number = None, as_json: screen.Json = False) -> None:
    """How far a move is."""
    with screen.connect_as_operator() as client:
        _show(_chosen(client, number), as_json)


@models.command()
def compare(
    number: Number = None,
    queries: Annotated[
        Path | None,
        typer.Option("--queries", help="JSON Lines: tenant_id, namespaces, query_text, and relevant if judged."),
    ] = None,
    sample: Annotated[int, typer.Option("--sample", min=1, max=500, help="Without --queries: how many to take.")] = 50,
    min_overlap: Annotated[float | None, typer.Option("--min-overlap", min=0, max=1)] = None,
    max_ndcg_loss: Annotated[float | None, typer.Option("--max-ndcg-loss", min=0, max=1)] = None,
    as_json: screen.Json = False,
) -> None:
    """Ask both models the same questions. Exits with 1 if the new one does not pass."""
    options: dict[str, Any] = {"queries": _read(queries)} if queries else {"sample": sample}
    options |= {"min_overlap": min_overlap, "max_ndcg_loss": max_ndcg_loss}
    given = {name: value for name, value in options.items() if value is not None}
    with screen.connect_as_operator() as client:
        found = client.steer_migration(_chosen(client, number).number, "compare", **given)
    _show(found, as_json)
    if found.comparison is None or not found.comparison.passed:
        raise ChordwiseError(f"the new model does not pass: {found.comparison and found.comparison.reason}")


@models.command()
def switch(
    number: Number = None,
    skip_gate: Annotated[bool, typer.Option("--skip-gate", help="Without a comparison that has passed.")] = False,
    accept_missing: Annotated[
        bool, typer.Option("--accept-missing", help="Though the model refused some chunks.")
    ] = False,
    as_json: screen.Json = False,
) -> None:
    """Let searches use the new model."""
    with screen.connect_as_operator() as client:
        chosen = _chosen(client, number).number
        _show(client.steer_migration(chosen, "switch", skip_gate=skip_gate, accept_missing=accept_missing), as_json)


@models.command()
def rollback(number: Number = None, as_json: screen.Json = False) -> None:
    """Let searches use the old model again."""
    _steer(number, "rollback", as_json)


@models.command()
def finish(number: Number = None, as_json: screen.Json = False) -> None:
    """Drop the old model's vectors; there is no way back."""
    _steer(number, "finish", as_json)


@models.command()
def abort(number: Number = None, as_json: screen.Json = False) -> None:
    """Give the move up and drop the new vectors."""
    _steer(number, "abort", as_json)


def _steer(number: int | None, what: str, as_json: bool) -> None:
    with screen.connect_as_operator() as client:
        _show(client.steer_migration(_chosen(client, number).number, what), as_json)


def _chosen(client: Chordwise, number: int | None) -> EmbeddingMigration:
    found = [each for each in client.migrations() if number in (None, each.number)]
    if not found:
        raise ChordwiseError("there is no such migration" if number else "the installation was never moved")
    return found[0]


def _read(path: Path) -> list[Any]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read as JSON Lines: {error}") from error


def _show(found: EmbeddingMigration, as_json: bool) -> None:
    if as_json:
        screen.print_json(dict(found.raw))
        return
    progress, compared = found.progress, found.comparison
    told = {
        "migration": f"{found.number}, from space {found.source}",
        "model": f"{found.model}, {found.dimension} numbers, {found.provider}",
        "state": found.state + (", in use by searches" if found.active else ""),
        "progress": f"{progress.chunks} of {progress.chunks_total} chunks, {progress.tenants_done} of"
        f" {screen.plural(progress.tenants, 'tenant')} in this pass; {progress.embedded} embedded",
        "behind": screen.plural(found.behind, "document"),
    }
    if found.missing is not None:
        told["missing"] = screen.plural(found.missing, "chunk")
    if compared is not None:
        judged = (
            "" if compared.ndcg_active is None else f", nDCG {compared.ndcg_active:.3f} → {compared.ndcg_target:.3f}"
        )
        verdict = "passed" if compared.passed else f"not passed: {compared.reason}"
        told["comparison"] = (
            f"{verdict}; overlap@{compared.k} {compared.overlap:.3f} of {compared.queries} queries{judged}"
        )
    if found.error_code is not None:
        told["waits"] = f"{found.error_code}: {found.error_detail}"
    facts = screen.table("", "")
    facts.show_header = False
    for name, value in told.items():
        facts.add_row(name, Text(screen.clean(value)))
    screen.stdout().print(facts)
