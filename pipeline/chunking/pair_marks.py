"""How curated question-answer pairs are marked in both stores: by the type of a chunk, or by the metadata of an example."""

from __future__ import annotations

from collections.abc import Mapping

PAIR_TYPE = "qa"  # the ``chunk_type`` of pairs

QUESTION_KEY, ANSWER_KEY = "user_input", "agent_response"  # of an example's metadata
# What the vector of a pair has in its metadata, because PostgreSQL knows no ``chunk_type``.
MARK: Mapping[str, str] = {"chordwise_chunk_type": PAIR_TYPE}
