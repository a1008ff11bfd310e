"""What the clients can do, each operation once: which requests it takes, in what order, and what their answers mean."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, Unpack, overload
from urllib.parse import quote

from chordwise.api.api_sources import ConfigureOperations
from chordwise.api.archives import PortabilityOperations
from chordwise.api.chunks import ChunkOperations
from chordwise.api.dead_letters import ControlOperations
from chordwise.api.documents import Document, IngestOptions, document_at, document_batches, is_url
from chordwise.api.entities import EntityOperations
from chordwise.api.examples import ExampleOperations
from chordwise.api.explanations import ExplainOperations
from chordwise.api.feedback import FeedbackOperations
from chordwise.api.migrations import DoctorOperations, MigrationOperations
from chordwise.api.namespaces import GovernOperations
from chordwise.api.options import FileKeywords, IngestKeywords, Told
from chordwise.api.profiles import ProfileOperations
from chordwise.api.queries import LONGEST_HOLD_S, QueryOperations
from chordwise.api.results import Alignment, DocumentInfo, Health, Ingestion, Job, NamespaceInfo, together
from chordwise.api.sources import GenerationOperations, SourceOperations
from chordwise.api.tenants import Quotas, TenancyOperations
from chordwise.api.usage import UsageOperations
from chordwise.api.webhooks import WebhookOperations
from chordwise.errors import ChordwiseError, InvalidInput, ProblemError, UnexpectedAnswer
from chordwise.files import FoundFile, file_batches, find_files, read_documents
from chordwise.records import decode
from chordwise.retries import PATIENT, RetryPolicy, exchange
from chordwise.transport import Call, Steps

T = TypeVar("T")
Params = tuple[tuple[str, str], ...]
Ingestible = Document | Mapping[str, Any] | str | Path

WATCHED_HOLD_S = 1.0  # the same when someone watches the progress


def with_urls(things: Iterable[Ingestible] | Ingestible, url: str | Iterable[str] | None) -> Iterable[Ingestible]:
    """What to ingest, and after it what is at these addresses. Raises InvalidInput for what is no web address."""
    ordinary = [things] if isinstance(things, Document | Mapping | str | Path) else things
    urls = [] if url is None else [url] if isinstance(url, str) else list(url)
    wrong = next((each for each in urls if not is_url(each)), None)
    if wrong is not None:
        raise InvalidInput(f"{wrong} is no address that begins with http:// or https://")
    return chain(ordinary, urls)


class Operations(
    ChunkOperations,
    ConfigureOperations,
    ControlOperations,
    DoctorOperations,
    EntityOperations,
    ExampleOperations,
    ExplainOperations,
    FeedbackOperations,
    GenerationOperations,
    GovernOperations,
    MigrationOperations,
    PortabilityOperations,
    ProfileOperations,
    QueryOperations,
    SourceOperations,
    TenancyOperations,
    UsageOperations,
    WebhookOperations,
):
    """Every operation as a generator of calls. Holds no connection; ``transport.Steps`` says how to run one."""

    def __init__(self, policy: RetryPolicy, *, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._policy = policy
        self._timeout_s = timeout_s
        self._clock = clock

    def ingest(
        self,
        documents: Iterable[Ingestible] | Ingestible = (),
        *,
        url: str | Iterable[str] | None = None,
        on_progress: Told | None = None,
        **options: Unpack[IngestKeywords],
    ) -> Steps[Ingestion]:
        """Send documents: ``Document`` objects, mappings in the words of the HTTP interface, paths, or addresses.

        An address begins with http:// or https://, also those in ``url``; the server fetches what is there, each time
        that it is sent, and names the document by it.

        A path may name a folder, which is searched for files; a JSON Lines file has one document per line. Any number
        is taken: they travel in requests of up to 1,000 documents or 16 MB, each of which becomes a job. Returns once
        everything is durable at the server, not once it is searchable: see ``wait``. ``on_progress`` is called after
        every request. If one fails, the error's ``accepted`` has the jobs before it.
        """
        things, given = with_urls(documents, url), IngestOptions(**options)
        paths: list[str | Path] = []

        def without_paths() -> Iterator[Document | Mapping[str, Any]]:
            """Yield what is not a path; the paths are put aside on the way, so ``things`` is read once, as it comes."""
            for thing in things:
                if isinstance(thing, str) and is_url(thing):
                    yield document_at(thing)
                elif isinstance(thing, str | Path):
                    paths.append(thing)
                else:
                    yield thing

        done = yield from self._documents(without_paths(), given, on_progress, Ingestion())
        found = _found(paths, done)
        for lines in (file for file in found if file.is_json_lines):
            done = yield from self._documents(read_documents(lines.path), given, on_progress, done)
        return (yield from self._files([file for file in found if not file.is_json_lines], given, on_progress, done))

    def ingest_files(
        self,
        paths: Iterable[FoundFile | str | Path],
        *,
        on_progress: Told | None = None,
        **options: Unpack[FileKeywords],
    ) -> Steps[Ingestion]:
        """Send files as they are, for the server to parse; folders are searched. Otherwise as ``ingest``."""
        found = [
            file for each in paths for file in ([each] if isinstance(each, FoundFile) else find_files([each]).files)
        ]
        return self._files(found, IngestOptions(**options), on_progress, Ingestion())

    def _documents(
        self, documents: Iterable[Any], options: IngestOptions, told: Told | None, done: Ingestion
    ) -> Steps[Ingestion]:
        calls = (
            Call(method="POST", path="/v1/documents", content=batch.content, headers=_once(), safe=batch.repeatable)
            for batch in document_batches(documents, options)
        )
        return self._submit(calls, told, done)

    def _files(
        self, files: Iterable[FoundFile], options: IngestOptions, told: Told | None, done: Ingestion
    ) -> Steps[Ingestion]:
        form = options.form()
        calls = (
            Call(
                method="POST",
                path="/v1/files",
                files=tuple(file.read() for file in batch),
                form=form,
                headers=_once(),
                safe=False,
            )
            for batch in file_batches(files)
        )
        return self._submit(calls, told, done)

    def _submit(self, calls: Iterable[Call], told: Told | None, done: Ingestion) -> Steps[Ingestion]:
        """Send one request after the other. An error leaves with the jobs that were accepted before it."""
        try:
            for call in calls:
                answer = yield from exchange(call, self._policy, clock=self._clock)
                done = together(done, Ingestion(jobs=(decode(Job, answer.json()),)))
                if told:
                    told(done)
        except ChordwiseError as error:
            error.accepted = done.jobs
            raise
        return done

    def job(self, job_id: str) -> Steps[Job]:
        """A job as it stands."""
        return self._one(Job, "GET", f"/v1/jobs/{segment(job_id)}")

    def _job(self, job_id: str, deadline: float, *, policy: RetryPolicy | None = None, hold_s: float = 0) -> Steps[Job]:
        """Return a job as it stands when it ends within ``hold_s``, or after that."""
        params = (("wait", f"{hold_s:g}"),) if hold_s else ()
        call = Call(method="GET", path=f"/v1/jobs/{segment(job_id)}", params=params, hold_s=hold_s)
        return decode(
            Job, (yield from exchange(call, policy or self._policy, deadline=deadline, clock=self._clock)).json()
        )

    @overload
    def wait(
        self, job: Ingestion, *, timeout: float | None = None, on_progress: Callable[[Ingestion], None] | None = None
    ) -> Steps[Ingestion]: ...
    @overload
    def wait(
        self, job: Job | str, *, timeout: float | None = None, on_progress: Callable[[Job], None] | None = None
    ) -> Steps[Job]: ...
    def wait(
        self, job: Any, *, timeout: float | None = None, on_progress: Callable[[Any], None] | None = None
    ) -> Steps[Any]:
        """Until a job, or every job of an ingestion, is final; see ``Chordwise.wait``."""
        several = isinstance(job, Ingestion)
        deadline = self._clock() + (math.inf if timeout is None else timeout)
        jobs = list(job.jobs) if several else [job if isinstance(job, Job) else (yield from self._job(job, deadline))]
        for place in range(len(jobs)):
            while not jobs[place].done:
                began = self._clock()
                hold_s = max(0, math.ceil(min(WATCHED_HOLD_S if on_progress else LONGEST_HOLD_S, deadline - began)))
                jobs[place] = yield from self._job(jobs[place].job_id, deadline, policy=PATIENT, hold_s=hold_s)
                if on_progress:
                    on_progress(Ingestion(jobs=tuple(jobs)) if several else jobs[0])
                if not jobs[place].done:
                    yield from self._next_round(began, deadline, f"job {jobs[place].job_id}", jobs[place].status)
        return Ingestion(jobs=tuple(jobs)) if several else jobs[0]

    def jobs(self, *, status: str | Sequence[str] | None = None, limit: int | None = 100) -> Steps[list[Job]]:
        """The latest jobs, as many as ``limit``; None for all that the server remembers. With ``status``, one or several of
        queued, running, succeeded, partly_failed, failed and cancelled, those in such a state."""
        statuses = [status] if isinstance(status, str) else status or ()
        return self._pages(Job, "/v1/jobs", {"status": statuses}, limit=limit)

    def documents(
        self,
        *,
        namespace: str | None = None,
        status: str | None = None,
        source_id: str | None = None,
        limit: int | None = 100,
    ) -> Steps[list[DocumentInfo]]:
        """Documents of a namespace, or of all, that are searchable or on their way; ``limit`` None for every one.

        With ``status`` (queued, running, succeeded, failed or cancelled), those whose latest upload is in that state;
        with ``source_id`` those of one source.
        """
        asked = {"namespace": namespace or None, "status": status or None, "source_id": source_id or None}
        return self._pages(DocumentInfo, "/v1/documents", asked, limit=limit)

    def namespaces(self, *, examples: bool = False) -> Steps[list[NamespaceInfo]]:
        """Every namespace of the tenant with its size; with ``examples`` those that hold examples of the library."""
        return self._pages(NamespaceInfo, "/v1/namespaces", {"examples": examples or None})

    def quotas(self) -> Steps[Quotas]:
        """What the tenant may store and queue, and how much of it is used."""
        return self._one(Quotas, "GET", "/v1/quotas")

    def delete_document(self, document_id: str, *, namespace: str) -> Steps[None]:
        """Remove a document and its chunks; one that is not there raises ProblemError with status 404."""
        path = f"/v1/documents/{segment(document_id)}"
        yield from self._request("DELETE", path, params={"namespace": namespace})

    def verify(
        self,
        namespaces: Iterable[str] | str | None = None,
        *,
        repair: bool = False,
        delete_share: float | None = None,
        timeout: float = 600.0,
    ) -> Steps[Alignment]:
        """Compare the two stores chunk by chunk, in the namespaces given or in all; with ``repair`` put them right.

        A repair that would delete a large share of the tenant's vectors or rows of chunks withholds that; ``delete_share``
        (0 to 1) confirms it.
        """
        chosen = [namespaces] if isinstance(namespaces, str) else namespaces
        body: dict[str, Any] = {"namespaces": None if chosen is None else list(chosen), "repair": repair}
        if delete_share is not None:
            body["delete_share"] = delete_share
        hold_s = max(0.0, timeout - self._timeout_s)
        return self._one(Alignment, "POST", "/v1/verify", body=body, hold_s=hold_s)

    def health(self) -> Steps[Health]:
        """Whether the server can work, dependency by dependency."""
        answer = yield from self._request("GET", "/readyz", expects=frozenset({503}))
        if "json" not in answer.headers.get("content-type", ""):
            raise UnexpectedAnswer(f"/readyz answers {answer.status} without JSON; is this a Chordwise gateway?")
        return decode(Health, answer.json())

    def server_version(self) -> Steps[str | None]:
        """The server's version, if it tells."""
        try:
            answer = yield from self._request("GET", "/openapi.json")
        except ProblemError:
            return None
        said = answer.json()
        info = said.get("info") if isinstance(said, dict) else None
        return str(info["version"]) if isinstance(info, dict) and "version" in info else None


def _found(paths: Iterable[str | Path], done: Ingestion) -> tuple[FoundFile, ...]:
    """The files at these paths. An error leaves with the jobs that were accepted before it."""
    try:
        return find_files(paths).files
    except ChordwiseError as error:
        error.accepted = done.jobs
        raise


def _once() -> dict[str, str]:
    """What lets the server recognise a repeated request."""
    return {"Idempotency-Key": str(uuid.uuid4())}


def segment(identifier: str) -> str:
    return quote(identifier, safe="", errors="surrogatepass")
