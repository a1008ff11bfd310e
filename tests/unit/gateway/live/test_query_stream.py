"""The last event that a client of a query's stream has seen, which it sends when it reconnects."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from api_gateway.live.query_stream import seen_of
from api_gateway.resources.events import LastStep
from pipeline.records import CHANNEL_NAME, ChannelName

NAMES = st.sampled_from([*ChannelName, "x"]) | st.from_regex(CHANNEL_NAME, fullmatch=True)
STATUSES = st.sampled_from(["ok", "failed", "timeout"])
STEPS = st.sets(
    st.sampled_from(["queued", "running", "finished"]) | st.builds("{}:{}".format, NAMES, STATUSES), min_size=1
)


class DescribeWhatWasSeen:
    @settings(max_examples=30)
    @given(steps=STEPS)
    def it_is_known_of_every_channel_that_may_be_installed(self, steps):
        assert seen_of("+".join(sorted(steps))) == steps

    def it_may_be_said_of_many_channels(self):
        steps = {"queued", "running", "finished", *(f"{letter * 32}:timeout" for letter in "abcdefghijkl")}
        last_event_id = "+".join(sorted(steps))
        assert seen_of(TypeAdapter(LastStep).validate_python(last_event_id)) == steps

    @pytest.mark.parametrize("event_id", ["", "17", "queued+", "My_api:ok", "my_api:odd", "queued, running"])
    def it_is_nothing_if_the_id_is_none_of_ours(self, event_id):
        assert seen_of(event_id) == set()
