"""Imports on the real stores: each part once, each document whole, and one that is hostile harms nobody else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest

from pipeline.archives.archive import Part, read_part, write_part
from pipeline.ingestion.import_archive import forget, parts_of
from pipeline.maintenance.erase import delete_namespace
from tests.integration.archives.test_portability import assert_statistics, counting, exported, filled, seen
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import breaking, sharing
from tests.support.stacks.one_job import ingest_batch

pytestmark = pytest.mark.own_databases


class DescribeAnImport:
    def it_shows_nothing_of_a_document_before_all_of_it_is_there_and_goes_on_after_a_crash(self, source, target, use):
        filled(source, 3)
        [body] = exported(source)
        received = target.receive(body)
        for broken_at in ("upsert", "counts"):
            ingest_batch(target.tenant, received.job_id, breaking(use, broken_at), notify=lambda *_: None)
            assert target.shown() == {}
            target.make_due()
        target.finish(received.job_id)
        assert seen(target) == seen(source)
        assert_statistics(target)

    @pytest.mark.thorough
    def it_runs_twice_without_a_difference(self, source, target, use):
        filled(source, 3)
        [body] = exported(source)
        target.take(body)
        before = seen(target)
        forget(target.tenant, target.namespace, "archive", use)
        target.take(body)
        assert seen(target) == before
        target.assert_clean()

    def it_forgets_an_import_with_its_namespace(self, source, target, use):
        filled(source, 1)
        target.take(*exported(source))
        delete_namespace(target.tenant, target.namespace, use)
        assert parts_of(target.tenant, target.namespace, "archive", use) == []
        [job] = target.take(*exported(source))
        assert job.succeeded == 1


def _line(document: Any, **changes: Any) -> Any:
    lines = [orjson.dumps({**orjson.loads(document.chunks[0]), **changes}), *document.chunks[1:]]
    return replace(document, chunks=lines)


def _numbers(document: Any, value: float) -> Any:
    numbers = np.frombuffer(document.vectors, "<f2").copy()
    numbers[0] = value
    return replace(document, vectors=numbers.tobytes())


HOSTILE = {
    "no text": (lambda d: _line(d, text="  "), "invalid_packed_document"),
    "text that is no string": (lambda d: _line(d, text=["x"]), "invalid_packed_document"),
    "a NUL": (lambda d: _line(d, text="a\0b"), "invalid_packed_document"),
    "an end before its start": (lambda d: _line(d, start=9, end=3), "invalid_packed_document"),
    "a negative place": (lambda d: _line(d, start=-1), "invalid_packed_document"),
    "a place too far": (lambda d: _line(d, end=2**40), "invalid_packed_document"),
    "a true ordinal": (lambda d: _line(d, ordinal=True), "invalid_packed_document"),
    "an ordinal twice": (lambda d: _line(d, ordinal=1), "invalid_packed_document"),
    "headings that are none": (lambda d: _line(d, heading_path=[1]), "invalid_packed_document"),
    "a year that is none": (lambda d: _line(d, edited_at="0001-01-01T00:00:00+14:00"), "invalid_packed_document"),
    "a vector too few": (lambda d: _line(d, vector=False), "invalid_packed_document"),
    "not JSON": (lambda d: replace(d, chunks=[b"{", *d.chunks[1:]]), "invalid_packed_document"),
    "NaN": (lambda d: _numbers(d, float("nan")), "invalid_packed_document"),
    "infinity": (lambda d: _numbers(d, float("inf")), "invalid_packed_document"),
    "a long vector": (lambda d: _numbers(d, 50.0), "invalid_packed_document"),
    "no chunks": (lambda d: replace(d, chunks=[], vectors=b""), "empty_document"),
    "an id that is none": (lambda d: replace(d, description={**d.description, "document_id": ""}), "invalid_document"),
    "tags that are none": (lambda d: replace(d, description={**d.description, "tags": 5}), "invalid_document"),
    "a time that is none": (
        lambda d: replace(d, description={**d.description, "published_at": "x"}),
        "invalid_document",
    ),
}


class DescribeHostileDocuments:
    def it_parks_each_alone(self, source, target):
        names = ["a", *(f"bad{number:02d}" for number in range(len(HOSTILE))), "z"]
        text = f"# A\n\n{'some text. ' * 300}\n\n# B\n\n{'more. ' * 400}"
        source.ingest(*(upload(name, f"{name}\n\n{text}") for name in names))
        part = read_part(exported(source)[0])
        assert all(len(document.chunks) > 1 for document in part.documents)
        first, *spoilt, last = part.documents
        assert [document.description["document_id"] for document in part.documents] == names
        bad = [spoil(document) for (spoil, _), document in zip(HOSTILE.values(), spoilt, strict=True)]
        [job] = target.take(write_part(Part(origin=part.origin, documents=[first, *bad, last])))
        assert (job.succeeded, job.failed) == (2, len(HOSTILE))
        assert [error.code for error in job.errors] == [code for _, code in HOSTILE.values()]
        assert set(target.shown()) == {"a", "z"}
        assert_statistics(target)

    def it_parks_a_document_that_comes_twice_or_is_too_large(self, source, target, use):
        source.ingest(upload("a", "one"), upload("b", "two " * 5000))
        part = read_part(exported(source)[0])
        twice = write_part(Part(origin=part.origin, documents=[*part.documents, part.documents[0]]))
        small = sharing(use, max_document_bytes=10_000, parser=use.parser)
        [job] = target.take(twice, use=small)
        assert sorted(error.code for error in job.errors) == ["document_too_large", "duplicate_document_id"]
        assert set(target.shown()) == {"a"}

    def it_does_not_believe_a_vector_whose_text_is_another(self, source, target, use):
        source.ingest(upload("a", "one"))
        part = read_part(exported(source)[0])
        forged = write_part(Part(origin=part.origin, documents=[_line(part.documents[0], text="two")]))
        counted, model = counting(use)
        target.take(forged, use=counted)
        assert model.texts == ["two"]
        assert target.shown() == {"a": ["two"]}
        assert_statistics(target)
