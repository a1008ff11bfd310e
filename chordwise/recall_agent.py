"""The recall agent under its documented name."""

from chordwise.agents.recall import RecallAgent, RecallHit, RecallRequest, RecallResult, recall_request

__all__ = ["RecallAgent", "RecallHit", "RecallRequest", "RecallResult", "recall_request"]
