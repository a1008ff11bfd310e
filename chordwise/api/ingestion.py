"""Send documents and files to the server, in requests of a bounded size."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Required, TypedDict, Unpack

from chordwise.api.documents import Document, document_at, document_json, is_url
from chordwise.api.files import MAX_BYTES, FoundFile, file_batches, find_files, grouped, read_documents
from chordwise.api.jobs import Ingestion, Job, together
from chordwise.errors import ChordwiseError, InvalidInput, ProblemError
from chordwise.records import decode
from chordwise.resource import Resource, given, operation
from chordwise.retries import exchange
from chordwise.transport import Call, Steps, encode

ON_CONFLICT = ("replace", "skip", "error", "new")
Ingestible = Document | Mapping[str, Any] | str | Path
Told = Callable[[Ingestion], None]  # the type of on_progress
ToldRefusal = Callable[[str], None]  # the type of on_refused
MAX_DOCUMENTS = 1_000  # per request: few enough that one refused request is cheap to send again


class IngestKeywords(TypedDict, total=False):
    """Options of ``ingest``. The server chooses for those left out.

    ``on_conflict`` is replace, skip, error or new; ``type``, ``tags`` and ``metadata`` add to those of each document, and
    ``readers`` are the readers of those that name none.
    ``priority`` is interactive or bulk. For files only: ``parser_hint`` reads each as this kind, and ``charset`` names the
    encoding of text, which is detected otherwise.
    """

    namespace: Required[str]
    on_conflict: str | None
    chunking: Mapping[str, Any] | None
    type: str | None
    tags: Sequence[str]
    metadata: Mapping[str, Any] | None
    readers: Sequence[str]
    priority: str | None
    parser_hint: str | None
    charset: str | None


_LABELS = ("type", "tags", "metadata", "readers", "parser_hint", "charset")


def known(options: IngestKeywords) -> IngestKeywords:
    """Return the options. Raises TypeError for an unknown one, and without a namespace."""
    if unknown := sorted(options.keys() - IngestKeywords.__annotations__.keys()):
        raise TypeError(f"ingest() got an unexpected keyword argument {unknown[0]!r}")
    if "namespace" not in options:
        raise TypeError("ingest() missing 1 required keyword-only argument: 'namespace'")
    return options


def body_of(options: IngestKeywords) -> dict[str, Any]:
    """Return the fields beside ``documents`` in the body of a request."""
    return given(**{name: options.get(name) for name in ("namespace", "on_conflict", "chunking", "priority")})


def form_of(options: IngestKeywords) -> dict[str, str]:
    """Return the fields beside the files of an upload: text verbatim, everything else as JSON."""
    labels = {name: value for name in _LABELS if (value := options.get(name))}
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in {**body_of(options), **labels}.items()
    }


def labelled(document: dict[str, Any], options: IngestKeywords) -> dict[str, Any]:
    """Return the document with the labels of a call added; its own type, readers and metadata win. Fields of a wrong type are
    left unchanged for the server to refuse."""
    result = dict(document)
    if kind := options.get("type"):
        result.setdefault("type", kind)
    tags, metadata = document.get("tags", []), document.get("metadata", {})
    if (added := options.get("tags")) and isinstance(tags, list):
        result["tags"] = [*tags, *(tag for tag in added if tag not in tags)]
    if (further := options.get("metadata")) and isinstance(metadata, Mapping):
        result["metadata"] = {**further, **metadata}
    if readers := options.get("readers"):
        result.setdefault("readers", list(readers))
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentBatch:
    """The body of one request. ``names``: of its documents, by which a person knows them. ``repeatable``: every document has
    an id and replaces itself, so it may be sent twice."""

    content: bytes
    names: Sequence[str]
    repeatable: bool


class IngestionOperations(Resource):
    """Operations that send documents and files."""

    @operation
    def ingest(
        self,
        documents: Iterable[Ingestible] | Ingestible = (),
        *,
        url: str | Iterable[str] | None = None,
        on_progress: Told | None = None,
        on_refused: ToldRefusal | None = None,
        **options: Unpack[IngestKeywords],
    ) -> Steps[Ingestion]:
        """Send documents: ``Document`` objects, mappings in the words of the HTTP interface, paths, or addresses.

        An address begins with http:// or https://; more may be in ``url``. The server fetches it each time it is sent
        and names the document by it.

        A path may name a folder, which is searched for files; a JSON Lines file has one document per line. Files of one
        name in several folders are sent with the folders in front: see ``renamed`` of the result.

        Any number of documents is sent in requests of up to 1,000 documents or 16 MB, each of which becomes a job.
        Returns once everything is durable at the server, not once it is searchable: see ``wait``. ``on_progress`` is
        called after every request. If one fails, the error's ``accepted`` has the jobs before it; with ``on_refused``, a
        request none of whose documents can be taken does not fail: it is called with a sentence for each of them.
        """
        items, settings = with_urls(documents, url), known(options)
        paths: list[str | Path] = []

        def without_paths() -> Iterator[Document | Mapping[str, Any]]:
            """Yield documents and collect paths on the way, so ``items`` is iterated once and lazily."""
            for item in items:
                if isinstance(item, str) and is_url(item):
                    yield document_at(item)
                elif isinstance(item, str | Path):
                    paths.append(item)
                else:
                    yield item

        told = (on_progress, on_refused)
        done = yield from self._documents(without_paths(), settings, told, Ingestion())
        try:
            search = find_files(paths, of_every_kind=bool(settings.get("parser_hint")))
        except ChordwiseError as error:
            error.accepted = done.jobs
            raise
        done = replace(done, left_out=search.left_out, renamed=search.renamed)
        lines = [file for file in search.files if file.is_json_lines and not settings.get("parser_hint")]
        for file in lines:
            documents = read_documents(file.path, name=file.name, charset=settings.get("charset"))
            done = yield from self._documents(documents, settings, told, done)
        others = [file for file in search.files if file not in lines]
        return (yield from self._files(others, settings, told, done))

    @operation
    def ingest_files(
        self,
        paths: Iterable[FoundFile | str | Path],
        *,
        on_progress: Told | None = None,
        on_refused: ToldRefusal | None = None,
        **options: Unpack[IngestKeywords],
    ) -> Steps[Ingestion]:
        """Send files as they are, for the server to parse; folders are searched, with ``parser_hint`` for files of every
        kind. Otherwise as ``ingest``."""
        search = find_files(paths, of_every_kind=bool(options.get("parser_hint")))
        begun = Ingestion(left_out=search.left_out, renamed=search.renamed)
        return self._files(search.files, known(options), (on_progress, on_refused), begun)

    def _documents(
        self, documents: Iterable[Any], options: IngestKeywords, told: _Listeners, done: Ingestion
    ) -> Steps[Ingestion]:
        calls = (
            (
                Call(
                    method="POST", path="/v1/documents", content=batch.content, headers=_once(), safe=batch.repeatable
                ),
                batch.names,
            )
            for batch in document_batches(documents, options)
        )
        return self._submit(calls, told, done)

    def _files(
        self, files: Iterable[FoundFile], options: IngestKeywords, told: _Listeners, done: Ingestion
    ) -> Steps[Ingestion]:
        form = form_of(options)
        calls = (
            (
                Call(
                    method="POST",
                    path="/v1/files",
                    files=tuple(file.read() for file in batch),
                    form=form,
                    headers=_once(),
                    safe=False,
                ),
                [file.name for file in batch],
            )
            for batch in file_batches(files)
        )
        return self._submit(calls, told, done)

    def _submit(
        self, calls: Iterable[tuple[Call, Sequence[str]]], told: _Listeners, done: Ingestion
    ) -> Steps[Ingestion]:
        """Send one request after the other, each with the names of what it carries. An error carries the jobs accepted
        before it."""
        on_progress, on_refused = told
        try:
            for call, names in calls:
                try:
                    answer = yield from exchange(call, self._policy, clock=self._clock)
                except ProblemError as error:
                    if on_refused is None or not (sentences := refusals(error, names)):
                        raise
                    for sentence in sentences:
                        on_refused(sentence)
                    continue
                done = together(done, Ingestion(jobs=(decode(Job, answer.json()),)))
                if on_progress:
                    on_progress(done)
        except ChordwiseError as error:
            error.accepted = done.jobs
            raise
        return done


_Listeners = tuple[Told | None, ToldRefusal | None]
_POINTER = re.compile(r"/(?:documents|file)/(\d+)(.*)")


def refusals(error: ProblemError, names: Sequence[str]) -> list[str]:
    """Return a sentence for each document or file of a request none of which can be taken; nothing if the request itself
    was refused. The server explains a bounded number of them."""
    places = [(_POINTER.fullmatch(str(each.get("pointer", ""))), str(each.get("detail", ""))) for each in error.errors]
    reasons: dict[int, str] = {}
    for place, detail in places:
        if place is None:
            return []
        reasons.setdefault(int(place[1]), f"{place[2]} {detail}".strip())
    if not reasons or max(reasons) >= len(names):
        return []
    return [f"{name}: {reasons.get(index, error.detail)}" for index, name in enumerate(names)]


def with_urls(items: Iterable[Ingestible] | Ingestible, url: str | Iterable[str] | None) -> Iterable[Ingestible]:
    """Chain the documents and the web addresses to ingest. Raises InvalidInput for anything else in ``url``."""
    documents = [items] if isinstance(items, Document | Mapping | str | Path) else items
    urls = [] if url is None else [url] if isinstance(url, str) else list(url)
    if wrong := [address for address in urls if not is_url(address)]:
        raise InvalidInput(f"{wrong[0]} is not an address that begins with http:// or https://")
    return chain(documents, urls)


def document_batches(
    documents: Iterable[Document | Mapping[str, Any]], options: IngestKeywords
) -> Iterator[DocumentBatch]:
    """Yield the requests that carry ``documents``. Raises InvalidInput."""
    head = encode(body_of(options))[:-1]
    replaces = options.get("on_conflict") in (None, "replace", "new")
    encoded = (_encode_document(labelled(document_json(document), options)) for document in documents)
    for group in grouped(encoded, lambda row: len(row[0]) + 1, at_most=MAX_DOCUMENTS, max_bytes=MAX_BYTES):
        bodies = b",".join(body for body, _, _ in group)
        yield DocumentBatch(
            content=head + b',"documents":[' + bodies + b"]}",
            names=[name for _, _, name in group],
            repeatable=replaces and all(has_id for _, has_id, _ in group),
        )


def _encode_document(document: dict[str, Any]) -> tuple[bytes, bool, str]:
    """Return the document as JSON, whether it has an id, and its name. Raises InvalidInput."""
    source = document.get("source")
    address = source.get("uri") if isinstance(source, Mapping) else None
    name = str(document.get("document_id") or address or document.get("title") or "a document")
    try:
        return encode(document), "document_id" in document or _is_named_by_address(document), name
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"document {document.get('document_id', '')!r} is not JSON: {error}") from error


def _is_named_by_address(document: Mapping[str, Any]) -> bool:
    source = document.get("source")
    return "text" not in document and isinstance(source, Mapping) and not {"text", "bytes"} & set(source)


def _once() -> dict[str, str]:
    """Return the header by which the server recognises a repeated request."""
    return {"Idempotency-Key": str(uuid.uuid4())}
