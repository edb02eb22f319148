"""What an evidence folder is called and what lies in it: shared by writing and reading."""

from __future__ import annotations

from training.evidence.record import Evidence

FOLDER = "evidence"
EVIDENCE = "evidence.json"
STEPS = "steps.npz"
EXAMPLES = "examples.npz"
PARITY = "parity.npz"
SLICE = "slice:"
"""Prefix of the columns of examples.npz that hold categories."""


def has_parity(evidence: Evidence) -> bool:
    """Whether there are parity errors beside this evidence."""
    parity = evidence.parity
    return evidence.failure is None and parity is not None and parity.obstacle is None
