"""What can go wrong in a local run, by who has to act on it."""

from __future__ import annotations

from compilegate.errors import CompilegateError


class LocalRunError(CompilegateError):
    """Any error of the local runner. The message is one sentence for the person at the terminal."""


class RefusedDefinitionError(LocalRunError):
    """The definition cannot run here. Nothing has started."""


class ExecutionError(LocalRunError):
    """An execution cannot be started, resumed or read."""


class ImageEnvironmentError(LocalRunError):
    """An image's Python environment cannot be made."""


class RegistryError(LocalRunError):
    """A model package or group cannot be made, found or changed."""


class StepError(LocalRunError):
    """A step cannot do what its request says; the step fails with this sentence."""


class StepRequestError(StepError):
    """A step's request lacks a member, or holds one that is mistyped or not supported here."""


class ObjectStoreError(StepError):
    """An s3:// object is absent from the local store, or its URI is malformed."""
