"""Write the answer to a query in words, with a language model, from the passages that the query found."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

import orjson
import structlog

from chordwise.contract.explanation import WrittenAnswer, WrittenCitation
from pipeline.errors import Misconfigured, WriterUnavailable
from pipeline.jobs.computation import Computation, Done
from pipeline.outages import tolerate_outage
from pipeline.query.model_replies import json_in
from pipeline.query.plan import ContextOptions
from pipeline.query.request import Degradation, Query
from pipeline.ranking.hits import Hydrated
from pipeline.records import QueryId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.build_context import build_context
from pipeline.retrieval.load_text import read
from pipeline.retrieval.measure import charge_model
from pipeline.tenants.usage import Purpose

log = structlog.get_logger(__name__)

PART = "write"  # of a degradation
_SAY_EVERY_S: Final = 0.1
_READ_S: Final = 2.0


def write_answer(computation: Computation, use: Resources) -> Done:
    """Answer a query in words within ``timeout_s``, from the passages of its answer alone.

    Return the written answer, or ``{"error": code}`` if there is no such query. An answer without a text names the reason in
    its degradations. The caller gets the text as it grows; once the caller has left, the model is stopped."""
    query_id = QueryId(computation.asked["query_id"])
    queries = use.queries(computation.tenant_id)
    query, stored = queries.stored(query_id), queries.field(query_id, "answer")
    if query is None or stored is None:
        return Done(body=orjson.dumps({"error": "query_not_found"}))
    started = time.monotonic()
    written = _written(query, orjson.loads(stored), computation, use)
    written = replace(written, latency_ms=round((time.monotonic() - started) * 1000, 3))
    log.info(
        "answer_written",
        query_id=query_id,
        status=written.status,
        found=written.found,
        citations=len(written.citations),
        dropped_markers=len(written.dropped_markers),
        codes=[lost.code for lost in written.degradations],
        elapsed_ms=written.latency_ms,
    )
    return Done(body=orjson.dumps(written))


def _written(query: Query, answer: Mapping[str, Any], computation: Computation, use: Resources) -> WrittenAnswer:
    nothing = WrittenAnswer(
        query_id=query.query_id, status="failed", found=None, text=None, model=use.settings.llm_model, latency_ms=0.0
    )

    def without_text(code: str, detail: str) -> WrittenAnswer:
        lost = Degradation(part=PART, code=code, detail=detail)
        return replace(nothing, degraded=True, degradations=(lost,))

    options = query.plan.context or ContextOptions()
    if "context" not in answer:
        answer = {**answer, "context": _context_of(query, options, answer["chunks"], use)}
    passages, citations = numbered_passages(answer, has_markers=options.header == "title")
    if not citations:
        return without_text("no_passages", "the query found no passage to answer from")
    try:
        reply = use.writer.write(
            query.query_text,
            passages,
            list(citations),
            timeout_s=computation.asked["timeout_s"],
            wrote=_Teller(computation, use).wrote,
            counted=partial(charge_model, computation.tenant_id, Purpose.ANSWER, use),
        )
    except WriterUnavailable as error:
        return without_text(error.code, str(error))
    except Misconfigured as error:
        return without_text(WriterUnavailable.code, str(error))
    read = read_reply(reply, list(citations))
    if read is None:
        return without_text("unusable_reply", "the language model answered with nothing that could be read")
    if read.found and not read.cited:
        return without_text("uncited_reply", "the language model cited no passage, so its text is withheld")
    return replace(
        nothing,
        status="succeeded",
        found=read.found,
        text=read.text,
        citations=tuple(_citation(marker, citations[marker]) for marker in read.cited),
        dropped_markers=read.dropped,
    )


def _context_of(
    query: Query, options: ContextOptions, chunks: Sequence[Mapping[str, Any]], use: Resources
) -> Mapping[str, Any]:
    """Return the context of an answer that was asked for without one, from the texts as they were answered."""
    asked = replace(query, plan=replace(query.plan, context=options), deadline_at=time.time() + _READ_S)
    ids, namespaces = [chunk["chunk_id"] for chunk in chunks], sorted({chunk["namespace"] for chunk in chunks})
    stored: Mapping[str, Any] = {}  # without it, the hits are read without their surroundings
    with tolerate_outage(log.warning, "surroundings_not_read", query_id=query.query_id):
        stored = read(asked, ids, namespaces, use)
    hits = []
    for chunk in chunks:
        answered = {name: chunk[name] for name in ("title", "text", "metadata")}
        ids_of = {name: chunk[name] for name in ("chunk_id", "document_id", "namespace")}
        passage = stored.get(chunk["chunk_id"])
        hits.append(Hydrated(**ids_of, **answered) if passage is None else replace(passage, **answered))
    context = build_context(Arrived(query=asked, envelopes={}, elapsed_ms={}), hits, use)
    assert context is not None  # the plan asks for one
    return asdict(context)


class _Teller:
    """Tells the caller the text as it grows, a few times a second."""

    def __init__(self, computation: Computation, use: Resources) -> None:
        self._computation_id = computation.computation_id
        self._computations = use.computations(computation.tenant_id)
        self._due = 0.0

    def wrote(self, reply: str) -> None:
        """Store the text of the reply so far. Raises WriterUnavailable if no caller waits for it any more."""
        if time.monotonic() < self._due:
            return
        if not self._computations.say(self._computation_id, text_so_far(reply)):
            raise WriterUnavailable("the caller has left")
        self._due = time.monotonic() + _SAY_EVERY_S


def _citation(marker: str, passage: Mapping[str, Any]) -> WrittenCitation:
    ids = {name: passage[name] for name in ("chunk_id", "document_id", "namespace", "title")}
    return WrittenCitation(marker=marker, page=passage.get("page"), **ids)


_MARKER: Final = re.compile(r"[\[【［]\s{0,2}(\d{1,3}(?:\s{0,2}[,，、;；]\s{0,2}\d{1,3}){0,20})\s{0,2}[\]】］]")
_NUMBER: Final = re.compile(r"\d{1,3}")
_SPACE_BEFORE_STOP: Final = re.compile(r"[ \t]{1,4}(?=[.,;:!?。，；：！？])")
_LONGEST_ANSWER: Final = 8_000  # characters
_BEGUN_ANSWER: Final = re.compile(r'"answer"\s{0,9}:\s{0,9}"((?:[^"\\]|\\[^u]|\\u[0-9a-fA-F]{4})*)')
_HALF_CHARACTER: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_PROSE: Final = re.compile(r"[^\s{\[`<]")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenReply:
    """A model's reply. ``cited``: its valid markers in order of first mention; ``dropped``: those that name no passage."""

    found: bool
    text: str
    cited: tuple[str, ...]
    dropped: tuple[str, ...]


def numbered_passages(answer: Mapping[str, Any], *, has_markers: bool) -> tuple[str, Mapping[str, Mapping[str, Any]]]:
    """Return the context, or the hits if it has no markers, as one text, and the citations by marker."""
    chunks = {chunk["chunk_id"]: chunk for chunk in answer["chunks"]}
    context = answer["context"]
    citations = {citation["marker"]: citation for citation in context["citations"]}
    if citations and has_markers:
        return context["text"], citations
    citations = citations or {f"[{place}]": chunk for place, chunk in enumerate(answer["chunks"], start=1)}
    passages = (
        f"{marker} {citation['title'] or ''}\n\n{chunks[citation['chunk_id']]['text']}"
        for marker, citation in citations.items()
    )
    return "\n\n---\n\n".join(passages), citations


def text_so_far(reply: str) -> str:
    """Return the text in the beginning of a reply, with its citations unchecked; empty before it begins."""
    reply = reply.rpartition("</think>")[2].lstrip()
    if match := _BEGUN_ANSWER.search(reply):
        try:
            text = str(json.loads(f'"{_HALF_CHARACTER.sub("", match[1])}"', strict=False))
        except ValueError:
            return ""
    else:
        text = reply if _PROSE.match(reply) else ""
    return text[:_LONGEST_ANSWER].encode("utf-8", "ignore").decode()


def read_reply(reply: str, markers: Sequence[str]) -> WrittenReply | None:
    """Return the text of a reply with its citations checked against ``markers`` and normalised to ``[1][3]``; those of
    no passage are removed. None without a text, or for prose that cites nothing."""
    value = json_in(reply)
    found, text = True, value.get("answer") if isinstance(value, dict) else None
    if isinstance(value, dict) and isinstance(value.get("found"), bool):
        found = value["found"]
    if text is None and not isinstance(value, dict):
        text = reply.rpartition("</think>")[2]
    if not isinstance(text, str) or not text.strip():
        return None
    cited: dict[str, None] = {}
    dropped: dict[str, None] = {}

    def checked(match: re.Match[str]) -> str:
        named = [f"[{int(number)}]" for number in _NUMBER.findall(match[1])]
        for marker in named:
            (cited if marker in markers else dropped)[marker] = None
        return "".join(marker for marker in named if marker in markers)

    clean = text[:_LONGEST_ANSWER].encode("utf-8", "ignore").decode().strip()
    clean = _SPACE_BEFORE_STOP.sub("", _MARKER.sub(checked, clean)) if _MARKER.search(clean) else clean
    if not isinstance(value, dict) and not cited:
        return None  # prose without a citation is an apology, or an answer from elsewhere
    return WrittenReply(found=found, text=clean.strip(), cited=tuple(cited), dropped=tuple(dropped))
