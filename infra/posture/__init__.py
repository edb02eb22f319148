"""A workload's posture in the account: its record, the function that keeps it, who hears of it."""

from compilegate.infra.posture.construct import Posture, PostureRecord, tell_changes
from compilegate.infra.posture.expected import expected_of

__all__ = ["Posture", "PostureRecord", "expected_of", "tell_changes"]
