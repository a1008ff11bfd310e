"""Channels out of installed packages: their names, what they make, and what is done without them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest
from pydantic import TypeAdapter

from pipeline.channels import channel as channels
from pipeline.channels.channel import AbsentChannel, Recalled
from pipeline.errors import Misconfigured
from pipeline.query.plan import PlanFlaw, read_plan
from pipeline.query.request import Envelope
from pipeline.records import ChannelName
from pipeline.resources import Resources
from pipeline.retrieval.build_plan import plan_of
from pipeline.retrieval.make_channels import make_channels
from pipeline.settings import load


class LegalChannel:
    """A channel as a package might have it."""

    name = property(lambda self: ChannelName("legal"))

    def recall(self, query) -> Recalled:
        return Recalled()

    def score(self, query, chunk_ids) -> dict:
        return {}


def make(use: Resources) -> LegalChannel:
    return LegalChannel()


def breaks(use: Resources) -> LegalChannel:
    raise RuntimeError("its own fault")


@pytest.fixture
def installed(monkeypatch) -> Iterator[None]:
    here = sys.modules[__name__].__name__
    found = [
        EntryPoint(name, f"{here}:{made}", channels.GROUP)
        for name, made in [("legal", "make"), ("broken", "breaks"), ("keyword", "make"), ("Not A Name", "make")]
    ]
    monkeypatch.setattr(channels, "entry_points", lambda *, group: found if group == channels.GROUP else [])
    channels.installed_channels.cache_clear()
    yield
    channels.installed_channels.cache_clear()


class DescribeInstalledChannels:
    def it_knows_their_names_without_loading_them(self, installed):
        assert list(channels.installed_channels()) == ["broken", "legal"]

    def it_lets_queries_ask_them(self, installed):
        plan = plan_of(load(), {}, {"retrieve": {"channels": {"legal": {"options": {"anything": 1}}}}})
        assert list(plan.channels) == ["keyword", "semantic", "legal"]
        assert plan.channels[ChannelName("legal")].weight == 0.1

    def it_makes_those_that_work(self, installed):
        made = make_channels(Resources(load()))
        assert isinstance(made[ChannelName("legal")], LegalChannel)
        assert "broken" not in made
        assert {"keyword", "semantic", "faq", "api"} <= set(made)

    def it_says_that_one_is_absent(self):
        with pytest.raises(Misconfigured, match="not installed"):
            AbsentChannel(ChannelName.admit("legal")).recall(None)


class DescribeChannelNames:
    def it_travels_as_json(self):
        name = ChannelName.admit("legal")
        assert ChannelName("legal") is name is ChannelName.admit("legal")
        adapter = TypeAdapter(Envelope)
        envelope = Envelope(channel=name, status="ok")
        assert adapter.validate_json(adapter.dump_json(envelope)) == envelope

    @pytest.mark.parametrize("name", ["", "fallback", "Legal", "a b", "1st", "x" * 33])
    def it_refuses_what_is_no_name(self, name):
        with pytest.raises(ValueError, match="cannot be the name"):
            ChannelName.admit(name)

    def it_refuses_plans_with_others(self):
        with pytest.raises(PlanFlaw, match="/retrieve/channels/unheard"):
            read_plan({"retrieve": {"channels": {"unheard": {}}}})
