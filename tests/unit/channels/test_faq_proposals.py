"""How many pairs the two other channels are asked for, however a query shares out what it recalls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from sqlalchemy import create_engine

from pipeline.channels.channel import Recalled
from pipeline.channels.faq_channel import FaqChannel
from pipeline.query.request import Query
from pipeline.records import ChannelName, ChunkId
from tests.support.corpora.traces import query

KEYWORD, SEMANTIC = ChannelName.KEYWORD, ChannelName.SEMANTIC


class Silent:
    """A channel that finds nothing and notes how much it was asked for."""

    def __init__(self, name: ChannelName) -> None:
        self.name = name
        self.pools: list[int] = []

    def recall(self, query: Query) -> Recalled:
        self.pools.append(query.pool_of(self.name))
        return Recalled(chunk_ids=(), scores=())

    def score(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        return {}


@pytest.mark.parametrize("allocation", ["pool", "balanced", "double"])
def it_asks_each_way_for_two_dozen_pairs(allocation):
    asked = query()
    asked = replace(asked, plan=replace(asked.plan, retrieve=replace(asked.plan.retrieve, allocation=allocation)))
    keyword, semantic = Silent(KEYWORD), Silent(SEMANTIC)

    def unneeded(*_: object) -> object:
        raise AssertionError("nothing was found that could be compared")

    nowhere = create_engine("mysql+pymysql://nobody@127.0.0.1:1/none")
    channel = FaqChannel(mysql=nowhere, keyword=keyword, semantic=semantic, space=unneeded, embed=unneeded)
    assert channel.recall(asked).chunk_ids == ()
    assert (keyword.pools, semantic.pools) == ([24], [24])
