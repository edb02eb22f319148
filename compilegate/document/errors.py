"""What can be wrong with what a definition says."""

from __future__ import annotations

from compilegate.errors import CompilegateError


class ExpressionError(CompilegateError):
    """A Get, Std:Join, Std:JsonGet or condition has no value."""
