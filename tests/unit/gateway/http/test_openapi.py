"""The description is whole: no operation without summary, examples, codes of its problems, and a word on who may use it."""

from __future__ import annotations

import ast
from typing import Any

import jsonschema
import pytest

from api_gateway.app import create_app
from api_gateway.http.openapi import operations
from api_gateway.http.problems import MEDIA_TYPE
from pipeline.settings import load
from tests.support.repository.described_codes import document, every_code
from tests.support.repository.project import ROOT

DOCUMENT = document()
OPERATIONS = [
    pytest.param(method, path, operation, id=f"{method} {path}")
    for method, path, operation in operations(DOCUMENT)
    if path.startswith("/v1/") or not operation.get("security")
]
OPEN = {"/healthz", "/readyz", "/v1/metrics", "/v1/metrics/history"}
# Told to whoever asks for what is not described at all.
ELSEWHERE = {
    "route_not_found",
    "method_not_allowed",
    "http_error",
    "sign_in_refused",
    "sign_in_code_unknown",
    "session_ended",
}


def problems(operation: dict[str, Any]) -> dict[int, dict[str, Any]]:
    found = {int(status): response.get("content", {}) for status, response in operation["responses"].items()}
    return {status: content[MEDIA_TYPE] for status, content in found.items() if MEDIA_TYPE in content}


def codes(content: dict[str, Any]) -> list[str]:
    return content["schema"]["allOf"][1]["properties"]["code"]["enum"]


def fitting(value: Any, schema: dict[str, Any]) -> None:
    whole = {**schema, "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(whole).validate(value)


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS)
class DescribeEveryOperation:
    def it_has_a_summary_and_a_description(self, method, path, operation):
        assert operation["summary"]
        assert operation["description"]
        assert operation["tags"]

    def it_says_who_may_use_it(self, method, path, operation):
        assert operation.get("security", []) == ([] if path in OPEN else [{"api_key": []}])

    def it_shows_an_example_of_every_parameter_and_body(self, method, path, operation):
        for parameter in operation.get("parameters", []):
            assert "example" in parameter, parameter["name"]
        for body in (operation.get("requestBody", {}), *operation["responses"].values()):
            for media_type, content in body.get("content", {}).items():
                assert "example" in content, media_type

    def it_shows_examples_that_fit(self, method, path, operation):
        for body in (operation.get("requestBody", {}), *operation["responses"].values()):
            for media_type, content in body.get("content", {}).items():
                if media_type.endswith("json") and "schema" in content:
                    fitting(content["example"], content["schema"])

    def it_names_the_codes_of_every_problem(self, method, path, operation):
        for status, content in problems(operation).items():
            assert codes(content), status

    def it_can_be_refused_for_what_stands_in_front_of_every_route(self, method, path, operation):
        if path in OPEN:
            return
        assert {401, 403, 429, 500, 503} <= set(problems(operation))
        assert "too_many_requests" in codes(problems(operation)[429])
        success = next(response for status, response in operation["responses"].items() if status.startswith("2"))
        assert {"RateLimit", "RateLimit-Policy"} <= set(success["headers"])

    def it_takes_a_key_if_it_is_a_post(self, method, path, operation):
        names = {parameter["name"] for parameter in operation.get("parameters", [])}
        assert ("Idempotency-Key" in names) == (method == "POST")
        if method == "POST":
            assert "idempotency_key_in_use" in codes(problems(operation)[409])
            assert "idempotency_key_reused" in codes(problems(operation)[422])


class DescribeTheMethods:
    def it_finds_them_without_the_description(self):
        described = {path: {method.upper() for method in found} for path, found in DOCUMENT["paths"].items()}
        assert create_app(load({})).state.methods == described


class DescribeTheCodes:
    def it_knows_every_code_that_the_gateway_says(self):
        said = set()
        for path in (ROOT / "api_gateway").rglob("*.py"):
            if "dialects" in path.parts:  # other dialects describe their own
                continue
            text = path.read_text(encoding="utf-8")
            if "Problem(" not in text and "unauthenticated(" not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Problem", "unauthenticated"):
                    literals = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
                    said.update(value for value in literals if isinstance(value, str) and " " not in value)
        assert said - ELSEWHERE - every_code() == set()
