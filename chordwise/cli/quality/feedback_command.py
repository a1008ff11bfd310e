"""``chordwise feedback``: rate hits, and export the ratings as a judged collection."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from chordwise.api.chunks import Chunk
from chordwise.api.feedback import JudgedText
from chordwise.cli import screen
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError, InvalidInput, file_errors

RATINGS = ("good", "bad", "click")

app = typer.Typer(
    help="Rate hits, and export the ratings as a judged collection.", no_args_is_help=True, rich_markup_mode=None
)


@app.command()
def add(
    query_id: Annotated[str, Argument(metavar="QUERY", help="The query's id, from its answer.")],
    rating: Annotated[str, Argument(metavar="RATING", help="good, bad or click.")],
    chunk_id: Annotated[str | None, Option("--chunk", help="The rated chunk.")] = None,
    document_id: Annotated[str | None, Option("--document", help="The document as a whole.")] = None,
    note: Annotated[str | None, Option("--note", help="A note with the reason.")] = None,
    session_id: Annotated[str | None, Option("--session", help="Session of the user. Default: the query's.")] = None,
) -> None:
    """Rate a hit of a query.

    The server retains queries for an hour by default. The same rating of the same hit by the same session counts once.
    """
    screen.require_choice(rating, RATINGS, "RATING")
    if (chunk_id is None) == (document_id is None):
        raise typer.BadParameter("either --chunk or --document is needed")
    with screen.connect() as client:
        stored = client.feedback(
            query_id, rating, chunk_id=chunk_id, document_id=document_id, note=note, session_id=session_id
        )
    position = "not in the answer" if stored.place is None else f"place {stored.place}"
    sentence = screen.clean(f"{stored.rating}: {stored.namespace}/{stored.document_id}, {position}")
    screen.report(stored.raw, sentence)


@app.command()
def export(
    folder: Annotated[Path, Argument(metavar="DIR", file_okay=False, help="Folder to write to; created if missing.")],
    namespace: Annotated[str, Option("--namespace", "-n", help="Namespace of the judged documents.")],
    min_votes: Annotated[
        float | None, Option("--min-votes", min=0.5, help="Minimum weight; a rating counts 1, a click 0.5. Default: 1.")
    ] = None,
    corpus: Annotated[
        bool, Option("--corpus/--no-corpus", help="Also export the texts, for another installation.")
    ] = False,
) -> None:
    """Export the judged questions as a collection for eval and tune.

    DIR gets queries.jsonl and qrels.tsv, which suffice to measure the namespace itself, golden.jsonl for models compare
    --queries, and with --corpus corpus.jsonl.
    """
    with screen.connect() as client:
        judged = client.judgments(namespace=namespace, min_votes=min_votes)
        usable = [query for query in judged if any(grade > 0 for grade in query.relevant.values())]
        if not usable:
            raise ChordwiseError(f"{namespace} has no good ratings yet, so there is nothing to measure against")
        documents = list(_documents(client, namespace)) if corpus else None
    _write(folder, usable, documents)
    counts = {
        "queries": len(usable),
        "judgments": sum(len(query.relevant) for query in usable),
        "documents": None if documents is None else len(documents),
        "left_out": len(judged) - len(usable),
    }
    if screen.as_json():
        screen.print_json(counts)
    else:
        nouns = {"queries": ("query", "queries"), "judgments": ("judgment",), "documents": ("document",)}
        written = [
            screen.plural(count, *nouns[name]) for name, count in counts.items() if name in nouns and count is not None
        ]
        left_out = f"; {counts['left_out']} with nothing good left out" if counts["left_out"] else ""
        screen.say(f"{', '.join(written)} in {folder}{left_out}")


def _documents(client: Chordwise, namespace: str) -> Iterable[Mapping[str, Any]]:
    """Return the documents in the format of a corpus, their texts joined from their chunks."""
    chunks: dict[str, list[Chunk]] = {}
    for chunk in client.chunks(namespace=namespace, limit=None):
        chunks.setdefault(chunk.document_id, []).append(chunk)
    for document in client.documents(namespace=namespace, limit=None):
        text = joined(chunks.get(document.document_id, []))
        yield {"doc_id": document.document_id, "title": document.title or "", "text": text}


def joined(chunks: Iterable[Chunk]) -> str:
    """Join chunks and parents to the text they were cut from, without overlaps; white space between them may differ."""
    pieces: list[str] = []
    reached = 0
    for chunk in sorted(chunks, key=lambda chunk: (chunk.start, -chunk.end)):
        if chunk.end > reached or (chunk.edited and chunk.parent_id is None):
            pieces.append(chunk.text if chunk.edited else chunk.text[max(0, reached - chunk.start) :])
            reached = max(reached, chunk.end)
    return "\n".join(pieces)


def _write(folder: Path, judged: Sequence[JudgedText], documents: Iterable[Mapping[str, Any]] | None) -> None:
    unsafe = next((doc for query in judged for doc in query.relevant if "\t" in doc or "\n" in doc), None)
    if unsafe is not None:
        raise InvalidInput(f"document {unsafe!r} cannot be written to a tab-separated file")
    golden = ("tenant_id", "namespaces", "query_text", "relevant")
    files = {
        "queries.jsonl": _json_lines({"query_id": query.query_id, "text": query.query_text} for query in judged),
        "qrels.tsv": [f"{query.query_id}\t{doc}\t{grade}" for query in judged for doc, grade in query.relevant.items()],
        "golden.jsonl": _json_lines({name: query.raw[name] for name in golden} for query in judged),
    }
    if documents is not None:
        files["corpus.jsonl"] = _json_lines(documents)
    with file_errors(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in files.items():
            (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _json_lines(objects: Iterable[Mapping[str, Any]]) -> list[str]:
    return [json.dumps(entry, ensure_ascii=False) for entry in objects]
