"""Parse and cut documents: harmless ones in this process, all others in a process with limits."""

import signal
import threading
from collections.abc import Callable
from typing import Any

import structlog
from pydantic import TypeAdapter

from pipeline import errors
from pipeline.chunking.strategies.registry import BUILT_IN
from pipeline.documents.cut_document import CutDocument, CutRequest, cut_as
from pipeline.errors import CuttingTooSlow, IngestCrowded, MalformedDocument, ParserTimeout, ParserUnavailable, Rejected
from pipeline.examples.workbook_book import Sheet
from pipeline.parsing.formats import MARKDOWN, PDF, PLAIN, XLSX, parse
from pipeline.parsing.pdf.page_images import PageImage
from pipeline.parsing.recognition import Recognition
from pipeline.records import Parsed
from pipeline.sandbox.frames import CUTTING, RECOGNISING, image_of, out_of_memory, question_of
from pipeline.sandbox.process import NotStarted, ParserProcess, ProcessDied, ProcessOverdue

log = structlog.get_logger(__name__)

Meanwhile = Callable[[], None]

MOST_AT_ONCE = 3  # processes
_HARMLESS = frozenset({PLAIN, MARKDOWN})  # read in one pass, whatever they contain
_MOST_HARMLESS = 4096  # bytes: even quadratic work on them takes no noticeable time
_DOCUMENTS_PER_PROCESS = 1000  # documents after which a process is replaced
_ALL_MEMORY = 0.6  # share of the allowance at its peak above which a crash counts as lack of memory
_MUCH_MEMORY = 0.25  # the same for a killed process: the kernel kills the largest when a host's memory is used up
CUTTING_S = 10.0  # processor time for cutting and analysing one document
BY_THE_CLOCK = 4  # times the processor's time: other processes need the processor too
_BUSY = 0.25  # share of its time that an overdue document must have had the processor; below it the host is at fault
_PARSED, _PIECES, _SHEETS = TypeAdapter(Parsed), TypeAdapter(CutDocument), TypeAdapter(list[Sheet])


class Parser:
    """Parses and cuts documents in separate processes; thread-safe. A process is reused until a document ends it;
    several run for several threads, or for one that waits for a slow document."""

    def __init__(
        self,
        *,
        memory_bytes: int,
        timeout_s: float,
        cutting_timeout_s: float = CUTTING_S,
        by_the_clock: float = BY_THE_CLOCK,
        recognition: Recognition | None = None,
    ) -> None:
        """Set the limits. ``timeout_s``, ``cutting_timeout_s``: processor time per document; the wall-clock limit is
        ``by_the_clock`` times as long. ``recognition``: of pictures; None to read none."""
        self._recognition = recognition
        self._by_the_clock = by_the_clock
        self._memory_bytes, self._timeout_s, self._cutting_timeout_s = memory_bytes, timeout_s, cutting_timeout_s
        self._idle: list[ParserProcess] = []
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._reported_unconfined = False

    def parse(
        self, body: bytes, *, media_type: str, filename: str | None = None, meanwhile: Meanwhile | None = None
    ) -> Parsed:
        """Return the parsed document. Raises as `pipeline.parsing.formats.parse`, and ParserTimeout, ParserMemory, and
        ParserUnavailable if the process does not start."""
        if _is_harmless(body, media_type):
            return parse(body, media_type=media_type, filename=filename)
        question = {"media_type": media_type, "filename": filename}
        return _PARSED.validate_json(self._elsewhere(question, body, meanwhile)[1])

    def cut(self, body: bytes, request: CutRequest, *, meanwhile: Meanwhile | None = None) -> CutDocument:
        """Parse and cut. Raises as `parse`, EmptyDocument, DocumentTooLarge for too many chunks, CuttingTooSlow,
        CuttingMemory. ``meanwhile`` runs a few times a second; its exceptions end the document. A strategy known only
        here cuts in this process, unlimited."""
        if _is_harmless(body, request.media_type):
            return cut_as(parse(body, media_type=request.media_type, filename=request.filename), request)
        if request.chunking.strategy not in BUILT_IN:
            parsed = self.parse(body, media_type=request.media_type, filename=request.filename, meanwhile=meanwhile)
            return cut_as(parsed, request)
        return _PIECES.validate_json(self._elsewhere(question_of(request), body, meanwhile)[1])

    def tables(self, body: bytes) -> list[Sheet]:
        """Return the sheets of a workbook, as `read_tables` of the example library. Raises what `parse` raises."""
        return _SHEETS.validate_json(self._elsewhere({"media_type": XLSX, "wanted": "tables"}, body)[1])

    def page(self, body: bytes, page: int, *, width: int) -> PageImage | None:
        """Return the image of a page of a PDF file, None without such a page. Raises what `parse` raises."""
        return image_of(*self._elsewhere({"media_type": PDF, "wanted": "page", "page": page, "width": width}, body))

    def close(self) -> None:
        """End the idle processes."""
        with self._lock:
            ended, self._idle = self._idle, []
        for process in ended:
            process.end()

    def _elsewhere(
        self, question: dict[str, Any], body: bytes, meanwhile: Meanwhile | None = None
    ) -> tuple[dict[str, Any], bytes]:
        with self._places:
            process = self._ready(meanwhile)
            done = False
            try:
                header, answer = process.ask(
                    question,
                    body,
                    timeout_s=self._timeout_s * self._by_the_clock,
                    stages_s={stage: self._limit_s(stage) * self._by_the_clock for stage in (CUTTING, RECOGNISING)},
                    meanwhile=meanwhile,
                )
                done = not header["last"]
            except IngestCrowded:  # starting takes half a second, which the next document need not wait for
                self._keep(self._started())
                raise
            except ProcessOverdue as overdue:
                if overdue.cpu_s < self._limit_s(overdue.stage) * _BUSY:
                    raise ParserUnavailable("the host is too busy to parse documents") from None
                raise self._took_too_long(overdue.stage) from None
            except ProcessDied as death:
                raise self._verdict(death) from None
            finally:  # also for an exception from outside: otherwise its next answer would belong to this request
                if done:
                    self._keep(process)
                else:
                    process.end()
        if "bug" in header:
            log.error("parser_bug", media_type=question["media_type"], error=header["bug"], place=header["where"])
            raise MalformedDocument(f"the document could not be read ({header['bug']})")
        if "error" in header:
            raise _rejection(header["error"], header["detail"])
        return header, answer

    def _verdict(self, death: ProcessDied) -> Exception:
        log.warning("parser_died", exit_code=death.exit_code, peak_bytes=death.peak_bytes)
        if death.out_of_time:
            return self._took_too_long(death.stage)
        suspicious = self._memory_bytes * (_MUCH_MEMORY if death.killed_from_outside else _ALL_MEMORY)
        # A library that gets no memory aborts; its peak is not always known.
        aborted = death.exit_code == -signal.SIGABRT and not death.peak_bytes
        if death.peak_bytes > suspicious or aborted:
            return out_of_memory(death.stage)
        if death.killed_from_outside:
            return ParserUnavailable("the parser process was ended from outside")
        if death.exit_code > 0:
            return ParserUnavailable(f"the parser process ended with exit code {death.exit_code}")
        return MalformedDocument("the document is damaged in a way that ended its parser")

    def _limit_s(self, stage: str | None) -> float:
        if stage == RECOGNISING and self._recognition is not None:
            return self._recognition.page_s
        return self._cutting_timeout_s if stage == CUTTING else self._timeout_s

    def _took_too_long(self, stage: str | None) -> Rejected:
        if stage == CUTTING:
            return CuttingTooSlow(f"cutting the document took more than {self._cutting_timeout_s:g} s")
        if stage == RECOGNISING:
            limit = f"{self._limit_s(stage):g} s (CHORDWISE_OCR_PAGE_TIMEOUT_S)"
            return ParserTimeout(f"recognising a page of the document took more than {limit}")
        return ParserTimeout(f"parsing the document took more than {self._timeout_s:g} s (CHORDWISE_PARSER_TIMEOUT_S)")

    def _ready(self, meanwhile: Meanwhile | None) -> ParserProcess:
        with self._lock:
            process = self._idle.pop() if self._idle else None
        if process is not None and not (process.is_ours() and process.asked < _DOCUMENTS_PER_PROCESS):
            process.end()
            process = None
        process = process or self._started()
        try:
            process.wait_until_ready(meanwhile)
        except NotStarted as error:
            raise ParserUnavailable(f"the parser process does not start ({error})") from error
        except BaseException:  # of ``meanwhile``: the process goes on starting, for the next document
            self._keep(process)
            raise
        if process.unconfined and not self._reported_unconfined:
            self._reported_unconfined = True
            log.warning("parser_not_confined", missing=list(process.unconfined))
        return process

    def _started(self) -> ParserProcess:
        try:
            return ParserProcess(
                memory_bytes=self._memory_bytes,
                parsing_s=self._timeout_s,
                cutting_s=self._cutting_timeout_s,
                recognition=self._recognition,
            )
        except OSError as error:
            raise ParserUnavailable(f"the parser process does not start ({error})") from error

    def _keep(self, process: ParserProcess) -> None:
        """Keep the process for the next document, unless another one waits for it already."""
        with self._lock:
            keep = not self._idle
            if keep:
                self._idle.append(process)
        if not keep:
            process.end()


def _is_harmless(body: bytes, media_type: str) -> bool:
    return len(body) <= _MOST_HARMLESS and media_type.partition(";")[0].strip().lower() in _HARMLESS


def _rejection(name: str, detail: str) -> Rejected:
    kind = getattr(errors, name, None)
    return kind(detail) if isinstance(kind, type) and issubclass(kind, Rejected) else MalformedDocument(detail)
