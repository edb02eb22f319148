"""Arms on Trainium: one extraction of the graphs, then the training jobs that use them."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compilegate.pipelines.compilation import compile_definition
from compilegate.pipelines.deployment import Network, Sources, local_deployment
from compilegate.pipelines.requests.checks import InvalidRequestError
from compilegate.workload import Workload
from tests.workload.settled import workload_with

HERE = Path(__file__).parent
GOLDEN = HERE / "golden" / "neuron.json"
DEPLOYMENT = local_deployment({"training": "1111", "gate": "2222", "neuron": "3333"})
SOURCES = Sources(
    training_archive=DEPLOYMENT.uri("source", "aaaa.tgz"),
    training_code=DEPLOYMENT.uri("source", "aaaa.zip"),
    gate_code=DEPLOYMENT.uri("source", "bbbb.zip"),
    experiment=DEPLOYMENT.uri("source", "dddd.json"),
    data=DEPLOYMENT.uri("data", "topics", "cccc"),
)


NEURON = {
    "compiler": "neuron",
    "batch_size": 8,
    "learning_rate": 1e-3,
    "instance_type": "ml.trn1.2xlarge",
}


def workload(**neuron: Any) -> Workload:
    return workload_with(HERE / "topics.toml", arms={"compiled": {**NEURON, "neuron": neuron}})


def steps(declared: Workload) -> dict[str, Any]:
    definition = json.loads(compile_definition(declared, DEPLOYMENT, SOURCES))
    return {step["Name"]: step for step in definition["Steps"]}


def test_graphs_are_extracted_once_and_both_seeds_wait_for_that() -> None:
    """The extraction's step and one training step are golden; UPDATE_GOLDEN=1 writes them."""
    found = steps(workload(extraction_steps=12))
    kept = {name: found[name] for name in ("Extract-compiled", "Train-compiled-7")}
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    assert kept == json.loads(GOLDEN.read_text(encoding="utf-8"))
    waiting = [
        name for name, step in found.items() if "Extract-compiled" in step.get("DependsOn", [])
    ]
    assert waiting == ["Train-compiled-7", "Train-compiled-8"]
    extraction, training = (step["Arguments"] for step in kept.values())
    differing = {
        key
        for key in extraction["HyperParameters"] | training["HyperParameters"]
        if extraction["HyperParameters"].get(key) != training["HyperParameters"].get(key)
    }
    assert differing == {
        "max_steps",
        "on_failure",
        "parity_steps",
        "speed_probe_seconds",
        "sagemaker_program",
        "training_script",
    }


def test_an_arm_that_wants_no_extraction_has_none_and_still_a_cache() -> None:
    found = steps(workload(precompile=False))
    assert "Extract-compiled" not in found
    assert found["Train-compiled-7"]["Arguments"]["Environment"]["NEURON_COMPILE_CACHE_URL"] == (
        "s3://compilegate-local/compilegate/workloads/topics/checkpoints/neuron-compile-cache/"
        "compiled"
    )


def test_an_extraction_on_a_spot_machine_goes_on_from_no_checkpoint() -> None:
    found = steps(workload_with(HERE / "topics.toml", arms={"compiled": {**NEURON, "spot": True}}))
    extraction, training = (
        found[name]["Arguments"] for name in ("Extract-compiled", "Train-compiled-7")
    )
    assert extraction["EnableManagedSpotTraining"] is True
    assert training.keys() - extraction.keys() == {"CheckpointConfig"}
    assert training["Environment"].keys() - extraction["Environment"].keys() == {
        "COMPILEGATE_CHECKPOINTS",
        "COMPILEGATE_CHECKPOINT_SECONDS",
    }


def test_in_network_isolation_no_cache_can_be_filled() -> None:
    isolated = replace(DEPLOYMENT, network=Network(isolation=True))
    with pytest.raises(InvalidRequestError) as caught:
        compile_definition(workload(), isolated, SOURCES)
    assert str(caught.value) == (
        "arms.compiled.neuron.precompile is true, and jobs in network isolation cannot reach the "
        "cache that it fills, allowed: false there, or a network without isolation"
    )
