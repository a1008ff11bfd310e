"""The sentence of a refusal: what is wrong and where, each said once."""

from __future__ import annotations

import pytest

from chordwise.errors import ProblemError


@pytest.mark.parametrize(
    ("detail", "errors", "sentence"),
    [
        ("There is no text.", [("/file/0", "There is no text.")], "There is no text: /file/0"),
        ("没有文字。", [("/文件/0", "没有文字。")], "没有文字: /文件/0"),
        ("/namespaces is required.", [("/namespaces", "is required")], "/namespaces is required"),
        (
            "/documents is required, and 2 more.",
            [("/documents", "is required"), ("/a", "is not a known field"), ("/b", "is not a known field")],
            "/documents is required, and 2 more",
        ),
        (
            "The parameters are not valid: status.",
            [("/status", "is not a parameter of this operation")],
            "The parameters are not valid: status: /status is not a parameter of this operation",
        ),
        (
            "None of the 2 documents can be taken.",
            [("/documents/0/text", "is required"), ("/documents/1/text", "is required")],
            "None of the 2 documents can be taken: /documents/0/text is required and 1 more",
        ),
        ("Nothing is known.", [], "Nothing is known"),
    ],
)
def it_says_each_thing_once(detail, errors, sentence):
    places = [{"pointer": pointer, "detail": said} for pointer, said in errors]
    error = ProblemError(status=422, code="invalid_request", detail=detail, errors=places)
    assert str(error) == f"{sentence} (422 invalid_request)"
