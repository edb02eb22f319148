"""The kind of workload that the built-in training program trains: a classifier of documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compilegate.catalog import Finding
from compilegate.catalog.compilers import Stack
from compilegate.catalog.findings import refusal
from compilegate.gate.settings import Padding
from compilegate.job import names
from compilegate.job.compilers import hyperparameter_of
from compilegate.workload.arms import Arm
from compilegate.workload.declared.data import FolderData, TextData, WheelData
from compilegate.workload.declared.file import WorkloadFile
from compilegate.workload.declared.model import Model, Recipe
from compilegate.workload.errors import WorkloadError
from compilegate.workload.kinds.kind import (
    DocumentShapes,
    Kind,
    Preparation,
    TrainingProgram,
)

if TYPE_CHECKING:
    from compilegate.workload.settled import Workload

ENTRY = "training/train.py"
IMAGE = "training"
"""The image that prepares the data."""
OLDEST_PYTHON = (3, 9)
OLDEST_TORCH = (1, 13)
"""What `training/` is written for, beside Hugging Face Transformers."""

NUMBER = r"(-?(?:nan|inf)|[-+0-9.eE]+)"
METRICS = (
    "train:loss",
    "train:samples_per_second",
    "train:steady_samples_per_second",
    "train:compile_seconds",
    "validation:accuracy",
    "validation:balanced_accuracy",
    "validation:macro_f1",
    "validation:log_loss",
)
"""Metric lines that `training/train.py` prints as NAME=NUMBER."""


@dataclass(frozen=True, kw_only=True)
class TextClassification(Kind):
    """Arms of the built-in training program are compared: `[model]`, `[recipe]`, `[arms]`."""

    data: TextData
    model: Model
    recipe: Recipe

    @classmethod
    def of(cls, file: WorkloadFile) -> TextClassification:
        """The kind with its tables. Raises WorkloadError where the file has others."""
        if file.model is None:
            raise WorkloadError("model is missing, and must be given (or a [program] of your own)")
        if file.recipe is None:
            raise WorkloadError("recipe is missing, and must be given (or a [program] of your own)")
        if isinstance(file.data, (FolderData, WheelData)):
            raise WorkloadError(
                f"data.source is {file.data.source!r}, allowed: with a [program] of your own, "
                "since the built-in program reads a training and a validation file of documents"
            )
        return cls(data=file.data, model=file.model, recipe=file.recipe)

    @property
    def calls_compiler(self) -> bool:
        return True

    @property
    def resumes_one_process(self) -> bool:
        return True

    @property
    def hub_model(self) -> str | None:
        return self.model.hub_id

    @property
    def slice_columns(self) -> tuple[str, ...]:
        return self.data.slice_columns

    @property
    def padding(self) -> Padding:
        return self.data.padding

    @property
    def document_shapes(self) -> DocumentShapes:
        own_tokenizer = self.model.hub_id is None
        return DocumentShapes(
            sequence_length=self.data.sequence_length,
            vocabulary=self.data.vocabulary if own_tokenizer else None,
        )

    @property
    def preparation(self) -> Preparation:
        """Trains the tokenizer, or takes the model's own, and cuts every document to one length."""
        flags = [(f"--{meaning}-column", name) for meaning, name in self.data.columns.items()]
        flags += [
            ("--sequence-length", str(self.data.sequence_length)),
            ("--vocabulary", str(self.data.vocabulary)),
        ]
        if self.model.hub_id is not None:
            flags.append(("--model-id", self.model.hub_id))
        flags += [("--slice-column", column) for column in self.data.slice_columns]
        return Preparation(
            image=IMAGE,
            module="training.prepare",
            arguments=tuple(word for flag in flags for word in flag),
            description="One prepared data set, static shapes, digests",
        )

    @property
    def processing_image(self) -> tuple[str, str]:
        return "Prepare", IMAGE

    def training_program(self, workload: Workload, arm_name: str, seed: int) -> TrainingProgram:
        arm = workload.arms[arm_name]
        return TrainingProgram(
            entry=ENTRY,
            hyperparameters={
                "arm": arm_name,
                names.SEED: str(seed),
                names.COMPILER: arm.compiler,
                names.BATCH_SIZE: str(arm.batch_size),
                names.LEARNING_RATE: repr(arm.learning_rate),
                names.PRECISION: arm.precision,
                **self.recipe.hyperparameters,
                **self.model.hyperparameters,
                **_compile_cache(workload, arm),
                **_parity(workload, arm),
                **_speed_probe(workload, arm_name),
                **_evaluation(workload),
                # Those that are set: a default that is spelled out would train every arm anew.
                **{name: hyperparameter_of(each) for name, each in arm.compiler_options.items()},
                **_padding(arm),
                **_distribution(arm),
                **_scaling(arm),
                # A candidate that cannot train is evidence against it, not an outage: the baseline
                # still has to be released. Without a baseline there is nothing to release.
                "on_failure": "stop" if arm_name == names.BASELINE_ARM else "record",
            },
            metrics={metric: f"{metric}={NUMBER}" for metric in METRICS},
        )

    def stack_findings(self, stack: Stack, *, as_it_is: bool) -> Iterator[Finding]:
        python = stack.image.python
        if stack.framework != "pytorch":
            yield refusal(
                "version",
                f"the project's own training program is written for PyTorch, not {stack.label}",
                "take a PyTorch stack, or bring a training program of your own",
            )
        elif _numbers(stack.version) < OLDEST_TORCH or (
            python is not None and _numbers(python) < OLDEST_PYTHON
        ):
            yield refusal(
                "version",
                f"the project's own training program needs Python {_dotted(OLDEST_PYTHON)} and "
                f"PyTorch {_dotted(OLDEST_TORCH)} or newer, and the image of {stack.label} has "
                f"Python {python}",
                "take a newer stack, or bring a training program of your own",
            )
        elif as_it_is:
            yield refusal(
                "extends_image",
                f"the project's own training program needs packages that AWS's image of "
                f"{stack.label} does not bring",
                "leave image out, so that the image of containers/ that extends it is taken",
            )


def _compile_cache(workload: Workload, arm: Arm) -> dict[str, str]:
    """How large the archives of what was compiled may get."""
    if not workload.keeps_compiled(arm):
        return {}
    return {"compile_cache_megabytes": str(workload.compile_cache.max_megabytes)}


def _parity(workload: Workload, arm: Arm) -> dict[str, str]:
    """Only where there is something to compare: other steps then train no baseline again."""
    if arm.compiler == "eager":
        return {}
    goes_on = {"on_wrong": names.ON_WRONG[1]} if workload.gate.parity.job_goes_on else {}
    return {names.PARITY_STEPS: str(workload.gate.parity.steps), **goes_on}


def _speed_probe(workload: Workload, arm_name: str) -> dict[str, str]:
    """What a candidate times its own step against, and for how long where that is declared."""
    if arm_name == names.BASELINE_ARM:
        return {}
    baseline, arm = workload.arms[names.BASELINE_ARM], workload.arms[arm_name]
    padding = {} if baseline.padding == arm.padding else {names.BASELINE_PADDING: baseline.padding}
    seconds = workload.gate.speed_probe_seconds
    return {
        names.BASELINE_COMPILER: baseline.compiler,
        names.BASELINE_BATCH_SIZE: str(baseline.batch_size),
        names.BASELINE_PRECISION: baseline.precision,
        **padding,
        **({} if seconds is None else {names.SPEED_PROBE_SECONDS: f"{seconds:g}"}),
    }


def _evaluation(workload: Workload) -> dict[str, str]:
    """Only where it is not the default, which would train every arm anew."""
    usual = names.EVALUATION_PLACES[0]
    return {} if workload.evaluates_on == usual else {names.EVALUATE_ON: workload.evaluates_on}


def _padding(arm: Arm) -> dict[str, str]:
    """Only where it is not the default, which would train every arm anew."""
    return {} if arm.padding == "max" else {names.PADDING: arm.padding}


def _distribution(arm: Arm) -> dict[str, str]:
    """The training program starts torchrun itself, so that it is the same on every platform; the
    toolkit's own `sagemaker_torch_distributed_enabled` would be unknown to most."""
    if arm.distribution != "torchrun":
        return {}
    return {names.DISTRIBUTION: names.TORCHRUN, names.PROCESSES: str(arm.processes)}


def _scaling(arm: Arm) -> dict[str, str]:
    """For the evidence: the learning rate itself is another hyperparameter."""
    scaled = arm.scaled_rate
    if scaled is None:
        return {}
    return {
        "learning_rate_rule": scaled.rule,
        "base_learning_rate": repr(scaled.base_rate),
        "base_global_batch_size": str(scaled.base_batch),
    }


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor: `1.13.1` as (1, 13)."""
    return tuple(int(part) for part in version.split(".")[:2])


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in version)
