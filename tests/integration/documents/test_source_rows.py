"""Rows of sources: written with uploads, dropped with the last generation that names them, safe beside each other."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from sqlalchemy import text

from chordwise.contract.source import SourceInfo
from pipeline.administration import delete_documents as flow
from pipeline.administration.delete_documents import delete_document, delete_source
from pipeline.administration.drop_replaced import drop_retired
from pipeline.database.unit_of_work import unit_of_work
from pipeline.document_sources import SourceKind, SourceRef, derived_source_id
from pipeline.documents.document_store import Documents
from pipeline.documents.document_view_store import SourceViews
from pipeline.documents.source_store import Sources
from pipeline.ingestion.reingest import roll_back
from pipeline.maintenance.erase import delete_namespace, erase_tenant
from pipeline.records import DocumentId, Upload
from tests.support.corpora import uploads
from tests.support.stacks.corner import Corner

pytestmark = pytest.mark.own_databases


def upload(document_id: str, body: str = "水泵。", *, uri: str | None = None, **source: Any) -> Upload:
    return uploads.upload(document_id, body, source_uri=uri, source=SourceRef(**source))


def source(corner: Corner, source_id: str) -> SourceInfo | None:
    with unit_of_work(corner.use.mysql) as work:
        return SourceViews(work.connection, corner.tenant).one(corner.namespace, source_id)


def drop(corner: Corner) -> None:
    """Let what is replaced or deleted be dropped now, also what is kept for a rollback."""
    with unit_of_work(corner.use.mysql) as work:
        for statement in (
            "UPDATE retired_generations SET due_at = '2000-01-01' WHERE tenant_id = :tenant",
            "DELETE FROM kept_generations WHERE tenant_id = :tenant",
        ):
            work.connection.execute(text(statement), {"tenant": corner.tenant})
    drop_retired(corner.tenant, corner.use)


class DescribeRowsOfSources:
    @pytest.mark.thorough
    def it_goes_with_the_last_document_that_names_it(self, corner):
        corner.ingest(upload("a", source_id="甲"), upload("b", source_id="甲"), upload("c", source_id="乙"))
        assert corner.rows("sources") == 2
        for document_id, left in (("a", 2), ("b", 1)):
            delete_document(corner.tenant, corner.namespace, DocumentId(document_id), corner.use)
            drop(corner)
            assert corner.rows("sources") == left
        assert source(corner, "甲") is None

    @pytest.mark.thorough
    def it_stays_while_a_document_can_go_back_to_it(self, corner):
        corner.ingest(upload("a", "old", source_id="old"))
        corner.ingest(upload("a", "new", source_id="new"))
        assert source(corner, "old") is None
        ticket = roll_back(
            corner.tenant, corner.namespace, DocumentId("a"), corner.use, notify=lambda _: None, request_id="r"
        )
        corner.work(ticket)
        assert source(corner, "old") is not None
        drop(corner)
        assert corner.rows("sources") == 1

    @pytest.mark.thorough
    def it_is_described_by_its_latest_upload(self, corner):
        corner.ingest(upload("a", uri="a.md", kind=SourceKind.TEXT))
        corner.ingest(upload("b", uri="a.md", kind=SourceKind.URL, media_type="text/markdown"))
        source_id = derived_source_id(corner.tenant, corner.namespace, uri="a.md", document_id="-")
        found = source(corner, source_id)
        assert found is not None
        assert (found.kind, found.media_type, found.documents) == ("url", "text/markdown", 2)
        corner.ingest(upload("a", "unsaid", uri="a.md", kind=None))
        found = source(corner, source_id)
        assert found is not None
        assert found.kind == "url"

    @pytest.mark.thorough
    def it_goes_with_its_namespace_and_its_tenant(self, corner):
        corner.ingest(upload("a", source_id="s"))
        delete_namespace(corner.tenant, corner.namespace, corner.use)
        assert corner.rows("sources") == 0
        corner.ingest(upload("a", source_id="s"))
        report = erase_tenant(corner.tenant, corner.use)
        assert report is not None
        assert (report.erased["mysql.sources"], report.remaining) == (1, {})

    def it_outlives_a_drop_beside_an_upload_that_names_it(self, corner):
        """The upload is not committed yet when its source loses the last generation that was."""
        corner.ingest(upload("a", source_id="s"))
        delete_document(corner.tenant, corner.namespace, DocumentId("a"), corner.use)
        done: list[bool] = []
        with unit_of_work(corner.use.mysql) as work:
            generation = next(iter(corner_generations(corner, work, "b").values()))
            Sources(work.connection, corner.tenant).store([(generation, upload("b", source_id="s"))])
            dropping = threading.Thread(target=lambda: (drop(corner), done.append(True)))
            dropping.start()
            dropping.join(0.7)
            assert not done  # it waits for this transaction
            work.connection.execute(_NAME_IT, {"tenant": corner.tenant, "namespace": corner.namespace})
        dropping.join(20)
        assert done
        assert corner.rows("sources") == 1

    def it_takes_uploads_of_one_source_side_by_side(self, corner):
        failures: list[BaseException] = []

        def many(number: int) -> None:
            try:
                for turn in range(10):
                    uploads = [upload(f"{number}-{turn}-{n}", source_id=f"s{n}") for n in range(5)]
                    corner.accept(*(uploads if number % 2 else reversed(uploads)))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=many, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failures == []
        assert corner.rows("sources") == 5
        found = source(corner, "s0")
        assert found is not None
        assert (found.documents, found.statuses["queued"]) == (40, 40)


def corner_generations(corner: Corner, work: Any, document_id: str) -> Any:
    return Documents(work.connection, corner.tenant).number(corner.namespace, [DocumentId(document_id)])


_NAME_IT = text(
    "INSERT INTO generations (tenant_id, namespace, document_id, generation, job_id, tags, metadata, media_type, chunking,"
    " content_hash, body_bytes, created_at, source_id) VALUES (:tenant, :namespace, 'b', 1, 'j', '[]', '{}', 'text/plain',"
    " '{}', REPEAT('0', 32), 1, '2026-01-01', 's')"
)


@pytest.mark.thorough
class DescribeDeletingASource:
    def it_goes_on_where_it_was_interrupted(self, corner, monkeypatch):
        corner.ingest(*(upload(f"d{number:03}", source_id="大") for number in range(130)), upload("其他"))
        real, calls = flow.delete_within, []

        def dies(*arguments: Any) -> int:
            calls.append(1)
            if len(calls) == 2:
                raise RuntimeError("killed")
            return real(*arguments)

        monkeypatch.setattr(flow, "delete_within", dies)
        with pytest.raises(RuntimeError):
            delete_source(corner.tenant, corner.namespace, "大", corner.use)
        found = source(corner, "大")
        assert found is not None
        assert (found.documents, found.chunks) == (30, 30)
        monkeypatch.undo()
        assert delete_source(corner.tenant, corner.namespace, "大", corner.use) == 30
        assert delete_source(corner.tenant, corner.namespace, "大", corner.use) is None
        assert set(corner.shown()) == {"其他"}
        corner.assert_clean()
