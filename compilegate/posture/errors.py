"""What goes wrong with a workload's posture."""

from __future__ import annotations

from compilegate.errors import CompilegateError


class PostureError(CompilegateError):
    """A request about a posture that cannot be granted. The message says what is allowed."""


class DamagedRecordError(PostureError):
    """A record that cannot be believed. The message says what is wrong with it."""


class ConflictError(PostureError):
    """The record was changed by somebody else since it was read."""
