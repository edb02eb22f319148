"""The gate of a program that only prints its metrics: SageMaker's regular expressions catch them,
and they reach the gate as arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagemaker.core.workflow.functions import Join
from sagemaker.mlops.workflow.steps import StepTypeEnum

from compilegate.pipelines.deployment import object_name
from compilegate.pipelines.requests.processing import INPUT, OUTPUT, processing_request
from compilegate.pipelines.requests.retries import job_retries
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.pipelines.steps.gate import STEP, VERDICT, Replicate
from compilegate.pipelines.steps.request_step import RequestStep
from compilegate.workload import Program
from compilegate.workload.printed import printed_batches, printed_head, reported_metrics


def printed_gate_step(
    blueprint: Blueprint, program: Program, trained: Mapping[Replicate, RequestStep]
) -> RequestStep:
    """The gate, on one argument or more for each training job. A metric that a job did not print
    ends the execution before the gate."""
    experiment = object_name(blueprint.sources.experiment)
    names = reported_metrics(blueprint.workload.gate.metrics, program.speed_metric)
    return RequestStep(
        STEP,
        StepTypeEnum.PROCESSING,
        processing_request(
            blueprint,
            image="gate",
            module="compilegate.pipelines.programs.printed_gate",
            code=blueprint.sources.gate_code,
            arguments=[
                *["--experiment", f"{INPUT}/experiment/{experiment}"],
                *["--output", f"{OUTPUT}/{VERDICT.output_name}"],
                *[
                    _printed(arm, seed, step, {name: names[name] for name in batch})
                    for (arm, seed), step in trained.items()
                    for batch in printed_batches(arm, seed, names)
                ],
            ],
            inputs={"experiment": blueprint.sources.experiment},
            output=VERDICT.output_name,
        ),
        retries=job_retries(blueprint.workload.compute),
        property_files=[VERDICT],
        description="Printed metrics in, verdict out",
    )


def _printed(arm: str, seed: int, step: RequestStep, names: Mapping[str, str]) -> Join:
    """`--printed=ARM:SEED:JOB:NAME=VALUE,NAME=VALUE`."""
    values: list[Any] = [printed_head(arm, seed), step.properties.TrainingJobName]
    separator = ":"
    for name, metric in names.items():
        values += [f"{separator}{name}=", step.properties.FinalMetricDataList[metric].Value]
        separator = ","
    return Join(on="", values=values)
