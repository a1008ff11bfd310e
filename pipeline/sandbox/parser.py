"""What flows parse with: harmless documents at once, all others in a process with limits."""

from __future__ import annotations

import signal
import threading
from typing import Any

import structlog

from pipeline import errors
from pipeline.core.examples.workbook_form import Sheet
from pipeline.core.parsing import MARKDOWN, PLAIN, XLSX, parse
from pipeline.errors import MalformedDocument, ParserMemory, ParserTimeout, ParserUnavailable, Rejected
from pipeline.records import Parsed
from pipeline.sandbox.frames import parsed_of, sheets_of
from pipeline.sandbox.process import NotStarted, ParserProcess, ProcessDied, ProcessOverdue

log = structlog.get_logger(__name__)

_HARMLESS = frozenset({PLAIN, MARKDOWN})  # read in one pass, whatever is in them
_MOST_HARMLESS = 256 * 1024  # bytes
_DOCUMENTS_PER_PROCESS = 1000  # after which it makes room for a fresh one
_ALL_MEMORY = 0.6  # share of the allowance at its peak from which a crash was one for want of memory
_MUCH_MEMORY = 0.25  # the same for being killed, which the kernel does to the largest when a host's memory is used up
BY_THE_CLOCK = 2  # times the processor's time: other processes want the processor too
_BUSY = 0.5  # share of its time that an overdue document must have had the processor for, or the host is at fault


class Parser:
    """Parses documents one after the other. One process serves them all, and is replaced when a document ends it."""

    def __init__(self, *, memory_bytes: int, timeout_s: float) -> None:
        """``timeout_s``: of the processor's time, for one document; by the clock it may take twice as long."""
        self._memory_bytes, self._timeout_s = memory_bytes, timeout_s
        self._process: ParserProcess | None = None
        self._lock = threading.Lock()

    def parse(self, body: bytes, *, media_type: str, filename: str | None = None) -> Parsed:
        """As `pipeline.core.parsing.parse`, and raises ParserTimeout or ParserMemory for what takes too much.

        Raises ParserUnavailable if the process does not start.
        """
        if media_type.partition(";")[0].strip().lower() in _HARMLESS and len(body) <= _MOST_HARMLESS:
            return parse(body, media_type=media_type, filename=filename)
        with self._lock:
            return parsed_of(*self._elsewhere({"media_type": media_type, "filename": filename}, body))

    def tables(self, body: bytes) -> list[Sheet]:
        """As `read_tables` of the example library: the sheets of a workbook. Raises what `parse` raises."""
        with self._lock:
            return sheets_of(self._elsewhere({"media_type": XLSX, "wanted": "tables"}, body)[1])

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._forget()

    def _elsewhere(self, question: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        process = self._ready()
        done = False
        try:
            header, answer = process.ask(question, body, timeout_s=self._timeout_s * BY_THE_CLOCK)
            done = not header["last"]
        except ProcessOverdue as overdue:
            if overdue.cpu_s < self._timeout_s * _BUSY:
                raise ParserUnavailable("the host is too busy to parse documents") from None
            raise self._took_too_long() from None
        except ProcessDied as death:
            raise self._verdict(death) from None
        finally:
            if not done:  # also for an exception from outside, after which its next answer would be to this question
                self._forget()
        if "bug" in header:
            log.error("parser_bug", media_type=question["media_type"], error=header["bug"], place=header["where"])
            raise MalformedDocument(f"the document could not be read ({header['bug']})")
        if "error" in header:
            raise _rejection(header["error"], header["detail"])
        return header, answer

    def _verdict(self, death: ProcessDied) -> Exception:
        log.warning("parser_died", exit_code=death.exit_code, peak_bytes=death.peak_bytes)
        if death.out_of_time:
            return self._took_too_long()
        if death.peak_bytes > self._memory_bytes * (_MUCH_MEMORY if death.killed_from_outside else _ALL_MEMORY):
            return ParserMemory("parsing the document takes more memory than is allowed")
        if death.exit_code == -signal.SIGABRT and not death.peak_bytes:
            # A library that gets no memory aborts; how much it had is not always known.
            return ParserMemory("parsing the document takes more memory than is allowed")
        if death.killed_from_outside:
            return ParserUnavailable("the parser process was ended from outside")
        if death.exit_code > 0:
            return ParserUnavailable(f"the parser process ended with exit code {death.exit_code}")
        return MalformedDocument("the document is damaged in a way that ended its parser")

    def _took_too_long(self) -> ParserTimeout:
        return ParserTimeout(f"parsing the document took more than {self._timeout_s:g} s")

    def _ready(self) -> ParserProcess:
        if self._process is not None and (not self._process.is_ours() or self._process.asked >= _DOCUMENTS_PER_PROCESS):
            self._forget()
        if self._process is None:
            try:
                self._process = ParserProcess(memory_bytes=self._memory_bytes, cpu_s=self._timeout_s)
            except (OSError, NotStarted) as error:
                raise ParserUnavailable(f"the parser process does not start ({error})") from error
        return self._process

    def _forget(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None


def _rejection(name: str, detail: str) -> Rejected:
    kind = getattr(errors, name, None)
    return kind(detail) if isinstance(kind, type) and issubclass(kind, Rejected) else MalformedDocument(detail)
