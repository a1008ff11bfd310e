"""The plug-ins that docs/ shows are plug-ins: each is made of its block and does what its port asks for."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Sequence
from typing import Any

import pytest

from pipeline.channels.channel import GROUP, Channel, Recalled
from pipeline.parsing.formats import Format
from pipeline.query.request import Query
from pipeline.records import ChannelName, ChunkId, Ranking
from tests.support.repository.guides import blocks


def made_of(page: str, **known: Any) -> dict[str, Any]:
    """The names that the one Python block of a page defines."""
    [block] = blocks(page, "python")
    names: dict[str, Any] = {"__name__": "snippet", **known}
    exec(compile(block.text, page, "exec"), names)
    return names


class DescribeAChannel:
    def it_has_the_members_of_the_port(self):
        known = {each.__name__: each for each in (ChannelName, ChunkId, Query, Recalled, Sequence)}
        ChannelName.admit("legal")  # its entry point is read before it is loaded
        channel = made_of("docs/channels.md", **known)["LegalChannel"]()
        assert channel.name == "legal"
        for member in ("recall", "score"):
            asked, shown = (inspect.signature(getattr(each, member)) for each in (Channel, type(channel)))
            assert list(shown.parameters) == list(asked.parameters)

    def it_is_found_in_the_group_that_is_read(self):
        [block] = blocks("docs/channels.md", "toml")
        assert tomllib.loads(block.text)["project"]["entry-points"] == {GROUP: {"legal": "acme_legal.channel:make"}}


def it_parses() -> None:
    found = made_of("docs/formats.md")["RST"]
    assert isinstance(found, Format)
    parsed = found.parse("Tea\n===\n\n八十度".encode(), None)
    assert (parsed.text, [(each.start, each.end) for each in parsed.sections]) == ("Tea\n===\n\n八十度", [(0, 12)])


def it_fuses() -> None:
    words, meaning = ChannelName("keyword"), ChannelName("semantic")
    a, b, c = (ChunkId(name) for name in "abc")
    rankings = (
        Ranking(channel=words, chunk_ids=(a, b), scores=(8.0, 4.0)),
        Ranking(channel=meaning, chunk_ids=(b, c), scores=(0.9, -0.1)),
    )
    best_of = made_of("docs/retrieval.md")["best_of"]
    assert best_of(rankings, weights={words: 0.4, meaning: 0.6}, completed=()) == pytest.approx(
        {a: 0.4, b: 0.6, c: 0.0}
    )
