"""The first step: one prepared data set for all arms."""

from __future__ import annotations

from compilegate.document.expressions import parameter
from compilegate.document.model import Step
from compilegate.pipelines.requests.processing import INPUT, OUTPUT, processing_step
from compilegate.pipelines.steps.blueprint import Blueprint
from compilegate.workload import HubModel, ReutersData, TextClassification
from compilegate.workload.parameters import DATA

STEP = "Prepare"
PREPARED = "prepared"


def prepare_step(blueprint: Blueprint, kind: TextClassification) -> Step:
    """Trains the tokenizer, or takes the model's own, and cuts every document to one length."""
    return processing_step(
        blueprint,
        STEP,
        description="One prepared data set, static shapes, digests",
        image="training",
        module="training.prepare",
        code=blueprint.sources.training_code,
        arguments=_arguments(kind),
        inputs={"data": parameter(DATA)},
        output=PREPARED,
        cached=True,
    )


def _arguments(kind: TextClassification) -> list[str]:
    data = kind.data
    columns = (
        ("text", "label", None)
        if isinstance(data, ReutersData)
        else (
            data.text,
            data.label,
            data.id,
        )
    )
    text, label, identifier = columns
    arguments = {
        "--data-dir": f"{INPUT}/data",
        "--output-dir": f"{OUTPUT}/{PREPARED}",
        "--text-column": text,
        "--label-column": label,
        "--id-column": identifier,
        "--sequence-length": str(data.sequence_length),
        "--vocabulary": str(data.vocabulary),
        "--model-id": kind.model.id if isinstance(kind.model, HubModel) else None,
    }
    given = [(key, value) for key, value in arguments.items() if value is not None]
    given += [("--slice-column", column) for column in data.slice_columns]
    return [word for pair in given for word in pair]
