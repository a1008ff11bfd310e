"""``chordwise ingest``, ``export`` and ``import``: send files, web pages and archives to a namespace, and archive one."""

import codecs
import json
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from chordwise.api.archive_files import Manifest
from chordwise.api.archives import Imported
from chordwise.api.documents import is_url
from chordwise.api.files import FileSearch, find_files, read_documents
from chordwise.api.ingestion import ON_CONFLICT, IngestKeywords
from chordwise.api.jobs import Ingestion, JobItem, together
from chordwise.cli import screen
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError

Target = Annotated[str, Option("--namespace", "-n", help="The knowledge base to write to.")]
OnConflict = Annotated[
    str | None, Option("--on-conflict", help="If the document exists: replace, skip, error, or new to keep both.")
]
Reader = Annotated[list[str] | None, Option("--reader", help="A principal that may read them; repeatable.")]
_MOST_NAMES, _MOST_SKIPPED = 20, 5  # documents, and files of other kinds, named in the text output; --json has all


def ingest(
    paths: Annotated[list[str], Argument(metavar="PATH", help="Files, folders to search, or addresses (https://…).")],
    namespace: Target,
    wait: Annotated[bool, Option("--wait", help="Wait until everything is searchable.")] = False,
    type: Annotated[str | None, Option("--type", help="Type of the documents, to filter by.")] = None,
    tags: Annotated[list[str] | None, Option("--tag", help="A tag for each document; repeatable.")] = None,
    reader: Reader = None,
    on_conflict: OnConflict = None,
    priority: Annotated[str | None, Option("--priority", help="Among your own: interactive or bulk.")] = None,
    chunking: Annotated[
        str | None,
        Option("--chunking", help='How to cut them: a strategy, or JSON such as {"strategy": "window", "window": 2}.'),
    ] = None,
    charset: Annotated[str | None, Option("--charset", help="Their encoding, such as big5. Default: detected.")] = None,
    parser_hint: Annotated[
        str | None,
        Option(
            "--parser-hint",
            help="Read every file as this kind, whatever its name: a suffix such as txt, or a media type.",
        ),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print the jobs as one JSON document.")] = False,
) -> None:
    """Ingest files, folders, JSON Lines and web pages.

    Each line of a .jsonl or .jsonl.gz file is a document: {"document_id": …, "title": …, "text": …}; doc_id, id and
    _id count as document_id, a line without one gets the name of its file and its number, and unknown keys go into its
    metadata. Other files are parsed by the server: txt, md, mdx, mkd, rmd, qmd, html, xhtml, pdf, docx, docm, dotx,
    dotm, odt, ott, rtf, epub, pptx, pptm, ppsx, ppsm, potx, odp, otp, xlsx, xlsm, xltx, xltm, xlsb, xls, xlt, ods,
    ots, csv, tsv, json, geojson, ipynb, eml, mht, mhtml, and as plain text adoc, asciidoc, ass, bat, bib, c, cc, cfg,
    cjs, clj, conf, cpp, cs, css, cxx, dart, diff, env, ex, exs, fs, go, gradle, graphql, groovy, h, hh, hpp, hs, hxx,
    ics, ini, java, jl, js, json5, jsonc, jsx, kt, kts, less, log, lrc, lua, m, mjs, mts, org, pas, patch, php, pl,
    plist, po, properties, proto, ps1, psm1, py, pyi, r, rb, rs, rst, scala, scss, sh, sql, srt, ssa, sub, svelte,
    swift, tex, tf, toml, ts, tsx, vb, vcf, vtt, vue, xml, xsd, xsl, yaml, yml, zsh, and text without a suffix. In
    folders, hidden files are left out; links that lead out and other kinds are left out and named; with --parser-hint,
    files of every kind are sent. Web pages are fetched by the server.

    A document's id is its file's name below PATH. Files of one name in several folders get the folders' names in
    front, and a name that is not UTF-8 is sent with %BA for each such byte; a line names them.

    The server detects the encoding of text. With --wait, a line warns of each file with an uncertain encoding: send it
    again with --charset; and of each whose text is not complete, such as hidden rows or scanned pages. JSON Lines are
    UTF-8 unless --charset names another encoding.

    Names each line that could not be read and, with --wait, each document that could not be ingested, one a line on
    standard error, the first 20 of each (all with --json). Exits with 1 if there is one, and with 2 for wrong usage.
    """
    screen.require_choice(on_conflict, ON_CONFLICT, "--on-conflict")
    if charset is not None and not _is_encoding(charset):
        raise typer.BadParameter(f"'{charset}' is not the name of an encoding", param_hint="--charset")
    screen.require_choice(priority, ("interactive", "bulk"), "--priority")
    urls = [path for path in paths if is_url(path)]
    for path in paths:
        if not is_url(path) and not Path(path).exists():
            raise typer.BadParameter(f"Path '{path}' does not exist.", param_hint="PATH")
    search = find_files((path for path in paths if not is_url(path)), of_every_kind=parser_hint is not None)
    if not search.files and not urls:
        raise ChordwiseError(f"there is nothing to ingest: {'; '.join(_skipped(search)) or '0 files found'}")
    options: IngestKeywords = {
        "namespace": namespace,
        "on_conflict": on_conflict,
        "type": type,
        "tags": tags or [],
        "readers": reader or [],
        "priority": priority,
        "chunking": _chunking(chunking),
        "charset": charset,
        "parser_hint": parser_hint,
    }
    began = time.monotonic()
    bad_lines, refused = list[str](), list[str]()
    with screen.connect() as client:
        with screen.Ticker() as ticker:
            sent = done = _send(client, search, urls, options, bad_lines, refused, ticker)
            if wait:
                done = client.wait(done, on_progress=lambda state: ticker.show_finished("documents indexed", state))
        copies, unknown = _copies(client, done)
        same = _same(client, done)
        duplicates = [{"document_id": item.document_id, "duplicate_of": item.duplicate_of} for item in copies]
        warned = [item for job in done.jobs for item in client.job_items(job, warned=True, limit=None)] if wait else []
        if as_json:
            screen.print_json(
                {
                    "jobs": [job.raw for job in done.jobs],
                    "failed": [item.raw for item in _failed(client, done)] if wait else [],
                    "bad_lines": bad_lines,
                    "refused": refused,
                    "skipped": search.skipped,
                    "skipped_files": search.skipped_files,
                    "left_out": [{"path": each.path, "reason": each.reason} for each in search.left_out],
                    "renamed": search.renamed,
                    "duplicates": duplicates,
                    **{name: [item.document_id for item in items] for name, items in same.items()},
                    "warnings": [
                        {"document_id": item.document_id, "warning": warning}
                        for item in warned
                        for warning in item.warnings
                    ],
                }
            )
        else:
            _summarise(done, waited=wait, search=search, elapsed_s=time.monotonic() - began)
            for line in (*_unchanged(same), *_remarks(sent, copies), *unknown):
                screen.say(line)
    screen.warn_of_each([f"{item.document_id}: {warning}" for item in warned for warning in item.warnings])
    for sentences in ([f"{path} cannot be read" for path in search.unreadable], bad_lines, refused):
        screen.warn_of_each(sentences)
    lost = [
        f"{screen.plural(len(names), what)} {happened}"
        for what, names, happened in (
            ("line", bad_lines, "could not be read"),
            ("file or folder", search.unreadable, "could not be read"),
            ("document", refused, "cannot be taken"),
        )
        if names
    ]
    besides = f"{' and '.join(lost)}; everything else was sent" if lost else ""
    if wait:
        require_all(done, "ingested", besides=besides)
    if besides:
        raise ChordwiseError(besides)


def _failed(client: Chordwise, done: Ingestion) -> list[JobItem]:
    return [item for job in done.jobs if job.failed for item in client.job_items(job, status="failed", limit=None)]


def require_all(done: Ingestion, participle: str, *, besides: str = "") -> None:
    """Print each document that failed on standard error, and raise ChordwiseError, unless every document was ``ingested`` or
    ``imported``. ``besides``: what else went wrong."""
    if done.status != "succeeded":
        shown = done.errors[: screen.MOST_LINES]
        screen.warn_of_each(screen.failure_lines(shown))
        if done.failed > len(shown):
            screen.warn(f"and {done.failed - len(shown)} more (all of them with --json, or chordwise jobs ID)")
        count = done.failed + done.cancelled
        sentence = f"{count} of {done.total} documents were not {participle}"
        raise ChordwiseError(f"{sentence}; {besides}" if besides else sentence)


def _send(
    client: Chordwise,
    search: FileSearch,
    urls: Sequence[str],
    options: IngestKeywords,
    bad_lines: list[str],
    refused: list[str],
    ticker: screen.Ticker,
) -> Ingestion:
    done = Ingestion()

    def show(state: Ingestion) -> None:
        ticker.show("documents sent", together(done, state).total)

    charset, hint = options.get("charset"), options.get("parser_hint")
    lines = [file for file in search.files if file.is_json_lines and not hint]
    documents = chain.from_iterable(
        read_documents(file.path, name=file.name, on_bad_line=bad_lines.append, charset=charset) for file in lines
    )
    try:
        done = client.ingest(documents, url=urls, on_progress=show, on_refused=refused.append, **options)
        other_files = [file for file in search.files if file not in lines]
        files = client.ingest_files(other_files, on_progress=show, on_refused=refused.append, **options)
        return together(done, files)
    except ChordwiseError as error:
        jobs = (*done.jobs, *error.accepted)
        if not jobs:
            raise
        accepted = ", ".join(job.job_id for job in jobs)
        raise ChordwiseError(f"{error}; accepted before and still running: {accepted}") from error


def _is_encoding(charset: str) -> bool:
    try:
        return codecs.lookup(charset) is not None
    except LookupError:
        return False


def _chunking(value: str | None) -> dict[str, Any] | None:
    """Return the chunking in an option: a strategy's name, or a JSON object."""
    if value is None or not value.lstrip().startswith("{"):
        return None if value is None else {"strategy": value.strip()}
    try:
        chunking: dict[str, Any] = json.loads(value)
    except ValueError as error:
        raise typer.BadParameter(f"is not JSON: {error}", param_hint="--chunking") from None
    return chunking


def _copies(client: Chordwise, done: Ingestion) -> tuple[list[JobItem], list[str]]:
    """Return the documents with the bytes of an older one, or else the reason why they are unknown: all are stored."""
    try:
        return [item for job in done.jobs for item in client.job_items(job, duplicates=True, limit=None)], []
    except ChordwiseError as error:
        return [], [f"copies are not known: {error}"]


def _same(client: Chordwise, done: Ingestion) -> dict[str, list[JobItem]]:
    """Return the documents that were unchanged, and those skipped because they were there, as far as jobs have ended."""
    named: dict[str, list[JobItem]] = {"unchanged": [], "skipped_documents": []}
    for job in done.jobs:
        if not job.outcomes.get("unchanged") and not job.outcomes.get("skipped"):
            continue
        for item in client.job_items(job, limit=None):
            if item.outcome in ("unchanged", "skipped"):
                named["unchanged" if item.outcome == "unchanged" else "skipped_documents"].append(item)
    return named


def _unchanged(same: dict[str, list[JobItem]]) -> Iterator[str]:
    """Yield a line with the names of unchanged documents, and one with those that were skipped."""
    for name, items in same.items():
        if items:
            ids = ", ".join(str(item.document_id) for item in items[:_MOST_NAMES])
            more = f" and {len(items) - _MOST_NAMES} more (all of them with --json)" if len(items) > _MOST_NAMES else ""
            reason = "unchanged, not ingested again" if name == "unchanged" else "there already, skipped"
            yield f"{reason}: {ids}{more}"


def _remarks(sent: Ingestion, copies: Sequence[JobItem]) -> Iterator[str]:
    """Yield a line for each document that got another id, or that has the bytes of an older one."""
    renamed = [document for job in sent.jobs for document in job.renamed]
    for lines in (
        [f"{document.requested_id} is taken: stored as {document.document_id}" for document in renamed],
        [f"{item.document_id} has the same bytes as {item.duplicate_of}" for item in copies],
    ):
        yield from _first(lines)


def _skipped(search: FileSearch) -> list[str]:
    """Return a sentence on the files of other kinds, one on each link, and one on each name that was changed."""
    sentences = []
    if search.skipped:
        names = ", ".join(search.skipped_files[:_MOST_SKIPPED])
        more = f" and {search.skipped - _MOST_SKIPPED} more" if search.skipped > _MOST_SKIPPED else ""
        sentences.append(f"{screen.plural(search.skipped, 'file')} of other kinds skipped: {names}{more}")
    others = [
        f"{each.path} {each.reason}, skipped"
        for each in search.left_out
        if each.path not in (*search.skipped_files, *search.unreadable)
    ]
    return [*sentences, *_first(others), *_first(_renamed(search))]


def _renamed(search: FileSearch) -> list[str]:
    """Return a sentence on each name that files were not sent under."""
    return [
        f"{len(sent)} files have the name {name}: sent as {', '.join(sent)}"
        if len(sent) > 1
        else f"{name}: sent as {sent[0]}"
        for name, sent in search.renamed.items()
    ]


def _first(lines: list[str]) -> list[str]:
    """Return the first lines, and how many there are more."""
    more = len(lines) - _MOST_NAMES
    return lines if more <= 0 else [*lines[:_MOST_NAMES], f"and {more} more (all of them with --json)"]


def _counts(done: Ingestion) -> str:
    """Count the documents by outcome. Unchanged and skipped ones do not count as successes."""
    unchanged, skipped = (
        sum(job.outcomes.get(outcome, 0) for job in done.jobs) for outcome in ("unchanged", "skipped")
    )
    counts = {
        "succeeded": done.succeeded - unchanged - skipped,
        "unchanged": unchanged,
        "skipped (there already)": skipped,
        "failed": done.failed,
        "cancelled": done.cancelled,
    }
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count or name in ("succeeded", "failed"))


def _summarise(done: Ingestion, *, waited: bool, search: FileSearch, elapsed_s: float) -> None:
    jobs = ", ".join(done.job_ids)
    accepted = f"{screen.plural(done.total, 'document')} accepted as {screen.plural(len(done.jobs), 'job')}: {jobs}"
    screen.say(accepted if done.jobs else "no documents")
    if waited:
        screen.say(f"{_counts(done)}, {screen.plural(done.chunks, 'chunk')}, in {elapsed_s:.1f} s")
    elif done.jobs:
        screen.say(f"follow with: chordwise jobs {done.job_ids[-1]} --watch")
    for sentence in _skipped(search):
        screen.say(screen.clean(sentence))


def export_namespace(
    path: Annotated[Path, Argument(metavar="PATH", help="A new folder, or a file that ends in .chordwise.")],
    namespace: Annotated[str, Option("--namespace", "-n", help="The knowledge base to export.")],
    as_json: Annotated[bool, Option("--json", help="Print the result as one JSON document.")] = False,
) -> None:
    """Export a namespace with its chunks and vectors.

    If it is interrupted, run the same command again: it resumes after the last whole part. Documents that are replaced
    meanwhile are exported in their old or in their new version.
    """
    began = time.monotonic()
    with screen.connect() as client:
        total = next((info.documents for info in client.namespaces() if info.namespace == namespace), None)
        with screen.Ticker() as ticker:

            def show(state: Manifest) -> None:
                ticker.show("documents exported", state.documents, total)

            manifest = client.export(namespace, path, on_progress=show)
    without = sum(part.without_vector for part in manifest.parts)
    if as_json:
        names = ("archive_id", "namespace", "documents", "chunks", "model", "dimension")
        facts = {name: getattr(manifest, name) for name in names}
        screen.print_json({**facts, "parts": len(manifest.parts), "without_vector": without})
        return
    counted = f"{screen.plural(manifest.documents, 'document')} with {screen.plural(manifest.chunks, 'chunk')}"
    parts = screen.plural(len(manifest.parts), "part")
    screen.say(f"{counted} in {parts}, begun {manifest.created_at}, in {time.monotonic() - began:.1f} s")
    if without:
        screen.say(f"{screen.plural(without, 'chunk')} without a fitting vector; import will embed them")


def import_archive(
    path: Annotated[Path, Argument(metavar="PATH", exists=True, help="An archive of chordwise export.")],
    namespace: Target,
    wait: Annotated[bool, Option("--wait", help="Wait until everything is searchable.")] = False,
    on_conflict: OnConflict = None,
    again: Annotated[bool, Option("--again", help="Send parts again that were imported before.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print the jobs as one JSON document.")] = False,
) -> None:
    """Import an archive into a namespace.

    Every part is compared with its checksum before anything is sent. If it is interrupted, run the same command again:
    parts that have arrived are not sent twice. Vectors are kept if this server has the same embedding model.

    Exits with 1 if a part is damaged or, with --wait, if a document could not be imported.
    """
    screen.require_choice(on_conflict, ON_CONFLICT, "--on-conflict")
    began = time.monotonic()
    with screen.connect() as client, screen.Ticker() as ticker:
        imported = client.import_archive(
            path,
            namespace=namespace,
            on_conflict=on_conflict,
            again=again,
            on_progress=lambda state: ticker.show("documents sent", state.total),
        )
        done = imported.ingestion
        if wait:
            done = client.wait(done, on_progress=lambda state: ticker.show_finished("documents indexed", state))
    if as_json:
        screen.print_json({"jobs": [job.raw for job in done.jobs], "sent": imported.sent})
    else:
        _summarise_import(imported, done, waited=wait, elapsed_s=time.monotonic() - began)
    if wait:
        require_all(done, "imported")


def _summarise_import(imported: Imported, done: Ingestion, *, waited: bool, elapsed_s: float) -> None:
    earlier = len(done.jobs) - imported.sent
    arrived = f", {screen.plural(earlier, 'part')} had arrived before" if earlier else ""
    screen.say(f"{screen.plural(imported.sent, 'part')} sent{arrived}; {screen.plural(done.total, 'document')}")
    if done.jobs:
        screen.say("vectors kept" if imported.vectors_kept else "another embedding model: chunks are embedded anew")
    if waited:
        cancelled = f", {done.cancelled} cancelled" if done.cancelled else ""
        counts = f"{done.succeeded} succeeded, {done.failed} failed{cancelled}"
        screen.say(f"{counts}, {screen.plural(done.chunks, 'chunk')}, in {elapsed_s:.1f} s")
    elif done.jobs:
        screen.say(f"follow with: chordwise jobs {done.job_ids[-1]} --watch")
