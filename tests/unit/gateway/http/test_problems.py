"""Problems: every error has a status, a code and a place."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from api_gateway.http.problems import MOST_ERRORS, from_error, invalid, places, pointer, printable, quoted
from api_gateway.resources.retrieval.query_body import QueryRequest
from pipeline import errors
from pipeline.database.engines import Conflict

SCOPE = {"type": "http", "raw_path": b"/v1/queries/a%20b?key=secret", "state": {"request_id": "r-1"}}


class DescribeTheTable:
    @pytest.mark.parametrize(
        ("error", "status", "code"),
        [
            (errors.StoreUnavailable("MySQL: gone"), 503, "store_unavailable"),
            (Conflict("two at once"), 503, "store_conflict"),
            (errors.EmbedderUnavailable("late"), 503, "embedder_unavailable"),
            (errors.UnsupportedMediaType("pdf"), 415, "unsupported_media_type"),
            (errors.DocumentTooLarge("big"), 413, "document_too_large"),
            (errors.EmptyDocument("nothing"), 422, "empty_document"),
            (errors.LeaseLost("gone"), 500, "internal_error"),
            (errors.Misconfigured("MySQL refused a statement"), 500, "misconfigured"),
            (errors.StoreMisconfigured("MySQL at db:3306 has no table"), 503, "store_misconfigured"),
            (errors.VectorTableMissing("PostgreSQL has no table"), 503, "vector_table_missing"),
            (errors.QuotaExceeded("too much"), 403, "quota_exceeded"),
            (errors.QuotaExceeded("for now", code="too_many_queued", retry_after_s=1.0), 429, "too_many_queued"),
            (errors.PipelineError("new"), 500, "internal_error"),
        ],
    )
    def it_gives_each_error_its_status(self, error, status, code):
        problem = from_error(error)
        assert (problem.status, problem.code) == (status, code)

    def it_has_a_line_for_every_error_there_is(self):
        def every(base):
            return [base, *(found for child in base.__subclasses__() for found in every(child))]

        own = [kind for kind in every(errors.PipelineError) if kind.__module__.startswith("pipeline.")]
        assert all(
            from_error(kind("a sentence")).status in (403, 404, 409, 412, 413, 415, 422, 429, 500, 503) for kind in own
        )

    @pytest.mark.parametrize(("asked", "told"), [(None, "2"), (0.2, "1"), (7.1, "8")])
    def it_says_when_to_come_back(self, asked, told):
        problem = from_error(errors.Unavailable("later", retry_after_s=asked))
        assert problem.headers["Retry-After"] == told

    def it_tells_no_details_of_our_own_faults(self):
        assert "secret" not in from_error(errors.PipelineError("secret")).detail


class DescribeTheResponse:
    def it_shows_a_limited_number_of_places(self):
        found = [{"pointer": f"/{number}", "detail": "is wrong"} for number in range(MOST_ERRORS + 1)]
        assert len(json.loads(invalid(found).response(SCOPE).body)["errors"]) == MOST_ERRORS


class DescribePlaces:
    def it_names_each_by_pointer_and_sentence(self):
        with pytest.raises(ValidationError) as refused:
            QueryRequest.model_validate({"namespaces": ["ok", 5], "top_k": 0, "x/y~z": 1, "filters": {"tags": "a"}})
        assert {place["pointer"]: place["detail"] for place in places(refused.value)} == {
            "/query_text": "is required",
            "/namespaces/1": "must be a string",
            "/top_k": "is below 1",
            "/filters/tags": "must be an array",
            "/x~1y~0z": "is not a known field",
        }

    def it_can_be_sent_whatever_a_field_is_called(self):
        found = pointer(["metadata", "\ud800\n", 3])
        assert found == "/metadata/\ufffd\ufffd/3"
        assert found.encode()

    def it_keeps_a_pointer_short_enough_for_the_ledger(self):
        assert len(pointer(["x" * 1000])) == 255

    def it_makes_any_text_printable(self):
        assert printable("a\0\u2028é狐") == "a\ufffd\ufffdé狐"

    def it_quotes_a_name_and_marks_that_it_cut_it(self):
        assert (quoted("it's"), quoted("x" * 65)) == ('"it\'s"', f"'{'x' * 64}…'")
