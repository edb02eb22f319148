"""The gate's steps: all evidence in, one verdict out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from compilegate.document.expressions import (
    Expression,
    execution_variable,
    join,
    step_property,
)
from compilegate.document.model import Dependency, PropertyFile, Step
from compilegate.job.names import VERDICT_FILE
from compilegate.pipelines.deployment import object_name
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.pipelines.steps.packaging import verdicts_uri
from compilegate.pipelines.steps.processing import (
    INPUT,
    MOST_INPUTS,
    OUTPUT,
    Uri,
    output_uri,
    processing_step,
)
from compilegate.pipelines.steps.registered import registered_uri, registration
from compilegate.pipelines.steps.training import evidence_uri

STEP = "Gate"
REGISTERED = "registered"
VERDICT = PropertyFile(name="Verdict", output_name="verdict", file_path=VERDICT_FILE)
EVIDENCE_PER_GATE = MOST_INPUTS - 3
"""One input is the program itself, one the experiment, one what was registered last."""
EVIDENCE_PER_GATHERING = MOST_INPUTS - 1

Replicate = tuple[str, int]


def gate_steps(blueprint: Blueprint, trained: Mapping[Replicate, Step], after: Step) -> list[Step]:
    """The gate, last; before it, steps that gather evidence where it is too much for one job.
    `after` has left something at the place of what was registered.

    The gate is never cached: it is cheap, and its verdict belongs to one execution.
    """
    evidence: dict[str, Uri] = {
        f"evidence/{arm}--{seed}": evidence_uri(step) for (arm, seed), step in trained.items()
    }
    gathering: list[Step] = []
    if len(evidence) > EVIDENCE_PER_GATE:
        gathering = _gathering_steps(blueprint, evidence)
        evidence = {
            f"evidence/{number}": output_uri(step) for number, step in enumerate(gathering, start=1)
        }
    gate = processing_step(
        blueprint,
        STEP,
        description="Evidence in, verdict out",
        image="gate",
        module="compilegate.pipelines.programs.gate",
        code=blueprint.sources.gate_code,
        arguments=_arguments(blueprint, trained),
        inputs={
            "experiment": blueprint.sources.experiment,
            REGISTERED: registered_uri(blueprint),
            **evidence,
        },
        output=VERDICT.output_name,
        kept_at=verdicts_uri(blueprint),
        property_files=(VERDICT,),
    )
    return [*gathering, replace(gate, depends_on=(Dependency(after.name),))]


def verdict_uri(gate: Step) -> Expression:
    return beside_the_verdict(gate, VERDICT.file_path)


def beside_the_verdict(gate: Step, file: str) -> Expression:
    return join("/", [output_uri(gate), file])


def _arguments(blueprint: Blueprint, trained: Mapping[Replicate, Step]) -> list[str | Expression]:
    """Names the job behind each replicate, so that evidence of any other job is refused; with the
    step cache this is the job that did the work, in whichever execution that was."""
    experiment = object_name(blueprint.sources.experiment)
    return [
        *["--experiment", f"{INPUT}/experiment/{experiment}"],
        *["--evidence", f"{INPUT}/evidence", "--registered", f"{INPUT}/{REGISTERED}"],
        f"--registration={registration(blueprint)}",
        *["--output", f"{OUTPUT}/{VERDICT.output_name}"],
        # For the page alone: which execution it is about.
        join("=", ["--execution", execution_variable("PipelineExecutionId")]),
        join("=", ["--started", execution_variable("StartDateTime")]),
        *[expected_job(arm, seed, step) for (arm, seed), step in trained.items()],
    ]


def expected_job(arm: str, seed: int, step: Step) -> Expression:
    """`--expect=ARM:SEED:JOB`."""
    return join(":", [f"--expect={arm}", str(seed), step_property(step.name, "TrainingJobName")])


def _gathering_steps(blueprint: Blueprint, evidence: Mapping[str, Uri]) -> list[Step]:
    """Each takes as much evidence as one job can, and puts it under one key."""
    return [
        processing_step(
            blueprint,
            f"Gather-{number}",
            description=f"Evidence of {len(keys)} training jobs under one key",
            image="gate",
            module="compilegate.pipelines.programs.gather",
            code=blueprint.sources.gate_code,
            arguments=[f"{INPUT}/evidence", f"{OUTPUT}/evidence-{number}"],
            inputs={key: evidence[key] for key in keys},
            output=f"evidence-{number}",
            cached=True,
        )
        for number, keys in enumerate(_batches(list(evidence), EVIDENCE_PER_GATHERING), start=1)
    ]


def _batches(keys: Sequence[str], size: int) -> list[Sequence[str]]:
    return [keys[start : start + size] for start in range(0, len(keys), size)]
