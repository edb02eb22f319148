"""Where a workload can run."""

from __future__ import annotations

from enum import Enum


class Target(Enum):
    """It decides which compilers, images and instances are available."""

    SAGEMAKER = "SageMaker"
    HERE = "here"
