"""The records that server and client share: what they may import, and how the client reads them."""

from __future__ import annotations

import ast
import copy
import dataclasses
import pickle
import sys
from pathlib import Path

import pytest

from chordwise import DocumentInfo, Hit, Job, QueryResult, Stats
from chordwise.contract import answer, document, job
from chordwise.errors import UnexpectedAnswer
from chordwise.records import decode

FOLDER = Path(answer.__file__).parent


class DescribeTheContract:
    @pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
    def it_imports_the_standard_library_alone(self, path):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                package = (node.module or "").partition(".")[0]
                assert package in sys.stdlib_module_names or (node.module or "").startswith("chordwise.contract")

    @pytest.mark.parametrize(
        ("result", "described"),
        [(Stats, answer.Stats), (Hit, answer.AnswerChunk), (Job, job.Job), (DocumentInfo, document.Document)],
    )
    def it_is_what_the_client_returns(self, result, described):
        assert issubclass(result, described)


class DescribeReading:
    def it_takes_what_an_older_server_leaves_out_as_empty(self):
        found = decode(
            QueryResult, {"query_id": "q", "status": "succeeded", "chunks": [{"chunk_id": "c", "document_id": "d"}]}
        )
        assert (found.stats.rerank_lift, found.stats.remarks, found.stats.cached) == (None, (), False)
        assert (found.chunks[0].text, found.chunks[0].sources, found.chunks[0].metadata) == ("", (), {})
        assert decode(Job, {"job_id": "j"}).finished_at is None

    def it_reads_parts_that_the_client_has_no_record_of_its_own_for(self):
        step = {"threshold": 0.5, "hits": 3, "enough": True, "newer": 1}
        stats = decode(Stats, {"ladder": step})
        assert (stats.ladder.threshold, stats.ladder.enough, stats.ladder.raw) == (0.5, True, step)

    def it_keeps_unknown_fields_in_copies_and_pickles(self):
        hit = decode(Hit, {"chunk_id": "c", "document_id": "d", "novelty": 1})
        for copied in (hit, copy.copy(hit), copy.deepcopy(hit), pickle.loads(pickle.dumps(hit))):
            assert (copied, copied.raw["novelty"]) == (hit, 1)
        assert dataclasses.asdict(hit).keys().isdisjoint({"raw", "novelty"})

    def it_accepts_a_state_that_a_newer_server_has(self):
        assert decode(Job, {"job_id": "j", "status": "dreaming"}).status == "dreaming"

    def it_needs_the_id_and_types_that_fit(self):
        with pytest.raises(UnexpectedAnswer, match="nothing at /job_id"):
            decode(Job, {"status": "queued"})
        with pytest.raises(UnexpectedAnswer, match="a string at /total"):
            decode(Job, {"job_id": "j", "total": "3"})
