"""What an arm asks of a compiler, and what there is to say about it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from compilegate.catalog.images import BaseImage


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What an arm asks for."""

    compiler: str
    framework: str = "pytorch"
    """`pytorch`, `tensorflow`, `xgboost`, ..."""
    version: str | None = None
    """Of the framework; None when the image decides and is not known here."""
    image: BaseImage | None = None
    """AWS's image that the job runs in or that its own image extends, where the compiler has no
    stacks to tell; None for any other image."""
    transformers: str | None = None
    """Of a Hugging Face image; None for one that brings none."""
    instance_type: str
    instance_count: int = 1
    heterogeneous: bool = False
    """Whether the job has groups of different instances."""
    region: str | None = None
    precision: str = "fp32"
    distribution: str | None = None
    """`torchrun`, `pytorchxla`, `smdistributed`, ...; None for one process."""
    launches_itself: bool = False
    """Whether the script may start processes of its own, which no request tells."""
    processes: int = 1
    """On each instance."""
    extends_image: bool = False
    """Whether the image is one's own, extending that of AWS."""
    profiler: bool = False
    debugger: bool = False
    debug_mode: bool = False
    """Of Training Compiler."""
    local: bool = False
    """Whether it runs on a machine of one's own."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong, or that its owner should know."""

    severity: Literal["refusal", "warning"]
    about: str
    """The field of `Asked`."""
    reason: str
    remedy: str

    @property
    def sentence(self) -> str:
        return f"{self.reason}; {self.remedy}"


def refusal(about: str, reason: str, remedy: str) -> Finding:
    """A finding because of which the job must not start."""
    return Finding(severity="refusal", about=about, reason=reason, remedy=remedy)


def warning(about: str, reason: str, remedy: str) -> Finding:
    """A finding that its owner should know."""
    return Finding(severity="warning", about=about, reason=reason, remedy=remedy)
