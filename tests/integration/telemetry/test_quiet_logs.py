"""Texts of documents and queries never reach a log, at any level, from ingestion to answer and audit."""

from __future__ import annotations

import io
import json
import traceback
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.administration.delete_documents import delete_document
from pipeline.administration.edit_chunks import Edit, edit_chunks
from pipeline.maintenance.verify import verify
from pipeline.records import ChannelName, ChunkId, DocumentId
from pipeline.resources import Resources
from pipeline.retrieval import record_search
from tests.integration.retrieval.test_kept_answers import Gateway, chunk_of
from tests.support.corpora.uploads import upload
from tests.support.stacks.asking import Asker
from tests.support.stacks.connections import in_mysql
from tests.support.stacks.log_lines import log_lines

pytestmark = pytest.mark.own_databases

CANARY = f"canary{uuid.uuid4().hex[:12]}"


@pytest.fixture
def lines() -> Iterator[io.BytesIO]:
    """Every line a process would write with the most talkative setting."""
    with log_lines("DEBUG") as written:
        yield written


def events(written: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


class DescribeLogs:
    def it_tells_of_a_life_of_a_document_without_a_word_of_it(self, corner, use, lines):
        corner.ingest(
            upload("d1", f"the {CANARY} sings", title=f"On {CANARY}", author=CANARY, metadata={"bird": CANARY}),
            upload("broken", "\x00\x01\x02\x03\x04" + CANARY),
        )
        gateway = Gateway(corner, use)
        gateway.settle()
        for _ in range(2):  # the second is a kept one
            gateway.ask(gateway.asker.query(f"where is {CANARY}"))
        chunk = chunk_of(corner, "d1")
        edit_chunks(corner.tenant, [Edit(chunk_id=chunk, text=f"{CANARY} again")], use)
        verify(corner.tenant, None, use, repair=True)
        record_search.drain(use)
        delete_document(corner.tenant, corner.namespace, DocumentId("d1"), use)
        told = {line["event"] for line in events(lines)}
        assert {"documents_shown", "document_rejected", "channel_answered", "query_answered", "audit_drained"} <= told
        assert CANARY.encode() not in lines.getvalue()

    def it_tells_of_a_failing_channel_without_the_question(self, corner, use, lines):
        corner.ingest(upload("d1", f"the {CANARY} sings"))
        asker = Asker(corner)

        class Failing:
            name = ChannelName.KEYWORD

            def recall(self, query: object) -> None:
                raise RuntimeError("a bug")

            def score(self, query: object, chunk_ids: object) -> dict[ChunkId, float]:
                raise RuntimeError("a bug")

        asker._channels[ChannelName.KEYWORD] = Failing()  # type: ignore[assignment]
        asker.ask_for(f"where is {CANARY}")
        assert "channel_bug" in {line["event"] for line in events(lines)}
        assert CANARY.encode() not in lines.getvalue()

    def it_says_of_every_query_what_operators_look_for(self, corner, use, lines):
        corner.ingest(upload("d1", "green tea"))
        asker = Asker(corner)
        query = asker.query("green tea", session_id="s-1", experiment_id="e-1", config_version=7)
        asker.ask(query)
        told = events(lines)
        [answered] = [line for line in told if line["event"] == "query_answered"]
        channels = [line for line in told if line["event"] == "channel_answered"]
        common = {
            "trace_id": query.request_id,
            "request_id": query.request_id,
            "tenant_id": corner.tenant,
            "session_id": "s-1",
            "experiment_id": "e-1",
            "config_version": 7,
        }
        assert {name: answered[name] for name in common} == common
        assert answered["status"] == "succeeded"
        assert set(answered["source_share"]) <= {"keyword", "semantic"}
        assert sum(answered["source_share"].values()) == pytest.approx(1.0)
        assert answered["source"] in answered["source_share"]
        assert answered["score"] > 0
        assert answered["latency_ms"] > 0
        assert {line["source"] for line in channels} == {"keyword", "semantic"}
        for line in channels:
            assert {name: line[name] for name in common} == common
            assert (line["status"], line["code"]) == ("ok", None)
            assert line["latency_ms"] > 0
            assert line["score"] > 0


class DescribeErrors:
    def it_says_nothing_of_what_a_failed_statement_was_to_write(self, corner, use):
        row = {"tenant": corner.tenant, "id": "x" * 40, "word": CANARY}
        statement = "INSERT INTO audit (tenant_id, at, audit_id, key_name) VALUES (:tenant, NOW(), :id, :word)"
        with pytest.raises(Exception) as raised:
            _run(use, statement, row)
        assert CANARY not in "".join(traceback.format_exception(raised.value))


def _run(use: Resources, statement: str, values: dict[str, Any]) -> None:
    in_mysql(use, statement, **values)
