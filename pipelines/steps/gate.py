"""The gate's steps: all evidence in, one verdict out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sagemaker.core.workflow.functions import Join
from sagemaker.core.workflow.properties import PropertyFile
from sagemaker.mlops.workflow.steps import StepTypeEnum

from compilegate.pipelines.deployment import object_name
from compilegate.pipelines.requests.processing import (
    INPUT,
    MOST_INPUTS,
    OUTPUT,
    Uri,
    processing_request,
)
from compilegate.pipelines.requests.retries import job_retries
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.pipelines.steps.request_step import RequestStep
from compilegate.pipelines.steps.training import evidence_uri

STEP = "Gate"
VERDICT = PropertyFile(name="Verdict", output_name="verdict", path="verdict.json")
EVIDENCE_PER_GATE = MOST_INPUTS - 2
"""One input is the program itself, one the experiment."""
EVIDENCE_PER_GATHERING = MOST_INPUTS - 1

Replicate = tuple[str, int]


def gate_steps(blueprint: Blueprint, trained: Mapping[Replicate, RequestStep]) -> list[RequestStep]:
    """The gate, last; before it, steps that gather evidence where it is too much for one job.

    The gate is never cached: it is cheap, and its verdict belongs to one execution.
    """
    evidence: dict[str, Uri] = {
        f"evidence/{arm}--{seed}": evidence_uri(step) for (arm, seed), step in trained.items()
    }
    gathering: list[RequestStep] = []
    if len(evidence) > EVIDENCE_PER_GATE:
        gathering = _gathering_steps(blueprint, evidence)
        evidence = {
            f"evidence/{number}": step.properties.ProcessingOutputConfig.Outputs[
                _gathered(number)
            ].S3Output.S3Uri
            for number, step in enumerate(gathering, start=1)
        }
    gate = RequestStep(
        STEP,
        StepTypeEnum.PROCESSING,
        processing_request(
            blueprint,
            image="gate",
            module="compilegate.pipelines.programs.gate",
            code=blueprint.sources.gate_code,
            arguments=_arguments(blueprint, trained),
            inputs={"experiment": blueprint.sources.experiment, **evidence},
            output=VERDICT.output_name,
        ),
        retries=job_retries(blueprint.workload.compute),
        property_files=[VERDICT],
        description="Evidence in, verdict out",
    )
    return [*gathering, gate]


def verdict_uri(gate: RequestStep) -> Join:
    output = gate.properties.ProcessingOutputConfig.Outputs[VERDICT.output_name]
    return Join(on="/", values=[output.S3Output.S3Uri, VERDICT.path])


def _arguments(blueprint: Blueprint, trained: Mapping[Replicate, RequestStep]) -> list[Any]:
    """Names the job behind each replicate, so that evidence of any other job is refused; with the
    step cache this is the job that did the work, in whichever execution that was."""
    experiment = object_name(blueprint.sources.experiment)
    arguments: list[Any] = ["--experiment", f"{INPUT}/experiment/{experiment}"]
    arguments += ["--evidence", f"{INPUT}/evidence", "--output", f"{OUTPUT}/verdict"]
    for (arm, seed), step in trained.items():
        arguments.append(expected_job(arm, seed, step))
    return arguments


def expected_job(arm: str, seed: int, step: RequestStep) -> Join:
    """`--expect=ARM:SEED:JOB`."""
    return Join(on=":", values=[f"--expect={arm}", str(seed), step.properties.TrainingJobName])


def _gathered(number: int) -> str:
    return f"evidence-{number}"


def _gathering_steps(blueprint: Blueprint, evidence: Mapping[str, Uri]) -> list[RequestStep]:
    """Each takes as much evidence as one job can, and puts it under one key."""
    return [
        RequestStep(
            f"Gather-{number}",
            StepTypeEnum.PROCESSING,
            processing_request(
                blueprint,
                image="gate",
                module="compilegate.pipelines.programs.gather",
                code=blueprint.sources.gate_code,
                arguments=[f"{INPUT}/evidence", f"{OUTPUT}/{_gathered(number)}"],
                inputs={key: evidence[key] for key in keys},
                output=_gathered(number),
            ),
            cache=blueprint.cache,
            retries=job_retries(blueprint.workload.compute),
            description=f"Evidence of {len(keys)} training jobs under one key",
        )
        for number, keys in enumerate(_batches(list(evidence), EVIDENCE_PER_GATHERING), start=1)
    ]


def _batches(keys: Sequence[str], size: int) -> list[Sequence[str]]:
    return [keys[start : start + size] for start in range(0, len(keys), size)]
