"""The marks of curated question-answer pairs in both stores: the type of a chunk, or the metadata of an example."""

from __future__ import annotations

from collections.abc import Mapping

PAIR_TYPE = "qa"  # the ``chunk_type`` of pairs

QUESTION_KEY, ANSWER_KEY = "user_input", "agent_response"  # of an example's metadata
# The mark of a pair in the metadata of its vector, because PostgreSQL has no ``chunk_type``.
MARK: Mapping[str, str] = {"chordwise_chunk_type": PAIR_TYPE}
