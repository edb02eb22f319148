"""Where a workload can run."""

from __future__ import annotations

from enum import Enum


class Target(Enum):
    """What decides which compilers, images and instances there are."""

    SAGEMAKER = "SageMaker"
    HERE = "here"
