"""Fingerprints of bodies: the same for the same content, however it comes, and for no other."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_gateway.http.idempotency import FingerprintingReceive


async def fingerprint(
    body: bytes, content_type: str, *, cuts: list[int] | None = None, target: bytes = b"/x?"
) -> bytes:
    places = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts or [])})
    pieces = [body[start:end] for start, end in itertools.pairwise(places)] or [b""]
    messages = [
        {"type": "http.request", "body": piece, "more_body": place < len(pieces) - 1}
        for place, piece in enumerate(pieces)
    ]

    async def receive():
        return messages.pop(0)

    found = FingerprintingReceive(receive, target=target, content_type=content_type)
    while not found.complete:
        await found()
    return found.value


def form(parts: list[tuple[str, bytes]], boundary: str) -> tuple[bytes, str]:
    lines = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + content + b"\r\n"
        for name, content in parts
    ]
    return b"".join(lines) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


NAMES = st.text("abc", min_size=1, max_size=3)
PARTS = st.lists(st.tuples(NAMES, st.binary(max_size=40).filter(lambda content: b"--" not in content)), max_size=3)


class DescribeAFingerprint:
    @given(body=st.binary(max_size=60), cuts=st.lists(st.integers(0, 100), max_size=5))
    async def it_does_not_depend_on_the_pieces(self, body, cuts):
        assert await fingerprint(body, "application/json", cuts=cuts) == await fingerprint(body, "application/json")

    @settings(max_examples=30)
    @given(parts=PARTS, cuts=st.lists(st.integers(0, 500), max_size=6))
    async def it_does_not_depend_on_the_boundary_of_a_form(self, parts, cuts):
        body, kind = form(parts, "one")
        other, other_kind = form(parts, "quite-another")
        assert await fingerprint(body, kind, cuts=cuts) == await fingerprint(other, other_kind)

    @settings(max_examples=30)
    @given(first=PARTS, second=PARTS)
    async def it_tells_forms_apart(self, first, second):
        same = await fingerprint(*form(first, "b")) == await fingerprint(*form(second, "b"))
        assert same == (first == second)

    @pytest.mark.parametrize(
        ("body", "kind", "target"),
        [
            (b"{ }", "application/json", b"/x?"),
            (b"{}", "text/plain", b"/x?"),
            (b"{}", "application/json", b"/y?"),
            (b"{}", "application/json", b"/x?a=1"),
        ],
    )
    async def it_tells_bodies_types_and_addresses_apart(self, body, kind, target):
        assert await fingerprint(body, kind, target=target) != await fingerprint(b"{}", "application/json")

    async def it_takes_what_is_no_form_as_it_stands(self):
        kind = "multipart/form-data; boundary=b"
        assert await fingerprint(b"not a form", kind) == await fingerprint(b"not a form", kind)
        assert await fingerprint(b"not a form", kind) != await fingerprint(b"not a farm", kind)

    async def it_has_no_value_before_the_end(self):
        async def receive():
            return {"type": "http.request", "body": b"{", "more_body": True}

        found = FingerprintingReceive(receive, target=b"/", content_type="")
        await found()
        with pytest.raises(RuntimeError):
            _ = found.value
