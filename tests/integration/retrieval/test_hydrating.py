"""Fields stored with a chunk are read back unchanged, for any characters and numbers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.chunk_edit_store import ChunkEdits
from pipeline.documents.chunk_store import Chunks, StoredChunk
from pipeline.records import DocumentFields
from tests.support.corpora.uploads import upload
from tests.support.stacks.corner import Corner

pytestmark = pytest.mark.own_databases

ODD = "a \"quoted\" \\back\\slash\\ 'single' %s :name {brace}\ttab\u2028 维生素 🦊 \u0001 é\u0301 ﷽"
FIELDS = DocumentFields(
    title=ODD,
    author=ODD,
    type="odd/'\"\\type",
    tags=(ODD, "", "plain"),
    published_at=datetime(1, 2, 3, 4, 5, 6, tzinfo=UTC),
    story_time=-(2**63),
    metadata={ODD: [ODD, {"深": 2**63 - 1}], "number": 1e300, "nothing": None, "flag": True, "empty": {}},
)


def stored(corner: Corner) -> list[StoredChunk]:
    with unit_of_work(corner.use.mysql) as work:
        page = ChunkEdits(work.connection, corner.tenant).page(
            corner.namespace, document_id=None, enabled=None, order_by="document_id", after=None, limit=10
        )
        found = Chunks(work.connection, corner.tenant).hydrate(
            [chunk.chunk_id for chunk in page], namespaces=[corner.namespace], reads_as=None
        )
    return list(found.values())


class DescribeHydrate:
    def it_gives_back_what_was_stored(self, corner):
        body = 'a "quoted" \\ text: 维生素 🦊'
        corner.ingest(upload("odd", body, **{name: getattr(FIELDS, name) for name in FIELDS.__dataclass_fields__}))
        [chunk] = stored(corner)
        assert chunk.text == body
        known = {name: getattr(chunk, name) for name in FIELDS.__dataclass_fields__}
        assert known == {name: getattr(FIELDS, name) for name in FIELDS.__dataclass_fields__}
        assert (chunk.document_id, chunk.namespace, chunk.generation) == ("odd", corner.namespace, 1)
        assert chunk.updated_at is not None
        assert abs((datetime.now(UTC) - chunk.updated_at).total_seconds()) < 60
        assert chunk.chunking.max_tokens > 0

    def it_gives_back_that_nothing_was_said(self, corner):
        corner.ingest(upload("bare", "text"))
        [chunk] = stored(corner)
        empty = DocumentFields()
        for name in DocumentFields.__dataclass_fields__:
            assert getattr(chunk, name) == getattr(empty, name), name
        assert (chunk.page, chunk.parent_id, chunk.segment, chunk.source_uri) == (None, None, None, None)
