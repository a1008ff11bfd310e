"""The synchronous client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack, cast, overload

import httpx

from chordwise.archive import Manifest
from chordwise.chunks import ChunkMethods
from chordwise.config import from_environment
from chordwise.configuring import ConfigureMethods
from chordwise.diagnosis import Diagnosis
from chordwise.documents import IngestOptions
from chordwise.entities import EntityState
from chordwise.examples import ExamplesImport, ExampleStatistics, ExamplesVerification
from chordwise.explaining import ExplainMethods
from chordwise.feedback import FeedbackMethods
from chordwise.files import FoundFile
from chordwise.following import Follower, JobEvent
from chordwise.generations import DocumentGenerations
from chordwise.governing import GovernMethods
from chordwise.migrations import EmbeddingMigration
from chordwise.operations import Ingestible, Operations, with_urls
from chordwise.options import FileKeywords, IngestKeywords, QueryKeywords, Told
from chordwise.portability import Imported
from chordwise.profiles import ProfileMethods
from chordwise.queries import query_body
from chordwise.querying import QueryMethods
from chordwise.quotas import Quotas
from chordwise.results import Alignment, DocumentInfo, Health, Ingestion, Job, NamespaceInfo, QueryResult
from chordwise.retries import PATIENT, RetryPolicy
from chordwise.signal_methods import SignalMethods
from chordwise.sources import SourceMethods
from chordwise.tenancy_methods import TenancyMethods
from chordwise.transport import Call, Outcome, Pause, Steps, answer, client_arguments, no_answer, request_arguments
from chordwise.usage import UsageReport

T = TypeVar("T")


class Chordwise(
    ChunkMethods,
    ConfigureMethods,
    ExplainMethods,
    FeedbackMethods,
    GovernMethods,
    ProfileMethods,
    QueryMethods,
    SignalMethods,
    SourceMethods,
    TenancyMethods,
):
    """A connection to one Chordwise server with one API key. Safe to share between threads; close it, or use ``with``.

    ``url`` and ``api_key`` default to CHORDWISE_URL and CHORDWISE_API_KEY. ``timeout`` is in seconds, for one request
    and, unless told otherwise, for a query with everything it takes. ``retries`` bounds how often a request is repeated
    after a broken connection, 429 or a server that is briefly away; what must not happen twice is not repeated.

    Every method raises ProblemError if the server refuses, ConnectionFailed or Timeout if it does not answer, and
    UnexpectedAnswer if something else answers; all are ChordwiseError. Creating the client raises NotConfigured.
    """

    def __init__(
        self, url: str | None = None, api_key: str | None = None, timeout: float = 30.0, *, retries: int = 4
    ) -> None:
        known = from_environment()
        self._timeout_s = timeout
        self._http = httpx.Client(**client_arguments(url or known.url, api_key or known.api_key))
        self._operations: Operations = Operations(RetryPolicy(retries=retries), timeout_s=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the client cannot be used afterwards."""
        self._http.close()

    def ingest(
        self,
        documents: Iterable[Ingestible] | Ingestible = (),
        *,
        url: str | Iterable[str] | None = None,
        on_progress: Told | None = None,
        **options: Unpack[IngestKeywords],
    ) -> Ingestion:
        """Send documents: ``Document`` objects, mappings in the words of the HTTP interface, paths, or addresses.

        An address begins with http:// or https://, also those in ``url``; the server fetches what is there, each time
        that it is sent, and names the document by it.

        A path may name a folder, which is searched for files; a JSON Lines file has one document per line. Any number
        is taken: they travel in requests of up to 1,000 documents or 16 MB, each of which becomes a job. Returns once
        everything is durable at the server, not once it is searchable: see ``wait``. ``on_progress`` is called after
        every request. If one fails, the error's ``accepted`` has the jobs before it.
        """
        things = with_urls(documents, url)
        return self._run(self._operations.ingest(things, IngestOptions(**options), on_progress))

    def ingest_files(
        self,
        paths: Iterable[FoundFile | str | Path],
        *,
        on_progress: Told | None = None,
        **options: Unpack[FileKeywords],
    ) -> Ingestion:
        """Send files as they are, for the server to parse; folders are searched. Otherwise as ``ingest``."""
        return self._run(self._operations.ingest_files(paths, IngestOptions(**options), on_progress))

    @overload
    def wait(
        self, job: Ingestion, *, timeout: float | None = None, on_progress: Callable[[Ingestion], None] | None = None
    ) -> Ingestion: ...
    @overload
    def wait(
        self, job: Job | str, *, timeout: float | None = None, on_progress: Callable[[Job], None] | None = None
    ) -> Job: ...
    def wait(self, job: Any, *, timeout: float | None = None, on_progress: Callable[[Any], None] | None = None) -> Any:
        """Until a job, given as such or by id, or everything of an ingestion is final, and return how it ended.

        A job with failures is returned, not raised. Raises Timeout after ``timeout`` seconds; None waits for ever.
        ``on_progress`` is called about once a second with what is known.
        """
        return self._run(self._operations.wait(job, timeout_s=timeout, told=on_progress))

    def job(self, job_id: str) -> Job:
        """A job as it stands."""
        return self._run(self._operations.job(job_id))

    def jobs(self, *, status: str | Sequence[str] | None = None, limit: int | None = 100) -> list[Job]:
        """The latest jobs, as many as ``limit``; None for all that the server remembers. With ``status``, one or several of
        queued, running, succeeded, partly_failed, failed and cancelled, those in such a state."""
        return self._run(self._operations.jobs(status=status, limit=limit))

    def cancel_job(self, job_id: str) -> Job:
        """Call back every document of a job that is not done. ProblemError with status 409 if it ended by itself."""
        return self._run(self._operations.steer(job_id, "cancel"))

    def retry_job(self, job_id: str) -> Job:
        """Queue what failed or was cancelled again. ProblemError with status 409 if there is nothing to try."""
        return self._run(self._operations.steer(job_id, "retry"))

    def pause_job(self, job_id: str) -> Job:
        """Let workers take nothing more of a job until it is resumed."""
        return self._run(self._operations.steer(job_id, "pause"))

    def resume_job(self, job_id: str) -> Job:
        """Let workers go on with a paused job."""
        return self._run(self._operations.steer(job_id, "resume"))

    def import_examples(
        self,
        book: str | Path,
        *,
        namespace: str,
        strict: bool = False,
        dry_run: bool = False,
        on_conflict: str | None = None,
        category: str | None = None,
    ) -> ExamplesImport:
        """Send a book of examples, an ``.xlsx`` or ``.json`` file; see docs/example-library.md for what is in it.

        Its good rows become the documents of the job whose id is returned; rows that are not are among ``errors``. With
        ``strict``, and if no row is good, nothing is stored. ``dry_run`` only looks at the book. ``category`` (qa, record,
        query, greeting) takes only its sheets, so that each category of a book can have a namespace of its own.
        """
        return self._run(
            self._operations.import_examples(
                book, namespace=namespace, strict=strict, dry_run=dry_run, on_conflict=on_conflict, category=category
            )
        )

    def examples_template(self) -> bytes:
        """An Excel workbook to fill in with examples."""
        return self._run(self._operations.examples_template())

    def example_statistics(self, *, namespace: str) -> ExampleStatistics:
        """How many examples a namespace holds, by category, grade and tag; ProblemError with 404 if there is none."""
        return self._run(self._operations.example_statistics(namespace))

    def verify_examples(self, job_id: str, *, sample: int = 10) -> ExamplesVerification:
        """Whether searches find every accepted row of an import; ``sample`` of those they find are named."""
        return self._run(self._operations.verify_examples(job_id, sample=sample))

    def events(self, job: Job | str) -> Iterator[JobEvent]:
        """What happens to a job, as it happens, until it has ended: ``progress``, ``item_failed`` and ``finished``.

        A connection that breaks is made again, and nothing is missed. Raises ConnectionFailed once that has failed too
        often, and ProblemError with status 404 for a job that is not there.
        """
        follower = Follower(job.job_id if isinstance(job, Job) else job, PATIENT)
        while not follower.finished:
            try:
                with self._http.stream(**follower.request(self._timeout_s)) as response:
                    if follower.is_stream(response):
                        for line in response.iter_lines():
                            if (event := follower.read(line)) is not None:
                                yield event
                            if follower.finished:
                                return
                        delay_s = follower.ended()
                    elif follower.finished:
                        return
                    else:
                        response.read()
                        delay_s = follower.refused(answer(response))
            except httpx.HTTPError as error:
                delay_s = follower.broken(error)
            time.sleep(delay_s)

    def put_entities(self, entities: Iterable[Mapping[str, Any]], *, namespace: str) -> int:
        """Write what entities of a story are like, each a mapping with ``entity_id``, ``name`` and, if there are any,
        ``type``, ``story_time`` and ``state``. Gives how many states were written."""
        return self._run(self._operations.put_entities(entities, namespace))

    def entities(self, namespace: str, *, as_of: int | None = None, name: str | None = None) -> list[EntityState]:
        """What the entities of a namespace are like at the story time ``as_of``, or last of all."""
        return self._run(self._operations.entities(namespace, as_of=as_of, name=name))

    def delete_entities(self, entity_ids: Iterable[str], *, namespace: str) -> int:
        """Delete entities with all their states; gives how many states went."""
        return self._run(self._operations.delete_entities(entity_ids, namespace))

    def query(
        self,
        text: str,
        *,
        timeout: float | None = None,
        request_id: str | None = None,
        fresh: bool = False,
        **options: Unpack[QueryKeywords],
    ) -> QueryResult:
        """Find the chunks that answer ``text``, in the namespaces that ``options`` name.

        ``request_id`` is what the server's logs and tasks call this request; ``fresh`` asks again what may have been
        answered before. Raises QueryFailed if the query ends without an answer, and Timeout after ``timeout`` seconds
        (default: the client's).
        """
        body = query_body(text, **options)
        return self._run(self._operations.query(body, timeout_s=timeout, request_id=request_id, fresh=fresh))

    def documents(
        self,
        *,
        namespace: str | None = None,
        status: str | None = None,
        source_id: str | None = None,
        limit: int | None = 100,
    ) -> list[DocumentInfo]:
        """Documents of a namespace, or of all, that are searchable or on their way; ``limit`` None for every one.

        With ``status`` (queued, running, succeeded, failed or cancelled), those whose latest upload is in that state;
        with ``source_id`` those of one source.
        """
        return self._run(
            self._operations.documents(namespace=namespace, status=status, source_id=source_id, limit=limit)
        )

    def delete_document(self, document_id: str, *, namespace: str) -> None:
        """Remove a document and its chunks; one that is not there raises ProblemError with status 404."""
        self._run(self._operations.delete_document(document_id, namespace=namespace))

    def generations(self, document_id: str, *, namespace: str) -> DocumentGenerations:
        """What is left of a document's generations, the newest first."""
        return self._run(self._operations.generations(document_id, namespace=namespace))

    def rollback(
        self, document_id: str, *, namespace: str, generation: int | None = None, if_match: str | None = None
    ) -> Job:
        """Go back to the generation before, or to another that is kept: what was sent then is ingested once more.

        ``if_match``: only if the generations still have this etag, else ProblemError with status 412. ProblemError with
        status 409 if nothing is kept.
        """
        steps = self._operations.rollback(document_id, namespace=namespace, generation=generation, etag=if_match)
        return self._run(steps)

    def namespaces(self, *, examples: bool = False) -> list[NamespaceInfo]:
        """Every namespace of the tenant with its size; with ``examples`` those that hold examples of the library."""
        return self._run(self._operations.namespaces(examples=examples))

    def quotas(self) -> Quotas:
        """What the tenant may store and queue, and how much of it is used."""
        return self._run(self._operations.quotas())

    def export(
        self, namespace: str, path: str | Path, *, on_progress: Callable[[Manifest], None] | None = None
    ) -> Manifest:
        """Write a namespace with its chunks and vectors to a folder, or to one file if ``path`` ends in .chordwise.

        Called again after it was broken off, it goes on after the last whole part. Raises InvalidInput as well.
        """
        return self._run(self._operations.export(namespace, Path(path), on_progress))

    def import_archive(
        self,
        path: str | Path,
        *,
        namespace: str,
        on_conflict: str | None = None,
        again: bool = False,
        on_progress: Told | None = None,
    ) -> Imported:
        """Send the parts of an archive that have not arrived yet; ``again`` sends all. Returns once everything is durable
        at the server: ``wait(imported.ingestion)`` until it is searchable.

        Every part is verified first: InvalidInput names one that is damaged, and nothing was sent. An error in between
        has the jobs before it in ``accepted``; called again, this goes on.
        """
        steps = self._operations.import_archive(
            Path(path), namespace, on_conflict=on_conflict, again=again, told=on_progress
        )
        return self._run(steps)

    def verify(
        self,
        namespaces: Iterable[str] | str | None = None,
        *,
        repair: bool = False,
        delete_share: float | None = None,
        timeout: float = 600.0,
    ) -> Alignment:
        """Compare the two stores chunk by chunk, in the namespaces given or in all; with ``repair`` put them right.

        A repair that would delete a large share of the tenant's vectors or rows of chunks withholds that; ``delete_share``
        (0 to 1) confirms it.
        """
        chosen = [namespaces] if isinstance(namespaces, str) else namespaces
        steps = self._operations.verify(chosen, repair=repair, delete_share=delete_share, timeout_s=timeout)
        return self._run(steps)

    def usage(self, *, start: date | str | None = None, end: date | str | None = None, by: str = "day") -> UsageReport:
        """What embedding cost between two days (UTC, both included; default: this month), ``by`` day, job, model or
        purpose."""
        return self._run(self._operations.usage(start=start, end=end, by=by))

    def start_migration(
        self, *, provider: str, model: str, dimension: int, service: str = "default"
    ) -> EmbeddingMigration:
        """Begin to move the installation to another embedding model. Takes the operator's key."""
        return self._run(
            self._operations.start_migration(provider=provider, model=model, dimension=dimension, service=service)
        )

    def migrations(self) -> list[EmbeddingMigration]:
        """Every move to another embedding model, the latest first."""
        return self._run(self._operations.migrations())

    def steer_migration(self, number: int, what: str, **options: Any) -> EmbeddingMigration:
        """Compare, switch, rollback, finish or abort; ``options`` are the fields of that request."""
        return self._run(self._operations.steer_migration(number, what, options))

    def doctor(self) -> Diagnosis:
        """What is wrong with the installation, and what to do about it. Takes the operator's key, and some seconds."""
        return self._run(self._operations.doctor())

    def health(self) -> Health:
        """Whether the server can work, dependency by dependency."""
        return self._run(self._operations.health())

    def server_version(self) -> str | None:
        """The server's version, if it tells."""
        return self._run(self._operations.server_version())

    def _run(self, steps: Steps[T]) -> T:
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return cast(T, end.value)
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                outcome = None
            else:
                outcome = self._send(step)

    def _send(self, call: Call) -> Outcome:
        try:
            return answer(self._http.request(**request_arguments(call, self._timeout_s)))
        except httpx.HTTPError as error:
            return no_answer(error)
