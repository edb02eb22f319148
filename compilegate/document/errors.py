"""What can be wrong with what a definition says."""

from __future__ import annotations


class ExpressionError(Exception):
    """A Get, Std:Join, Std:JsonGet or condition has no value."""
