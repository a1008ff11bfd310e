"""Pure functions from an answer to a prompt, under their documented name."""

from chordwise.agents.prompts import (
    EXAMPLE_CATEGORIES,
    NO_EXAMPLES,
    format_examples,
    format_for_prompt,
    format_markdown,
    retrieved_examples,
)

__all__ = [
    "EXAMPLE_CATEGORIES",
    "NO_EXAMPLES",
    "format_examples",
    "format_for_prompt",
    "format_markdown",
    "retrieved_examples",
]
