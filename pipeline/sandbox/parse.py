"""The process that parses and cuts: `python -m pipeline.sandbox.parse MEMORY_BYTES PARSING_S CUTTING_S RECOGNITION`
(processor seconds; JSON or an empty text), with frames on standard streams. Without settings, secrets, network and files
but code (`confinement`), it limits itself; a document that needs too much ends it."""

import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from pipeline.documents.cut_document import cut_as
from pipeline.errors import MalformedDocument, Rejected
from pipeline.examples.workbook_book import read_tables
from pipeline.garbage import keep_for_good
from pipeline.parsing.formats import parse, read_pictures
from pipeline.parsing.pdf.page_images import render_page
from pipeline.parsing.recognition import PageReader, Recognition
from pipeline.sandbox.accepted_formats import register_installed_parsers
from pipeline.sandbox.confinement import confine
from pipeline.sandbox.frames import CUTTING, RECOGNISING, frame_of_image, out_of_memory, request_of
from pipeline.sandbox.pipes import own_streams, packed, read_exactly, read_frame

_MOST_FILES = 64  # file descriptors
_WORN_OUT = 0.5  # share of the memory at which the process ends, because little of it is released


def main() -> None:
    """Parse and cut documents until the input ends, or until one has used up the memory."""
    memory_bytes, parsing_s, cutting_s = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    recognition = Recognition(**json.loads(sys.argv[4])) if sys.argv[4] else None
    requests, answers = own_streams()
    _bound(resource.RLIMIT_AS, memory_bytes)
    _bound(resource.RLIMIT_FSIZE, 0)
    _bound(resource.RLIMIT_CORE, 0)
    _bound(resource.RLIMIT_NOFILE, _MOST_FILES)
    # Before the first plug-in, whose code is not ours.
    missing = confine([Path(recognition.program).parent] if recognition and recognition.program else [])
    register_installed_parsers()
    about: dict[str, Any] = {}  # of the current request
    if recognition is not None:
        begin_page = partial(_begin, RECOGNISING, recognition.page_s, answers, about)
        read_pictures(PageReader(recognition=recognition, begin_page=begin_page))
    begin_cutting = partial(_begin, CUTTING, cutting_s, answers, about)
    read = partial(read_exactly, requests)
    keep_for_good()
    answers.write(packed({"ready": True, "unconfined": missing}))
    answers.flush()
    is_last = False
    while not is_last:
        try:
            header, body = read_frame(read)
        except EOFError:
            return
        _bound(resource.RLIMIT_CPU, math.ceil(time.process_time() + parsing_s))
        about.clear()
        about.update(number=header["number"], last=False)
        try:
            answer, text = answer_to(header, body, begin_cutting)
            is_last = about["last"] = _peak_bytes() > memory_bytes * _WORN_OUT
            about["cpu_s"] = time.process_time()
            about.pop("stage", None)
            frame = packed({**about, **answer}, text)
        except MemoryError:
            is_last = True
            refused = refusal(out_of_memory(about.pop("stage", None)))
            frame = packed({**about, **refused, "last": True})
        answers.write(frame)
        answers.flush()


def _begin(stage: str, limit_s: float, answers: BinaryIO, about: dict[str, Any]) -> None:
    """Report that a stage of the document has begun, and start its time limit."""
    about.update(stage=stage, cpu_s=time.process_time())
    answers.write(packed(about))
    answers.flush()
    _bound(resource.RLIMIT_CPU, math.ceil(time.process_time() + limit_s))


def _peak_bytes() -> int:
    """Return the peak memory. `getrusage` would include the parent process."""
    with open("/proc/self/status", "rb") as status:
        return next((int(line.split()[1]) * 1024 for line in status if line.startswith(b"VmHWM:")), 0)


def answer_to(
    header: dict[str, Any], body: bytes, begin_cutting: Callable[[], None] = lambda: None
) -> tuple[dict[str, Any], bytes]:
    """Return the document in pieces, parsed only, or its tables; or the code and the sentence of the error."""
    try:
        if header.get("wanted") == "tables":
            return {}, orjson.dumps(read_tables(body), option=orjson.OPT_NON_STR_KEYS)
        if header.get("wanted") == "page":
            return frame_of_image(render_page(body, header["page"], width=header["width"]))
        if header.get("wanted") == "pieces":
            request = request_of(header)
            parsed = parse(body, media_type=request.media_type, filename=request.filename)
            begin_cutting()
            return {}, orjson.dumps(cut_as(parsed, request))
        return {}, orjson.dumps(parse(body, media_type=header["media_type"], filename=header["filename"]))
    except Rejected as error:
        return refusal(error), b""
    except MemoryError:
        raise
    except RecursionError:
        return refusal(MalformedDocument("the document is nested too deeply")), b""
    except Exception as error:  # noqa: BLE001 - a document that no parser foresaw; named by its type, never its text
        return {"bug": type(error).__name__, "where": _where(error)}, b""


def refusal(error: Rejected) -> dict[str, Any]:
    """Return the answer for a document that is at fault."""
    return {"error": type(error).__name__, "detail": str(error)}


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else ""


def _bound(what: int, amount: int) -> None:
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (amount if hard == resource.RLIM_INFINITY else min(amount, hard), hard))


if __name__ == "__main__":
    main()
