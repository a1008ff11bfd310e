"""Search as a tool of a language model, under its documented name."""

from chordwise.agents.knowledge import Knowledge
from chordwise.agents.knowledge_tool import NOTHING_FOUND, KnowledgeTool

__all__ = ["NOTHING_FOUND", "Knowledge", "KnowledgeTool"]
