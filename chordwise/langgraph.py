"""The LangGraph node under its documented name."""

from chordwise.agents.langgraph_node import RetrievalNode, last_words, retrieval_node

__all__ = ["RetrievalNode", "last_words", "retrieval_node"]
