"""What `compilegate init` refuses."""

from __future__ import annotations

from compilegate.errors import CompilegateError


class InitError(CompilegateError):
    """Nothing can be made of what was given; nothing was written."""
