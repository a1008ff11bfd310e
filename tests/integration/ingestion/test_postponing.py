"""What the log tells of an item that was to be tried again later."""

from __future__ import annotations

import dataclasses

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import EmbedderUnavailable
from pipeline.ingestion import retry_or_give_up
from pipeline.ingestion.retry_or_give_up import give_up_or_retry
from pipeline.ingestion.run import take
from pipeline.jobs.claims import ItemClaim
from tests.integration.ingestion.test_ingest_flow import Corner, _upload


@pytest.fixture
def corner(use, tenant, namespace) -> Corner:
    return Corner(use, tenant, namespace)


@pytest.fixture
def claim(corner: Corner) -> ItemClaim:
    ticket = corner.accept(_upload("d", "The kettle boils."))
    claims = take(corner.tenant, ticket.job_id, corner.use)
    assert claims is not None
    return claims.items[0]


@pytest.fixture(autouse=True)
def plain_log(monkeypatch):
    """A logger that was not used before, so that what it says can be captured."""
    import structlog

    monkeypatch.setattr(retry_or_give_up, "log", structlog.get_logger("test"))


AWAY = EmbedderUnavailable("the model is away", retry_after_s=30.0)


@pytest.mark.calm
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
        with unit_of_work(corner.use.mysql) as work:
            work.connection.execute(
                text("UPDATE job_items SET fencing_token = fencing_token + 1 WHERE tenant_id = :tenant"),
                {"tenant": corner.tenant},
            )
        with capture_logs() as told:
            give_up_or_retry(corner.tenant, claim, AWAY, corner.use)
        assert [(line["event"], line["code"]) for line in told] == [("left_to_the_lease", "lease_lost")]
