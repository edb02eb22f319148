"""The gate's steps: all evidence in, one verdict out.

The gate also compares with the model that was registered last, without a question to the registry:
once a model is registered, `Keep-ARM` copies its evidence to one place of the workload's own,
`registered/evidence/`, and the next execution's gate reads `registered/`. A job cannot read an
empty place, so `Open-registered` leaves a note there. All of it works in a local run, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from compilegate.document.expressions import Expression, execution_variable, join
from compilegate.document.model import Dependency, PropertyFile, Step
from compilegate.job.contract import EVIDENCE_FOLDER, VERDICT_FILE
from compilegate.pipelines.deployment import object_name
from compilegate.pipelines.requests import Blueprint, Uri
from compilegate.pipelines.steps.processing import (
    INPUT,
    MOST_INPUTS,
    OUTPUT,
    ProcessingJob,
    output_uri,
    processing_step,
)
from compilegate.pipelines.steps.training import Replicate, evidence_uri, job_name

PROGRAMS = "compilegate.pipelines.programs"
STEP = "Gate"
VERDICT = PropertyFile(name="Verdict", output_name="verdict", file_path=VERDICT_FILE)
EVIDENCE_PER_GATE = MOST_INPUTS - 3
"""One input is the program itself, one the experiment, one what was registered last."""
EVIDENCE_PER_GATHERING = MOST_INPUTS - 1
_REGISTERED = "registered"
_NOTE = "note"


def gate_steps(blueprint: Blueprint, trained: Mapping[Replicate, Step], after: Step) -> list[Step]:
    """The gate, last; before it, steps that gather evidence where it is too much for one job.

    `after` is the step that makes the place of the registered model. The gate is never cached: it
    is cheap, and its verdict belongs to one execution.
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
    job = ProcessingJob(
        name=STEP,
        description="Evidence in, verdict out",
        module=f"{PROGRAMS}.gate",
        arguments=_arguments(blueprint, trained),
        inputs={
            "experiment": blueprint.sources.experiment,
            _REGISTERED: blueprint.uri(_REGISTERED),
            **evidence,
        },
        output=VERDICT.output_name,
        destination=join(
            "/", [blueprint.uri("verdicts"), execution_variable("PipelineExecutionId")]
        ),
        property_files=(VERDICT,),
    )
    gate = processing_step(blueprint, job)
    return [*gathering, replace(gate, depends_on=(Dependency(after.name),))]


def beside_the_verdict(gate: Step, file: str) -> Expression:
    """The URI of a file that the gate writes."""
    return join("/", [output_uri(gate), file])


def _arguments(blueprint: Blueprint, trained: Mapping[Replicate, Step]) -> list[Uri]:
    """Names the job behind each replicate, so that evidence of any other job is refused."""
    experiment = object_name(blueprint.sources.experiment)
    return [
        *["--experiment", f"{INPUT}/experiment/{experiment}"],
        *["--evidence", f"{INPUT}/evidence", "--registered", f"{INPUT}/{_REGISTERED}"],
        f"--registration={registration(blueprint)}",
        *["--output", f"{OUTPUT}/{VERDICT.output_name}"],
        # For the page alone: which execution it is about.
        join("=", ["--execution", execution_variable("PipelineExecutionId")]),
        join("=", ["--started", execution_variable("StartDateTime")]),
        *(
            join(":", [f"--expect={arm}", str(seed), job_name(step)])
            for (arm, seed), step in trained.items()
        ),
    ]


def _gathering_steps(blueprint: Blueprint, evidence: Mapping[str, Uri]) -> list[Step]:
    """Each copies as much evidence as one job can take to one key."""
    names = list(evidence)
    steps = []
    for number, start in enumerate(range(0, len(names), EVIDENCE_PER_GATHERING), start=1):
        batch = names[start : start + EVIDENCE_PER_GATHERING]
        job = ProcessingJob(
            name=f"Gather-{number}",
            description=f"Evidence of {len(batch)} training jobs under one key",
            module=f"{PROGRAMS}.gather",
            arguments=[f"{INPUT}/evidence", f"{OUTPUT}/evidence-{number}"],
            inputs={name: evidence[name] for name in batch},
            output=f"evidence-{number}",
            cached=True,
        )
        steps.append(processing_step(blueprint, job))
    return steps


def registration(blueprint: Blueprint) -> str:
    """A digest of what is registered with a model: a model that is served in another way is
    registered anew."""
    workload, code = blueprint.workload, blueprint.sources.serving_code
    # By what is the same wherever it is compiled: no name of an account's own.
    named = None if code is None else object_name(code)
    parts = repr((workload.model_package_group, workload.serving, named))
    return hashlib.sha256(parts.encode()).hexdigest()[:16]


def open_step(blueprint: Blueprint) -> Step:
    """Makes the place of the registered model. Cached: a note is enough for many executions."""
    job = ProcessingJob(
        name="Open-registered",
        description="So that there is something to read before any model is registered",
        module=f"{PROGRAMS}.registered",
        arguments=["open", f"{OUTPUT}/{_NOTE}"],
        inputs={},
        output=_NOTE,
        destination=blueprint.uri(_REGISTERED, _NOTE),
        cached=True,
    )
    return processing_step(blueprint, job)


def keep_step(blueprint: Blueprint, name: str, evidence: Uri, after: Step) -> Step:
    """Keeps the evidence of the job that trained the model, once it is registered."""
    job = ProcessingJob(
        name=name,
        description="The registered model's evidence, for the next execution's gate",
        module=f"{PROGRAMS}.registered",
        arguments=[
            *["keep", f"{INPUT}/{EVIDENCE_FOLDER}", f"{OUTPUT}/{EVIDENCE_FOLDER}"],
            f"--registration={registration(blueprint)}",
        ],
        inputs={EVIDENCE_FOLDER: evidence},
        output=EVIDENCE_FOLDER,
        destination=blueprint.uri(_REGISTERED, EVIDENCE_FOLDER),
    )
    return replace(processing_step(blueprint, job), depends_on=(Dependency(after.name),))
