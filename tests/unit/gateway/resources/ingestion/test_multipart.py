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


NAMES = [
    (b'filename="a.txt"', "a.txt"),
    ('filename="报.txt"'.encode(), "报.txt"),
    (b"filename*=UTF-8''%E6%8A%A5.txt", "报.txt"),
    (b"filename*=utf-8'zh'%e6%8a%a5%22.txt", '报".txt'),
    (b"filename*=GBK''%B1%A8.txt", "报.txt"),
    (b"""filename="bao.txt"; filename*=UTF-8''%E6%8A%A5.txt""", "报.txt"),
    (b'''filename*=UTF-8''%E6%8A%A5.txt; filename="bao.txt"''', "报.txt"),
    (b'filename="=?utf-8?B?5oqlLnR4dA==?="', "报.txt"),
    (b"""filename="=?utf-8?B?5oqlLnR4dA==?="; filename*=utf-8''%E6%8A%A5.txt""", "报.txt"),
    (b'filename="=?utf-8?Q?=E6=8A=A5?= =?utf-8?Q?.txt?="', "报.txt"),
    (b'filename="a %22b%22.txt"', 'a "b".txt'),
    (rb'filename="a \"b\".txt"', 'a "b".txt'),
    (b'filename="100%25.txt"', "100%25.txt"),
    (b'''filename="a; filename*=UTF-8''b.txt"''', "a; filename*=UTF-8''b.txt"),
    (b"filename*=UTF-8''a%0D%0A%00b.txt", "ab.txt"),
    (b"filename*=utf-7''+2AA-b.txt", "b.txt"),
    (b'filename="=?utf-7?Q?+2AA-b.txt?="', "b.txt"),
    (b"""filename*="UTF-8''%E6%8A%A5.txt\"""", "报.txt"),
    (b"filename*=%E6%8A%A5.txt", "报.txt"),
    ("filename*=utf-8''报.txt".encode(), "报.txt"),
    (b"filename*=UTF-8''%BA%CD%D0%B3.txt", "和谐.txt"),
    (b"filename*0*=UTF-8''%E6%8A; filename*1*=%A5; filename*2=.txt", "报.txt"),
    (b'filename*1="er.txt"; filename*0="lang"', "langer.txt"),
    (b'filename="2024 =?utf-8?B?5oql?=.txt"', "2024 报.txt"),
    # Names in the encoding of the sender's computer.
    ('filename="年度报告2024.txt"'.encode("gbk"), "年度报告2024.txt"),
    ('filename="Größe.txt"'.encode("cp1252"), "Größe.txt"),
    ('filename="Größe ÄÖ.txt"'.encode(), "Größe ÄÖ.txt"),
    # A name that cannot be decoded stays as it is.
    (b'filename="=?unheard-of?B?5oqlLnR4dA==?="', "=?unheard-of?B?5oqlLnR4dA==?="),
    (b'filename="=?punycode?B?5oqlLnR4dA==?="', "=?punycode?B?5oqlLnR4dA==?="),
    (b'filename="=?utf-8?B?5oq?="', "=?utf-8?B?5oq?="),
    (b"""filename="a.txt"; filename*=unheard-of''b.txt""", "a.txt"),
    (b"""filename="a.txt"; filename*=UTF-8''%E6%8A.txt""", "a.txt"),
]


class DescribeAFileName:
    @pytest.mark.parametrize(("written", "name"), NAMES)
    async def it_is_read_as_clients_write_it(self, written, name):
        form = await parsed(HEAD + b'"file"; ' + written + b"\r\n\r\nbody" + END)
        (file,) = form.getlist("file")
        assert (file.filename, await file.read()) == (name, b"body")
        await form.close()

    async def it_makes_no_file_of_a_field(self):
        form = await parsed(HEAD + b'"label"; filename*=""\r\n\r\ntext' + END)
        assert form["label"] == "text"
        await form.close()
