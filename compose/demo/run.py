"""`make demo`: ingest and query real documents on a complete stack, and print every step.

Reads CHORDWISE_URL and CHORDWISE_API_KEY. Exits 0 if every expectation holds, 1 if one does not, 2 if not configured.
"""

import sys
import time
from collections.abc import Sequence

from corpora import CHINESE, ENGLISH, NEW_WORDS, NOTICE_ID, OLD_WORDS, changed_notice, chinese_notes, python_docs
from questions import QUESTIONS, Question, shortfalls
from show import Printer, console

from chordwise import Alignment, Chordwise, ChordwiseError, Document, NotConfigured, QueryResult

INGEST_TIMEOUT_S = 180.0
QUERY_TIMEOUT_S = 15.0
DROPPED_WITHIN_S = 60.0


def main() -> int:
    """Run the demo against the server that the environment names."""
    printer = Printer(console())
    began = time.monotonic()
    try:
        with Chordwise() as client:
            tour(client, printer)
    except NotConfigured as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except ChordwiseError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    printer.step("Result")
    for failure in printer.failures:
        printer.say(f"FAILED  {failure}")
    printer.say(f"{len(printer.failures)} of {printer.checks} expectations failed; {time.monotonic() - began:.1f} s")
    return 1 if printer.failures else 0


def tour(client: Chordwise, printer: Printer) -> None:
    """Run every part of the demo, in order. Raises ChordwiseError if the server fails."""
    printer.step("Health")
    health = client.health()
    printer.health(health)
    printer.check(health.ready, "the gateway and everything it depends on is ready")

    printer.step("Documents go in: accepted as jobs, chunked, embedded, published")
    english, chinese = python_docs(), chinese_notes()
    ingest(client, printer, ENGLISH, english)
    ingest(client, printer, CHINESE, chinese)

    printer.step("Questions: every channel in parallel, then fusion, then rerank")
    corpus = {str(document.document_id): document for document in (*english, *chinese)}
    answers = [(question, ask(client, printer, question, corpus)) for question in QUESTIONS]

    printer.step("Over all questions")
    printer.summary(answers)

    printer.step("The same document again, with other words: it is replaced as a whole")
    replace(client, printer, chinese)

    printer.step("Both stores, compared chunk by chunk")
    alignment = without_replaced(client, printer)
    printer.alignment(alignment)
    drift = f"{alignment.missing} missing, {alignment.orphaned} orphaned, {alignment.stale} stale"
    printer.check(alignment.aligned, f"MySQL and pgvector hold the same chunks: {drift}")


def ingest(client: Chordwise, printer: Printer, namespace: str, documents: Sequence[Document]) -> None:
    """Send documents into a namespace and wait until each is searchable."""
    began = time.monotonic()
    accepted = client.ingest(documents, namespace=namespace, on_conflict="replace")
    took_ms = (time.monotonic() - began) * 1000
    printer.say(
        f"  {namespace}: {accepted.total} documents durable after {took_ms:.0f} ms, job {', '.join(accepted.job_ids)}"
    )
    done = client.wait(
        accepted, timeout=INGEST_TIMEOUT_S, on_progress=lambda ingestion: printer.progress(namespace, ingestion)
    )
    seconds = time.monotonic() - began
    printer.check(
        done.status == "succeeded" and done.succeeded == len(documents),
        f"{namespace}: {done.succeeded} of {len(documents)} documents became {done.chunks} searchable chunks"
        f" in {seconds:.1f} s ({done.status})",
    )
    for error in done.errors:
        printer.say(f"  {error.document_id}: {error.code}: {error.detail}")


def ask(client: Chordwise, printer: Printer, question: Question, corpus: dict[str, Document]) -> QueryResult:
    """Ask one question, print the answer and whether it is as expected."""
    result = client.query(
        question.text,
        namespaces=question.namespaces,
        top_k=question.top_k,
        filters=question.filters or None,
        rerank=True,
        timeout=QUERY_TIMEOUT_S,
    )
    printer.answer(question, result)
    wrong = list(shortfalls(question, result, corpus))
    for sentence in wrong:
        printer.check(False, f"“{question.text}”: {sentence}")
    if not wrong:
        printer.check(True, f"as expected: {', '.join(hit.document_id for hit in result.chunks[:3])}")
    return result


def replace(client: Chordwise, printer: Printer, chinese: Sequence[Document]) -> None:
    """Send the maintenance notice with another password, and look for both before and after."""
    before = notice_texts(client, OLD_WORDS)
    printer.say(f"  before: {sentence_with(OLD_WORDS, before)}")
    printer.check(any(OLD_WORDS in text for text in before), f"the search finds the notice with “{OLD_WORDS}”")

    accepted = client.ingest([changed_notice(chinese)], namespace=CHINESE, on_conflict="replace")
    done = client.wait(accepted, timeout=INGEST_TIMEOUT_S)
    printer.check(done.status == "succeeded", f"the changed notice is searchable ({done.status})")

    after = [*notice_texts(client, NEW_WORDS), *notice_texts(client, OLD_WORDS)]
    printer.say(f"  after:  {sentence_with(NEW_WORDS, after)}")
    printer.check(any(NEW_WORDS in text for text in after), f"the search finds the new words “{NEW_WORDS}”")
    printer.check(
        not any(OLD_WORDS in text for text in after), f"the old words “{OLD_WORDS}” are gone from every answer"
    )


def without_replaced(client: Chordwise, printer: Printer) -> Alignment:
    """Compare the stores once the replaced notice is dropped, 15 seconds later: until then its vector is counted."""
    until = time.monotonic() + DROPPED_WITHIN_S
    printer.say("  waiting until the replaced generation is dropped ...")
    while True:
        alignment = client.verify([ENGLISH, CHINESE])
        if all(row.chunks == row.vectors for row in alignment.namespaces) or time.monotonic() > until:
            return alignment
        time.sleep(1)


def notice_texts(client: Chordwise, words: str) -> list[str]:
    """Return the texts of the notice's chunks that a search for its password returns."""
    result = client.query(f"机房检修的应急口令 {words}", namespace=CHINESE, top_k=10, timeout=QUERY_TIMEOUT_S)
    return [hit.text for hit in result.chunks if hit.document_id == NOTICE_ID]


def sentence_with(words: str, texts: Sequence[str]) -> str:
    """Return the sentence that contains ``words``, from the first text that has one."""
    sentences = (sentence for text in texts for sentence in text.split("。") if words in sentence)
    return next(sentences, "(not found)") + "。"


if __name__ == "__main__":
    sys.exit(main())
