"""A workload's posture in the account: its record, the function that keeps it, who hears of it."""

from compilegate.infra.posture.construct import Posture, PostureRecord, tell_changes

__all__ = ["Posture", "PostureRecord", "tell_changes"]
