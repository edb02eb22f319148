"""Kinds of workload that train with a program of their own: its arms are compared, or the new model
with the one that was approved last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from compilegate.catalog import Finding
from compilegate.catalog.compilers import Stack
from compilegate.catalog.findings import refusal, warning
from compilegate.catalog.images import BaseImage
from compilegate.job import names
from compilegate.job.compilers.declaration import PRECOMPILE
from compilegate.workload.arms import Arm
from compilegate.workload.declared.file import WorkloadFile
from compilegate.workload.declared.program import Program
from compilegate.workload.errors import WorkloadError
from compilegate.workload.kinds.arguments import (
    LAUNCHED,
    gpus_told,
    launcher_arguments,
    renamed_hyperparameters,
    text_of,
    told_of_arm,
    wrong_arguments,
)
from compilegate.workload.kinds.job_document import job_variables
from compilegate.workload.kinds.kind import Kind, Preparation, TrainingProgram

if TYPE_CHECKING:
    from compilegate.workload.settled import Workload

LAUNCHER = "compilegate/job/launch/own_script.py"
"""What starts a script, catches the metrics that it prints and makes a candidate's failure
evidence: the job's program, in place of the script."""
SCRIPT_PROCESS = "compilegate/job/launch/script_process.py"
"""What seeds a process and becomes the script, where SageMaker itself starts the processes."""

OLDEST_PYTHON = (3, 8)
"""What `compilegate.job` is written for."""
MODEL_HYPERPARAMETERS = ("model_name_or_path", "model_name", "model_id", "model")

_OF_TEXTS = ("id", "label", "padding", "sequence_length", "slices", "text", "vocabulary")
"""Keys of `[data]` that only the built-in program has a use for."""


@dataclass(frozen=True, kw_only=True)
class OwnProgram(Kind):
    """A program of your own is trained: `[program]`, `[arms]`."""

    program: Program

    @classmethod
    def of(cls, file: WorkloadFile, program: Program) -> OwnProgram:
        """The kind with its tables. Raises WorkloadError where the file has others."""
        _check(_what_only_the_built_in_program_reads(file))
        _check(_taken_hyperparameters(program, names.ARM_HYPERPARAMETERS))
        _check(wrong_arguments(program, file.arms, (*names.ARM_HYPERPARAMETERS, names.GPUS)))
        _check(_unreported(file, program))
        _check(
            f"arms.{name}.neuron.precompile is true beside program, allowed: false, since only the "
            "built-in training program can be run for a few steps"
            for name, arm in file.arms.items()
            if arm.stack is not None and arm.stack.told(PRECOMPILE)
        )
        return cls(program=program)

    @property
    def evidence(self) -> Literal["written", "printed"]:
        return self.program.evidence

    @property
    def calls_compiler(self) -> bool:
        """By compilegate.job in the script; one that only prints calls it by itself."""
        return self.program.evidence == "written"

    @property
    def source_folder(self) -> str:
        return self.program.folder

    @property
    def requirements_in_image(self) -> bool:
        return self.program.requirements_in_image

    @property
    def scripts(self) -> Mapping[str, str]:
        prepare = self.program.prepare
        return {
            "program.entry": self.program.entry,
            **({} if prepare is None else {"program.prepare": prepare}),
        }

    @property
    def model_name(self) -> str | None:
        """By the hyperparameters that scripts of Hugging Face and AWS have for it."""
        told = self.program.hyperparameters
        return next((str(told[name]) for name in MODEL_HYPERPARAMETERS if told.get(name)), None)

    @property
    def preparation(self) -> Preparation | None:
        script = self.program.prepare
        if script is None:
            return None
        return Preparation(
            image=self.program.image,
            module=module_name(script),
            description=f"One data set for all jobs, by {script}",
        )

    @property
    def processing_image(self) -> tuple[str, str]:
        return "program.image", self.program.image

    def stack_findings(self, stack: Stack, *, as_it_is: bool) -> Iterator[Finding]:
        yield from self.image_findings(stack.image, about="version")
        if as_it_is and self.evidence == "written" and stack.framework == "pytorch":
            yield warning(
                "extends_image",
                f"job.save(model) writes safetensors, a package that AWS's image of {stack.label} "
                "does not bring",
                "give job.save a function that writes the model, or take an image of containers/",
            )

    def image_findings(self, image: BaseImage, *, about: str) -> Iterator[Finding]:
        if image.python is not None and _numbers(image.python) < OLDEST_PYTHON:
            yield refusal(
                about,
                f"compilegate.job, which starts the program, needs Python "
                f"{'.'.join(map(str, OLDEST_PYTHON))} or newer, and the image {image.name} has "
                f"Python {image.python}",
                "take a newer image",
            )

    def told(self, workload: Workload, arm_name: str, seed: int) -> Mapping[str, str]:
        """The hyperparameters of a job that the file does not declare."""
        arm = workload.arms[arm_name]
        return {
            **told_of_arm(arm, seed),
            **gpus_told(self.program, arm.instance_type or workload.compute.instance_type),
        }

    def training_program(self, workload: Workload, arm_name: str, seed: int) -> TrainingProgram:
        """The launcher that starts the training script; where SageMaker starts the processes, what
        becomes the script in each."""
        setup = workload.arms[arm_name]
        launched = setup.distribution in LAUNCHED
        entry = LAUNCHER if launched else SCRIPT_PROCESS
        if setup.distribution == "sm_dist":
            entry = self.program.entry  # behind a launcher of its own
        told = {
            **self.told(workload, arm_name, seed),
            **{name: text_of(value) for name, value in self.program.hyperparameters.items()},
        }
        launch = self._launch(workload, setup, arm_name) if launched else {}
        return TrainingProgram(
            entry=entry,
            hyperparameters=told if launched else renamed_hyperparameters(self.program, told),
            metrics=self.program.metrics,
            environment={
                names.ARM_VARIABLE: arm_name,
                **job_variables(workload, arm_name, seed),
                **launcher_arguments(self.program, told),
                names.SCRIPT_VARIABLE: self.program.entry,
                **launch,
            },
        )

    def _launch(self, workload: Workload, setup: Arm, arm_name: str) -> dict[str, str]:
        """What the launcher is told. No arguments: those are the script's."""
        program = self.program
        told: dict[str, str] = {}
        if setup.distribution == "torchrun":
            told[names.PROCESSES_VARIABLE] = str(setup.processes)
        if arm_name != names.BASELINE_ARM:
            told[names.ON_FAILURE_VARIABLE] = "record"
        if program.evidence == "printed":
            printed = {name: program.metrics[name] for name in workload.gate.metrics}
            if program.speed_metric is not None:
                printed[names.SPEED_METRIC] = program.metrics[program.speed_metric]
            told |= {f"{names.PRINTED_VARIABLE}{name}": text for name, text in printed.items()}
            percent = [name for name in program.percent if name in printed]
            if percent:
                told[names.PERCENT_VARIABLE] = " ".join(percent)
        return told


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def module_name(script: str) -> str:
    """How Python imports a script from the program's zip."""
    return script.removesuffix(".py").replace("/", ".")


def _check(problems: Iterator[str]) -> None:
    """Raises WorkloadError for the first problem: the next may follow from it."""
    for problem in problems:
        raise WorkloadError(problem)


def _what_only_the_built_in_program_reads(file: WorkloadFile) -> Iterator[str]:
    for key, table in (("model", file.model), ("recipe", file.recipe)):
        if table is not None:
            yield (
                f"{key} is given beside program, allowed: one of them; what the program needs to "
                "know goes into [program.hyperparameters]"
            )
    fields = type(file.data).model_fields
    for key in _OF_TEXTS:
        if key in fields and getattr(file.data, key) != fields[key].default:
            yield (
                f"data.{key} is given beside program, allowed: to leave it out, since only the "
                "built-in training program reads it"
            )
    if file.new_data is not None and file.data.source in ("folder", "wheel"):
        yield (
            f"new_data is given with data.source {file.data.source!r}, allowed: a source of one "
            "training and one validation file, which is what new data consists of"
        )


def _taken_hyperparameters(program: Program, taken: tuple[str, ...]) -> Iterator[str]:
    for name in sorted(program.hyperparameters.keys() & set(taken)):
        yield (
            f"program.hyperparameters.{name} is taken, allowed: names other than "
            f"{', '.join(taken)}, which every job is passed anyway"
        )


def _unreported(file: WorkloadFile, program: Program) -> Iterator[str]:
    """A printed metric must be caught; metrics from examples need examples."""
    if program.evidence == "written":
        return
    guards = file.gate.metrics
    for name, guard in guards.items():
        if not guard.reported:
            yield (
                f"gate.metrics.{name} is computed from examples, and program.evidence is "
                "'printed', allowed: metrics with reported = true"
            )
    for name in guards:
        if name not in program.metrics:
            yield (
                f"gate.metrics.{name} is reported, but program.metrics has no expression for it, "
                "allowed: one of the same name"
            )
    for name, arm in file.arms.items():
        if arm.distribution not in LAUNCHED:
            yield (
                f"arms.{name}.distribution is {arm.distribution!r} and program.evidence is "
                "'printed', allowed: 'torchrun' or none, since nothing stands between SageMaker's "
                "own launchers and the script that could catch what it prints"
            )
    if len(file.seeds) < 2:
        yield (
            "seeds holds one seed and program.evidence is 'printed', allowed: two seeds or more, "
            "since printed metrics are judged by their spread over seeds alone"
        )
