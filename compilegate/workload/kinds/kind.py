"""What every kind of workload declares about itself. Pure; pipelines make steps of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from compilegate.catalog import Finding
from compilegate.catalog.compilers import Stack
from compilegate.catalog.images import BaseImage
from compilegate.gate.settings import Padding

if TYPE_CHECKING:
    from compilegate.workload.settled import Workload


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """The job that makes one data set for all training jobs."""

    image: str
    module: str
    """What Python starts, with `--data-dir`, `--output-dir` and the arguments."""
    arguments: tuple[str, ...] = ()
    description: str


@dataclass(frozen=True, kw_only=True)
class TrainingProgram:
    """What one training job runs and is told. The rest of its request is the same for all kinds."""

    entry: str
    """The script, by its path in the training archive."""
    hyperparameters: Mapping[str, str]
    metrics: Mapping[str, str]
    """Regular expressions by metric, for what the script prints."""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DocumentShapes:
    """What takes memory beside the model and the batch."""

    sequence_length: int
    vocabulary: int | None
    """None where the model brings its own."""


class Kind(ABC):
    """One kind of workload: what it needs, and what is judged."""

    @property
    def evidence(self) -> Literal["written", "printed"]:
        """`printed`: its jobs leave nothing but the metrics that they print."""
        return "written"

    @property
    def calls_compiler(self) -> bool:
        """Whether this project calls the compiler, and so has its options and its output."""
        return False

    @property
    def resumes_one_process(self) -> bool:
        """Whether its checkpoints hold the state of one process, so that several cannot go on."""
        return False

    @property
    def source_folder(self) -> str | None:
        """The training program, relative to the workload's file; None for the built-in one."""
        return None

    @property
    def requirements_in_image(self) -> bool:
        """Whether the images hold what that folder's requirements.txt asks for."""
        return False

    @property
    def scripts(self) -> Mapping[str, str]:
        """The scripts in that folder, by the key that names each."""
        return {}

    @property
    def hub_model(self) -> str | None:
        """The model that jobs take from the hub, or the folder in the image that holds it."""
        return None

    @property
    def model_name(self) -> str | None:
        """What the model is called on the hub, as far as the file says so."""
        return self.hub_model

    @property
    def slice_columns(self) -> tuple[str, ...] | None:
        """Columns of categories that reach the evidence; None where only the program knows."""
        return None

    @property
    def padding(self) -> Padding | None:
        """How documents are padded where an arm does not say; None: only the program knows."""
        return None

    @property
    def document_shapes(self) -> DocumentShapes | None:
        """What `profile --largest-batch` tries; None where only the program can take a step."""
        return None

    @property
    @abstractmethod
    def preparation(self) -> Preparation | None:
        """The job before all training jobs; None where the raw data is what they train on."""

    @property
    @abstractmethod
    def processing_image(self) -> tuple[str, str]:
        """The image of its own processing jobs, after what a person calls it: a key or a step."""

    @abstractmethod
    def training_program(self, workload: Workload, arm_name: str, seed: int) -> TrainingProgram:
        """What the job of this replicate runs."""

    @property
    def data_channel(self) -> str:
        """What a training job calls the channel of its data."""
        return "data" if self.preparation is None else "prepared"

    def job_in_words(self, workload: Workload, arm_name: str, seed: int) -> str:
        """What the job of this replicate trains, for whoever looks at the pipeline."""
        arm = workload.arms[arm_name]
        return f"Arm {arm_name} ({arm.compiler}, batch {arm.batch_size}), seed {seed}"

    def model_in_words(self, workload: Workload, arm_name: str, seed: int) -> str:
        """What this replicate's model is, for whoever finds it in the registry."""
        arm = workload.arms[arm_name]
        return (
            f"Arm {arm_name}: {arm.compiler}, batch {arm.batch_size}, {arm.precision}, seed {seed}."
        )

    def stack_findings(self, stack: Stack, *, as_it_is: bool) -> Iterator[Finding]:
        """Why the training program cannot run in the image of a stack; `as_it_is` with nothing
        added to it. What a program of the workload's own needs, nobody else knows."""
        yield from ()

    def image_findings(self, image: BaseImage, *, about: str) -> Iterator[Finding]:
        """Why the training program cannot run in an image that extends this one of AWS's; `about`
        is what the findings concern."""
        yield from ()
