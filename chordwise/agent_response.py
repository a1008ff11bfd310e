"""Retrievals in the response of an agent, under their documented name."""

from chordwise.agents.response import STEP, intermediate_chunks, retrieval_step, with_retrieval

__all__ = ["STEP", "intermediate_chunks", "retrieval_step", "with_retrieval"]
