"""Examples for prompts under their documented name."""

from chordwise.agents.example_prompts import (
    EXAMPLE_NAMESPACES,
    EXAMPLE_PROFILE,
    LONGEST_QUESTION,
    awith_examples,
    question_of,
    with_examples,
)

__all__ = [
    "EXAMPLE_NAMESPACES",
    "EXAMPLE_PROFILE",
    "LONGEST_QUESTION",
    "awith_examples",
    "question_of",
    "with_examples",
]
