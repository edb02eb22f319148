"""What kind of workload a file declares: one class for each says what its jobs need and run. Pure.

| kind | tables | what is trained |
|---|---|---|
| TextClassification | `[model]`, `[recipe]`, `[arms]` | arms of the built-in training program |
| OwnProgram | `[program]`, `[arms]` | arms of a program of your own |
"""

from __future__ import annotations

import difflib
import json
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from compilegate.catalog import Finding, finding
from compilegate.catalog.compilers import Stack
from compilegate.catalog.images import BaseImage, version_numbers
from compilegate.catalog.instances import instance_of
from compilegate.gate.settings import Padding
from compilegate.job import contract
from compilegate.job.compilers import hyperparameter_of
from compilegate.job.compilers.declaration import PRECOMPILE
from compilegate.workload.declaration.arms import ArmTable
from compilegate.workload.declaration.data import FolderData, TextData, WheelData
from compilegate.workload.declaration.model import HubModel, Model, Recipe
from compilegate.workload.declaration.program import Argument, Program, own_name
from compilegate.workload.declaration.workload_file import WorkloadFile
from compilegate.workload.settled import Arm, Workload, WorkloadError

BUILT_IN_ENTRY = "training/train.py"
BUILT_IN_IMAGE = "training"
"""The image that prepares the data of the built-in program."""
BUILT_IN_PYTHON = (3, 9)
BUILT_IN_TORCH = (1, 13)
"""What `training/` is written for, beside Hugging Face Transformers."""
JOB_PYTHON = (3, 8)
"""What `compilegate.job` is written for."""

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

LAUNCHER = "compilegate/job/launch/own_script.py"
"""What starts a script, catches the metrics that it prints and makes a candidate's failure
evidence: the job's program, in place of the script."""
SCRIPT_PROCESS = "compilegate/job/launch/script_process.py"
"""What seeds a process and becomes the script, where SageMaker itself starts the processes."""
LAUNCHED = ("none", "torchrun")
"""Distributions that the launcher knows; SageMaker's own launchers import the script themselves."""
LONGEST_VARIABLE = 512
"""Characters that the service takes in a variable."""
MODEL_HYPERPARAMETERS = ("model_name_or_path", "model_name", "model_id", "model")
"""What scripts of Hugging Face and AWS call the model's name on the hub."""

_OF_TEXTS = ("id", "label", "padding", "sequence_length", "slices", "text", "vocabulary")
"""Keys of `[data]` that only the built-in program has a use for."""
_NUMBERS = (contract.GPUS, contract.BATCH_SIZE, contract.LEARNING_RATE, contract.SEED)


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
    """What one training job runs. The rest of its request is the same for all kinds."""

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
    """Sequence length; None where the model has its own."""


@dataclass(frozen=True, kw_only=True)
class Kind(ABC):
    """A kind of workload: what it needs, and what is judged."""

    evidence: Literal["written", "printed"] = "written"
    """`printed`: its jobs leave nothing but the metrics that they print."""
    source_folder: str | None = None
    """The training program, relative to the workload's file; None for the built-in one."""
    requirements_in_image: bool = False
    """Whether the images hold what that folder's requirements.txt asks for."""
    scripts: Mapping[str, str] = field(default_factory=dict)
    """The scripts in that folder, by the key that names each."""
    hub_model: str | None = None
    """The model that jobs take from the hub, or the folder in the image that holds it."""
    model_name: str | None = None
    """What the model is called on the hub, as far as the file says so."""
    slice_columns: tuple[str, ...] | None = None
    """Columns of categories that reach the evidence; None where only the program knows."""
    padding: Padding | None = None
    """How documents are padded where an arm does not say; None: only the program knows."""
    document_shapes: DocumentShapes | None = None
    """What `profile --largest-batch` tries; None where only the program can take a step."""
    preparation: Preparation | None = None
    """The job before all training jobs; None where the raw data is what they train on."""
    processing_image: tuple[str, str]
    """The image of its own processing jobs, after what a person calls it: a key or a step."""

    @property
    def calls_compiler(self) -> bool:
        """Whether this project calls the compiler, and so has its options and its output; a script
        that only prints calls it by itself."""
        return self.evidence == "written"

    @property
    def data_channel(self) -> str:
        """What a training job calls the channel of its data."""
        return "data" if self.preparation is None else "prepared"

    @abstractmethod
    def training_program(self, workload: Workload, arm_name: str, seed: int) -> TrainingProgram:
        """What the job of this replicate runs."""

    @abstractmethod
    def stack_findings(self, stack: Stack, *, as_it_is: bool) -> Iterator[Finding]:
        """Why the training program cannot run in the image of a stack; `as_it_is` with nothing
        added to it. What a program of the workload's own needs, nobody else knows."""

    def image_findings(self, image: BaseImage, *, about: str) -> Iterator[Finding]:
        """Why the training program cannot run in an image that extends this one of AWS's; `about`
        is what the findings concern."""
        yield from ()

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


@dataclass(frozen=True, kw_only=True)
class TextClassification(Kind):
    """Arms of the built-in training program are compared: `[model]`, `[recipe]`, `[arms]`."""

    model: Model
    recipe: Recipe

    @classmethod
    def of(cls, file: WorkloadFile) -> TextClassification:
        """The kind with its tables. Raises WorkloadError where the file has others."""
        model, recipe, data = file.model, file.recipe, file.data
        if model is None or recipe is None:
            key = "model" if model is None else "recipe"
            raise WorkloadError(f"{key} is missing, expected [{key}] or a [program] of your own")
        if isinstance(data, (FolderData, WheelData)):
            raise WorkloadError(
                f"data.source is {data.source!r}, expected a [program] of your own beside it: "
                "the built-in program reads a training and a validation file of documents"
            )
        hub_id = model.id if isinstance(model, HubModel) else None
        return cls(
            model=model,
            recipe=recipe,
            hub_model=hub_id,
            model_name=hub_id,
            slice_columns=data.slice_columns,
            padding=data.padding,
            document_shapes=DocumentShapes(
                sequence_length=data.sequence_length,
                vocabulary=data.vocabulary if hub_id is None else None,
            ),
            preparation=_preparation_of(data, model),
            processing_image=("Prepare", BUILT_IN_IMAGE),
        )

    def training_program(self, workload: Workload, arm_name: str, seed: int) -> TrainingProgram:
        arm = workload.arms[arm_name]
        return TrainingProgram(
            entry=BUILT_IN_ENTRY,
            hyperparameters={
                "arm": arm_name,
                contract.SEED: str(seed),
                contract.COMPILER: arm.compiler,
                contract.BATCH_SIZE: str(arm.batch_size),
                contract.LEARNING_RATE: repr(arm.learning_rate),
                contract.PRECISION: arm.precision,
                **self.recipe.hyperparameters,
                **self.model.hyperparameters,
                # Those that are set: a default that is spelled out would train every arm anew.
                **_compared_flat(workload, arm_name),
                **{name: hyperparameter_of(each) for name, each in arm.compiler_options.items()},
                **_set(_processes_and_rate(arm)),
                # A candidate that cannot train is evidence against it, not an outage: the baseline
                # still has to be released. Without a baseline there is nothing to release.
                "on_failure": "stop" if arm_name == contract.BASELINE_ARM else "record",
            },
            metrics={metric: f"{metric}={NUMBER}" for metric in METRICS},
        )

    def stack_findings(self, stack: Stack, *, as_it_is: bool) -> Iterator[Finding]:
        python = stack.image.python
        if stack.framework != "pytorch":
            yield finding("program-for-pytorch", stack=stack)
        elif version_numbers(stack.version)[:2] < BUILT_IN_TORCH or (
            python is not None and version_numbers(python) < BUILT_IN_PYTHON
        ):
            needed = {"python": _dotted(BUILT_IN_PYTHON), "torch": _dotted(BUILT_IN_TORCH)}
            yield finding("program-needs-newer", stack=stack, **needed)
        elif as_it_is:
            yield finding("program-needs-packages", stack=stack)


def _preparation_of(data: TextData, model: Model) -> Preparation:
    """Trains the tokenizer, or takes the model's own, and cuts every document to one length."""
    flags = [(f"--{meaning}-column", name) for meaning, name in data.columns.items()]
    flags += [
        ("--sequence-length", str(data.sequence_length)),
        ("--vocabulary", str(data.vocabulary)),
    ]
    if isinstance(model, HubModel):
        flags.append(("--model-id", model.id))
    flags += [("--slice-column", column) for column in data.slice_columns]
    return Preparation(
        image=BUILT_IN_IMAGE,
        module="training.prepare",
        arguments=tuple(word for flag in flags for word in flag),
        description="One prepared data set, static shapes, digests",
    )


def _set(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _compared(workload: Workload, arm_name: str) -> dict[str, Any]:
    """What is compared inside a job, by the names of its settings: only what applies, since another
    value trains an arm anew."""
    arm, gate = workload.arms[arm_name], workload.gate
    found: dict[str, Any] = {}
    if arm.compiler != "eager":
        found[contract.PARITY_STEPS] = gate.parity.steps
        if gate.parity.job_goes_on:
            found["on_wrong"] = contract.ON_WRONG[1]
    if workload.keeps_compiled(arm):
        found["compile_cache_megabytes"] = workload.compile_cache.max_megabytes
    if arm_name != contract.BASELINE_ARM:
        baseline = workload.arms[contract.BASELINE_ARM]
        found["baseline"] = {
            contract.COMPILER: baseline.compiler,
            contract.BATCH_SIZE: baseline.batch_size,
            contract.PRECISION: baseline.precision,
        }
        if gate.speed_probe_seconds is not None:
            found[contract.SPEED_PROBE_SECONDS] = gate.speed_probe_seconds
    if workload.evaluates_on != contract.EVALUATION_PLACES[0]:
        found[contract.EVALUATE_ON] = workload.evaluates_on
    return found


def _compared_flat(workload: Workload, arm_name: str) -> dict[str, str]:
    """The same as hyperparameters, which are texts; and how the baseline pads, if not alike."""
    found: dict[str, str] = {}
    for name, value in _compared(workload, arm_name).items():
        if name == "baseline":
            found[contract.BASELINE_COMPILER] = value[contract.COMPILER]
            found[contract.BASELINE_BATCH_SIZE] = str(value[contract.BATCH_SIZE])
            found[contract.BASELINE_PRECISION] = value[contract.PRECISION]
            padding = workload.arms[contract.BASELINE_ARM].padding
            if padding != workload.arms[arm_name].padding:
                found[contract.BASELINE_PADDING] = padding
        else:
            found[name] = f"{value:g}" if isinstance(value, float) else str(value)
    return found


def _processes_and_rate(arm: Arm) -> dict[str, str | None]:
    found: dict[str, str | None] = {contract.PADDING: None if arm.padding == "max" else arm.padding}
    if arm.distribution == "torchrun":
        # The training program starts torchrun itself, so that it is the same on every platform;
        # most do not know the toolkit's own `sagemaker_torch_distributed_enabled`.
        found |= {contract.DISTRIBUTION: contract.TORCHRUN, contract.PROCESSES: str(arm.processes)}
    if arm.scaled_rate is not None:  # for the evidence: the rate itself is another hyperparameter
        found |= {
            "learning_rate_rule": arm.scaled_rate.rule,
            "base_learning_rate": repr(arm.scaled_rate.base_rate),
            "base_global_batch_size": str(arm.scaled_rate.base_batch),
        }
    return found


@dataclass(frozen=True, kw_only=True)
class OwnProgram(Kind):
    """A program of your own is trained: `[program]`, `[arms]`."""

    program: Program

    @classmethod
    def of(cls, file: WorkloadFile, program: Program) -> OwnProgram:
        """The kind with its tables. Raises WorkloadError for the first problem: the next may follow
        from it."""
        for problem in (
            *_what_only_the_built_in_program_reads(file, program),
            *_wrong_arguments(program, file.arms),
            *(_unreported(file, program) if program.evidence == "printed" else ()),
        ):
            raise WorkloadError(problem)
        return cls.running(program)

    @classmethod
    def running(cls, program: Program) -> OwnProgram:
        """The kind that runs a program whose table goes with the rest of its file."""
        prepare, given = program.prepare, program.hyperparameters
        scripts = {"program.entry": program.entry}
        preparation = None
        if prepare is not None:
            scripts["program.prepare"] = prepare
            preparation = Preparation(
                image=program.image,
                module=prepare.removesuffix(".py").replace("/", "."),
                description=f"One data set for all jobs, by {prepare}",
            )
        return cls(
            program=program,
            evidence=program.evidence,
            source_folder=program.folder,
            requirements_in_image=program.requirements_in_image,
            scripts=scripts,
            model_name=next(
                (str(given[it]) for it in MODEL_HYPERPARAMETERS if given.get(it)), None
            ),
            preparation=preparation,
            processing_image=("program.image", program.image),
        )

    def stack_findings(self, stack: Stack, *, as_it_is: bool) -> Iterator[Finding]:
        yield from self.image_findings(stack.image, about="version")
        if as_it_is and self.evidence == "written" and stack.framework == "pytorch":
            yield finding("job-needs-safetensors", stack=stack)

    def image_findings(self, image: BaseImage, *, about: str) -> Iterator[Finding]:
        if image.python is not None and version_numbers(image.python) < JOB_PYTHON:
            yield finding("job-needs-newer", about=about, image=image, python=_dotted(JOB_PYTHON))

    def passed(self, workload: Workload, arm_name: str, seed: int) -> dict[str, str]:
        """The hyperparameters of a job that the file does not declare. The GPUs are there for a
        script that is declared to ask for them: another would end with an unknown argument."""
        arm = workload.arms[arm_name]
        found = {
            contract.COMPILER: arm.compiler,
            contract.BATCH_SIZE: str(arm.batch_size),
            contract.LEARNING_RATE: repr(arm.learning_rate),
            contract.PRECISION: arm.precision,
            contract.SEED: str(seed),
        }
        if contract.GPUS in (self.program.arguments or {}):
            instance = instance_of(arm.instance_type or workload.compute.instance_type)
            found[contract.GPUS] = str(0 if instance is None else instance.accelerators)
        return found

    def training_program(self, workload: Workload, arm_name: str, seed: int) -> TrainingProgram:
        """The launcher that starts the training script; where SageMaker starts the processes, what
        becomes the script in each."""
        arm, program = workload.arms[arm_name], self.program
        launched = arm.distribution in LAUNCHED
        entry = LAUNCHER if launched else SCRIPT_PROCESS
        if arm.distribution == "sm_dist":
            entry = program.entry  # behind a launcher of its own
        passed = self.passed(workload, arm_name, seed) | {
            name: _text_of(value) for name, value in program.hyperparameters.items()
        }
        return TrainingProgram(
            entry=entry,
            hyperparameters=passed if launched else _by_the_script_s_names(program, passed),
            metrics=program.metrics,
            environment={
                contract.ARM_VARIABLE: arm_name,
                **_job_variables(workload, arm_name, seed),
                **_argument_variables(program, passed),
                contract.SCRIPT_VARIABLE: program.entry,
                **(self._launch(workload, arm, arm_name) if launched else {}),
            },
        )

    def _launch(self, workload: Workload, arm: Arm, arm_name: str) -> dict[str, str]:
        """The launcher's own settings. No arguments: those are the script's."""
        program = self.program
        found: dict[str, str] = {}
        if arm.distribution == "torchrun":
            found[contract.PROCESSES_VARIABLE] = str(arm.processes)
        if arm_name != contract.BASELINE_ARM:
            found[contract.ON_FAILURE_VARIABLE] = "record"
        if program.evidence == "printed":
            printed = {name: program.metrics[name] for name in workload.gate.metrics}
            if program.speed_metric is not None:
                printed[contract.SPEED_METRIC] = program.metrics[program.speed_metric]
            found |= {f"{contract.PRINTED_VARIABLE}{name}": text for name, text in printed.items()}
            percent = [name for name in program.percent if name in printed]
            if percent:
                found[contract.PERCENT_VARIABLE] = " ".join(percent)
        return found


def kind_of(file: WorkloadFile) -> TextClassification | OwnProgram:
    """The kind that the file's tables make it. Raises WorkloadError where they fit no kind."""
    if file.program is None:
        return TextClassification.of(file)
    return OwnProgram.of(file, file.program)


def _job_variables(workload: Workload, arm_name: str, seed: int) -> dict[str, str]:
    """The fields of `compilegate.job.script.config.JobConfig` by name, as JSON in one variable or
    more.

    What is left out has its default there. The launcher adds what it knows of the job's
    hyperparameters.
    """
    arm = workload.arms[arm_name]
    fields: dict[str, Any] = {
        contract.SEED: seed,
        contract.COMPILER: arm.compiler,
        contract.BATCH_SIZE: arm.batch_size,
        contract.LEARNING_RATE: arm.learning_rate,
        contract.PRECISION: arm.precision,
    }
    if arm.replicas > 1:
        fields["replicas"] = arm.replicas
    if arm.compiler_options:
        fields["options"] = dict(arm.compiler_options)
    fields |= _compared(workload, arm_name)
    text = json.dumps(fields, separators=(",", ":"), allow_nan=False)
    parts = [text[at : at + LONGEST_VARIABLE] for at in range(0, len(text), LONGEST_VARIABLE)]
    return {contract.job_variable(number): part for number, part in enumerate(parts, start=1)}


def _text_of(value: object) -> str:
    """A value as the toolkit hands it to the script: true and false in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _argument_variables(program: Program, passed: Mapping[str, str]) -> dict[str, str]:
    """The variables by which the launcher passes the script's arguments in the script's words."""

    def words(argument: Argument, value: str) -> str | list[str]:
        text = argument if isinstance(argument, str) else argument[value]
        return own_name(argument) or [word.replace("{}", value) for word in shlex.split(text)]

    variables = {}
    if program.arguments is not None:
        found = {name: words(each, passed[name]) for name, each in program.arguments.items()}
        variables[contract.ARGUMENTS_VARIABLE] = json.dumps(found, separators=(",", ":"))
    if program.argument_style != contract.ARGUMENT_STYLES[0]:
        variables[contract.ARGUMENT_STYLE_VARIABLE] = program.argument_style
    return variables


def _by_the_script_s_names(program: Program, passed: Mapping[str, str]) -> dict[str, str]:
    """The hyperparameters of a job whose script SageMaker itself starts."""
    arguments = program.arguments
    if arguments is None:
        return dict(passed)
    return {
        (own_name(arguments[name]) or name) if name in arguments else name: value
        for name, value in passed.items()
        if name in arguments or name not in contract.ARM_HYPERPARAMETERS
    }


def _what_only_the_built_in_program_reads(file: WorkloadFile, program: Program) -> Iterator[str]:
    for key, table in (("model", file.model), ("recipe", file.recipe)):
        if table is not None:
            yield (
                f"{key} is given beside program, expected one of them; what the program needs to "
                "know goes into [program.hyperparameters]"
            )
    fields = type(file.data).model_fields
    for key in _OF_TEXTS:
        if key in fields and getattr(file.data, key) != fields[key].default:
            yield f"data.{key} is given beside program; only the built-in training program reads it"
    if file.new_data is not None and file.data.source in ("folder", "wheel"):
        yield (
            f"new_data is given with data.source {file.data.source!r}, expected a source of one "
            "training and one validation file, which is what new data consists of"
        )
    taken = contract.ARM_HYPERPARAMETERS
    for name in sorted(program.hyperparameters.keys() & set(taken)):
        yield (
            f"program.hyperparameters.{name} is taken, expected names other than "
            f"{', '.join(taken)}, which every job is passed anyway"
        )
    for name, arm in file.arms.items():
        if arm.stack is not None and arm.stack.value(PRECOMPILE):
            yield (
                f"arms.{name}.neuron.precompile is true beside program, expected false: only the "
                "built-in training program can be run for a few steps"
            )


def _wrong_arguments(program: Program, arms: Mapping[str, ArmTable]) -> Iterator[str]:
    """What is wrong with `[program.arguments]` and `argument_style`."""
    yield from _unlaunched(program, arms)
    arguments: Mapping[str, Argument] = program.arguments or {}
    given, known = program.hyperparameters, (*contract.ARM_HYPERPARAMETERS, contract.GPUS)
    for name in arguments:
        if name not in known and name not in given:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            yield (
                f"program.arguments.{name} is not an argument{hint}, expected {', '.join(known)}, "
                "or a name of [program.hyperparameters]"
            )
    for name, argument in arguments.items():
        if not isinstance(argument, dict):
            continue
        if name in _NUMBERS and name not in given:
            yield (
                f"program.arguments.{name} is a table, expected the script's own name for it, or "
                "words in which {} is the value: it is a number"
            )
        for where, value in _values(name, program, arms):
            if value not in argument:
                yield (
                    f"program.arguments.{name} has no words for {value!r}, which {where} has, "
                    f"expected an entry for each value (now: {', '.join(argument)}); '' passes "
                    "nothing"
                )


def _values(name: str, program: Program, arms: Mapping[str, ArmTable]) -> Iterator[tuple[str, str]]:
    """Each value that is known by now, after where it stands."""
    if name in program.hyperparameters:
        yield f"program.hyperparameters.{name}", _text_of(program.hyperparameters[name])
    elif name in (contract.COMPILER, contract.PRECISION):
        for arm, table in arms.items():
            yield f"arms.{arm}", getattr(table, name)


def _unlaunched(program: Program, arms: Mapping[str, ArmTable]) -> Iterator[str]:
    """SageMaker's own launchers can be given other names, and nothing else."""
    own = [name for name, arm in arms.items() if arm.distribution not in LAUNCHED]
    words = [name for name, each in (program.arguments or {}).items() if own_name(each) is None]
    if own and (words or program.argument_style != contract.ARGUMENT_STYLES[0]):
        key = f"arguments.{words[0]}" if words else "argument_style"
        yield (
            f"program.{key} is given beside arms.{own[0]}.distribution = "
            f"{arms[own[0]].distribution!r}, whose launcher passes every argument as '--name "
            "value', expected the script's own names alone"
        )


def _unreported(file: WorkloadFile, program: Program) -> Iterator[str]:
    """A printed metric must be caught; metrics from examples need examples."""
    printed = "program.evidence is 'printed'"
    for name, guard in file.gate.metrics.items():
        if not guard.reported:
            yield (
                f"gate.metrics.{name} is computed from examples, and {printed}, expected metrics "
                "with reported = true"
            )
        elif name not in program.metrics:
            yield (
                f"gate.metrics.{name} is reported, and program.metrics has no expression for it, "
                "expected one of the same name"
            )
    for name, arm in file.arms.items():
        if arm.distribution not in LAUNCHED:
            yield (
                f"arms.{name}.distribution is {arm.distribution!r} and {printed}, expected "
                "'torchrun' or none: nothing stands between SageMaker's own launchers and the "
                "script that could catch what it prints"
            )
    if len(file.seeds) < 2:
        yield (
            f"seeds holds one seed and {printed}, expected two or more: printed metrics are judged "
            "by their spread over seeds alone"
        )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in version)
