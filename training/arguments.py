"""The arguments of a training job: hyperparameters by name, and SageMaker's folders.

SageMaker hands every hyperparameter over as text, ``--name value``. The names are those a
workload declares; `Hyperparameters` is what they mean.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, NoReturn, Optional, Sequence

from compilegate.job import (
    SEED_LIMIT,
    Baseline,
    InputError,
    JobConfig,
    Scalar,
    file_digest,
)
from compilegate.job.compilers import Option, compiler_options, declarations
from compilegate.job.names import (
    CHECKPOINT_SECONDS_VARIABLE,
    CHECKPOINTS_VARIABLE,
    COMPILE_CACHE_VARIABLE,
    DEFAULT_CHECKPOINT_SECONDS,
    DEFAULT_COMPILE_CACHE_MEGABYTES,
    DEFAULT_PARITY_STEPS,
    EVALUATION_PLACES,
    MODEL_VARIABLE,
    MOST_COMPILE_CACHE_MEGABYTES,
    MOST_PARITY_STEPS,
    MOST_PROCESSES,
    MOST_SPEED_PROBE_SECONDS,
    ON_FAILURE,
    ON_WRONG,
    OUTPUT_DATA_VARIABLE,
    PADDINGS,
    PREPARED_VARIABLE,
)
from training.data.prepared import MANIFEST
from training.hyperparameters import PRECISIONS, Hyperparameters

DISTRIBUTIONS = ("none", "torchrun")
RULES = ("none", "linear", "square-root")
FOLDER_VARIABLES = (PREPARED_VARIABLE, MODEL_VARIABLE, OUTPUT_DATA_VARIABLE)


@dataclass(frozen=True)
class RateScaling:
    """How the workload scaled the learning rate; only recorded in the evidence."""

    learning_rate_rule: str = "none"
    base_learning_rate: float = 0.0
    """The baseline's learning rate."""
    base_global_batch_size: int = 0
    """How many examples a step of the baseline takes."""

    def declared(self, learning_rate: float) -> Dict[str, Scalar]:
        """Rule, base and factor; empty if there is no rule."""
        if self.learning_rate_rule == "none":
            return {}
        return {
            **dataclasses.asdict(self),
            "learning_rate_factor": learning_rate / self.base_learning_rate,
        }

    def __post_init__(self) -> None:
        if self.learning_rate_rule != "none" and not self.base_learning_rate > 0:
            raise InputError(
                f"--learning_rate_rule is {self.learning_rate_rule} and --base_learning_rate is "
                f"{self.base_learning_rate:g}, expected the rate that it was scaled from"
            )


@dataclass(frozen=True)
class Folders:
    """Where SageMaker's container contract puts a job's input and output."""

    prepared: Path
    model: Path
    output_data: Path
    compile_cache: Optional[Path] = None
    """Where the compile cache's archives are; None without a cache."""
    checkpoints: Optional[Path] = None
    """Where the job keeps its checkpoints; None if it keeps none."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Folders:
        """Read ``SM_CHANNEL_PREPARED``, ``SM_MODEL_DIR`` and ``SM_OUTPUT_DATA_DIR``, and
        ``COMPILEGATE_COMPILE_CACHE`` and ``COMPILEGATE_CHECKPOINTS`` where they are set."""
        for name in FOLDER_VARIABLES:
            if not environment.get(name):
                raise InputError(f"the environment variable {name} must name a folder")
        prepared, model, output_data = (Path(environment[name]) for name in FOLDER_VARIABLES)
        archives, checkpoints = (
            Path(environment[name]) if environment.get(name) else None
            for name in (COMPILE_CACHE_VARIABLE, CHECKPOINTS_VARIABLE)
        )
        return cls(prepared, model, output_data, archives, checkpoints)


@dataclass(frozen=True)
class JobArguments:
    """The request for a training job: one arm, one seed."""

    name: str
    arm: str
    seed: int
    compiler: str
    on_failure: str
    parity_steps: int
    """Steps that the parity probe compares; zero leaves it out."""
    compile_cache_megabytes: int
    """How large all archives of the compile cache together may be; zero turns it off."""
    checkpoint_seconds: float
    """Seconds between two checkpoints, if the job keeps any."""
    hyperparameters: Hyperparameters
    folders: Folders
    on_wrong: str = ON_WRONG[0]
    """Whether a candidate goes on whose compiled arithmetic is wrong."""
    speed_probe_seconds: Optional[float] = None
    """How long the paired speed probe may take; zero leaves it out. None: a share of the
    training's time."""
    baseline_compiler: Optional[str] = None
    """What this arm's step is timed against; None where nobody said, as for a baseline."""
    baseline_batch_size: Optional[int] = None
    baseline_precision: Optional[str] = None
    baseline_padding: Optional[str] = None
    """Where it is not this arm's."""
    evaluate_on: str = EVALUATION_PLACES[0]
    """Where the trained model is evaluated, in all jobs of the workload."""
    compiler_settings: Mapping[str, Scalar] = field(default_factory=dict)
    """A value for each option of the compiler, by name."""
    distribution: str = "none"
    """What starts the processes: `torchrun`, or the job itself."""
    processes: int = 1
    """Processes on each machine."""
    scaling: RateScaling = field(default_factory=RateScaling)

    def __post_init__(self) -> None:
        if self.distribution == "torchrun" and self.folders.checkpoints is not None:
            raise InputError(
                f"--distribution is torchrun, and {CHECKPOINTS_VARIABLE} names a folder: "
                "checkpoints hold the state of one process; leave out one of them"
            )
        compiler = declarations()[self.compiler]
        padding = self.hyperparameters.padding
        if padding == "longest" and not compiler.serves_any_shape(self.compiler_settings):
            option = compiler.any_shape
            switch = f", or no --{option.name} false" if isinstance(option, Option) else ""
            raise InputError(
                f"--padding is longest, and compiler {self.compiler} compiles every shape anew; "
                f"expected max or buckets{switch}"
            )

    def declared_recipe(self) -> Dict[str, Scalar]:
        """The job's settings, as the evidence's recipe records them."""
        return {
            **dataclasses.asdict(self.hyperparameters),
            **self.scaling.declared(self.hyperparameters.learning_rate),
        }

    def told(self) -> JobConfig:
        """The request, as `compilegate.job` takes it."""
        told, baseline = self.hyperparameters, None
        if self.baseline_compiler is not None:
            baseline = Baseline(
                self.baseline_compiler,
                self.baseline_batch_size,
                self.baseline_precision,
                self.baseline_padding,
            )
        manifest = self.folders.prepared / MANIFEST
        return JobConfig(
            job=self.name,
            arm=self.arm,
            model=self.folders.model,
            output=self.folders.output_data,
            seed=self.seed,
            compiler=self.compiler,
            options=self.compiler_settings,
            batch_size=told.batch_size,
            learning_rate=told.learning_rate,
            precision=told.precision,
            recipe=self.declared_recipe(),
            parity_steps=self.parity_steps,
            compile_cache_megabytes=self.compile_cache_megabytes,
            speed_probe_seconds=self.speed_probe_seconds,
            baseline=baseline,
            compile_cache=self.folders.compile_cache,
            # The manifest holds the digests of all files, which are checked when they are read.
            data_digest=file_digest(manifest) if manifest.is_file() else None,
            on_failure=self.on_failure,
            on_wrong=self.on_wrong,
            evaluate_on=self.evaluate_on,
        )

    def declared(self) -> Dict[str, Scalar]:
        """Everything that decides the result of the job, for its digests."""
        return {
            "compiler": self.compiler,
            **self.compiler_settings,
            **self.declared_recipe(),
        }


def read_arguments(arguments: Sequence[str], environment: Mapping[str, str]) -> JobArguments:
    """Read the command line and the environment. Raises InputError."""
    told = vars(_parser().parse_args(arguments))
    training, scaling = (
        {each.name: told.pop(each.name) for each in dataclasses.fields(kind)}
        for kind in (Hyperparameters, RateScaling)
    )
    compiling = {name: told.pop(name) for name in compiler_options()}
    compiler = declarations()[told["compiler"]]
    return JobArguments(
        name=environment.get("TRAINING_JOB_NAME") or f"{told['arm']}-seed-{told['seed']}",
        checkpoint_seconds=_checkpoint_seconds(environment),
        hyperparameters=Hyperparameters(**training),
        # Options of other compilers do not concern this one.
        compiler_settings={each.name: compiling[each.name] for each in compiler.options},
        scaling=RateScaling(**scaling),
        folders=Folders.from_environment(environment),
        **told,
    )


def _checkpoint_seconds(environment: Mapping[str, str]) -> float:
    text = environment.get(CHECKPOINT_SECONDS_VARIABLE) or str(DEFAULT_CHECKPOINT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InputError(
            f"the environment variable {CHECKPOINT_SECONDS_VARIABLE} is {text!r}, expected a "
            "number of seconds, 0 or more"
        )
    return seconds


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (--help lists what is allowed)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="training/train.py",
        description="Trains one arm of a workload with one seed and writes the evidence.",
        epilog=f"The folders come from the environment: {', '.join(FOLDER_VARIABLES)}.",
        allow_abbrev=False,
    )
    parser.add_argument("--arm", required=True, help="name of the arm, for the evidence")
    parser.add_argument(
        "--seed",
        type=_whole_number(0, SEED_LIMIT - 1),
        required=True,
        help="of weights, order and dropout",
    )
    parser.add_argument(
        "--compiler", choices=list(declarations()), default="eager", help="default: eager"
    )
    _add_compiler_options(parser)
    _add_distribution(parser)
    _add_rate_scaling(parser)
    parser.add_argument(
        "--on_failure",
        choices=ON_FAILURE,
        default="stop",
        help="record: if the arm cannot be trained, the evidence says so and the job succeeds; "
        "default: stop",
    )
    parser.add_argument(
        "--evaluate_on",
        choices=EVALUATION_PLACES,
        default=EVALUATION_PLACES[0],
        help="where the trained model is evaluated; host: where an arm's compiler keeps the "
        f"accelerator to itself, the same in every arm; default: {EVALUATION_PLACES[0]}",
    )
    parser.add_argument(
        "--parity_steps",
        type=_whole_number(0, MOST_PARITY_STEPS),
        default=DEFAULT_PARITY_STEPS,
        help="steps in which compiled and eager arithmetic are compared after training; 0 is "
        f"off; default: {DEFAULT_PARITY_STEPS}",
    )
    parser.add_argument(
        "--on_wrong",
        choices=ON_WRONG,
        default=ON_WRONG[0],
        help="what a candidate does whose compiled arithmetic is wrong; stop: end with that as its "
        f"evidence; default: {ON_WRONG[0]}",
    )
    _add_speed_probe(parser)
    parser.add_argument(
        "--compile_cache_megabytes",
        type=_whole_number(0, MOST_COMPILE_CACHE_MEGABYTES),
        default=DEFAULT_COMPILE_CACHE_MEGABYTES,
        help=f"largest size of the archives in the folder that {COMPILE_CACHE_VARIABLE} names; 0 "
        f"is off; default: {DEFAULT_COMPILE_CACHE_MEGABYTES}",
    )
    kinds: Dict[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str}
    for each in dataclasses.fields(Hyperparameters):
        parser.add_argument(
            f"--{each.name}",
            type=kinds[str(each.type)],
            default=each.default,
            choices=each.metadata["choices"],
            help=f"{each.metadata['description']}; default: {each.default!r}",
        )
    return parser


def _add_speed_probe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--speed_probe_seconds",
        type=_seconds,
        help="how long the baseline's step and this arm's may take turns after training; 0 is off; "
        "default: a twentieth of the training's time, a minute at most",
    )
    parser.add_argument(
        "--baseline_compiler",
        choices=list(declarations()),
        help="of the arm that this one's step is timed against; default: there is none",
    )
    parser.add_argument("--baseline_batch_size", type=_whole_number(1, SEED_LIMIT), help="the same")
    parser.add_argument("--baseline_precision", choices=PRECISIONS, help="the same")
    parser.add_argument("--baseline_padding", choices=PADDINGS, help="the same, where it differs")


def _add_compiler_options(parser: argparse.ArgumentParser) -> None:
    for name, option in compiler_options().items():
        truth = option.truth and option.default is not None
        default = str(option.default).lower() if truth else option.default
        parser.add_argument(
            f"--{name}",
            type=_parsing(option),
            default=option.default,
            metavar="{true,false}" if option.truth else None,
            help=f"{option.description}; default: {default}",
        )


def _parsing(option: Option) -> Callable[[str], Any]:
    def parsed(text: str) -> Any:
        try:
            return option.parsed(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed


def _add_distribution(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--distribution",
        choices=DISTRIBUTIONS,
        default="none",
        help="torchrun: several processes train together, each with batch_size documents in a "
        "step; default: none",
    )
    parser.add_argument(
        "--processes",
        type=_whole_number(1, MOST_PROCESSES),
        default=1,
        help="of torchrun, on each machine; default: 1",
    )


def _add_rate_scaling(parser: argparse.ArgumentParser) -> None:
    """For the evidence alone: `learning_rate` is what is used."""
    parser.add_argument(
        "--learning_rate_rule",
        choices=RULES,
        default="none",
        help="by which the learning rate was scaled; default: none",
    )
    parser.add_argument("--base_learning_rate", type=float, default=0.0, help="that was scaled")
    parser.add_argument(
        "--base_global_batch_size", type=int, default=0, help="documents in a step with that rate"
    )


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= MOST_SPEED_PROBE_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to {MOST_SPEED_PROBE_SECONDS}")
    return value


def _whole_number(least: int, most: int) -> Callable[[str], int]:
    def whole_number(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{value} is not from {least} to {most}")
        return value

    return whole_number
