"""The real training program on machines that are described: which paths it takes there, and what
its evidence says. This machine's processor computes in their place."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from compilegate.catalog.instances import accelerators_of
from compilegate.gate.confounds import find_confounds
from compilegate.gate.settings import ArmDeclaration
from compilegate.job.evidence import Evidence
from compilegate.job.machine.accelerators import describing

pytestmark = pytest.mark.slow

TrainJob = Callable[..., Any]


def described(instance_type: str) -> dict[str, str]:
    return {"COMPILEGATE_MACHINE": describing(accelerators_of(instance_type))}


def undeclared(one: Evidence, other: Evidence) -> list[str]:
    both = [
        ArmDeclaration(compiler=name, batch_size=16, learning_rate=3e-3, precision="fp32")
        for name in (one.arm, other.arm)
    ]
    return [each.name for each in find_confounds([one], [other], both, 0.05) if not each.intended]


@pytest.fixture(scope="module")
def on_v100(train_job: TrainJob) -> Evidence:
    job = train_job(described("ml.p3.8xlarge"), max_steps=6, precision="fp16")
    return job.evidence().evidence


def test_the_evidence_has_the_described_machine_and_says_that_it_was_one(on_v100: Evidence) -> None:
    found = on_v100.environment
    assert found["accelerator"] == "V100"
    assert (found["accelerators"], found["accelerator_memory_bytes"]) == (4, 16 * 2**30)
    assert found["accelerator_capability"] == "7.0"
    assert json.loads(str(found["described"]))["accelerator"] == "V100"
    assert found["instance_type"] is None
    assert found["threads"] is None


def test_the_job_takes_the_paths_of_a_gpu_and_measures_what_computed(on_v100: Evidence) -> None:
    """fp16 is for GPUs; the memory that was measured is that of this process, and is called so."""
    recipe = on_v100.recipe
    assert (recipe["device"], recipe["evaluated_on"]) == ("cuda", "accelerator")
    assert (recipe["precision"], recipe["evaluated_in"]) == ("fp16", "fp32")
    assert on_v100.memory_of == "process"
    assert any(each.startswith("This is a rehearsal") for each in on_v100.notes)


def test_without_a_gpu_in_the_description_fp16_is_refused(train_job: TrainJob) -> None:
    job = train_job({"COMPILEGATE_MACHINE": '{"accelerator": null}'}, precision="fp16")
    assert job.status == 1
    assert job.failure_file.read_text() == (
        "precision fp16 needs a GPU, and this job has a cpu; take bf16, or fp32"
    )


def test_a_machine_whose_gpus_torch_does_not_see_trains_nothing(train_job: TrainJob) -> None:
    """Every arm would fall back to the host, agree with the others, and pass."""
    job = train_job({"SM_NUM_GPUS": "4", "CUDA_VISIBLE_DEVICES": "0,1,2,3"})
    assert job.status == 1
    said = job.failure_file.read_text()
    assert said.startswith("the machine has GPUs (SM_NUM_GPUS is 4), and torch sees none, so every")
    assert "CUDA" in said
    assert not list(job.model.iterdir())
    assert "step=" not in job.stdout


def test_a_candidate_whose_gpus_are_not_seen_fails_and_keeps_no_baseline_from_its_release(
    train_job: TrainJob,
) -> None:
    job = train_job({"SM_NUM_GPUS": "1", "CUDA_VISIBLE_DEVICES": ""}, on_failure="record")
    evidence = job.evidence().evidence
    assert "CUDA_VISIBLE_DEVICES is '', which hides them" in str(evidence.failure)


def test_a_description_that_is_none_says_what_is_allowed(train_job: TrainJob) -> None:
    job = train_job({"COMPILEGATE_MACHINE": '{"accelerator": "V100", "count": 0}'})
    assert job.status == 1
    assert "COMPILEGATE_MACHINE" in job.failure_file.read_text()
    assert "count is 0, allowed: 1 or more" in job.failure_file.read_text()
