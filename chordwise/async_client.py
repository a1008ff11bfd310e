"""The asynchronous client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack, cast, overload

import httpx

from chordwise.archive import Manifest
from chordwise.chunks import AsyncChunkMethods
from chordwise.config import from_environment
from chordwise.configuring import AsyncConfigureMethods
from chordwise.diagnosis import Diagnosis
from chordwise.documents import IngestOptions
from chordwise.entities import EntityState
from chordwise.examples import ExamplesImport, ExampleStatistics, ExamplesVerification
from chordwise.explaining import AsyncExplainMethods
from chordwise.feedback import AsyncFeedbackMethods
from chordwise.files import FoundFile
from chordwise.following import Follower, JobEvent
from chordwise.generations import DocumentGenerations
from chordwise.governing import AsyncGovernMethods
from chordwise.migrations import EmbeddingMigration
from chordwise.operations import Ingestible, Operations, with_urls
from chordwise.options import FileKeywords, IngestKeywords, QueryKeywords, Told
from chordwise.portability import Imported
from chordwise.profiles import AsyncProfileMethods
from chordwise.queries import query_body
from chordwise.querying import AsyncQueryMethods
from chordwise.quotas import Quotas
from chordwise.results import Alignment, DocumentInfo, Health, Ingestion, Job, NamespaceInfo, QueryResult
from chordwise.retries import PATIENT, RetryPolicy
from chordwise.signal_methods import AsyncSignalMethods
from chordwise.sources import AsyncSourceMethods
from chordwise.tenancy_methods import AsyncTenancyMethods
from chordwise.transport import Call, Outcome, Pause, Steps, answer, client_arguments, no_answer, request_arguments
from chordwise.usage import UsageReport

T = TypeVar("T")


class AsyncChordwise(
    AsyncChunkMethods,
    AsyncConfigureMethods,
    AsyncExplainMethods,
    AsyncFeedbackMethods,
    AsyncGovernMethods,
    AsyncProfileMethods,
    AsyncQueryMethods,
    AsyncSignalMethods,
    AsyncSourceMethods,
    AsyncTenancyMethods,
):
    """``Chordwise`` for asyncio: the same methods, arguments, results and errors, to be awaited.

    For one event loop; use ``async with``, or close it. Files are read while the loop waits, so hand large ones to
    ``Chordwise`` in a thread. Callbacks such as ``on_progress`` are plain functions.
    """

    def __init__(
        self, url: str | None = None, api_key: str | None = None, timeout: float = 30.0, *, retries: int = 4
    ) -> None:
        known = from_environment()
        self._timeout_s = timeout
        self._http = httpx.AsyncClient(**client_arguments(url or known.url, api_key or known.api_key))
        self._operations: Operations = Operations(RetryPolicy(retries=retries), timeout_s=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """See ``Chordwise.close``."""
        await self._http.aclose()

    async def ingest(
        self,
        documents: Iterable[Ingestible] | Ingestible = (),
        *,
        url: str | Iterable[str] | None = None,
        on_progress: Told | None = None,
        **options: Unpack[IngestKeywords],
    ) -> Ingestion:
        """See ``Chordwise.ingest``."""
        things = with_urls(documents, url)
        return await self._run(self._operations.ingest(things, IngestOptions(**options), on_progress))

    async def ingest_files(
        self,
        paths: Iterable[FoundFile | str | Path],
        *,
        on_progress: Told | None = None,
        **options: Unpack[FileKeywords],
    ) -> Ingestion:
        """See ``Chordwise.ingest_files``."""
        return await self._run(self._operations.ingest_files(paths, IngestOptions(**options), on_progress))

    @overload
    async def wait(
        self, job: Ingestion, *, timeout: float | None = None, on_progress: Callable[[Ingestion], None] | None = None
    ) -> Ingestion: ...
    @overload
    async def wait(
        self, job: Job | str, *, timeout: float | None = None, on_progress: Callable[[Job], None] | None = None
    ) -> Job: ...
    async def wait(
        self, job: Any, *, timeout: float | None = None, on_progress: Callable[[Any], None] | None = None
    ) -> Any:
        """See ``Chordwise.wait``."""
        return await self._run(self._operations.wait(job, timeout_s=timeout, told=on_progress))

    async def job(self, job_id: str) -> Job:
        """See ``Chordwise.job``."""
        return await self._run(self._operations.job(job_id))

    async def jobs(self, *, status: str | Sequence[str] | None = None, limit: int | None = 100) -> list[Job]:
        """See ``Chordwise.jobs``."""
        return await self._run(self._operations.jobs(status=status, limit=limit))

    async def cancel_job(self, job_id: str) -> Job:
        """See ``Chordwise.cancel_job``."""
        return await self._run(self._operations.steer(job_id, "cancel"))

    async def retry_job(self, job_id: str) -> Job:
        """See ``Chordwise.retry_job``."""
        return await self._run(self._operations.steer(job_id, "retry"))

    async def pause_job(self, job_id: str) -> Job:
        """See ``Chordwise.pause_job``."""
        return await self._run(self._operations.steer(job_id, "pause"))

    async def resume_job(self, job_id: str) -> Job:
        """See ``Chordwise.resume_job``."""
        return await self._run(self._operations.steer(job_id, "resume"))

    async def import_examples(
        self,
        book: str | Path,
        *,
        namespace: str,
        strict: bool = False,
        dry_run: bool = False,
        on_conflict: str | None = None,
        category: str | None = None,
    ) -> ExamplesImport:
        """See ``Chordwise.import_examples``."""
        return await self._run(
            self._operations.import_examples(
                book, namespace=namespace, strict=strict, dry_run=dry_run, on_conflict=on_conflict, category=category
            )
        )

    async def examples_template(self) -> bytes:
        """See ``Chordwise.examples_template``."""
        return await self._run(self._operations.examples_template())

    async def example_statistics(self, *, namespace: str) -> ExampleStatistics:
        """See ``Chordwise.example_statistics``."""
        return await self._run(self._operations.example_statistics(namespace))

    async def verify_examples(self, job_id: str, *, sample: int = 10) -> ExamplesVerification:
        """See ``Chordwise.verify_examples``."""
        return await self._run(self._operations.verify_examples(job_id, sample=sample))

    async def events(self, job: Job | str) -> AsyncIterator[JobEvent]:
        """See ``Chordwise.events``; iterate with ``async for``."""
        follower = Follower(job.job_id if isinstance(job, Job) else job, PATIENT)
        while not follower.finished:
            try:
                async with self._http.stream(**follower.request(self._timeout_s)) as response:
                    if follower.is_stream(response):
                        async for line in response.aiter_lines():
                            if (event := follower.read(line)) is not None:
                                yield event
                            if follower.finished:
                                return
                        delay_s = follower.ended()
                    elif follower.finished:
                        return
                    else:
                        await response.aread()
                        delay_s = follower.refused(answer(response))
            except httpx.HTTPError as error:
                delay_s = follower.broken(error)
            await asyncio.sleep(delay_s)

    async def put_entities(self, entities: Iterable[Mapping[str, Any]], *, namespace: str) -> int:
        """See ``Chordwise.put_entities``."""
        return await self._run(self._operations.put_entities(entities, namespace))

    async def entities(self, namespace: str, *, as_of: int | None = None, name: str | None = None) -> list[EntityState]:
        """See ``Chordwise.entities``."""
        return await self._run(self._operations.entities(namespace, as_of=as_of, name=name))

    async def delete_entities(self, entity_ids: Iterable[str], *, namespace: str) -> int:
        """See ``Chordwise.delete_entities``."""
        return await self._run(self._operations.delete_entities(entity_ids, namespace))

    async def query(
        self,
        text: str,
        *,
        timeout: float | None = None,
        request_id: str | None = None,
        fresh: bool = False,
        **options: Unpack[QueryKeywords],
    ) -> QueryResult:
        """See ``Chordwise.query``."""
        body = query_body(text, **options)
        return await self._run(self._operations.query(body, timeout_s=timeout, request_id=request_id, fresh=fresh))

    async def documents(
        self,
        *,
        namespace: str | None = None,
        status: str | None = None,
        source_id: str | None = None,
        limit: int | None = 100,
    ) -> list[DocumentInfo]:
        """See ``Chordwise.documents``."""
        return await self._run(
            self._operations.documents(namespace=namespace, status=status, source_id=source_id, limit=limit)
        )

    async def delete_document(self, document_id: str, *, namespace: str) -> None:
        """See ``Chordwise.delete_document``."""
        await self._run(self._operations.delete_document(document_id, namespace=namespace))

    async def generations(self, document_id: str, *, namespace: str) -> DocumentGenerations:
        """See ``Chordwise.generations``."""
        return await self._run(self._operations.generations(document_id, namespace=namespace))

    async def rollback(
        self, document_id: str, *, namespace: str, generation: int | None = None, if_match: str | None = None
    ) -> Job:
        """See ``Chordwise.rollback``."""
        steps = self._operations.rollback(document_id, namespace=namespace, generation=generation, etag=if_match)
        return await self._run(steps)

    async def namespaces(self, *, examples: bool = False) -> list[NamespaceInfo]:
        """See ``Chordwise.namespaces``."""
        return await self._run(self._operations.namespaces(examples=examples))

    async def quotas(self) -> Quotas:
        """See ``Chordwise.quotas``."""
        return await self._run(self._operations.quotas())

    async def export(
        self, namespace: str, path: str | Path, *, on_progress: Callable[[Manifest], None] | None = None
    ) -> Manifest:
        """See ``Chordwise.export``."""
        return await self._run(self._operations.export(namespace, Path(path), on_progress))

    async def import_archive(
        self,
        path: str | Path,
        *,
        namespace: str,
        on_conflict: str | None = None,
        again: bool = False,
        on_progress: Told | None = None,
    ) -> Imported:
        """See ``Chordwise.import_archive``."""
        steps = self._operations.import_archive(
            Path(path), namespace, on_conflict=on_conflict, again=again, told=on_progress
        )
        return await self._run(steps)

    async def verify(
        self,
        namespaces: Iterable[str] | str | None = None,
        *,
        repair: bool = False,
        delete_share: float | None = None,
        timeout: float = 600.0,
    ) -> Alignment:
        """See ``Chordwise.verify``."""
        chosen = [namespaces] if isinstance(namespaces, str) else namespaces
        steps = self._operations.verify(chosen, repair=repair, delete_share=delete_share, timeout_s=timeout)
        return await self._run(steps)

    async def usage(
        self, *, start: date | str | None = None, end: date | str | None = None, by: str = "day"
    ) -> UsageReport:
        """See ``Chordwise.usage``."""
        return await self._run(self._operations.usage(start=start, end=end, by=by))

    async def start_migration(
        self, *, provider: str, model: str, dimension: int, service: str = "default"
    ) -> EmbeddingMigration:
        """See ``Chordwise.start_migration``."""
        return await self._run(
            self._operations.start_migration(provider=provider, model=model, dimension=dimension, service=service)
        )

    async def migrations(self) -> list[EmbeddingMigration]:
        """See ``Chordwise.migrations``."""
        return await self._run(self._operations.migrations())

    async def steer_migration(self, number: int, what: str, **options: Any) -> EmbeddingMigration:
        """See ``Chordwise.steer_migration``."""
        return await self._run(self._operations.steer_migration(number, what, options))

    async def doctor(self) -> Diagnosis:
        """See ``Chordwise.doctor``."""
        return await self._run(self._operations.doctor())

    async def health(self) -> Health:
        """See ``Chordwise.health``."""
        return await self._run(self._operations.health())

    async def server_version(self) -> str | None:
        """See ``Chordwise.server_version``."""
        return await self._run(self._operations.server_version())

    async def _run(self, steps: Steps[T]) -> T:
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return cast(T, end.value)
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                outcome = None
            else:
                outcome = await self._send(step)

    async def _send(self, call: Call) -> Outcome:
        try:
            return answer(await self._http.request(**request_arguments(call, self._timeout_s)))
        except httpx.HTTPError as error:
            return no_answer(error)
