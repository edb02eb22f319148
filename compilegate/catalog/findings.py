"""What an arm asks of a compiler, and what the catalog finds wrong with it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from compilegate.catalog.images import BaseImage
from compilegate.execution.target import Target


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What an arm asks for."""

    compiler: str
    backend: str | None = None
    """The one to take, where the compiler has several; None where it has none."""
    framework: str = "pytorch"
    """`pytorch`, `tensorflow`, `xgboost`, ..."""
    version: str | None = None
    """The framework's version; None if the image decides it and is not known here."""
    image: BaseImage | None = None
    """AWS's image that the job's image is or extends, if the compiler has no stacks that tell;
    None for any other image."""
    transformers: str | None = None
    """The version in a Hugging Face image; None in any other."""
    instance_type: str
    instance_count: int = 1
    heterogeneous: bool = False
    """Whether the job has groups of different instances."""
    region: str | None = None
    precision: str = "fp32"
    distribution: str | None = None
    """`torchrun`, `pytorchxla`, `smdistributed`, ...; None for one process."""
    launches_itself: bool = False
    """Whether the script may start processes itself, which the request does not show."""
    processes: int = 1
    """Processes on each instance."""
    extends_image: bool = False
    """Whether the image is the user's own and extends AWS's."""
    profiler: bool = False
    debugger: bool = False
    debug_mode: bool = False
    """Training Compiler's debug mode."""
    model: str | None = None
    """The model's name on the hub, as far as it is known."""
    libraries: frozenset[str] = frozenset()
    """What the workload's own training script imports, by the names of the modules."""
    limit_seconds: int | None = None
    """After which the job is ended; None where it is not known."""
    examples: int | None = None
    """In a step, of all processes together."""
    learning_rate: float | None = None
    baseline_examples: int | None = None
    """The same of the arm that it is compared with; None for that arm itself."""
    baseline_learning_rate: float | None = None
    target: Target = Target.SAGEMAKER


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong, or that the workload's owner should know."""

    severity: Literal["refusal", "warning"]
    about: str
    """The field of `Asked` that it concerns."""
    reason: str
    remedy: str
    page: str = ""
    """The address of the page that asks for it; empty where the reason says who does."""

    @property
    def sentence(self) -> str:
        page = f" ({self.page})" if self.page else ""
        return f"{self.reason}; {self.remedy}{page}"


def refusal(about: str, reason: str, remedy: str) -> Finding:
    """A finding that keeps the job from starting."""
    return Finding(severity="refusal", about=about, reason=reason, remedy=remedy)


def warning(about: str, reason: str, remedy: str, *, page: str = "") -> Finding:
    """A finding that the owner should know; the job may start."""
    return Finding(severity="warning", about=about, reason=reason, remedy=remedy, page=page)
