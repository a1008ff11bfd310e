"""The step that adds examples to a prompt, under its documented name."""

from chordwise.agents.example_prompts import LONGEST_QUESTION, awith_examples, question_of, with_examples

__all__ = ["LONGEST_QUESTION", "awith_examples", "question_of", "with_examples"]
