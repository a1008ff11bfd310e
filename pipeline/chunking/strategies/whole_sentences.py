"""`sentences`: whole paragraphs together while they fit, long ones in overlapping windows of whole sentences."""

from __future__ import annotations

from pipeline.chunking.cut import chunks
from pipeline.chunking.strategies.strategy import MAX_TOKENS, OVERLAP, Cut, PassageBudget, Strategy, numbered
from pipeline.records import Chunking, Parsed


def _cut(parsed: Parsed, chunking: Chunking, allowance: PassageBudget) -> Cut:
    return Cut(passages=numbered(allowance.taken_by(chunks(parsed, chunking))))


SENTENCES = Strategy(
    name="sentences",
    meaning="Paragraphs put together up to max_tokens; for text of any kind.",
    cut=_cut,
    options={"max_tokens": MAX_TOKENS, "overlap": OVERLAP},
)
