"""Bytes to text: encodings, cleaning, media types, JSON lines, plain text."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.documents.clean_text import clean
from pipeline.errors import EmptyDocument, MalformedDocument, UndecodableText, UnsupportedMediaType
from pipeline.parsing.encodings import decode, unmarked_utf16
from pipeline.parsing.formats import JSONL, MARKDOWN, PLAIN, media_type_of, parse
from pipeline.parsing.json_documents import split_jsonl

CHINESE = "维生素缺乏引起的疾病，是由于人体中没有足够的维生素所导致的。我们在这里说明它的原因。"
TRADITIONAL = "維生素缺乏引起的疾病，是由於人體中沒有足夠的維生素所導致的。我們在這裡說明它的原因。"
JAPANESE = "これは日本語の文章です。ビタミンが足りないと病気になります。東京へ行きましょう。"
KOREAN = "비타민이 부족하면 병이 생깁니다. 우리는 이것을 설명합니다. 그리고 서울에 갑니다."
RUSSIAN = "Это русский текст, в котором говорится о витаминах и болезнях. Мы объясняем причины."
FRENCH = "Voici un texte français où l'on parle de naïveté, d'été et de café. Ça coûte très cher."


class DescribeDecode:
    @pytest.mark.parametrize(
        ("text", "encoding"),
        [
            (CHINESE, "utf-8"),
            (CHINESE, "utf-8-sig"),
            (CHINESE, "utf-16"),
            (CHINESE, "utf-32"),
            (CHINESE, "gbk"),
            (CHINESE, "gb18030"),
            ("数据库配置说明", "gbk"),
            (TRADITIONAL, "big5"),
            ("資料庫設定說明", "big5"),
            (JAPANESE, "shift_jis"),
            (JAPANESE, "euc_jp"),
            (KOREAN, "euc_kr"),
            (RUSSIAN, "cp1251"),
            (FRENCH, "latin-1"),
            ("a naïve text — with “quotes”", "cp1252"),
            ("", "utf-8"),
        ],
    )
    def it_recognises_the_encoding(self, text, encoding):
        assert decode(text.encode(encoding)) == text

    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
    @pytest.mark.parametrize(
        "text",
        [
            *(CHINESE, TRADITIONAL, JAPANESE, KOREAN, RUSSIAN, FRENCH),
            "name,note\na,b\n",
            "# 标题\n\n" + CHINESE,
            CHINESE * 1000,
        ],
    )
    def it_recognises_utf_16_that_lost_its_mark(self, text, encoding):
        assert decode(text.encode(encoding)) == text

    @pytest.mark.parametrize(
        "encoding", ["utf-8", "gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "cp1251", "cp1252"]
    )
    def it_takes_no_other_encoding_for_it(self, encoding):
        for text in (CHINESE, TRADITIONAL, JAPANESE, KOREAN, RUSSIAN, FRENCH):
            with contextlib.suppress(UnicodeEncodeError):
                body = text.encode(encoding)
                assert [unmarked_utf16(body[start:]) for start in range(3)] == [None] * 3

    @pytest.mark.parametrize(
        "body",
        [
            b"".join(number.to_bytes(2, "little") for number in range(2000)),
            b"".join(number.to_bytes(4, "little") for number in range(2000)),
            b"MZ\x90\0" + bytes(range(256)) * 64,
            b"\0" * 1000,
            b"\0\x01" * 1000,
        ],
    )
    def it_takes_no_binary_data_for_it(self, body):
        assert unmarked_utf16(body) is None

    def it_believes_a_declared_character_set_that_fits(self):
        assert decode("żółć".encode("iso-8859-2"), declared="iso-8859-2") == "żółć"
        assert decode("维生素".encode("gbk"), declared="gb2312") == "维生素"
        assert decode("été".encode(), declared="gbk") == "été"
        assert decode(FRENCH.encode("cp1252"), declared="no-such-thing") == FRENCH
        assert decode(FRENCH.encode("cp1252"), declared="punycode") == FRENCH

    def it_survives_a_damaged_byte(self):
        assert decode(CHINESE.encode()[:-1]) == CHINESE[:-1] + "\ufffd"

    @pytest.mark.parametrize(
        "body",
        [
            b"\0" * 100,
            bytes(range(256)) * 10,
            b"%PDF-1.7\n1 0 obj",
            b"PK\x03\x04rest",
            b"\x89PNG\r\n\x1a\n",
            b"\xff\xfea",
        ],
    )
    def it_refuses_what_is_no_text(self, body):
        with pytest.raises(UndecodableText):
            decode(body)

    @given(st.binary(max_size=300))
    def it_gives_text_or_refuses(self, body):
        with contextlib.suppress(UndecodableText):
            assert isinstance(decode(body), str)


class DescribeClean:
    @pytest.mark.parametrize(
        ("dirty", "expected"),
        [
            ("a\r\nb\rc\x85d\u2028e", "a\nb\nc\nd\ne"),
            ("a\n\n\n \n\t\nb", "a\n\nb"),
            ("a  \nb\t\n", "a\nb"),
            ("page\x0cnext", "page\n\nnext"),
            ("\ufeffzero\u200bwidth so\u00adft \u202eright", "zerowidth soft right"),
            ("a\x00b\x07c\x7f", "abc"),
            ("no\u00a0break\u3000space", "no break space"),
            ("lone \ud800 half", "lone  half"),
            ("\ud83d\ude00", "😀"),
            ("می\u200cخواهم 👩\u200d🔬", "می\u200cخواهم 👩\u200d🔬"),
            ("  indented\n    more", "indented\n    more"),
        ],
    )
    def it_leaves_what_can_be_read(self, dirty, expected):
        assert clean(dirty) == expected

    @given(st.text(alphabet=st.characters() | st.sampled_from(" \n\t\r\u200b\ud800\udc00"), max_size=40))
    def it_changes_nothing_the_second_time_and_can_be_stored(self, text):
        once = clean(text)
        assert clean(once) == once
        assert once.encode("utf-8").decode("utf-8") == once
        assert "\x00" not in once


class DescribeMediaTypeOf:
    @pytest.mark.parametrize(
        ("filename", "declared", "expected"),
        [
            ("notes.txt", None, PLAIN),
            ("NOTES.MD", "text/plain", MARKDOWN),
            ("C:\\docs\\a.htm", "application/octet-stream", "text/html"),
            ("data.ndjson", None, JSONL),
            (None, "text/html; charset=GBK", "text/html; charset=GBK"),
            ("x.bin", "Text/Markdown", MARKDOWN),
            (None, "application/x-ndjson", JSONL),
        ],
    )
    def it_goes_by_suffix_and_then_by_declaration(self, filename, declared, expected):
        assert media_type_of(filename, declared) == expected

    @pytest.mark.parametrize(
        ("filename", "declared"), [("a.exe", None), (None, "image/png"), (None, None), ("README", "")]
    )
    def it_names_what_is_accepted(self, filename, declared):
        with pytest.raises(UnsupportedMediaType, match=r"\.md.*text/markdown"):
            media_type_of(filename, declared)


class DescribeParse:
    def it_reads_plain_text_as_one_section(self):
        document = parse(b"One.\r\n\r\n\r\nTwo.  ", media_type="text/plain", filename="my notes.txt")
        assert (document.text, document.title) == ("One.\n\nTwo.", "my notes")
        assert [(section.start, section.end, section.heading_path) for section in document.sections] == [(0, 10, ())]

    def it_uses_the_character_set_of_the_media_type(self):
        assert parse("żółć".encode("iso-8859-2"), media_type='text/plain; charset="ISO-8859-2"').text == "żółć"

    @pytest.mark.parametrize(
        ("body", "media_type"),
        [
            (b"", "text/plain"),
            (" \n\u200b".encode(), "text/plain"),
            (b"<template>x</template>", "text/html"),
            (b"---\n", "text/markdown"),
        ],
    )
    def it_refuses_a_document_without_text(self, body, media_type):
        with pytest.raises(EmptyDocument):
            parse(body, media_type=media_type)

    @pytest.mark.parametrize("media_type", ["image/png", "", JSONL])
    def it_refuses_other_media_types(self, media_type):
        with pytest.raises(UnsupportedMediaType):
            parse(b"x", media_type=media_type)


class DescribeSplitJsonl:
    def it_gives_each_line_its_number(self):
        body = b'\xef\xbb\xbf{"a": 1}\n\n{"b": "\xe7\xbb\xb4"}\r\n{"c": "x\xe2\x80\xa8y"}'
        assert [(line.number, line.value) for line in split_jsonl(body)] == [
            (1, {"a": 1}),
            (3, {"b": "维"}),
            (4, {"c": "x\u2028y"}),
        ]

    @pytest.mark.parametrize(
        ("bad", "reason"),
        [
            (b"nope", "not JSON"),
            (b"[1]", "not a JSON object"),
            (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
            (b"[" * 100_000, "nested too deeply"),
            (b'{"a": "\xff"}', "not UTF-8"),
        ],
    )
    def it_reports_a_bad_line_and_goes_on(self, bad, reason):
        first, second, third = split_jsonl(b'{"a": 1}\n' + bad + b'\n{"b": 2}\n')
        assert (first.value, third.value) == ({"a": 1}, {"b": 2})
        assert isinstance(second.value, MalformedDocument)
        assert "line 2" in str(second.value)
        assert reason in str(second.value)

    @pytest.mark.parametrize("written", ["NaN", "Infinity", "-Infinity"])
    def it_reads_numbers_that_are_none_as_no_value(self, written):
        (line,) = split_jsonl(f'{{"text": "水泵 pump", "score": {written}}}\n'.encode())
        assert line.value == {"text": "水泵 pump", "score": None}

    @pytest.mark.parametrize(
        ("text", "charset"), [("設備狀態", "big5"), ("设备状态", "gb18030"), ("café", "latin-1"), ("维", "utf-8")]
    )
    def it_reads_the_encoding_that_is_named_and_utf_8_whatever_is_named(self, text, charset):
        line = f'{{"a": "{text}"}}\n'
        assert [each.value for each in split_jsonl(line.encode(charset), charset=charset)] == [{"a": text}]
        assert [each.value for each in split_jsonl(line.encode(), charset=charset)] == [{"a": text}]

    def it_refuses_a_body_that_is_not_in_the_encoding_that_is_named(self):
        with pytest.raises(UndecodableText, match="big5"):
            list(split_jsonl(b'{"a": "\xff\xff"}', charset="big5"))

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
    def it_reads_utf_16(self, encoding):
        assert [line.value for line in split_jsonl('{"a": "维"}\n'.encode(encoding))] == [{"a": "维"}]

    @settings(max_examples=30)
    @given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=3), max_size=5))
    def it_gives_back_what_was_written(self, records):
        body = "\n".join(map(json.dumps, records)).encode()
        assert [line.value for line in split_jsonl(body)] == records
