"""The vector library, built once for each module and distance."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.maintenance.build_indexes import keep_indexes
from pipeline.maintenance.migrate_schema import check
from pipeline.resources import Resources
from tests.conftest import make_tables, scratch_databases
from tests.support.stacks.vector_library import THRESHOLD, Library


@pytest.fixture(scope="module", params=["cosine", pytest.param("euclidean", marks=pytest.mark.thorough)])
def library(request, settings) -> Iterator[Library]:
    with scratch_databases(settings) as moved:
        use = Resources(moved.model_copy(update={"pgvector_distance": request.param}), exact_chunks=THRESHOLD)
        make_tables(use)
        made = Library(use)
        measure = made.clusters.questions(20)
        for _ in range(2):
            keep_indexes(use, questions=lambda *_, **__: measure)
        check(use.mysql, use.postgres, use.settings)
        yield made
        made.reader.close()
        use.close()
