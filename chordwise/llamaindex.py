"""The LlamaIndex retriever under its documented name."""

from chordwise.agents.llamaindex_retriever import ChordwiseRetriever

__all__ = ["ChordwiseRetriever"]
