"""Answers where one long document or many equal copies fill the channels' pools, on real stores, in one process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.answer.result import Answer
from pipeline.channels.channel import Channel
from pipeline.records import ChannelName, Chunking, Filters, Namespace, Upload
from pipeline.resources import Resources
from pipeline.retrieval.make_channels import make_channels
from tests.conftest import make_tenant
from tests.integration.retrieval.test_selection import Watched
from tests.support.corpora.uploads import upload
from tests.support.stacks.corner import Corner, documents
from tests.support.stacks.keyword_index import Host

pytestmark = pytest.mark.thorough  # of 1,800 documents; the rules of selection stand in tests/spec

METHODS = ("hybrid", "full_text", "semantic")
SHORT = Chunking(strategy="sentences", max_tokens=50, overlap=0.0)
NOTES = 10
WORDS = {
    "en": (
        "turbine oil",
        "Turbine oil paragraph {n} of the manual. ",
        "Note {n} of the crew about changing the oil of the main turbine after every {n} thousand hours.",
        "All rights reserved. Contact the service desk about turbine oil.",
        ["Turbine {n} lost oil.", "The oil of pump {n} was changed.", "Valve {n} of the main turbine is tight."],
    ),
    "zh": (
        "汽轮机油",
        "手册第{n}段介绍汽轮机油的牌号。",
        "第{n}班记录：主机的汽轮机每运行{n}千小时更换一次润滑油。",
        "版权所有。有关汽轮机油的问题请联系服务台。",
        ["{n}号汽轮机漏油。", "更换了{n}号泵的机油。", "主汽轮机的{n}号阀门已关紧。"],
    ),
}


@pytest.fixture(scope="module")
def corners(use_alone: Resources) -> dict[str, Corner]:
    """In each script one tenant with a long document and ten notes, one with copies of a text under other titles and ten
    notes, one with equal documents, and one with documents that are alike, of one to four passages, many of them equal."""
    found: dict[str, Corner] = {}
    for script, (_, passage, note, copy, alike) in WORDS.items():
        notes = [upload(f"note{n}", note.format(n=n)) for n in range(NOTES)]
        for kind in ("long", "copies", "same", "alike"):
            corner = Corner(use_alone, make_tenant(use_alone)[0], Namespace(kind))
            if kind == "long":
                text = "\n\n".join(4 * passage.format(n=n) for n in range(250))
                corner.ingest(upload("manual", text, chunking=SHORT), *notes)
            elif kind == "copies":
                corner.ingest(*(upload(f"copy{n}", copy, title=f"Part {n}") for n in range(300)), *notes)
            elif kind == "same":
                corner.ingest(*(upload(f"same{n}", copy) for n in range(300)))
            else:
                corner.ingest(*(_alike(n, alike) for n in range(400)))
            found[f"{kind}-{script}"] = corner
    return found


def _alike(number: int, sentences: Sequence[str]) -> Upload:
    """Every sentence stands in several documents, with numbers up to 60 and up to four times in a passage."""
    passages = [
        " ".join([sentence.format(n=(number * (at + 3)) % 60)] * (1 + (number + at) % 4))
        for at, sentence in enumerate((*sentences, *sentences))
        if (number >> at) % 3 != 1
    ]
    text = "\n\n".join(passages or sentences)
    return upload(f"alike{number}", text, chunking=SHORT, metadata={"third": number % 3})


@pytest.fixture(scope="module", params=["index", "mysql"])
def channels(
    use_alone: Resources, corners: dict[str, Corner], request: pytest.FixtureRequest, tmp_path_factory: Any
) -> Iterator[dict[ChannelName, Channel]]:
    """The channels, with a keyword index of this host and exact searches for vectors; or with FULLTEXT and the searches
    of a tenant that has vector indexes."""
    root: Path = tmp_path_factory.mktemp("index")
    use = Resources(use_alone.settings, exact_chunks=5_000 if request.param == "index" else 100)
    made = dict(make_channels(use))
    host = Host(corners["long-en"], root)
    if request.param == "index":
        host.catch_up()
        made[ChannelName.KEYWORD] = host.channel
    else:
        made[ChannelName.KEYWORD] = type(host.channel)(use_alone.mysql)
    yield made
    host.indexer.close()
    use.close()


def ask(corner: Corner, script: str, channels: Any, *, top_k: int = 10, method: str = "hybrid", **how: Any) -> Answer:
    retrieve = {"method": method, "selection": how}
    answer = corner.ask(corner.query(WORDS[script][0], top_k=top_k, retrieve=retrieve), channels)
    assert not answer.stats.degraded, answer.stats.degradations
    return answer


def remarks(answer: Answer) -> list[str]:
    return [remark for remark in answer.stats.remarks if remark.startswith("caps_not_filled")]


@pytest.mark.parametrize("script", WORDS)
class DescribeALongDocument:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("how", [{"per_document": 1}, {"dedupe": "document"}], ids=str)
    def it_leaves_places_for_other_documents(self, corners, channels, script, method, how):
        answer = ask(corners[f"long-{script}"], script, channels, method=method, **how)
        assert len(set(documents(answer))) == len(answer.chunks) == 10
        assert remarks(answer) == []

    def it_takes_as_many_passages_as_the_cap_allows(self, corners, channels, script):
        answer = ask(corners[f"long-{script}"], script, channels, per_document=3)
        assert len(answer.chunks) == 10
        assert Counter(documents(answer))["manual"] == 3

    def it_explains_an_answer_that_no_other_document_can_fill(self, corners, channels, script):
        answer = ask(corners[f"long-{script}"], script, channels, top_k=20, per_document=1)
        assert set(documents(answer)) == {"manual", *(f"note{n}" for n in range(NOTES))}
        (remark,) = remarks(answer)
        assert remark.startswith("caps_not_filled: 11 of 20 hits, because selection.per_document 1 left out ")
        assert remark.endswith("nothing else matches")


@pytest.mark.parametrize("script", WORDS)
@pytest.mark.parametrize("method", METHODS)
def it_finds_other_texts_behind_equal_copies(corners, channels, script, method):
    answer = ask(corners[f"copies-{script}"], script, channels, method=method, dedupe="content")
    assert len({chunk.text for chunk in answer.chunks}) == len(answer.chunks) == 10
    assert remarks(answer) == []


@pytest.mark.parametrize("script", WORDS)
@pytest.mark.parametrize("method", METHODS)
def it_begins_a_longer_answer_with_the_shorter_one(corners, channels, script, method):
    """Among 300 equal documents."""
    corner = corners[f"same-{script}"]
    longest = documents(ask(corner, script, channels, top_k=200, method=method))
    assert len(set(longest)) == 200
    for top_k in (1, 10, 50, 120):
        assert documents(ask(corner, script, channels, top_k=top_k, method=method)) == longest[:top_k]


@pytest.mark.parametrize("script", WORDS)
@pytest.mark.parametrize(
    "how",
    [{}, {"per_document": 1}, {"per_document": 2}, {"dedupe": "document"}, {"third": 1}],
    ids=str,
)
def it_begins_a_longer_answer_with_the_shorter_one_among_alike_documents(corners, channels, script, how, request):
    """FULLTEXT proposes chunks by a measure of its own, so that MySQL's first hits by words depend on their number."""
    selection = {name: value for name, value in how.items() if name != "third"}
    filters = Filters(metadata={"third": how["third"]}) if "third" in how else Filters()

    def chunks(method: str, top_k: int) -> list[str]:
        asked = {"top_k": top_k, "retrieve": {"method": method, "selection": selection}}
        corner = corners[f"alike-{script}"]
        answer = corner.ask(corner.query(WORDS[script][0], filters=filters, **asked), channels)
        scores = [chunk.score for chunk in answer.chunks]
        assert scores == sorted(scores, reverse=True)
        return [chunk.chunk_id for chunk in answer.chunks]

    for method in METHODS if request.node.callspec.params["channels"] == "index" else ("semantic",):
        longest = chunks(method, 300)
        assert len(longest) > 100
        for top_k in (1, 10, 50, 100, 120, 200):
            assert chunks(method, top_k) == longest[:top_k], (method, top_k)


def it_asks_nothing_again_where_the_answer_is_full(corners, channels):
    """A cap costs nothing as long as ten documents are among the candidates."""
    watched = Watched(channels[ChannelName.KEYWORD])
    for kind, times in (("copies", 1), ("long", 2)):
        answer = ask(corners[f"{kind}-en"], "en", {watched.name: watched}, method="full_text", per_document=1)
        assert len(set(documents(answer))) == len(answer.chunks) == 10
        assert len(watched.asked) == times
        watched.asked.clear()
