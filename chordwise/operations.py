"""What the clients can do, each operation once: which requests it takes, in what order, and what their answers mean."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, overload
from urllib.parse import quote

from chordwise.chunks import ChunkOperations
from chordwise.configuring import ConfigureOperations
from chordwise.control import ControlOperations
from chordwise.decoding import decode
from chordwise.diagnosis import DoctorOperations
from chordwise.documents import Document, IngestOptions, document_at, document_batches, is_url
from chordwise.entities import EntityOperations
from chordwise.errors import ChordwiseError, InvalidInput, ProblemError, UnexpectedAnswer
from chordwise.examples import ExampleOperations
from chordwise.explaining import ExplainOperations
from chordwise.feedback import FeedbackOperations
from chordwise.files import FoundFile, file_batches, find_files, read_documents
from chordwise.generations import GenerationOperations
from chordwise.governing import GovernOperations
from chordwise.hooks import WebhookOperations
from chordwise.migrations import MigrationOperations
from chordwise.options import Told
from chordwise.portability import PortabilityOperations
from chordwise.profiles import ProfileOperations
from chordwise.querying import LONGEST_HOLD_S, QueryOperations
from chordwise.quotas import Quotas
from chordwise.requesting import as_content
from chordwise.results import (
    Alignment,
    DocumentInfo,
    Health,
    Ingestion,
    Job,
    NamespaceInfo,
    together,
)
from chordwise.retries import PATIENT, RetryPolicy, exchange
from chordwise.sources import SourceOperations
from chordwise.tenancy import TenancyOperations
from chordwise.transport import Answer, Call, Steps
from chordwise.usage import UsageOperations

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
        self, what: Iterable[Ingestible] | Ingestible, options: IngestOptions, told: Told | None
    ) -> Steps[Ingestion]:
        """Send documents, and files by their paths; see ``Chordwise.ingest``."""
        things = [what] if isinstance(what, Document | Mapping | str | Path) else what
        paths: list[str | Path] = []

        def documents() -> Iterator[Document | Mapping[str, Any]]:
            """What is not a path; the paths are put aside on the way, so ``things`` is read once, as it comes."""
            for thing in things:
                if isinstance(thing, str) and is_url(thing):
                    yield document_at(thing)
                elif isinstance(thing, str | Path):
                    paths.append(thing)
                else:
                    yield thing

        done = yield from self._documents(documents(), options, told, Ingestion())
        found = _found(paths, done)
        for lines in (file for file in found if file.is_json_lines):
            done = yield from self._documents(read_documents(lines.path), options, told, done)
        return (yield from self._files([file for file in found if not file.is_json_lines], options, told, done))

    def ingest_files(
        self, files: Iterable[FoundFile | str | Path], options: IngestOptions, told: Told | None
    ) -> Steps[Ingestion]:
        """Send files as they are; see ``Chordwise.ingest_files``."""
        found = [
            file for each in files for file in ([each] if isinstance(each, FoundFile) else find_files([each]).files)
        ]
        return self._files(found, options, told, Ingestion())

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

    def job(self, job_id: str, *, deadline: float = math.inf) -> Steps[Job]:
        """One job as it stands."""
        call = Call(method="GET", path=f"/v1/jobs/{_segment(job_id)}")
        answer = yield from exchange(call, self._policy, deadline=deadline, clock=self._clock)
        return decode(Job, answer.json())

    def _held_job(self, job_id: str, *, hold_s: float, deadline: float) -> Steps[Job]:
        """One job as it stands when it ends within ``hold_s``, or after that. Outlives a restart of the server."""
        params = (("wait", f"{hold_s:g}"),) if hold_s else ()
        call = Call(method="GET", path=f"/v1/jobs/{_segment(job_id)}", params=params, hold_s=hold_s)
        answer = yield from exchange(call, PATIENT, deadline=deadline, clock=self._clock)
        return decode(Job, answer.json())

    @overload
    def wait(
        self, target: Ingestion, *, timeout_s: float | None, told: Callable[[Ingestion], None] | None
    ) -> Steps[Ingestion]: ...
    @overload
    def wait(self, target: Job | str, *, timeout_s: float | None, told: Callable[[Job], None] | None) -> Steps[Job]: ...
    def wait(self, target: Any, *, timeout_s: float | None, told: Callable[[Any], None] | None) -> Steps[Any]:
        """Until a job, or every job of an ingestion, is final; see ``Chordwise.wait``."""
        several = isinstance(target, Ingestion)
        deadline = self._clock() + (math.inf if timeout_s is None else timeout_s)
        if several:
            jobs = list(target.jobs)
        else:
            jobs = [target if isinstance(target, Job) else (yield from self.job(target, deadline=deadline))]
        for place in range(len(jobs)):
            while not jobs[place].done:
                began = self._clock()
                hold_s = max(0, math.ceil(min(WATCHED_HOLD_S if told else LONGEST_HOLD_S, deadline - began)))
                jobs[place] = yield from self._held_job(jobs[place].job_id, hold_s=hold_s, deadline=deadline)
                if told:
                    told(Ingestion(jobs=tuple(jobs)) if several else jobs[0])
                if not jobs[place].done:
                    yield from self._next_round(began, deadline, f"job {jobs[place].job_id}", jobs[place].status)
        return Ingestion(jobs=tuple(jobs)) if several else jobs[0]

    def jobs(self, *, status: str | Sequence[str] | None = None, limit: int | None) -> Steps[list[Job]]:
        """The latest jobs, newest first as the server lists them."""
        statuses = [status] if isinstance(status, str) else status or ()
        return self._listed(Job, "/v1/jobs", tuple(("status", each) for each in statuses), limit)

    def documents(
        self, *, namespace: str | None, status: str | None, source_id: str | None, limit: int | None
    ) -> Steps[list[DocumentInfo]]:
        """Documents, of one namespace or of all."""
        asked = {"namespace": namespace, "status": status, "source_id": source_id}
        params = tuple((name, value) for name, value in asked.items() if value)
        return self._listed(DocumentInfo, "/v1/documents", params, limit)

    def namespaces(self, *, examples: bool = False) -> Steps[list[NamespaceInfo]]:
        """Every namespace of the tenant, or every one that holds examples."""
        params = (("examples", "true"),) if examples else ()
        return self._listed(NamespaceInfo, "/v1/namespaces", params, None)

    def quotas(self) -> Steps[Quotas]:
        """What the tenant may, and how much of it is used."""
        return decode(Quotas, (yield from self._get("/v1/quotas")).json())

    def delete_document(self, document_id: str, *, namespace: str) -> Steps[None]:
        """Remove a document; one that is not there raises ProblemError with status 404."""
        path = f"/v1/documents/{_segment(document_id)}"
        call = Call(method="DELETE", path=path, params=(("namespace", namespace),))
        yield from exchange(call, self._policy, clock=self._clock)

    def verify(
        self, namespaces: Iterable[str] | None, *, repair: bool, delete_share: float | None, timeout_s: float
    ) -> Steps[Alignment]:
        """Compare the two stores; it looks at every chunk, so it may take ``timeout_s``."""
        body = {"namespaces": None if namespaces is None else list(namespaces), "repair": repair}
        content = as_content(body if delete_share is None else {**body, "delete_share": delete_share})
        call = Call(method="POST", path="/v1/verify", content=content, hold_s=max(0.0, timeout_s - self._timeout_s))
        answer = yield from exchange(call, self._policy, clock=self._clock)
        return decode(Alignment, answer.json())

    def health(self) -> Steps[Health]:
        """Readiness, dependency by dependency; a server that is not ready is an answer, not an error."""
        call = Call(method="GET", path="/readyz", expects=frozenset({503}))
        answer = yield from exchange(call, self._policy, clock=self._clock)
        if "json" not in answer.headers.get("content-type", ""):
            raise UnexpectedAnswer(f"/readyz answers {answer.status} without JSON; is this a Chordwise gateway?")
        return decode(Health, answer.json())

    def server_version(self) -> Steps[str | None]:
        """The version that the server's OpenAPI description gives, None if it gives none."""
        try:
            answer = yield from self._get("/openapi.json")
        except ProblemError:
            return None
        said = answer.json()
        info = said.get("info") if isinstance(said, dict) else None
        return str(info["version"]) if isinstance(info, dict) and "version" in info else None

    def _listed(self, kind: type[T], path: str, params: Params, limit: int | None) -> Steps[list[T]]:
        """Follow the cursor until ``limit`` entries, or all, are there."""
        found: list[T] = []
        cursor: str | None = None
        while limit is None or len(found) < limit:
            size = 100 if limit is None else min(100, limit - len(found))
            asked = (*params, ("limit", str(size)), *((("cursor", cursor),) if cursor else ()))
            page = (yield from self._get(path, params=asked)).json()
            if not isinstance(page, dict) or not isinstance(page.get("data"), list):
                raise UnexpectedAnswer(f"{path} does not answer with a list")
            found += [decode(kind, entry) for entry in page["data"]]
            cursor = page.get("next_cursor")
            if not cursor:
                break
        return found[:limit]

    def _get(self, path: str, *, params: Params = ()) -> Steps[Answer]:
        return exchange(Call(method="GET", path=path, params=params), self._policy, clock=self._clock)


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


def _segment(identifier: str) -> str:
    return quote(identifier, safe="", errors="surrogatepass")
