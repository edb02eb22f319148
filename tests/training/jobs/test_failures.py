"""Training jobs that cannot succeed: the reason, and whether it is evidence about their arm."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import DIVERGING, TWO, TrainJob

pytestmark = [pytest.mark.slow, pytest.mark.long]

AWS = "training-compiler is part of AWS's images for it, and this environment has no torch_xla; run"
NO_GPU = '{"accelerator": null}'
HIDDEN = {"SM_NUM_GPUS": "1", "CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.parametrize(
    ("variables", "options", "reason"),
    [
        ({"CXX": "no-such-compiler"}, {"compiler": "inductor"}, "there is no C\\+\\+ .* g\\+\\+"),
        ({}, {"compiler": "training-compiler"}, AWS),
        ({"COMPILEGATE_MACHINE": NO_GPU}, {"precision": "fp16"}, "precision fp16 needs a GPU"),
        # Every arm would fall back to the host, agree with the others, and pass.
        (HIDDEN, {}, "the machine has GPUs .*CUDA_VISIBLE_DEVICES is '', which hides them"),
        ({}, DIVERGING, "the training loss is nan in step 1 \\(epoch 1\\) at learning rate 9.83e"),
        ({}, {**DIVERGING, **TWO}, "the training loss is (nan|inf) in step \\d"),
    ],
)
def test_an_arm_that_cannot_be_trained_is_evidence_against_it(
    train_job: TrainJob, variables: dict[str, str], options: dict[str, Any], reason: str
) -> None:
    job = train_job(variables, arm="candidate", on_failure="record", **options)
    record = job.record
    assert re.search(reason, str(record.evidence.failure))
    assert job.reason == record.evidence.failure
    assert (record.evidence.arm, record.evidence.compiler.ran) == ("candidate", False)
    assert (record.evidence.speed, record.steps, record.examples) == (None, None, None)
    assert "Traceback" not in job.stderr
    assert not any(job.model.iterdir())


def test_an_arm_that_has_to_succeed_fails_its_job(train_job: TrainJob) -> None:
    job = train_job(**DIVERGING)
    assert job.status == 1
    assert f"error: {job.reason}\n" in job.stderr
    assert "Traceback" not in job.stderr
    assert not (job.folder / "output" / "data" / "evidence").exists()
    assert not any(job.model.iterdir())


@pytest.mark.parametrize(
    ("variables", "options", "reason"),
    [
        ({}, {"batch_size": 321}, "--batch_size is 321, but the train split has 320 documents"),
        ({}, {**TWO, "batch_size": 200}, "--batch_size is 200 in each of 2 processes, but the"),
        ({"COMPILEGATE_MACHINE": '{"accelerator": "V100", "count": 0}'}, {}, "count is 0, allow"),
        ({"SM_MODEL_DIR": ""}, {}, "SM_MODEL_DIR must name a folder"),
    ],
)
def test_what_every_arm_would_fail_of_is_no_evidence(
    train_job: TrainJob, variables: dict[str, str], options: dict[str, Any], reason: str
) -> None:
    job = train_job(variables, on_failure="record", **options)
    assert job.status == 1
    assert reason in job.reason


def test_changed_data_stop_even_a_job_that_records_failures(
    train_job: TrainJob, prepared: Path, tmp_path: Path
) -> None:
    changed = shutil.copytree(prepared, tmp_path / "changed")
    with (changed / "train.npz").open("ab") as file:
        file.write(b" ")
    job = train_job({"SM_CHANNEL_PREPARED": str(changed)}, on_failure="record")
    assert job.status == 1
    assert "train.npz has sha256" in job.reason
