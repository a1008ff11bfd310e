"""A tenant that imported the medical workbook, one for each module."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from chordwise import Chordwise
from chordwise.example_step import EXAMPLE_NAMESPACES
from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.commands import called
from tests.support.corpora.formats import xlsx
from tests.support.corpora.medical_examples import HEADER, SHEETS, Library


@pytest.fixture(scope="module")
def library(use: Resources, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    book = tmp_path_factory.mktemp("s2") / "提示词案例库.xlsx"
    book.write_bytes(xlsx({name: [HEADER, *rows] for name, rows in SHEETS.items()}))
    _, key = make_tenant(use)
    arguments = (book, "-n", "record_examples", "--category", "record", "--wait")
    told = called("import-examples", *arguments, CHORDWISE_API_KEY=key)
    with Chordwise(os.environ["CHORDWISE_URL"], key) as client:
        imported = {
            table: client.import_examples(book, namespace=table, category=table.removesuffix("_examples"))
            for table in EXAMPLE_NAMESPACES
            if table != "record_examples"
        }
        for each in imported.values():
            client.wait(str(each.job_id))
    with gateway(key) as client:
        yield Library(client, key, book, told, imported)
