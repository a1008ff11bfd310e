"""A process answers a question before its first query, which then opens nothing, and keeps nothing of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Engine, event

from pipeline.resources import Resources
from pipeline.retrieval.make_channels import make_channels
from pipeline.retrieval.rehearse import rehearse
from tests.support.stacks.asking import Asker
from tests.support.stacks.corner import Corner

pytestmark = pytest.mark.own_databases

TEXTS = {"en": "Green tea is steeped at 80 degrees.", "zh": "绿茶用八十度的水冲泡。"}


@pytest.fixture
def fresh(use: Resources) -> Iterator[Resources]:
    """The connections of a process that has just started."""
    found = replace(use, reading=True)
    yield found
    found.close()


def opened(*engines: Engine) -> Counter[str]:
    """Count the connections that are opened from now on, by the kind of the database."""
    counted: Counter[str] = Counter()
    for engine in engines:
        event.listen(engine, "connect", lambda *_, name=engine.dialect.name: counted.update([name]))
    return counted


@pytest.mark.parametrize("question", TEXTS.values(), ids=TEXTS)
def it_leaves_the_first_query_nothing_to_open(corner: Corner, fresh: Resources, question: str):
    corner.fill(TEXTS)
    keys, audited = set(corner.use.redis.scan_iter()), corner.rows("audit")
    at_start = opened(fresh.mysql, fresh.postgres)
    rehearse(fresh, make_channels(fresh))
    assert at_start["mysql"], "this process had no connection before"
    assert set(corner.use.redis.scan_iter()) <= keys, "nobody asked"
    assert corner.rows("audit") == audited
    asker = Asker(replace(corner, use=fresh))
    later = opened(fresh.mysql, fresh.postgres)
    answer = asker.ask_for(question)
    assert answer["chunks"], answer
    assert not later, "the first query opened connections"
