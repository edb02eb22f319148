"""The gate of a program that only prints its metrics: SageMaker's regular expressions catch them,
and they reach the gate as arguments."""

from __future__ import annotations

from collections.abc import Mapping

from compilegate.document.expressions import Expression, join, step_property
from compilegate.document.model import Step
from compilegate.pipelines.deployment import object_name
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.pipelines.steps.gate import STEP, VERDICT, Replicate
from compilegate.pipelines.steps.processing import INPUT, OUTPUT, processing_step
from compilegate.workload.declared.program import Program
from compilegate.workload.printed import printed_batches, printed_head, reported_metrics


def printed_gate_step(
    blueprint: Blueprint, program: Program, trained: Mapping[Replicate, Step]
) -> Step:
    """The gate, on one argument or more for each training job. A metric that a job did not print
    ends the execution before the gate."""
    experiment = object_name(blueprint.sources.experiment)
    names = reported_metrics(blueprint.workload.gate.metrics, program.speed_metric)
    return processing_step(
        blueprint,
        STEP,
        description="Printed metrics in, verdict out",
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
        property_files=(VERDICT,),
    )


def _printed(arm: str, seed: int, step: Step, names: Mapping[str, str]) -> Expression:
    """`--printed=ARM:SEED:JOB:NAME=VALUE,NAME=VALUE`."""
    values: list[str | Expression] = [
        printed_head(arm, seed),
        step_property(step.name, "TrainingJobName"),
    ]
    separator = ":"
    for name, metric in names.items():
        found = step_property(step.name, f"FinalMetricDataList['{metric}'].Value")
        values += [f"{separator}{name}=", found]
        separator = ","
    return join("", values)
