"""A settled workload: everything that its executions need is known. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from compilegate.catalog.images import BaseImage, find_image
from compilegate.errors import CompilegateError
from compilegate.gate.settings import Padding
from compilegate.job.compilers import Setting, declarations
from compilegate.job.contract import BASELINE_ARM, EVALUATION_PLACES
from compilegate.workload.declaration.arms import AWS_IMAGE, ArmTable
from compilegate.workload.declaration.serving import Serving
from compilegate.workload.declaration.workload_file import WorkloadFile

if TYPE_CHECKING:
    from compilegate.workload.kinds import OwnProgram, TextClassification

    DeclaredKind = TextClassification | OwnProgram
else:
    DeclaredKind = Any  # the module of the kinds imports this one


class WorkloadError(CompilegateError):
    """A workload cannot be used. Each problem is one sentence that names the key."""


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
    def rate(self) -> float:
        factor = (self.batch / self.base_batch) ** (1 if self.rule == "linear" else 0.5)
        # Twelve digits: a rate is not written as 0.0010500000000000002.
        return float(f"{self.base_rate * factor:.12g}")


class Arm(ArmTable):
    """One way to train the workload: its table, with defaults filled in."""

    batch_size: int
    learning_rate: float
    processes: int
    """Processes on each instance, or accelerators where one process divides its steps."""
    padding: Padding
    """How the built-in program pads documents."""
    scaled_rate: ScaledRate | None
    """What the learning rate follows from; None where the file gives it."""
    compiler_options: dict[str, Setting]
    """Values of the compiler's options, by name; an option left out has its default."""

    @property
    def world_size(self) -> int:
        """Processes that train together: each takes a batch of its own in every step."""
        return self.instance_count * self.processes

    @property
    def replicas(self) -> int:
        """Accelerators that the script's one process divides a step among, as TensorFlow's
        strategies do; 1 where each accelerator has a process."""
        return self.processes if self.in_script else 1

    @property
    def global_batch_size(self) -> int:
        """Examples of one step, of all processes together."""
        return self.batch_size * self.world_size


FRAMEWORKS = {"pytorch": "pytorch-inference", "huggingface": "huggingface-pytorch-inference"}
"""AWS's inference images, by what a workload calls them."""


class Served(Serving):
    """Everything that registration needs to know: the table, with what it leaves out filled in."""

    framework: Literal["pytorch", "huggingface"]
    built_in: bool
    """Whether the handler is the built-in program's."""

    @property
    def in_image_of_aws(self) -> bool:
        return self.image == AWS_IMAGE

    @property
    def base_image(self) -> BaseImage:
        """AWS's inference image. Raises UnknownImageError, naming those there are."""
        return find_image(
            FRAMEWORKS[self.framework],
            self.version,
            transformers=self.transformers if self.framework == "huggingface" else None,
            processor=self.processor,
        )


class Workload(WorkloadFile):
    """A model that is trained again and again: its file, with what it leaves out filled in."""

    kind: DeclaredKind
    arms: Mapping[str, Arm]
    """The baseline, and the candidates that are compared with it, if any."""
    left_out: tuple[str, ...] = ()
    """Arms that the file declares and this workload goes without."""
    serving: Served | None = None

    @property
    def candidates(self) -> dict[str, Arm]:
        """The arms that are compared with the baseline, in the order they were declared."""
        return {name: arm for name, arm in self.arms.items() if name != BASELINE_ARM}

    @property
    def declared_prices(self) -> dict[str, float]:
        """Dollars an hour by instance type, as the file has them: they count before the catalog's,
        wherever something is priced."""
        baseline = self.arms[BASELINE_ARM].instance_type or self.compute.instance_type
        own = self.advice.usd_per_hour
        declared = {} if own is None else {baseline: own}
        return declared | dict({} if self.budget is None else self.budget.usd_per_hour)

    @property
    def model_package_group(self) -> str:
        return self.registry.group or self.name

    def keeps_compiled(self, setup: Arm) -> bool:
        """Whether what an arm's jobs compile is kept for the next one."""
        return (
            self.kind.calls_compiler
            and self.compile_cache.enabled
            and declarations()[setup.compiler].keeps_output(setup.compiler_options)
        )

    @property
    def evaluates_on(self) -> str:
        """Device on which all jobs evaluate their models: on the host, once an arm's compiler
        keeps the accelerator to itself."""
        occupied = any(declarations()[arm.compiler].keeps_accelerator for arm in self.arms.values())
        return EVALUATION_PLACES[1 if occupied else 0]

    def with_arms(self, names: Sequence[str]) -> Workload:
        """The workload with these arms only, in the order that it declares them.

        It knows which arms it leaves out, so that nobody takes the rest for the whole. Raises
        WorkloadError for an arm that is not declared, and without the baseline.
        """
        if BASELINE_ARM not in names or not self.arms.keys() >= set(names):
            raise WorkloadError(
                f"arms: {', '.join(names)} would train, expected {BASELINE_ARM} and any of "
                f"{', '.join(self.candidates)}"
            )
        named = {name: arm for name, arm in self.arms.items() if name in names}
        left_out = tuple(name for name in self.arms if name not in named)
        return self.model_copy(update={"arms": named, "left_out": left_out})
