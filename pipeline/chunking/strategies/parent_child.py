"""`parent_child`: small passages are found, the larger one they are part of is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pipeline.chunking.cut import chunks
from pipeline.chunking.strategies.strategy import (
    MAX_TOKENS,
    OVERLAP,
    Cut,
    Option,
    PassageBudget,
    Strategy,
    cut_stretch,
    numbered,
)
from pipeline.records import Chunking, Parsed, Passage

_PARENT_TOKENS = 1024


def _cut(parsed: Parsed, chunking: Chunking, allowance: PassageBudget) -> Cut:
    """Parents share nothing; within a parent, children are cut as `sentences` cuts a document."""
    budget = chunking.options.get("parent_tokens", _PARENT_TOKENS)
    parents: list[Passage] = []
    passages: list[Passage] = []
    for parent in chunks(parsed, Chunking(max_tokens=budget, overlap=0.0)):
        children = allowance.taken_by(cut_stretch(parsed, parent.start, parent.end, chunking))
        passages += numbered(children, parent=len(parents), chunk_type="child")
        parents.append(parent)
    return Cut(passages=passages, parents=numbered(parents))


def _conflict(options: Mapping[str, float]) -> tuple[str, str] | None:
    if options["parent_tokens"] < options["max_tokens"]:
        return "parent_tokens", f"is below max_tokens, which is {options['max_tokens']:g}: no child would fit"
    return None


PARENT_CHILD = Strategy(
    name="parent_child",
    meaning="Children up to max_tokens are indexed; each belongs to a parent up to parent_tokens, which is read with it.",
    cut=_cut,
    options={
        "max_tokens": replace(MAX_TOKENS, default=256),
        "overlap": replace(OVERLAP, default=0.0),
        "parent_tokens": Option(
            minimum=64, maximum=32_768, default=_PARENT_TOKENS, meaning="The most tokens of a parent."
        ),
    },
    conflict=_conflict,
)
