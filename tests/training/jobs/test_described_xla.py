"""Arms that trace whole steps, on the described machines that they are made for.

torch_xla 2.9 on this machine's processor stands for what runs there. What is tested is what the job
says of the machine and of itself, beside an eager baseline on the same one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compilegate.catalog.instances import accelerators_of
from compilegate.gate.confounds import find_confounds
from compilegate.gate.cost import judge_memory
from compilegate.gate.settings import ArmDeclaration
from compilegate.job.evidence import Evidence
from compilegate.job.machine.accelerators import describing
from tests.environments import ROOT
from tests.environments.xla import QUICK_TO_COMPILE
from tests.training.jobs.test_training_compiler_job import IMAGE

pytestmark = [pytest.mark.slow, pytest.mark.long]

TrainJob = Callable[..., Any]
DECLARED = {"dropout": 0, "max_steps": 6, "parity_steps": 2, "evaluate_on": "host"}


def undeclared(one: Evidence, other: Evidence) -> list[str]:
    both = [
        ArmDeclaration(compiler=name, batch_size=16, learning_rate=3e-3, precision="fp32")
        for name in (one.arm, other.arm)
    ]
    return [each.name for each in find_confounds([one], [other], both, 0.05) if not each.intended]


@pytest.fixture(scope="module")
def in_place_of_awss(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a process that finds a torch_xla and a torch_neuronx like AWS's."""
    folder = tmp_path_factory.mktemp("images")
    (folder / "sitecustomize.py").write_text(IMAGE)
    (folder / "torch_neuronx").mkdir()
    (folder / "torch_neuronx" / "__init__.py").touch()
    return {
        **QUICK_TO_COMPILE,
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        "SM_FRAMEWORK_PARAMS": json.dumps({"sagemaker_training_compiler_enabled": True}),
    }


def trained(
    train_job: TrainJob,
    python: str,
    variables: dict[str, str],
    instance_type: str,
    **told: Any,
) -> Evidence:
    machine = {"COMPILEGATE_MACHINE": describing(accelerators_of(instance_type))}
    job = train_job({**variables, **machine}, python=python, **{**DECLARED, **told})
    return job.evidence().evidence


def test_training_compiler_differs_from_its_baseline_in_the_compiler_alone(
    train_job: TrainJob, xla_python: str, in_place_of_awss: dict[str, str]
) -> None:
    instance_type = "ml.p3.2xlarge"

    def on_it(**told: Any) -> Evidence:
        return trained(train_job, xla_python, in_place_of_awss, instance_type, **told)

    baseline = on_it(arm="baseline", compiler="eager")
    candidate = on_it(arm="compiled", compiler="training-compiler")
    assert undeclared(baseline, candidate) == []
    known = accelerators_of(instance_type)
    assert known is not None
    for each in (baseline, candidate):
        assert each.environment["accelerator"] == known.name
        assert each.recipe["device"] == "cuda"
        assert each.recipe["evaluated_on"] == "host"
    judged, _ = judge_memory([baseline], [candidate], None)
    assert judged is not None
    assert (judged.baseline_of, judged.candidate_of) == ("process", "process")
    assert judged.obstacle is None


def test_neuron_says_that_it_computes_on_trainium(
    train_job: TrainJob, xla_python: str, in_place_of_awss: dict[str, str]
) -> None:
    evidence = trained(
        train_job,
        xla_python,
        in_place_of_awss,
        "ml.trn1.32xlarge",
        arm="compiled",
        compiler="neuron",
    )
    found = evidence.environment
    assert (found["accelerator"], found["accelerators"]) == ("Trainium", 16)
    assert (evidence.recipe["device"], evidence.recipe["evaluated_on"]) == ("neuron", "host")


def test_on_a_machine_with_a_gpu_neuron_trains_nothing(
    train_job: TrainJob, xla_python: str, in_place_of_awss: dict[str, str], tmp_path: Path
) -> None:
    machine = {"COMPILEGATE_MACHINE": describing(accelerators_of("ml.p3.2xlarge"))}
    job = train_job(
        {**in_place_of_awss, **machine}, python=xla_python, arm="compiled", compiler="neuron"
    )
    assert job.status == 1
    assert "not a NeuronCore" in job.failure_file.read_text()
