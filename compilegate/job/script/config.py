"""A job's configuration: its arm, seed, compiler and folders.

The launcher sets COMPILEGATE_JOB; SageMaker's variables name the folders. Without it a script runs
by itself: eager, or with the compiler of COMPILEGATE_COMPILER (`inductor`, or
`torch-compile:BACKEND`), and writes into a folder beside it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping

from compilegate.job import contract
from compilegate.job.compilers import Setting, declarations
from compilegate.job.endings import EXCEPTION
from compilegate.job.errors import InputError
from compilegate.job.evidence import CompilerRecord, Evidence, Scalar
from compilegate.job.files import settings_digest
from compilegate.job.launch.script_arguments import job_text, recipe_by_toolkit
from compilegate.job.machine.environment import checkup


@dataclass(frozen=True)
class Baseline:
    """How the baseline trains, as far as a candidate can do the same; None: as the candidate."""

    compiler: str = "eager"
    batch_size: int | None = None
    precision: str | None = None
    padding: str | None = None  # how it pads texts


@dataclass(frozen=True)
class JobConfig:
    """A job's configuration. `None` is what nobody set: the script decides it."""

    job: str
    arm: str
    model: Path  # the folder of the model
    output: Path  # the folder of the evidence
    seed: int = 0  # with which the arm's processes were seeded; by hand, what the script says
    compiler: str = "eager"
    options: Mapping[str, Any] = field(default_factory=dict)  # of the compiler, where not default
    batch_size: int | None = None
    replicas: int = 1  # accelerators of this process, each with a batch of its own, as TensorFlow's
    learning_rate: float | None = None
    precision: str | None = None
    recipe: Mapping[str, Scalar] = field(default_factory=dict)  # all hyperparameters
    parity_steps: int = contract.DEFAULT_PARITY_STEPS
    compile_cache_megabytes: int = contract.DEFAULT_COMPILE_CACHE_MEGABYTES
    speed_probe_seconds: float | None = None  # at most; None: a share of the training's time
    baseline: Baseline | None = None  # what a candidate's step is timed against
    compile_cache: Path | None = None  # where the compile cache's archives are
    data_digest: str | None = None  # None: that of all files in the job's channels
    on_failure: str = contract.ON_FAILURE[0]  # whether `Job.fail` writes evidence
    on_wrong: str = contract.ON_WRONG[0]  # what a candidate does whose arithmetic is wrong
    evaluate_on: str = contract.EVALUATION_PLACES[0]  # where all arms evaluate
    alone: bool = False  # the script was started by hand, without a launcher

    @property
    def config_digest(self) -> str:
        """The digest of all that decides the job's result."""
        return settings_digest({"compiler": self.compiler, **self.options, **self.recipe})

    @property
    def is_candidate(self) -> bool:
        """Whether a launcher started it to be compared with a baseline."""
        return self.baseline is not None and not self.alone

    def failure(
        self,
        reason: str,
        *,
        ending: str = EXCEPTION.name,
        attempts: tuple[str, ...] = (),
        compiler: CompilerRecord | None = None,
        environment: Mapping[str, Scalar] | None = None,
    ) -> Evidence:
        """Evidence that there is no model, and why; needs no torch, which may be the reason.
        `ending` and `attempts` as in `Evidence`."""
        data = {} if self.data_digest is None else {"data": self.data_digest}
        return Evidence(
            job=self.job,
            arm=self.arm,
            seed=self.seed,
            recipe=self.recipe,
            compiler=compiler or CompilerRecord(self.compiler, ran=False, options=self.options),
            speed=None,
            environment=environment or {},
            digests={"config": self.config_digest, **data},
            failure=reason,
            ending=ending,
            attempts=attempts,
            checkup=checkup(),
        )


def read_config(environment: Mapping[str, str]) -> JobConfig:
    """The configuration in the environment. Raises InputError."""
    text = job_text(environment)
    if not text:
        return _by_hand(environment)
    try:
        fields: dict[str, Any] = json.loads(text)
        baseline = fields.pop("baseline", None)
        fields.setdefault("recipe", recipe_by_toolkit(fields, environment))
        archives = environment.get(contract.COMPILE_CACHE_VARIABLE)
        return JobConfig(
            job=environment.get("TRAINING_JOB_NAME") or fields.pop("job"),
            arm=environment.get(contract.ARM_VARIABLE) or fields.pop("arm"),
            model=Path(environment[contract.MODEL_VARIABLE]),
            output=Path(environment[contract.OUTPUT_DATA_VARIABLE]),
            baseline=Baseline(**baseline) if baseline else None,
            compile_cache=Path(archives) if archives else None,
            **fields,
        )
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise InputError(
            f"the environment variable {contract.JOB_VARIABLE} does not describe a job "
            f"({type(error).__name__}: {error}); the launcher sets it, so leave it unset to run a "
            "script by hand"
        ) from error


def _by_hand(environment: Mapping[str, str]) -> JobConfig:
    compiler, options = _tried_compiler(environment.get(contract.COMPILER_VARIABLE) or "eager")
    folder = Path("compilegate-job")
    arm = contract.BASELINE_ARM if compiler == "eager" else "tried"
    return JobConfig(
        job=environment.get("TRAINING_JOB_NAME") or arm,
        arm=environment.get(contract.ARM_VARIABLE) or arm,
        model=Path(environment.get(contract.MODEL_VARIABLE) or folder / "model"),
        output=Path(environment.get(contract.OUTPUT_DATA_VARIABLE) or folder),
        compiler=compiler,
        options=options,
        baseline=None if compiler == "eager" else Baseline(),
        alone=True,
    )


def _tried_compiler(text: str) -> tuple[str, dict[str, Setting]]:
    """The compiler and its options that ``NAME`` or ``NAME:BACKEND`` stands for."""
    name, colon, backend = text.partition(":")
    found = f"the environment variable {contract.COMPILER_VARIABLE} is {text!r}"
    if name not in declarations():
        raise InputError(f"{found}, expected one of {', '.join(declarations())}")
    if not colon:
        return name, {}
    try:
        option = next(each for each in declarations()[name].options if each.key == "backend")
        given = {option.name: option.parsed(backend)}
        declarations()[name].settings(given)
    except StopIteration:
        raise InputError(f"{found}, and {name} has no backends; expected {name} alone") from None
    except (ValueError, InputError) as error:
        raise InputError(f"{found}: {error}") from error
    return name, given
