"""The recall agent under its documented name."""

from chordwise.agents.recall import RecallAgent, RecallRequest, RecallResult, recall_request
from chordwise.contract.answer import RecallHit

__all__ = ["RecallAgent", "RecallHit", "RecallRequest", "RecallResult", "recall_request"]
