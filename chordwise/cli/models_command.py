"""``chordwise models``: migrate the installation to another embedding model, step by step."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from chordwise.api.migrations import EmbeddingMigration
from chordwise.cli import screen
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError, InvalidInput

models = typer.Typer(
    help="Migrate the installation to another embedding model. Uses CHORDWISE_ADMIN_KEY, or else CHORDWISE_API_KEY of a"
    " key with the scope operator.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Number = Annotated[int | None, Argument(metavar="[NUMBER]", help="Which migration; default: the latest.")]


@models.command()
def migrate(
    provider: Annotated[str, Option("--provider", help="local or openai.")],
    model: Annotated[
        str, Option("--model", help="Name of the model: see docs/embedding.md, or the service's name for it.")
    ],
    dimension: Annotated[int, Option("--dimension", min=1, help="Length of its vectors.")],
    service: Annotated[
        str, Option("--service", help="default, or next: the one at CHORDWISE_EMBEDDING_NEXT_BASE_URL.")
    ] = "default",
) -> None:
    """Start to compute the vectors of another model beside those in use."""
    with screen.connect_as_operator() as client:
        _print(client.start_migration(provider=provider, model=model, dimension=dimension, service=service))


@models.command()
def status(number: Number = None) -> None:
    """Show the progress of a migration."""
    with screen.connect_as_operator() as client:
        _print(_find(client, number))


@models.command()
def compare(
    number: Number = None,
    queries: Annotated[
        Path | None, Option("--queries", help="JSON Lines: tenant_id, namespaces, query_text, and relevant if judged.")
    ] = None,
    sample: Annotated[
        int, Option("--sample", min=1, max=500, help="Without --queries: the number of queries to sample.")
    ] = 50,
    min_overlap: Annotated[
        float | None,
        Option(
            "--min-overlap", min=0, max=1, help="Least share of hits that both find, without judgments. Default: 0.5."
        ),
    ] = None,
    max_ndcg_loss: Annotated[
        float | None,
        Option("--max-ndcg-loss", min=0, max=1, help="Largest loss of nDCG, with judgments. Default: 0.02."),
    ] = None,
) -> None:
    """Compare both models on the same queries. Exits with 1 if the new one does not pass."""
    options: dict[str, Any] = {"queries": _read(queries)} if queries else {"sample": sample}
    limits = {"min_overlap": min_overlap, "max_ndcg_loss": max_ndcg_loss}
    options |= {name: limit for name, limit in limits.items() if limit is not None}
    migration = _steer(number, "compare", **options)
    if migration.comparison is None or not migration.comparison.passed:
        raise ChordwiseError(f"the new model does not pass: {migration.comparison and migration.comparison.reason}")


@models.command()
def switch(
    number: Number = None,
    skip_gate: Annotated[bool, Option("--skip-gate", help="Switch without a passed comparison.")] = False,
    accept_missing: Annotated[bool, Option("--accept-missing", help="Even if the model refused some chunks.")] = False,
) -> None:
    """Let searches use the new model."""
    _steer(number, "switch", skip_gate=skip_gate, accept_missing=accept_missing)


@models.command()
def rollback(number: Number = None) -> None:
    """Let searches use the old model again."""
    _steer(number, "rollback")


@models.command()
def finish(number: Number = None) -> None:
    """Drop the old model's vectors; this cannot be undone."""
    _steer(number, "finish")


@models.command()
def abort(number: Number = None) -> None:
    """Abort the migration and drop the new vectors."""
    _steer(number, "abort")


def _steer(number: int | None, step: str, **options: Any) -> EmbeddingMigration:
    with screen.connect_as_operator() as client:
        migration = client.steer_migration(_find(client, number).number, step, **options)
    _print(migration)
    return migration


def _find(client: Chordwise, number: int | None) -> EmbeddingMigration:
    for migration in client.migrations():
        if number in (None, migration.number):
            return migration
    raise ChordwiseError("there is no such migration" if number else "no model migration was ever started here")


def _read(path: Path) -> list[Any]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read as JSON Lines: {error}") from error


def _print(migration: EmbeddingMigration) -> None:
    progress, comparison = migration.progress, migration.comparison
    facts = {
        "migration": f"{migration.number}, from space {migration.source}",
        "model": f"{migration.model}, {migration.dimension} numbers, {migration.provider}",
        "state": migration.state + (", in use by searches" if migration.active else ""),
        "progress": f"{progress.chunks} of {progress.chunks_total} chunks, {progress.tenants_done} of"
        f" {screen.plural(progress.tenants, 'tenant')} in this pass; {progress.embedded} embedded",
        "behind": screen.plural(migration.behind, "document"),
    }
    if migration.missing is not None:
        facts["missing"] = screen.plural(migration.missing, "chunk")
    if comparison is not None:
        verdict = "passed" if comparison.passed else f"not passed: {comparison.reason}"
        overlap = f"overlap@{comparison.k} {comparison.overlap:.3f} of {comparison.queries} queries"
        facts["comparison"] = f"{verdict}; {overlap}"
        if comparison.ndcg_active is not None:
            facts["comparison"] += f", nDCG {comparison.ndcg_active:.3f} → {comparison.ndcg_target:.3f}"
    if migration.error_code is not None:
        facts["waits"] = f"{migration.error_code}: {migration.error_detail}"
    screen.print_facts(migration, facts)
