"""`[arms.NAME]`: one way to train the workload."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from pipelines.workload.compilers import Neuron, TrainingCompiler
from pipelines.workload.parameters import LONGEST_JOB_SECONDS, InstanceType
from pipelines.workload.table import Positive, Table

CompilerName = Literal["eager", "inductor", "training-compiler", "neuron"]
Distribution = Literal["none", "pytorchxla", "sm_dist"]
ImageFolder = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(?:[._-][a-z0-9]+)*$")]

IMAGES: dict[CompilerName, str] = {
    "eager": "training",
    "inductor": "training",
    "training-compiler": "training-compiler",
    "neuron": "neuron",
}
"""The folder in `containers/` that an arm's jobs run in when it names none, by compiler."""

AWS_IMAGE = "aws"
"""As an arm's image: AWS's own image of the compiler's stack, with nothing added."""


class Arm(Table):
    """One way to train the workload."""

    compiler: CompilerName
    batch_size: int = Field(ge=1, le=1_000_000)
    learning_rate: Positive
    precision: Literal["fp32", "bf16"] = "fp32"
    image: ImageFolder | None = None
    """Folder in `containers/` whose image the jobs run in, by default that of the compiler; or
    `aws`."""
    instance_type: InstanceType | None = None
    """Overrides `[compute] instance_type`, and then the execution's parameter, for this arm."""
    instance_count: int = Field(default=1, ge=1, le=100)
    distribution: Distribution = "none"
    """What starts one process for each accelerator."""
    profiler: bool = False
    """SageMaker's profiler. It slows the very steps that are timed."""
    debugger: bool = False
    """SageMaker Debugger's hook, of images that have it. It slows the steps as well."""
    spot: bool = False
    """Train on managed spot capacity, which may be taken back and is gone on with later."""
    max_wait_seconds: int | None = Field(default=None, ge=60, le=LONGEST_JOB_SECONDS)
    """Of a spot arm: how long a job may take in all, waiting for machines included."""
    training_compiler: TrainingCompiler | None = None
    neuron: Neuron | None = None

    @property
    def image_folder(self) -> str:
        """The folder in `containers/` whose image the jobs run in; or AWS_IMAGE."""
        return self.image or IMAGES[self.compiler]

    @property
    def stack(self) -> TrainingCompiler | Neuron | None:
        """The versions that the compiler's image holds; None where the image alone decides."""
        if self.compiler == "training-compiler":
            return self.training_compiler or TrainingCompiler()
        if self.compiler == "neuron":
            return self.neuron or Neuron()
        return None

    @field_validator("distribution", mode="before")
    @classmethod
    def _no_distributed_library(cls, value: Any) -> Any:
        if isinstance(value, str) and value.startswith("smdistributed"):
            raise ValueError(
                f"found {value!r}, allowed: 'none', 'pytorchxla' or 'sm_dist'; SageMaker's "
                "distributed libraries and Training Compiler exclude each other"
            )
        return value

    @model_validator(mode="before")
    @classmethod
    def _one_type_of_instance(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and "instance_groups" in raw:
            raise ValueError(
                "instance_groups is given, allowed: instance_type and instance_count, since "
                "instances of different types make step times that say nothing, and Training "
                "Compiler does not work with them"
            )
        return raw

    @model_validator(mode="after")
    def _tables_are_those_of_the_compiler(self) -> Self:
        for key, name in (("training_compiler", "training-compiler"), ("neuron", "neuron")):
            if getattr(self, key) is not None and self.compiler != name:
                raise ValueError(
                    f"a table {key} is given and compiler is {self.compiler!r}, allowed: "
                    f"only with compiler = {name!r}"
                )
        if self.image == AWS_IMAGE and self.stack is None:
            raise ValueError(
                f"image is {AWS_IMAGE!r} and compiler is {self.compiler!r}, allowed: only with a "
                "compiler whose images are its own ('training-compiler', 'neuron'); others name a "
                "folder of containers/"
            )
        return self

    @model_validator(mode="after")
    def _instances_work_together(self) -> Self:
        if self.instance_count > 1 and self.distribution == "none":
            raise ValueError(
                f"instance_count is {self.instance_count} and distribution is 'none', allowed: "
                "a distribution, or one instance; without one each instance would train alone"
            )
        return self
