"""Parts of archives as bytes: written and read unchanged, and refused if they are no part."""

from __future__ import annotations

import contextlib
import io
import json
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.archives.archive import Enclosed, Origin, Part, is_packed, packed_type, read_part, write_part
from pipeline.document_sources import original_type
from pipeline.errors import DamagedPart

ORIGIN = Origin(model="a-model", dimension=4)
lines = st.binary(max_size=20).filter(lambda line: b"\n" not in line)


@st.composite
def parts(draw):
    documents = []
    for number in range(draw(st.integers(0, 4))):
        vectors = draw(st.integers(0, 3))
        documents.append(
            Enclosed(
                description={"document_id": f"d{number}"},
                chunks=[b"{}" + line for line in draw(st.lists(lines, max_size=4))],
                vectors=draw(st.binary(min_size=vectors * 8, max_size=vectors * 8)),
            )
        )
    return Part(origin=ORIGIN, documents=documents)


def changed(**entries: bytes | None) -> bytes:
    """A small part, some entries of which are others."""
    with zipfile.ZipFile(io.BytesIO(write_part(SMALL))) as part:
        content = {name: part.read(name) for name in part.namelist()}
    content |= {name.replace("_", "."): value for name, value in entries.items()}
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as part:
        for name, value in content.items():
            if value is not None:
                part.writestr(name, value)
    return written.getvalue()


SMALL = Part(origin=ORIGIN, documents=[Enclosed(description={"document_id": "a"}, chunks=[b"{}"], vectors=bytes(8))])
HEADER = {"format": "chordwise-part", "version": 1, "model": "m", "dimension": 4}


class DescribeAPart:
    @settings(max_examples=30)
    @given(part=parts())
    def it_comes_out_as_it_went_in(self, part):
        read = read_part(write_part(part))
        assert read.origin == part.origin
        assert [(d.description["document_id"], d.chunks, d.vectors) for d in read.documents] == [
            (d.description["document_id"], d.chunks, d.vectors) for d in part.documents
        ]
        assert write_part(read) == write_part(part)

    @settings(max_examples=30)
    @given(place=st.integers(0, 2000), byte=st.integers(1, 255))
    def it_is_read_or_said_to_be_damaged_whatever_happened_to_it(self, place, byte):
        body = bytearray(write_part(SMALL))
        body[place % len(body)] ^= byte
        with contextlib.suppress(DamagedPart):
            read_part(bytes(body))

    @given(body=st.binary(max_size=200))
    def it_is_not_anything(self, body):
        with pytest.raises(DamagedPart):
            read_part(body)

    def it_passes_over_what_later_versions_add(self):
        header = json.dumps({**HEADER, "later": 1}).encode()
        described = b'{"document_id":"a","chunks":1,"vectors":1,"later":[]}\n'
        assert len(read_part(changed(header_json=header, documents_jsonl=described, later_bin=b"x")).documents) == 1

    @pytest.mark.parametrize(
        ("entries", "told"),
        [
            ({"header_json": b"[]"}, "not a JSON object"),
            ({"header_json": json.dumps({**HEADER, "version": 2}).encode()}, "version 2"),
            ({"header_json": json.dumps({**HEADER, "dimension": True}).encode()}, "dimension"),
            ({"header_json": json.dumps({**HEADER, "dimension": 0}).encode()}, "dimension"),
            ({"header_json": None}, "has no header.json"),
            ({"vectors_f16": None}, "has no vectors.f16"),
            ({"vectors_f16": bytes(16)}, "do not add up"),
            ({"chunks_jsonl": b"{}\n{}\n"}, "do not add up"),
            ({"documents_jsonl": b'{"chunks":1,"vectors":-1}\n'}, "how many vectors"),
            ({"documents_jsonl": b'{"chunks":1e99,"vectors":1}\n'}, "how many chunks"),
            ({"documents_jsonl": b"nothing\n"}, "not JSON"),
        ],
    )
    def it_says_what_is_wrong(self, entries, told):
        with pytest.raises(DamagedPart, match=told):
            read_part(changed(**entries))

    def it_takes_nothing_compressed(self):
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as part:
            part.writestr("header.json", bytes(10_000_000))
        with pytest.raises(DamagedPart, match="stored"):
            read_part(written.getvalue())


class DescribeMediaTypes:
    @pytest.mark.parametrize("own", ["text/markdown", "application/pdf"])
    def it_keeps_that_of_the_document(self, own):
        packed = packed_type(f"{own}; charset=utf-8")
        assert (is_packed(packed), original_type(packed), original_type(packed_type(packed))) == (
            (True, own, "application/vnd.chordwise.document")
        )
        assert (is_packed(own), original_type(f"{own}; charset=utf-8")) == (False, own)

    @pytest.mark.parametrize("odd", ["", "x" * 200, "text/ü", "a b", "a\nb"])
    def it_replaces_what_no_column_holds(self, odd):
        assert original_type(packed_type(odd)) == "application/octet-stream"
