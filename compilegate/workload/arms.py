"""A settled arm: every value that its jobs need is known. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from compilegate.catalog.compilers import Stack as KnownStack
from compilegate.catalog.compilers import compilers
from compilegate.gate.settings import Padding
from compilegate.job.compilers import Setting
from compilegate.workload.declared.arm import CompilerName, Distribution, Precision
from compilegate.workload.declared.stacks import Stack

ScalingRule = Literal["linear", "square-root"]


@dataclass(frozen=True, kw_only=True)
class ScaledRate:
    """A learning rate that follows from the baseline's, by the examples of a step.

    Linear scaling keeps the path of plain gradient descent when steps are fewer and larger (Goyal
    et al., 2017). With Adam the square root keeps the noise of a step's update (Malladi et al.,
    2022). The warm-up follows by itself: it is a share of the steps, so that it takes as many
    examples as before.
    """

    rule: ScalingRule
    base_rate: float
    base_batch: int
    """Examples of one of the baseline's steps, of all its processes together."""
    batch: int
    """Examples of one of this arm's steps."""

    @property
    def factor(self) -> float:
        ratio = self.batch / self.base_batch
        return ratio if self.rule == "linear" else ratio**0.5

    @property
    def rate(self) -> float:
        # Twelve digits: a rate is not written as 0.0010500000000000002.
        return float(f"{self.base_rate * self.factor:.12g}")

    @property
    def sentence(self) -> str:
        """Says where the rate comes from."""
        return (
            f"learning_rate {self.rate:g} is the baseline's {self.base_rate:g} times "
            f"{self.factor:.4g} ({self.rule}: {self.batch} examples a step for {self.base_batch})"
        )


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to train the workload."""

    compiler: CompilerName = "eager"
    image_folder: str
    """The folder in `containers/` whose image the jobs run in; or AWS_IMAGE."""
    compiler_options: Mapping[str, Setting] = field(default_factory=dict)
    """What the compiler is told, by the name of its option; what is left out has its default."""
    stack: Stack | None = None
    """The versions that the compiler's image holds; None where the image alone decides."""
    instance_type: str | None = None
    """None: each execution's parameter decides."""
    instance_count: int = 1
    distribution: Distribution = "none"
    processes: int = 1
    """On each instance; or accelerators, where one process divides its steps among them."""
    spot: bool = False
    max_wait_seconds: int | None = None
    """How long a spot job may take in all, waiting for machines included; None without spot."""
    profiler: bool = False
    debugger: bool = False
    batch_size: int
    """Examples that each process takes in a step."""
    learning_rate: float
    precision: Precision = "fp32"
    padding: Padding = "max"
    """How the built-in program pads documents."""
    scaled_rate: ScaledRate | None = None
    """What the learning rate follows from; None where the file gives it."""
    explanations: tuple[str, ...] = ()
    """A sentence for each value that the file leaves out: what it is, and why."""

    @property
    def world_size(self) -> int:
        """Processes that train together: each takes a batch of its own in every step."""
        return self.instance_count * self.processes

    @property
    def replicas(self) -> int:
        """Accelerators that the script's one process divides a step among, as TensorFlow's
        strategies do; 1 where each accelerator has a process."""
        stack = self.known_stack
        within = stack is not None and stack.distribution == "in the script"
        return self.processes if within and self.distribution == "none" else 1

    @property
    def known_stack(self) -> KnownStack | None:
        """What the catalog knows of the stack; None where there is none, or none such."""
        stack = self.stack
        if stack is None:
            return None
        return compilers()[self.compiler].stack(stack.framework, stack.version, stack.transformers)

    @property
    def scale_learning_rate(self) -> Literal["none", "linear", "square-root"]:
        """The rule by which the learning rate follows from the baseline's."""
        return "none" if self.scaled_rate is None else self.scaled_rate.rule

    @property
    def global_batch_size(self) -> int:
        """Examples of one step, of all processes together."""
        return self.batch_size * self.world_size
