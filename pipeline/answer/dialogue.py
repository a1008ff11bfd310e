"""Question-answer pairs as what a user and an assistant said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.chunking.strategies.question_answer import pair_of

# Under which names metadata may hold both sides: those of the example library, then those of curated pairs.
_NAMES = (("user_input", "agent_response"), ("question", "answer"))


def dialogue(question: str, answer: str) -> str:
    """``用户：…``, a line end, ``助手：…``."""
    return f"用户：{question}\n助手：{answer}"


def dialogue_of(text: str, metadata: Mapping[str, Any]) -> str | None:
    """The pair that a chunk holds, from its metadata or its own text, as a dialogue; None if it holds none."""
    for asked, answered in _NAMES:
        question, answer = metadata.get(asked), metadata.get(answered)
        if isinstance(question, str) and isinstance(answer, str) and question.strip() and answer.strip():
            return dialogue(question.strip(), answer.strip())
    pair = pair_of(text)
    return dialogue(*pair) if pair and all(pair) else None
