"""What is wrong with a schedule."""

from __future__ import annotations


class ExpressionError(ValueError):
    """An expression or time zone cannot be used: what was found, and what is allowed."""
