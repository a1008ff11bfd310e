"""The OpenAI dialect without servers: what requests may hold, the form of errors and records."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest
from pydantic import ValidationError

from api_gateway.dialects.openai import objects
from api_gateway.dialects.openai.lookups import cut, error_response
from api_gateway.dialects.openai.requests import (
    FileBatchRequest,
    SearchRequest,
    StoreFileRequest,
    VectorStoreRequest,
    to_chunking,
)
from api_gateway.http.problems import Problem
from api_gateway.resources.retrieval.conditions import to_condition
from pipeline.records import Chunking, Comparison, Compound, JobId
from pipeline.settings import Settings
from pipeline.vector_stores.collection import Attached, ListPosition, Tally
from tests.support.repository.described_codes import document

NOW = datetime(2026, 1, 2, tzinfo=UTC)
JOB = JobId("5f0c3f0e-6d5b-4b0e-9f57-2a4f9c1d7e10")


def nested(depth: int) -> dict[str, object]:
    inner: dict[str, object] = {"type": "eq", "key": "a", "value": 1}
    for _ in range(depth):
        inner = {"type": "or", "filters": [inner]}
    return inner


def attached(**more) -> Attached:
    values = {
        "document_id": "file-1",
        "namespace": "vs_1",
        "filename": "a.txt",
        "status": "completed",
        "attributes": {},
        "chunking": Chunking(),
        "body_bytes": 7,
        "created_at": NOW,
    }
    return Attached(**{**values, **more})


class DescribeRequests:
    @pytest.mark.parametrize(
        ("shape", "body"),
        [
            (StoreFileRequest, {"file_id": "f", "attributes": {"k": {"nested": 1}}}),
            (StoreFileRequest, {"file_id": "f", "attributes": {"k": "x" * 513}}),
            (StoreFileRequest, {"file_id": "f", "attributes": {"k" * 65: 1}}),
            (StoreFileRequest, {"file_id": "f", "attributes": {f"k{n}": n for n in range(17)}}),
            (StoreFileRequest, {"file_id": "f", "attributes": {"k": 10**400}}),
            (StoreFileRequest, {"file_id": "f", "chunking_strategy": {"type": "static"}}),
            (
                StoreFileRequest,
                {
                    "file_id": "f",
                    "chunking_strategy": {
                        "type": "static",
                        "static": {"max_chunk_size_tokens": 200, "chunk_overlap_tokens": 101},
                    },
                },
            ),
            (FileBatchRequest, {}),
            (FileBatchRequest, {"file_ids": []}),
            (FileBatchRequest, {"file_ids": ["f"] * 2001}),
            (FileBatchRequest, {"file_ids": ["f"], "files": [{"file_id": "g"}]}),
            (SearchRequest, {"query": ""}),
            (SearchRequest, {"query": []}),
            (SearchRequest, {"query": "x", "max_num_results": 0}),
            (SearchRequest, {"query": "x", "max_num_results": 51}),
            (SearchRequest, {"query": "x", "ranking_options": {"score_threshold": 1.1}}),
            (
                SearchRequest,
                {"query": "x", "ranking_options": {"hybrid_search": {"embedding_weight": 0, "text_weight": 0}}},
            ),
            (VectorStoreRequest, {"metadata": {"k": 1}}),
            (VectorStoreRequest, {"expires_after": {"anchor": "created_at", "days": 1}}),
        ],
    )
    def it_refuses(self, shape, body):
        with pytest.raises(ValidationError):
            shape.model_validate(body)

    def it_reads_filters(self):
        sent = {"type": "and", "filters": [{"type": "in", "key": "k", "value": ["a", 1, True]}, nested(0)]}
        parts = (
            Comparison(key="k", operator="in", value=("a", 1, True)),
            Comparison(key="a", operator="eq", value=1),
        )
        assert to_condition(sent, attributes=True) == Compound(operator="and", parts=parts)

    @pytest.mark.parametrize(
        "sent",
        [
            nested(5),
            {"type": "or", "filters": [{"type": "and", "filters": [nested(0)] * 60}] * 2},
            {"type": "eq", "key": "k", "value": [1]},
            {"type": "nin", "key": "k", "value": 1},
            {"type": "eq", "key": "k", "value": None},
            {"type": "eq", "key": "k"},
            {"type": "xor", "filters": [nested(0)]},
            {},
        ],
    )
    def it_refuses_filters(self, sent):
        with pytest.raises(ValueError):
            to_condition(sent, attributes=True)

    def it_cuts_as_long_as_it_is_told(self):
        sizes = {"max_chunk_size_tokens": 800, "chunk_overlap_tokens": 400}
        sent = StoreFileRequest.model_validate(
            {"file_id": "f", "chunking_strategy": {"type": "static", "static": sizes}}
        )
        chunking = to_chunking(sent.chunking_strategy, Settings())
        assert (chunking.max_tokens, chunking.overlap) == (800, 0.5)
        assert objects.store_file(attached(chunking=chunking))["chunking_strategy"]["static"] == sizes


class DescribeErrors:
    @pytest.mark.parametrize(
        ("status", "sent", "kind"),
        [
            (401, 401, "authentication_error"),
            (403, 403, "permission_error"),
            (404, 404, "invalid_request_error"),
            (413, 413, "invalid_request_error"),
            (415, 400, "invalid_request_error"),
            (422, 400, "invalid_request_error"),
            (429, 429, "rate_limit_error"),
            (503, 503, "server_error"),
        ],
    )
    def it_tells_problems_its_way(self, status, sent, kind):
        errors = [{"pointer": "/ranking_options/score_threshold", "detail": "is above 1"}]
        problem = Problem(status, "a_code", "A sentence.", errors=errors, headers={"Retry-After": "2"})
        answer = error_response(problem, {"type": "http", "path": "/openai/v1/files", "state": {"request_id": "r-1"}})
        error = orjson.loads(answer.body)["error"]
        assert (answer.status_code, error["type"], error["code"]) == (sent, kind, "a_code")
        assert error["param"] == "ranking_options.score_threshold"
        assert answer.headers["retry-after"] == "2"
        assert ("r-1" in error["message"]) is (status >= 500)

    def it_describes_no_other_form_of_error(self):
        for path, operations in document()["paths"].items():
            if not path.startswith("/openai/"):
                continue
            for operation in operations.values():
                for status, answer in operation["responses"].items():
                    if status != "200":
                        schema = answer["content"]["application/json"]["schema"]
                        assert schema == {"$ref": "#/components/schemas/OpenAIError"}, (path, status)


class DescribeShown:
    @pytest.mark.parametrize(
        ("counts", "status"),
        [
            ({"in_progress": 1, "cancelled": 1}, "in_progress"),
            ({"completed": 2, "cancelled": 1}, "cancelled"),
            ({"completed": 1, "failed": 1}, "completed"),
            ({"failed": 2}, "failed"),
        ],
    )
    def it_names_the_state_of_a_batch(self, counts, status):
        batch = objects.batch(JOB, "vs_1", NOW, Tally(counts=counts))
        assert batch["status"] == status
        assert batch["file_counts"]["total"] == sum(counts.values())
        assert objects.job_of(batch["id"]) == JOB

    @pytest.mark.parametrize("batch_id", ["vsfb_", "vsfb_xyz", "file-1", "", JOB, "vsfb_" + "0" * 31])
    def it_knows_what_is_no_batch(self, batch_id):
        assert objects.job_of(batch_id) is None

    @pytest.mark.parametrize(
        ("code", "failure", "expected"),
        [
            ("unsupported_media_type", "rejected", "unsupported_file"),
            ("malformed_document", "rejected", "invalid_file"),
            ("store_unavailable", "gave_up", "server_error"),
            ("internal_error", "bug", "server_error"),
        ],
    )
    def it_says_whose_fault_a_failure_is(self, code, failure, expected):
        file = attached(status="failed", error_code=code, error_detail="why", failure=failure)
        assert objects.store_file(file)["last_error"] == {"code": expected, "message": "why"}

    def it_shows_of_metadata_what_attributes_can_hold(self):
        file = attached(attributes={"a": 1, "b": [1], "c": None, "d": "x"}, chunking=None)
        assert objects.store_file(file)["attributes"] == {"a": 1, "d": "x"}
        assert objects.store_file(file)["chunking_strategy"] == {"type": "other"}

    def it_cuts_pages_at_the_end_that_is_further_away(self):
        before = ListPosition(at=NOW, name="x", backwards=True)
        assert cut([1, 2, 3], 2, None) == ([1, 2], True)
        assert cut([1, 2, 3], 2, before) == ([2, 3], True)
        assert cut([1, 2], 2, before) == ([1, 2], False)
