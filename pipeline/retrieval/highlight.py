"""The words of a query, marked in the texts that are returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from pipeline.answer.highlights import highlight
from pipeline.answer.result import AnswerChunk
from pipeline.channels.channel import Channel, Worded
from pipeline.errors import Unavailable
from pipeline.keyword.terms import query_terms
from pipeline.query.request import Query
from pipeline.records import ChannelName

log = structlog.get_logger(__name__)


def highlighted(
    query: Query, chunks: Sequence[AnswerChunk], channels: Mapping[ChannelName, Channel]
) -> tuple[AnswerChunk, ...]:
    """The chunks with the spans of what the keyword channel looked for, synonyms included."""
    return highlight(chunks, _terms(query, channels)) if chunks else ()


def _terms(query: Query, channels: Mapping[ChannelName, Channel]) -> tuple[str, ...]:
    """Without the dictionary they are the query's own words, which is no loss worth naming."""
    channel = channels.get(ChannelName.KEYWORD)
    if isinstance(channel, Worded):
        try:
            return channel.terms(query)
        except Unavailable as error:
            log.warning("dictionary_unavailable", query_id=query.query_id, code=error.code)
    return tuple(query_terms(query.query_text))
