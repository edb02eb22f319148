"""Programs of a user's own: how each of their scripts is started."""

from __future__ import annotations

from typing import Any

from compilegate.document.expressions import parameter
from compilegate.document.model import Step
from compilegate.pipelines.requests.processing import INPUT, OUTPUT, processing_step
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.pipelines.steps.training_program import TrainingProgram
from compilegate.workload import Arm, OwnProgram, Program, Succession
from compilegate.workload.declaration import BASELINE
from compilegate.workload.parameters import DATA

ARM_VARIABLE = "COMPILEGATE_ARM"
"""Tells the script whose evidence it writes. No argument: a script need not know of arms."""
LAUNCHER = "compilegate/job/launch/own_script.py"
"""What starts a script in several processes, and makes a candidate's failure evidence: the job's
program then, in place of the script."""
PREPARED = "prepared"
PREPARE = "Prepare"


def own_training_program(
    kind: OwnProgram | Succession, arm_name: str, arm: Arm, seed: int
) -> TrainingProgram:
    """The training script with its hyperparameters and, of arms that are compared, the arm's."""
    told = {"seed": str(seed)} if isinstance(kind, Succession) else _arm_hyperparameters(arm, seed)
    program = kind.program
    launch = _launch(kind, arm_name, arm)
    return TrainingProgram(
        entry=LAUNCHER if launch else program.entry,
        hyperparameters={**told, **_declared(program)},
        metrics=program.metrics,
        environment={ARM_VARIABLE: arm_name, **launch},
    )


def prepare_step(blueprint: Blueprint, program: Program) -> Step | None:
    """Runs the program's prepare script; None where the raw data is what is trained on."""
    if program.prepare is None:
        return None
    return processing_step(
        blueprint,
        PREPARE,
        description=f"One data set for all jobs, by {program.prepare}",
        image=program.image,
        module=module_name(program.prepare),
        code=blueprint.sources.training_code,
        arguments=["--data-dir", f"{INPUT}/data", "--output-dir", f"{OUTPUT}/{PREPARED}"],
        inputs={"data": parameter(DATA)},
        output=PREPARED,
        cached=True,
    )


def module_name(script: str) -> str:
    """How Python imports a script from the program's zip."""
    return script.removesuffix(".py").replace("/", ".")


def _launch(kind: OwnProgram | Succession, arm_name: str, arm: Arm) -> dict[str, str]:
    """What the launcher is told; empty where nothing but the script has to be started. No
    arguments: those are the script's."""
    told: dict[str, str] = {}
    if arm.distribution == "torchrun":
        told["COMPILEGATE_PROCESSES"] = str(arm.processes)
    elif arm.distribution != "none":
        return {}  # the toolkit's launchers import the script itself
    written = isinstance(kind, OwnProgram) and kind.program.evidence == "written"
    if written and arm_name != BASELINE:
        told["COMPILEGATE_ON_FAILURE"] = "record"
    return {"COMPILEGATE_SCRIPT": kind.program.entry, **told} if told else {}


def _arm_hyperparameters(arm: Arm, seed: int) -> dict[str, str]:
    return {
        "compiler": arm.compiler,
        "batch_size": str(arm.batch_size),
        "learning_rate": repr(arm.learning_rate),
        "precision": arm.precision,
        "seed": str(seed),
    }


def _declared(program: Program) -> dict[str, str]:
    return {name: _text(value) for name, value in program.hyperparameters.items()}


def _text(value: Any) -> str:
    """As the toolkit hands it to the script: true and false in small letters."""
    return str(value).lower() if isinstance(value, bool) else str(value)
