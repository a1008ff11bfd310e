"""A promoted PostgreSQL that lacks the last transactions: they are written again at once, and nothing else is compared."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from pipeline.maintenance.follow_promotion import is_due, mend_promoted
from tests.support.corpora.uploads import upload
from tests.support.stacks.corner import Corner, documents

pytestmark = pytest.mark.own_databases

ANOTHER_TIMELINE = "000000FF"


def _lose_vectors(corner: Corner, document_id: str) -> None:
    """Take a document's vectors away, as a standby that had not received them."""
    with corner.use.postgres.begin() as connection:
        statement = "DELETE FROM chunk_embeddings WHERE tenant_id = :tenant AND document_id = :document"
        connection.execute(text(statement), {"tenant": corner.tenant, "document": document_id})


def _promote(corner: Corner) -> None:
    """Let the server that was looked at last have been another one."""
    corner.use.redis.set("chordwise:postgres:timeline", ANOTHER_TIMELINE)


class DescribeAPromotion:
    def it_has_lost_vectors_written_again_at_once(self, corner):
        corner.ingest(upload("early", "A fox sleeps in the barn."), upload("late", "光伏板把阳光变成直流电。"))
        assert not is_due(corner.use)  # the first look at this server
        _lose_vectors(corner, "late")
        assert not is_due(corner.use)
        assert mend_promoted(corner.use).wrong == 0
        _promote(corner)
        assert is_due(corner.use)
        assert mend_promoted(corner.use).missing == 1
        corner.assert_clean()
        found = corner.ask(corner.query("阳光变成直流电", retrieve={"method": "semantic"}))
        assert documents(found)[:1] == ["late"]
        assert not is_due(corner.use)
        assert mend_promoted(corner.use).chunks == 0

    def it_compares_what_was_published_lately_alone(self, corner):
        corner.ingest(upload("old", "A fox sleeps in the barn."))
        corner.execute("UPDATE publications SET revised_at = '2000-01-01'")
        corner.ingest(upload("new", "A hen sleeps in the barn."))
        assert not is_due(corner.use)
        _promote(corner)
        assert mend_promoted(corner.use).chunks == 1
