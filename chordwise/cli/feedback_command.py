"""``chordwise feedback``: say what hits were worth, and turn what was said into a judged collection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from chordwise.api.chunks import Chunk
from chordwise.api.feedback import JudgedText
from chordwise.cli import screen
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError, InvalidInput

RATINGS = ("good", "bad", "click")

app = typer.Typer(
    help="Say what hits were worth, and turn what was said into a judged collection.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def add(
    query_id: Annotated[str, typer.Argument(metavar="QUERY", help="The query's id, from its answer.")],
    rating: Annotated[str, typer.Argument(metavar="RATING", help="good, bad or click.")],
    chunk_id: Annotated[str | None, typer.Option("--chunk", help="Which hit.")] = None,
    document_id: Annotated[str | None, typer.Option("--document", help="Which document, as a whole.")] = None,
    note: Annotated[str | None, typer.Option("--note", help="Why.")] = None,
    session_id: Annotated[str | None, typer.Option("--session", help="Who says so. Default: the query's.")] = None,
    as_json: screen.Json = False,
) -> None:
    """Say what a hit of a query was worth.

    Queries are remembered for an hour by default. The same rating of the same hit by the same session counts once.
    """
    if rating not in RATINGS:
        raise typer.BadParameter("must be good, bad or click", param_hint="RATING")
    if (chunk_id is None) == (document_id is None):
        raise typer.BadParameter("either --chunk or --document is needed")
    with screen.connect() as client:
        found = client.feedback(
            query_id, rating, chunk_id=chunk_id, document_id=document_id, note=note, session_id=session_id
        )
    if as_json:
        screen.print_json(dict(found.raw))
    else:
        place = "not in the answer" if found.place is None else f"place {found.place}"
        screen.say(screen.clean(f"{found.rating}: {found.namespace}/{found.document_id}, {place}"))


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", file_okay=False, help="Where to write; made if not there.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Whose documents are judged.")],
    min_votes: Annotated[
        float | None, typer.Option("--min-votes", min=0.5, help="Least weight: a rating is 1, a click 0.5. Default 1.")
    ] = None,
    corpus: Annotated[
        bool, typer.Option("--corpus/--no-corpus", help="Also the texts, for another installation.")
    ] = False,
    as_json: screen.Json = False,
) -> None:
    """Write what people judged as a collection for eval and tune.

    DIR gets queries.jsonl and qrels.tsv, which is all that measuring the namespace itself takes, golden.jsonl for models
    compare --queries, and with --corpus corpus.jsonl.
    """
    with screen.connect() as client:
        judged = client.judgments(namespace=namespace, min_votes=min_votes)
        usable = [each for each in judged if any(grade > 0 for grade in each.relevant.values())]
        if not usable:
            raise ChordwiseError(
                f"nobody has found anything good in {namespace} yet, so there is nothing to measure by"
            )
        documents = list(_documents(client, namespace)) if corpus else None
    _write(folder, usable, documents)
    counts = {
        "queries": len(usable),
        "judgments": sum(len(each.relevant) for each in usable),
        "documents": None if documents is None else len(documents),
        "left_out": len(judged) - len(usable),
    }
    if as_json:
        screen.print_json(counts)
    else:
        told = [
            screen.plural(counts["queries"] or 0, "query", "queries"),
            screen.plural(counts["judgments"] or 0, "judgment"),
        ]
        told += [] if documents is None else [screen.plural(len(documents), "document")]
        left_out = f"; {counts['left_out']} with nothing good left out" if counts["left_out"] else ""
        screen.say(f"{', '.join(told)} in {folder}{left_out}")


def _documents(client: Chordwise, namespace: str) -> Iterable[Mapping[str, Any]]:
    """The documents as a corpus has them, their texts put together of their chunks."""
    chunks: dict[str, list[Chunk]] = {}
    for chunk in client.chunks(namespace=namespace, limit=None):
        chunks.setdefault(chunk.document_id, []).append(chunk)
    for document in client.documents(namespace=namespace, limit=None):
        text = joined(chunks.get(document.document_id, []))
        yield {"doc_id": document.document_id, "title": document.title or "", "text": text}


def joined(chunks: Iterable[Chunk]) -> str:
    """The text that these chunks and parents were cut from, each stretch once, and edited chunks whole; white space between
    them may differ."""
    pieces: list[str] = []
    reached = 0
    for chunk in sorted(chunks, key=lambda each: (each.start, -each.end)):
        if chunk.end > reached or (chunk.edited and chunk.parent_id is None):
            pieces.append(chunk.text if chunk.edited else chunk.text[max(0, reached - chunk.start) :])
            reached = max(reached, chunk.end)
    return "\n".join(pieces)


def _write(folder: Path, judged: Sequence[JudgedText], documents: Iterable[Mapping[str, Any]] | None) -> None:
    """Write the files. Raises InvalidInput."""
    unsafe = next((doc for each in judged for doc in each.relevant if "\t" in doc or "\n" in doc), None)
    if unsafe is not None:
        raise InvalidInput(f"document {unsafe!r} cannot stand in a file that is separated by tabs")
    golden = ("tenant_id", "namespaces", "query_text", "relevant")
    files = {
        "queries.jsonl": [
            json.dumps({"query_id": e.query_id, "text": e.query_text}, ensure_ascii=False) for e in judged
        ],
        "qrels.tsv": [f"{each.query_id}\t{doc}\t{grade}" for each in judged for doc, grade in each.relevant.items()],
        "golden.jsonl": [json.dumps({name: e.raw[name] for name in golden}, ensure_ascii=False) for e in judged],
    }
    if documents is not None:
        files["corpus.jsonl"] = [json.dumps(document, ensure_ascii=False) for document in documents]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in files.items():
            (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be written: {error.strerror}") from error
