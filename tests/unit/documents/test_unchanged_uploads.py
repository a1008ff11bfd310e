"""When two uploads are taken for the same, and that nobody changes parsing or chunking without saying so."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pipeline.documents.cut_document import assembled, cut_document
from pipeline.documents.document_store import ANALYSIS, Source, recipe, same_fields
from pipeline.keyword.terms import VERSION, Tokenizer
from pipeline.parsing.formats import parse
from pipeline.records import Chunking, DocumentFields, DocumentId, Generation, Namespace, Scope, TenantId

GENERATION = Generation(
    scope=Scope(tenant_id=TenantId("t"), namespace=Namespace("n")), document_id=DocumentId("d"), number=1
)
SOURCE = Source(
    generation=GENERATION,
    fields=DocumentFields(title="Foxes", author="A", tags=("x",), metadata={"flag": True}),
    body=b"The fox.",
    media_type="text/plain",
    source_uri=None,
    chunking=Chunking(),
)

SAMPLES = (
    ("text/plain", "One sentence about PPR-9087. Another, by node.js!\n\nA second paragraph. " * 30),
    (
        "text/markdown",
        "# Manual\n\nIntro.\n\n## Reset\n\n- hold the button\n- wait\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
    ),
    ("text/html", "<html><title>T</title><body><h1>Kopf</h1><p>Größe &amp; Maß</p><ul><li>eins</ul></body></html>"),
    ("text/plain", "狐狸跳过了懒狗。" * 80),
    ("text/csv", "name,value\nfox,1\nwhale,2\n"),
    ("text/plain", "颱風 12LP'-y03/5-XL café Ёлка أَحْمَد ガーデン 비타민."),
    ("text/plain", "Die Häuser der Stadt sind nicht auf der Karte."),
)

# Digests of the samples without their terms, and of their terms, by version.
_MADE = dict.fromkeys(range(4, 14), "1aa90b760465c0ac")
_TERMS = {11: "2d609204fb8f22b2"}


class DescribeARecipe:
    @pytest.mark.parametrize(
        "change",
        [
            {"body": b"The fox!"},
            {"media_type": "text/markdown"},
            {"source_uri": "file:fox.txt"},
            {"chunking": Chunking(max_tokens=200)},
            {"chunking": Chunking(overlap=0.1)},
            {"fields": replace(SOURCE.fields, title="Whales")},
            {"fields": replace(SOURCE.fields, title=None)},
        ],
        ids=lambda change: "-".join(change),
    )
    def it_is_another_for_whatever_changes_chunks(self, change):
        assert replace(SOURCE, **change).recipe != SOURCE.recipe

    def it_does_not_depend_on_what_only_filters_see(self):
        assert replace(SOURCE, fields=DocumentFields(title="Foxes")).recipe == SOURCE.recipe
        assert replace(SOURCE, generation=replace(GENERATION, number=2)).recipe == SOURCE.recipe

    def it_is_another_after_an_upgrade_of_the_analysis(self):
        assert recipe(b"x", {}, analysis=ANALYSIS + 1) != recipe(b"x", {})

    def it_keeps_the_bytes_apart_from_the_rest(self):
        assert recipe(b'x"]', {"a": ""}) != recipe(b'"]', {"a": "x"})


class DescribeSameFields:
    @pytest.mark.parametrize(
        "change",
        [
            {"author": None},
            {"type": "manual"},
            {"tags": ()},
            {"story_time": 1},
            {"published_at": datetime(2026, 1, 1, tzinfo=UTC)},
            {"metadata": {"flag": 1}},
        ],
        ids=lambda change: "-".join(change),
    )
    def it_notices(self, change):
        assert not same_fields(SOURCE.fields, replace(SOURCE.fields, **change))

    def it_leaves_the_title_to_the_recipe(self):
        assert same_fields(SOURCE.fields, replace(SOURCE.fields, title="Whales"))


def it_is_raised_when_the_same_bytes_become_other_chunks():
    """If this fails, chunks differ from before: raise ``ANALYSIS``, or ``VERSION`` for terms, and note the new digest."""
    digest, terms = hashlib.sha256(), hashlib.sha256()
    for media_type, body in SAMPLES:
        document = cut_document(
            parse(body.encode(), media_type=media_type, filename=None),
            title="A title",
            chunking=Chunking(max_tokens=64),
            tokenizer=Tokenizer(GENERATION.scope),
            most=1000,
        )
        chunks = assembled(document, GENERATION).chunks
        for chunk in chunks:
            place = (chunk.passage.start, chunk.passage.end, chunk.passage.heading_path, chunk.passage.page)
            digest.update(repr((*place, chunk.embedding_text)).encode())
            terms.update(repr((chunk.terms, chunk.field_terms)).encode())
    assert (ANALYSIS, digest.hexdigest()[:16]) == (ANALYSIS, _MADE.get(ANALYSIS))
    assert (VERSION, terms.hexdigest()[:16]) == (VERSION, _TERMS.get(VERSION))
