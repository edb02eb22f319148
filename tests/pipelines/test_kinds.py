"""Every kind of workload, walked: what a kind says of itself is what its definition has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.deployment import Sources, local_deployment
from compilegate.workload import (
    Kind,
    OwnProgram,
    TextClassification,
    Workload,
    read_workload,
)

EXAMPLES: dict[type[Kind], str] = {
    TextClassification: "topics",
    OwnProgram: "diffusion",
}
FOLDERS = ("training", "gate", "xgboost")
DEPLOYMENT = local_deployment(dict.fromkeys(FOLDERS, "1111"))
SOURCES = Sources(
    training_archive=DEPLOYMENT.uri("source", "aaaa.tgz"),
    training_code=DEPLOYMENT.uri("source", "aaaa.zip"),
    gate_code=DEPLOYMENT.uri("source", "bbbb.zip"),
    experiment=DEPLOYMENT.uri("source", "dddd.json"),
    data=DEPLOYMENT.uri("data", "mine", "cccc"),
)


def example(kind: type[Kind]) -> Workload:
    return read_workload(Path(__file__).parent / f"{EXAMPLES[kind]}.toml")


def steps_of(workload: Workload) -> dict[str, dict[str, Any]]:
    definition = json.loads(compile_definition(workload, DEPLOYMENT, SOURCES))
    return {step["Name"]: step for step in definition["Steps"]}


def test_every_kind_has_an_example() -> None:
    assert set(Kind.__subclasses__()) == EXAMPLES.keys()


@pytest.mark.parametrize("kind", EXAMPLES)
def test_each_replicate_has_a_job_that_runs_what_its_kind_says(kind: type[Kind]) -> None:
    workload = example(kind)
    assert type(workload.kind) is kind
    steps = steps_of(workload)
    jobs = {name: step for name, step in steps.items() if step["Type"] == "Training"}
    replicates = [(arm, seed) for arm in workload.arms for seed in workload.seeds]
    assert jobs.keys() == {f"Train-{arm}-{seed}" for arm, seed in replicates}
    for arm, seed in replicates:
        job = jobs[f"Train-{arm}-{seed}"]
        program = workload.kind.training_program(workload, arm, seed)
        told = job["Arguments"]["HyperParameters"]
        assert program.hyperparameters.items() <= told.items()
        assert json.loads(told["sagemaker_program"]) == program.entry
        assert program.environment.items() <= job["Arguments"]["Environment"].items()
        channels = [channel["ChannelName"] for channel in job["Arguments"]["InputDataConfig"]]
        assert channels[0] == workload.kind.data_channel
        assert job["Description"] == workload.kind.job_in_words(workload, arm, seed)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_data_is_prepared_where_the_kind_says_so_in_its_own_image(kind: type[Kind]) -> None:
    workload = example(kind)
    steps, preparation = steps_of(workload), workload.kind.preparation
    assert ("Prepare" in steps) == (preparation is not None)
    images = {
        step["Arguments"]["AppSpecification"]["ImageUri"]
        for step in steps.values()
        if step["Type"] == "Processing"
    }
    own, gate = workload.kind.processing_image[1], "gate"
    assert images <= {DEPLOYMENT.images[own], DEPLOYMENT.images[gate]}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_what_a_kind_needs_of_files_it_says_whole(kind: type[Kind]) -> None:
    """A program has a folder and scripts there; the built-in one has neither."""
    said = example(kind).kind
    built_in = said.source_folder is None
    assert built_in == (not said.scripts)
    assert built_in == (said.document_shapes is not None)
    assert built_in == (said.slice_columns is not None)
