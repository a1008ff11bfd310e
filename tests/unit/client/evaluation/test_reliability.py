"""The picture of how reliable confidence is."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from chordwise.evaluation.reliability_diagram import diagram

_SVG = "{http://www.w3.org/2000/svg}"


def result(collection: str, *bins: tuple[float, int, float, float]) -> dict[str, Any]:
    held = [
        {"low": low, "hits": hits, "confidence": confidence, "relevant": relevant}
        for low, hits, confidence, relevant in bins
    ]
    return {
        "collection": collection,
        "queries": 7,
        "ece_first": 0.05,
        "ece_all": 0.1,
        "bins_first": held,
        "bins_all": held,
    }


class DescribeTheDiagram:
    def it_puts_a_bin_where_its_confidence_and_its_relevance_are(self):
        found = ElementTree.fromstring(diagram([result("en", (0.5, 20, 0.5, 0.5)), result("中文", (0.9, 3, 1.0, 0.0))]))
        english, chinese, *again = found.iter(f"{_SVG}circle")
        frame = list(found.iter(f"{_SVG}rect"))[1]
        left, top, side = (float(frame.attrib[name]) for name in ("x", "y", "width"))
        assert (float(english.attrib["cx"]), float(english.attrib["cy"])) == (left + side / 2, top + side / 2)
        assert (float(chinese.attrib["cx"]), float(chinese.attrib["cy"])) == (left + side, top + side)
        assert (english.attrib["fill"], chinese.attrib["fill"]) == ("#0072b2", "#ffffff"), "few hits are hollow"
        assert len(again) == 2
        assert "中文: 7 queries, expected calibration error 0.050" in "".join(found.itertext())

    def it_draws_a_collection_that_answered_nothing(self):
        assert ElementTree.fromstring(diagram([result("a < b & c")])).tag == f"{_SVG}svg"
