"""Write the answer to a query in words, with a language model, from the passages that the query found."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import orjson
import structlog

from pipeline.answer.written_answer import WrittenAnswer, WrittenCitation, numbered_passages, read_reply, text_so_far
from pipeline.errors import Misconfigured, WriterUnavailable
from pipeline.jobs.computation import Computation, Done
from pipeline.query.request import Degradation, Query
from pipeline.records import QueryId, TenantId
from pipeline.resources import Resources
from pipeline.tenants.usage import Purpose, UsageCounts

log = structlog.get_logger(__name__)

PART = "write"  # of a degradation
_SAY_EVERY_S: Final = 0.1


def write_answer(computation: Computation, use: Resources) -> Done:
    """Answer ``query_id`` in words within ``timeout_s``: the written answer, or ``{"error": code}`` without a query.

    Never raises for the model: an answer without a text names the reason in its degradations. Only passages of the
    query's own answer are sent, and only they can be cited. The caller gets the text as it grows; once the caller has
    left, the model is stopped.
    """
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

    passages, citations = numbered_passages(answer, has_markers=query.plan.context.header == "title")
    if not citations:
        return without_text("no_passages", "the query found no passage to answer from")
    try:
        reply = use.writer.write(
            query.query_text,
            passages,
            list(citations),
            timeout_s=computation.asked["timeout_s"],
            wrote=_Teller(computation, use).wrote,
            counted=partial(_count, computation.tenant_id, use),
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


def _count(tenant_id: TenantId, use: Resources, sent: int, received: int) -> None:
    prices = use.settings
    cost = sent * prices.llm_input_price_per_million + received * prices.llm_output_price_per_million
    counts = UsageCounts(requests=1, texts=1, tokens=sent + received, cost=cost / 1_000_000)
    use.usage_book.note(tenant_id, Purpose.ANSWER, prices.llm_model, counts, job_id=None)
    use.usage_book.write_soon()


def _citation(marker: str, passage: Mapping[str, Any]) -> WrittenCitation:
    ids = {name: passage[name] for name in ("chunk_id", "document_id", "namespace", "title")}
    return WrittenCitation(marker=marker, page=passage.get("page"), **ids)
