"""Files on the wire: names become ids, lines become documents, forms are read."""

from __future__ import annotations

import json
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_gateway.http.fields import holds_control_characters, tidy_document_id
from api_gateway.resources.ingestion.files import SentFile, entries_of, to_form
from api_gateway.resources.ingestion.uploads import Intake, to_chunking
from pipeline.document_sources import document_id_of
from pipeline.parsing.formats import DOCX, HTML, PDF, PLAIN, XLSX
from pipeline.settings import load

SETTINGS = load({"max_document_bytes": 1000})


def entries(*files, **fields):
    form = to_form([("namespace", "kb"), *fields.items()])
    sent = [SentFile(name=name, declared_type=declared, body=body) for name, declared, body in files]
    return list(entries_of(sent, form, Intake(SETTINGS, to_chunking(form.chunking, SETTINGS), suspicious=True)))


class DescribeAFile:
    @pytest.mark.parametrize(
        ("name", "declared", "media_type"),
        [
            ("a.txt", None, "text/plain"),
            ("a.md", "text/plain", "text/markdown"),
            ("a.HTML", "application/octet-stream", "text/html"),
            ("a", "text/html; charset=gb2312", "text/html; charset=gb2312"),
            ("a", "text/plain; charset=" + "x" * 200, "text/plain"),
        ],
    )
    def it_is_read_as_its_name_says_or_its_type(self, name, declared, media_type):
        [found] = entries((name, declared, b"text"))
        assert (found.document_id, found.media_type, found.source_uri) == (name, media_type, name)

    @pytest.mark.parametrize("name", ["app.log", "卷一.rst", "run.py", "字幕.srt", "x.YML", "src/main.rs", "paper.tex"])
    def it_is_plain_text_if_it_is_a_text_of_another_kind(self, name):
        [found] = entries((name, "application/x-unheard-of", b"def f():\n    return 1\n"))
        assert found.media_type == "text/plain"

    @pytest.mark.parametrize("name", ["LICENSE", "说明", "docs.d/Makefile", ".gitignore"])
    @pytest.mark.parametrize("declared", [None, "application/octet-stream"])
    def it_is_read_as_its_bytes_say_if_it_has_no_suffix(self, name, declared):
        text, pdf = entries((name, declared, b"text"), (name, declared, b"%PDF-1.7"))
        assert (text.media_type, pdf.media_type) == ("text/plain", "application/pdf")

    @pytest.mark.parametrize(
        ("name", "body", "media_type"),
        [
            ("a.docx", b"%PDF-1.7", PDF),
            ("a.xls", b"PK\x03\x04 xl/workbook.xml", XLSX),
            ("a.csv", b"PK\x03\x04 xl/workbook.xml", XLSX),
            ("a.xls", b"\xef\xbb\xbf<html><table></table>", HTML),
            ("a.pdf", b"<!DOCTYPE html><p>words", HTML),
            ("a.docx", b"PK\x03\x04 word/document2.xml word/embeddings/a.xlsx xl/workbook.xml", DOCX),
            ("a.txt", b"<html>", PLAIN),
            ("a.TXT ", b"words", PLAIN),
        ],
    )
    def it_is_read_as_its_bytes_show_beyond_doubt(self, name, body, media_type):
        [found] = entries((name, None, body))
        assert found.media_type == media_type

    def it_is_refused_with_the_option_that_helps(self):
        _, bad = entries(("a.txt", None, b"text"), ("a.unheard", None, b"text"))
        assert bad.detail.endswith("to read it as one of these, name that in parser_hint (--parser-hint)")

    def it_is_read_as_the_hint_says(self):
        [found] = entries(("notes.txt", "text/plain", b"# Title"), parser_hint=".md")
        assert found.media_type == "text/markdown"

    def it_carries_the_labels_of_the_form(self):
        [found] = entries(("a.txt", None, b"text"), type="manual", tags='["a", "b"]', metadata='{"k": 1}')
        fields = found.fields
        assert (fields.type, fields.tags, fields.metadata) == ("manual", ("a", "b"), {"k": 1})


class DescribeItsId:
    @pytest.mark.parametrize(
        ("name", "document_id"),
        [
            ("a.txt", "a.txt"),
            ("docs/a.txt", "docs/a.txt"),
            ("./docs//a.txt", "docs/a.txt"),
            ("../../etc/passwd.txt", "etc/passwd.txt"),
            ("..\\..\\windows\\a.txt", "windows/a.txt"),
            ("/etc/passwd.txt", "etc/passwd.txt"),
            ("docs/../../a.txt", "docs/a.txt"),
            ("C:\\docs\\a.txt", "C:/docs/a.txt"),
            (" a b.txt ", "a b.txt"),
            ("a\nb\u200b.txt", "ab.txt"),
            ("手册.md", "手册.md"),
            ("../.", None),
            (".\u200d.", None),
        ],
    )
    def it_is_its_name_without_tricks(self, name, document_id):
        found = document_id_of(name)
        assert uuid.UUID(found) if document_id is None else found == document_id

    def it_ends_in_a_hash_if_the_name_is_long(self):
        one, other = document_id_of("x" * 100 + "1.txt"), document_id_of("x" * 100 + "2.txt")
        assert one != other
        assert one == document_id_of("x" * 100 + "1.txt")
        assert len(one) == 64

    @settings(max_examples=30)
    @given(name=st.text(st.characters() | st.sampled_from("/\\. \ud800\0"), max_size=100))
    def it_is_an_id_whatever_the_name_is(self, name):
        assert tidy_document_id(document_id_of(name))


class DescribeNames:
    @pytest.mark.parametrize(
        "name", ["会议　纪要.txt", "10.30\u202fPM.png", "a\u00a0b", "نامه\u200cها.pdf", "👩\u200d💻.md", " "]
    )
    def it_finds_spaces_and_joiners_ordinary(self, name):
        assert not holds_control_characters(name)

    @pytest.mark.parametrize("name", ["a\nb", "a\x00", "\x7f", "a\u0085", "a\u2028", "\u2029", "\ud800"])
    def it_finds_what_is_in_no_name(self, name):
        assert holds_control_characters(name)


class DescribeLines:
    def it_makes_a_document_of_each(self):
        lines = [
            {"document_id": "a", "text": "1", "title": "T"},
            {"doc_id": "b", "text": "2"},
            {"id": 7, "text": "3"},
            {"_id": "c", "text": "4", "url": "u", "metadata": {"k": 1}},
            {"text": "5"},
        ]
        found = entries(("x.jsonl", None, "\n".join(map(json.dumps, lines)).encode()))
        assert [entry.document_id for entry in found] == ["a", "b", "7", "c", "x.jsonl#5"]
        assert found[3].fields.metadata == {"k": 1, "url": "u"}
        assert {entry.media_type for entry in found} == {"text/plain"}

    def it_adds_the_labels_of_the_form(self):
        body = b'{"text": "1", "tags": ["own"], "metadata": {"k": 2}}\n{"text": "2", "type": "faq"}'
        first, second = entries(("x.jsonl", None, body), type="manual", tags="own, form", metadata='{"k": 1, "l": 1}')
        assert (first.fields.type, first.fields.tags, first.fields.metadata) == (
            "manual",
            ("own", "form"),
            {"k": 2, "l": 1},
        )
        assert (second.fields.type, second.fields.tags) == ("faq", ("own", "form"))


class DescribeTheForm:
    def it_reads_what_is_not_scalar_from_json(self):
        form = to_form(
            [
                ("namespace", "kb"),
                ("on_conflict", "skip"),
                ("tags", '["a"]'),
                ("tags", "b, c"),
                ("metadata", '{"k": [1]}'),
                ("chunking", '{"max_tokens": 64}'),
                ("parser_hint", "text/html"),
            ]
        )
        assert (form.on_conflict, form.tags, form.metadata) == ("skip", ["a", "b", "c"], {"k": [1]})
        assert form.chunking is not None
        assert (form.chunking.max_tokens, form.parser_hint) == (64, "text/html")
