"""Log events of an item that is retried later."""

from __future__ import annotations

import dataclasses

import pytest
from structlog.testing import capture_logs

from pipeline.errors import EmbedderUnavailable
from pipeline.ingestion import claimed_items
from pipeline.ingestion.claimed_items import give_up_or_retry
from pipeline.ingestion.run import take
from pipeline.jobs.ledger_store import ItemClaim
from tests.support.corpora.uploads import upload
from tests.support.stacks.corner import Corner


@pytest.fixture
def claim(corner: Corner) -> ItemClaim:
    ticket = corner.accept(upload("d", "The kettle boils."))
    claims = take(corner.tenant, ticket.job_id, corner.use)
    assert claims is not None
    return claims.items[0]


@pytest.fixture(autouse=True)
def plain_log(monkeypatch):
    """A logger that was not used before, so that what it says can be captured."""
    import structlog

    monkeypatch.setattr(claimed_items, "log", structlog.get_logger("test"))


AWAY = EmbedderUnavailable("the model is away", retry_after_s=30.0)


class DescribePostponing:
    def it_is_told_once_it_is_written(self, corner, claim):
        with capture_logs() as told:
            give_up_or_retry(corner.tenant, claim, AWAY, corner.use)
        assert [(line["event"], line["code"]) for line in told] == [("item_put_back", "embedder_unavailable")]

    def it_is_told_as_given_up_after_the_last_attempt(self, corner, claim):
        last = dataclasses.replace(claim, attempts=corner.use.settings.ingest_max_attempts)
        with capture_logs() as told:
            give_up_or_retry(corner.tenant, last, AWAY, corner.use)
        assert [line["event"] for line in told] == ["item_given_up"]

    def it_is_not_told_as_put_back_when_it_was_not(self, corner, claim):
        corner.execute("UPDATE job_items SET fencing_token = fencing_token + 1 WHERE tenant_id = :tenant")
        with capture_logs() as told:
            give_up_or_retry(corner.tenant, claim, AWAY, corner.use)
        assert [(line["event"], line["code"]) for line in told] == [("left_to_the_lease", "lease_lost")]
