"""`[arms.NAME]`: one way to train the workload."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from pipelines.workload.parameters import LONGEST_JOB_SECONDS, InstanceType
from pipelines.workload.table import Positive, Table

CompilerName = Literal["eager", "inductor", "training-compiler", "neuron"]
ImageFolder = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(?:[._-][a-z0-9]+)*$")]

IMAGES: dict[CompilerName, str] = {
    "eager": "training",
    "inductor": "training",
    "training-compiler": "training-compiler",
    "neuron": "neuron",
}
"""The folder in `containers/` that an arm's jobs run in when it names none, by compiler."""


class Arm(Table):
    """One way to train the workload."""

    compiler: CompilerName
    batch_size: int = Field(ge=1, le=1_000_000)
    learning_rate: Positive
    precision: Literal["fp32", "bf16"] = "fp32"
    image: ImageFolder | None = None
    """Folder in `containers/` whose image the jobs run in; by default that of the compiler."""
    instance_type: InstanceType | None = None
    """Overrides `[compute] instance_type`, and then the execution's parameter, for this arm."""
    spot: bool = False
    """Train on managed spot capacity, which may be taken back and is gone on with later."""
    max_wait_seconds: int | None = Field(default=None, ge=60, le=LONGEST_JOB_SECONDS)
    """Of a spot arm: how long a job may take in all, waiting for machines included."""

    @property
    def image_folder(self) -> str:
        """The folder in `containers/` whose image the jobs run in."""
        return self.image or IMAGES[self.compiler]
