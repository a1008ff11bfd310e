"""Multipart bodies: whole ones, cut-off ones, and the character sets that their texts come in."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException

from api_gateway.resources.ingestion.files import WholeFormParser

HEAD = b"--x\r\nContent-Disposition: form-data; name="
FILES = b'\r\n%s"file"; filename="a"\r\n\r\nfirst\r\n%s"file"; filename="b"\r\n\r\nsecond' % (HEAD, HEAD)
BODY = HEAD + b'"label"\r\n\r\n\xe9' + FILES
END = b"\r\n--x--"


async def parsed(body: bytes, media_type: str = "multipart/form-data; boundary=x"):
    async def stream():
        for start in range(0, len(body), 7):
            yield body[start : start + 7]

    return await WholeFormParser(Headers({"content-type": media_type}), stream()).parse()


class DescribeAForm:
    @pytest.mark.parametrize("end", [END, END + b"\r\n", END + b"\r\nan epilogue"])
    async def it_is_taken_whole(self, end):
        form = await parsed(BODY + end)
        assert [await file.read() for file in form.getlist("file")] == [b"first", b"second"]
        await form.close()

    @pytest.mark.parametrize("left", range(len(BODY + END)))
    async def it_is_refused_wherever_it_is_cut_off(self, left):
        with pytest.raises(MultiPartException):
            await parsed((BODY + END)[:left])

    @pytest.mark.parametrize(
        ("charset", "text"), [("latin-1", "é"), ("cp1251", "й"), ("utf-8", "é"), ("unheard-of", "é"), ("hex", "é")]
    )
    async def it_may_name_its_character_set(self, charset, text):
        form = await parsed(BODY + END, f"multipart/form-data; boundary=x; charset={charset}")
        assert form["label"] == text
        await form.close()

    @pytest.mark.parametrize("charset", ["undefined", "punycode", "PunyCode", '"idna"'])
    async def it_is_refused_in_what_is_no_character_set(self, charset):
        with pytest.raises(MultiPartException, match="character set"):
            await parsed(BODY + END, f"multipart/form-data; boundary=x; charset={charset}")
