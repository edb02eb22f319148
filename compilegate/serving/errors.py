"""What goes wrong with serving a model here."""

from __future__ import annotations

from compilegate.errors import CompilegateError


class ServingError(CompilegateError):
    """The model cannot be served; one sentence that says why and what to do."""
