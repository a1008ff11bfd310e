"""Rows that an older release wrote get the terms of this one in the background; queries are right before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.administration.edit_chunks import Edit, edit_chunks
from pipeline.channels.keyword_channel import KeywordChannel
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.owned_chunk_store import tenants_with_outdated_terms
from pipeline.keyword import indexed_fields, terms
from pipeline.keyword.spellings import joined_parts
from pipeline.maintenance.sweep import renew_terms
from pipeline.maintenance.verify import recount
from pipeline.models.ports import Matrix
from pipeline.records import ChunkId, Namespace, TenantId
from pipeline.resources import Resources
from tests.integration.keyword.test_keyword_channel import query
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import in_mysql, sharing
from tests.support.stacks.corner import Corner
from tests.support.stacks.keyword_index import Host

pytestmark = pytest.mark.own_databases

TEXTS = {"storm": "颱風轉向東方海域。", "part": "Order 12LP'-y03/5-XL today.", "fox": "Foxes hunt at night."}
GERMAN = "Die Häuser und die Straßen der Stadt sind nicht auf der Karte."


@pytest.fixture
def corner(use: Resources, tenant: TenantId, namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> Corner:
    """Documents as version 1 indexed them: traditional characters as they are, no identifier joined, no German stems."""
    corner = Corner(use, tenant, namespace)
    with monkeypatch.context() as older:
        older.setattr(terms, "SIMPLIFIED", {})
        older.setattr(terms, "joined_parts", lambda folded, terms_of, whole=False: joined_parts("", terms_of))
        older.setattr(indexed_fields, "languages_of", lambda text: ())
        terms._terms_by_piece.clear()
        corner.ingest(*(upload(name, body) for name, body in {**TEXTS, "city": GERMAN}.items()))
        terms._terms_by_piece.clear()
    in_mysql(use, "UPDATE generations SET terms_version = 1")
    return corner


def found_by(corner: Corner, question: str) -> list[str]:
    """The documents that FULLTEXT and BM25 give, best first."""
    chunk_ids = KeywordChannel(corner.use.mysql).recall(query(corner, question)).chunk_ids
    rows = in_mysql(corner.use, "SELECT chunk_id, document_id FROM chunks")
    named = dict(tuple(row) for row in rows)
    return [named[chunk_id] for chunk_id in chunk_ids]


def it_renews_terms_and_queries_find_what_rows_hold_meanwhile(corner, use, tenant, namespace, tmp_path):
    assert found_by(corner, "颱風轉向") == ["storm"]
    assert found_by(corner, "12LP'-y03/5-XL") == ["part"]
    assert found_by(corner, "welches Haus") == []
    assert found_by(corner, "台风转向") == []
    host = Host(corner, tmp_path)
    host.catch_up()
    with unit_of_work(use.mysql) as work:
        assert tenant in tenants_with_outdated_terms(work.connection)
        vectors = use.vectors(tenant)
        before = work.connection.execute(text("SELECT chunk_id, version, content_hash FROM chunks ORDER BY 1")).all()

    assert renew_terms(tenant, use) == 3
    assert renew_terms(tenant, use) == 0

    for question in ("颱風轉向", "台风转向"):
        assert found_by(corner, question) == ["storm"], question
    for question in ("12LP'-y03/5-XL", "12lpy03", "12lp-y03", "12lpy035xl", "12lpyo3"):
        assert found_by(corner, question) == ["part"], question
    assert found_by(corner, "welches Haus") == ["city"]
    with unit_of_work(use.mysql) as work:
        assert tenant not in tenants_with_outdated_terms(work.connection)
        after = work.connection.execute(text("SELECT chunk_id, version, content_hash FROM chunks ORDER BY 1")).all()
    assert after == before  # nothing was edited, and nothing has to be embedded
    assert vectors is not None
    assert recount(tenant, namespace, use, repair=False).statistics == 0
    corner.assert_clean()

    host.catch_up()
    assert len(host.ask("台风转向").chunk_ids) == len(host.ask("12lpyo3").chunk_ids) == 1
    host.indexer.close()


def it_leaves_new_documents_alone(corner, use, tenant):
    renew_terms(tenant, use)
    corner.ingest(upload("new", "國際 AB-12/C3"))
    with unit_of_work(use.mysql) as work:
        assert tenant not in tenants_with_outdated_terms(work.connection)
    assert found_by(corner, "ab12c3") == ["new"]
    assert found_by(corner, "国际") == ["new"]


class RenewingEmbedder:
    """The real embedder; while it works, the sweeper renews the terms of a tenant's chunks. ``renewed`` counts them."""

    def __init__(self, use: Resources, tenant: TenantId) -> None:
        self._use, self._tenant, self._real = use, tenant, use.embedder
        self.model = self._real.model
        self.renewed = 0

    def embed(self, texts: Sequence[str], **options: Any) -> Matrix:
        self.renewed += renew_terms(self._tenant, self._use)
        return self._real.embed(texts, **options)

    def close(self) -> None:
        self._real.close()


@pytest.mark.thorough
@pytest.mark.parametrize(("document_id", "text"), [("storm", "颱風轉向北方。"), ("part", "Order 12LP'-y03/5-XL now.")])
def it_counts_an_edited_chunk_right_although_its_terms_were_renewed_meanwhile(
    corner, use, tenant, namespace, document_id, text
):
    rows = in_mysql(
        use, "SELECT chunk_id FROM chunks WHERE tenant_id = :t AND document_id = :d", t=tenant, d=document_id
    )
    edit = Edit(chunk_id=ChunkId(rows[0].chunk_id), text=text)
    embedder = RenewingEmbedder(use, tenant)
    [edited] = edit_chunks(tenant, [edit], sharing(use, embedder=embedder))
    assert edited.status == "updated"
    assert embedder.renewed > 0
    assert recount(tenant, namespace, use, repair=False).statistics == 0


@pytest.mark.thorough
@pytest.mark.parametrize(("body", "title"), [("# Pumps\n\nOpen it.\n", "pumps"), ("# 水泵\n\n打开它。\n", "水泵")])
def it_keeps_the_title_among_the_terms_of_a_document_that_is_being_ingested(
    corner, use, tenant, namespace, body, title
):
    """The title of its text is stored when it is published, so that renewing its terms before would lose the title."""
    renew_terms(tenant, use)
    accepted = corner.accept(upload("manual", body, media_type="text/markdown"))
    in_mysql(
        use, "UPDATE generations SET terms_version = 1 WHERE document_id = 'manual'"
    )  # accepted by an older release
    embedder = RenewingEmbedder(use, tenant)
    corner.work(accepted, sharing(use, embedder=embedder))
    assert embedder.renewed == 0
    assert recount(tenant, namespace, use, repair=False).statistics == 0
    assert found_by(corner, title) == ["manual"]
