"""The LangChain retriever under its documented name."""

from chordwise.agents.langchain_retriever import ChordwiseRetriever

__all__ = ["ChordwiseRetriever"]
