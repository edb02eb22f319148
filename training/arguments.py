"""The arguments of a training job: hyperparameters by name, and SageMaker's folders.

SageMaker passes every hyperparameter as text, ``--name value``, under the names that a workload
declares. They become the job's config, and the little that only this program needs.
"""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Mapping, NoReturn, Optional, Sequence

from compilegate.job import (
    SEED_LIMIT,
    Baseline,
    InputError,
    JobConfig,
    Scalar,
    contract,
    file_digest,
)
from compilegate.job.compilers import compiler_options, declarations
from training.data.prepared import MANIFEST
from training.hyperparameters import PRECISIONS, Hyperparameters

FOLDER_VARIABLES = (
    contract.PREPARED_VARIABLE,
    contract.MODEL_VARIABLE,
    contract.OUTPUT_DATA_VARIABLE,
)
NO_DISTRIBUTION = NO_RULE = "none"


@dataclass(frozen=True)
class JobArguments:
    """What a training job is started with: one arm, one seed."""

    config: JobConfig
    hyperparameters: Hyperparameters
    prepared: Path  # the folder of the prepared data
    processes: Optional[int] = None  # that torchrun starts on each machine; None without torchrun
    checkpoints: Optional[Path] = None  # the folder; None for a job without checkpoints
    checkpoint_seconds: float = contract.DEFAULT_CHECKPOINT_SECONDS  # between two checkpoints


def read_arguments(arguments: Sequence[str], environment: Mapping[str, str]) -> JobArguments:
    """Read the command line and the environment. Raises InputError."""
    flags = vars(_parser().parse_args(arguments))

    def take(which: Iterable[str]) -> Dict[str, Any]:
        return {name: flags.pop(name) for name in which}

    for name in FOLDER_VARIABLES:
        if not environment.get(name):
            raise InputError(f"the environment variable {name} must name a folder")
    prepared, model, output = (Path(environment[name]) for name in FOLDER_VARIABLES)
    compile_cache, checkpoints = (
        Path(environment[name]) if environment.get(name) else None
        for name in (contract.COMPILE_CACHE_VARIABLE, contract.CHECKPOINTS_VARIABLE)
    )
    hyperparameters = Hyperparameters(
        **take(each.name for each in dataclasses.fields(Hyperparameters))
    )
    baseline = Baseline(*take(_BASELINE).values())
    recipe = _recipe(hyperparameters, take(_SCALING))
    distribution, processes = take((contract.DISTRIBUTION, contract.PROCESSES)).values()
    options = _options(flags["compiler"], take(compiler_options()))
    manifest = prepared / MANIFEST
    config = JobConfig(
        job=environment.get("TRAINING_JOB_NAME") or f"{flags['arm']}-seed-{flags['seed']}",
        model=model,
        output=output,
        options=options,
        batch_size=hyperparameters.batch_size,
        learning_rate=hyperparameters.learning_rate,
        precision=hyperparameters.precision,
        recipe=recipe,
        baseline=baseline if baseline.compiler else None,
        compile_cache=compile_cache,
        # The manifest holds the digests of all files, which are checked when they are read.
        data_digest=file_digest(manifest) if manifest.is_file() else None,
        **flags,
    )
    return JobArguments(
        config,
        hyperparameters,
        prepared,
        processes=processes if distribution == contract.TORCHRUN else None,
        checkpoints=checkpoints,
        checkpoint_seconds=float(
            environment.get(contract.CHECKPOINT_SECONDS_VARIABLE)
            or contract.DEFAULT_CHECKPOINT_SECONDS
        ),
    )


def _options(compiler: str, flags: Mapping[str, Any]) -> Dict[str, Any]:
    """A value for each option of the compiler; those of other compilers do not concern it."""
    options: Dict[str, Any] = {}
    for option in declarations()[compiler].options:
        value = flags[option.name]
        try:
            options[option.name] = option.parsed(value) if isinstance(value, str) else value
        except ValueError as error:
            raise InputError(f"--{option.name}: {error}") from error
    return options


def _recipe(hyperparameters: Hyperparameters, scaling: Mapping[str, Any]) -> Dict[str, Scalar]:
    """The settings as the evidence records them, and how the workload scaled the learning rate."""
    recipe: Dict[str, Any] = dataclasses.asdict(hyperparameters)
    if scaling["learning_rate_rule"] == NO_RULE:
        return recipe
    factor = hyperparameters.learning_rate / scaling["base_learning_rate"]
    return {**recipe, **scaling, "learning_rate_factor": factor}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are InputErrors."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (--help lists what is allowed)")


def within(kind: Callable[[str], Any], least: float, most: float) -> Callable[[str], Any]:
    """Make an argument's type: a number of this kind, from `least` to `most`."""

    def parse(text: str) -> Any:
        value = kind(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not from {least} to {most}")
        return value

    parse.__name__ = kind.__name__  # argparse names it where the text is no number
    return parse


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="training/train.py",
        description="Trains one arm of a workload with one seed and writes the evidence.",
        epilog=f"The folders come from the environment: {', '.join(FOLDER_VARIABLES)}.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    for name, settings in {**_JOB, **_BASELINE, **_SCALING}.items():
        parser.add_argument(f"--{name}", **settings)
    for name, option in compiler_options().items():
        metavar = "{true,false}" if option.truth else None
        parser.add_argument(
            f"--{name}", default=option.default, metavar=metavar, help=option.description
        )
    for each in dataclasses.fields(Hyperparameters):
        parser.add_argument(
            f"--{each.name}",
            type=type(each.default),
            default=each.default,
            choices=each.metadata["choices"],
            help=each.metadata["description"],
        )
    return parser


def _one_of(choices: Sequence[str], text: str) -> Mapping[str, Any]:
    """A flag with these values, the first by default."""
    return {"choices": choices, "default": choices[0], "help": text}


_JOB: Mapping[str, Mapping[str, Any]] = {
    "arm": {"required": True, "help": "the arm's name, for the evidence"},
    "seed": {
        "required": True,
        "type": within(int, 0, SEED_LIMIT - 1),
        "help": "of weights, order and dropout",
    },
    "compiler": {"choices": list(declarations()), "default": "eager", "help": "eager is none"},
    "on_failure": _one_of(
        contract.ON_FAILURE,
        "record: if the arm cannot be trained, the job succeeds with that as its evidence",
    ),
    "on_wrong": _one_of(
        contract.ON_WRONG,
        "what a candidate does whose compiled arithmetic is wrong",
    ),
    "evaluate_on": _one_of(
        contract.EVALUATION_PLACES,
        "host: where a compiler of the workload keeps the accelerator to itself",
    ),
    "parity_steps": {
        "type": within(int, 0, contract.MOST_PARITY_STEPS),
        "default": contract.DEFAULT_PARITY_STEPS,
        "help": "steps in which compiled and eager arithmetic are compared; 0 is off",
    },
    "speed_probe_seconds": {
        "type": within(float, 0, contract.MOST_SPEED_PROBE_SECONDS),
        "help": "how long the baseline's step and this arm's take turns after training; 0 is off, "
        "None a share of the training's time",
    },
    "compile_cache_megabytes": {
        "type": within(int, 0, contract.MOST_COMPILE_CACHE_MEGABYTES),
        "default": contract.DEFAULT_COMPILE_CACHE_MEGABYTES,
        "help": f"largest size of the archives in {contract.COMPILE_CACHE_VARIABLE}; 0 is off",
    },
    contract.DISTRIBUTION: _one_of(
        (NO_DISTRIBUTION, contract.TORCHRUN),
        "torchrun: several processes train together, each with batch_size documents in a step",
    ),
    contract.PROCESSES: {
        "type": within(int, 1, contract.MOST_PROCESSES),
        "default": 1,
        "help": "of torchrun, on each machine",
    },
}
_BASELINE: Mapping[str, Mapping[str, Any]] = {
    contract.BASELINE_COMPILER: {
        "choices": list(declarations()),
        "help": "what this arm's step is timed against; None: nothing",
    },
    contract.BASELINE_BATCH_SIZE: {"type": within(int, 1, SEED_LIMIT), "help": "None: the arm's"},
    contract.BASELINE_PRECISION: {"choices": PRECISIONS, "help": "None: the arm's"},
    contract.BASELINE_PADDING: {"choices": contract.PADDINGS, "help": "None: the arm's"},
}
"""In the order of the fields of `Baseline`."""
_SCALING: Mapping[str, Mapping[str, Any]] = {
    "learning_rate_rule": _one_of(
        (NO_RULE, "linear", "square-root"),
        "how the workload scaled the learning rate, for the evidence alone",
    ),
    "base_learning_rate": {"type": float, "default": 0.0, "help": "the one that was scaled"},
    "base_global_batch_size": {"type": int, "default": 0, "help": "documents of a step with it"},
}
