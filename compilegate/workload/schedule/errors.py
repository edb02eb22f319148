"""What is wrong with a schedule."""

from __future__ import annotations

from compilegate.errors import CompilegateError


class ExpressionError(CompilegateError, ValueError):
    """An expression or time zone cannot be used: what was found, and what is allowed."""
