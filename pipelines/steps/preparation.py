"""The first step: one prepared data set for all training jobs."""

from __future__ import annotations

from compilegate.document.expressions import parameter
from compilegate.document.model import Step
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.pipelines.steps.processing import INPUT, OUTPUT, Uri, output_uri, processing_step
from compilegate.workload.parameters import DATA

STEP = "Prepare"
PREPARED = "prepared"


def prepared_data(blueprint: Blueprint) -> tuple[list[Step], Uri]:
    """The steps that make the training data, and where it lies."""
    preparation = blueprint.workload.kind.preparation
    if preparation is None:
        return [], parameter(DATA)
    step = processing_step(
        blueprint,
        STEP,
        description=preparation.description,
        image=preparation.image,
        module=preparation.module,
        code=blueprint.sources.training_code,
        arguments=[
            *("--data-dir", f"{INPUT}/data", "--output-dir", f"{OUTPUT}/{PREPARED}"),
            *preparation.arguments,
        ],
        inputs={"data": parameter(DATA)},
        output=PREPARED,
        cached=True,
        offline=False,  # a tokenizer may come from a hub, and a program of one's own from anywhere
    )
    return [step], output_uri(step)
