"""The label of a hit's source, and the shares of the channels in an answer."""

from __future__ import annotations

import pytest

from pipeline.answer.result import answer_chunks, source_share
from pipeline.ranking.fusion import Contribution, Fused
from pipeline.ranking.hits import Hit, Hydrated


def hit(**channels: tuple[int | None, float | None]) -> Hit:
    """A hit with the rank and the contribution of each channel."""
    parts = tuple(Contribution(name, rank, 1.0, None, earned) for name, (rank, earned) in channels.items())
    passage = Hydrated(chunk_id="c", document_id="d", namespace="n", title=None, text="", metadata={})
    return Hit(fused=Fused("c", 1.0, parts), passage=passage, score=1.0)


@pytest.mark.parametrize(
    ("found", "label", "strongest"),
    [
        (hit(keyword=(1, 0.7), semantic=(4, 0.2)), "both", "keyword"),
        (hit(keyword=(9, 0.1), semantic=(1, 0.3)), "both", "semantic"),
        (hit(keyword=(1, 0.7), semantic=(None, 0.2)), "keyword", "keyword"),  # scored afterwards, not found
        (hit(keyword=(None, 0.0), semantic=(1, 0.3)), "semantic", "semantic"),
        (hit(semantic=(1, 1.0)), "semantic", "semantic"),
        (hit(faq=(1, 0.5), keyword=(2, 0.3), semantic=(2, 0.1)), "faq", "faq"),
        (hit(faq=(1, 0.1), keyword=(1, 0.6), semantic=(2, 0.3)), "both", "keyword"),
        (hit(keyword=(2, None), semantic=(1, None)), "both", "semantic"),  # of a custom fusion
    ],
)
def it_labels_a_hit_by_its_strongest_channel_or_as_found_by_both(found, label, strongest):
    chunks = answer_chunks([found], envelopes={})
    assert chunks[0].source == label
    assert [source.channel for source in chunks[0].sources] == [part.channel for part in found.fused.contributions]
    assert source_share(chunks) == {strongest: 1.0}
