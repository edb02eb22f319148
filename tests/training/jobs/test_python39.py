"""The oldest training container: Python 3.9, torch 1.13.1 and transformers 4.28.1.

The environment is built once, from containers/training-compiler/requirements.txt, without CUDA;
tests/environments says where.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from tests.environments import ROOT, BuildError, NotOfferedError, find_python, folder, make
from tests.environments.light_torch import install_light
from training.data.prepared import read_prepared

pytestmark = [pytest.mark.slow, pytest.mark.long]

REQUIREMENTS = ROOT / "containers" / "training-compiler" / "requirements.txt"

TrainJob = Callable[..., Any]


@pytest.fixture(scope="module")
def python39() -> Path:
    """The interpreter of an environment with the old releases."""
    place = folder("python39", REQUIREMENTS)
    try:
        return make(place, find_python("3.9"), lambda place: install_light(place, REQUIREMENTS))
    except NotOfferedError as error:
        pytest.skip(f"NOTHING WAS TRAINED WITH TORCH 1.13: {error}")
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="module")
def old_job(train_job: TrainJob, python39: Path) -> Any:
    """A finished eager job of two processes in the old environment."""
    two = {"distribution": "torchrun", "processes": 2, "batch_size": 8}
    return train_job(python=str(python39), averaging=0.9, **two)


def test_an_eager_job_of_two_processes_runs_on_torch_1_13(old_job: Any) -> None:
    evidence = old_job.evidence().evidence
    assert evidence.recipe["world_size"] == 2
    assert str(evidence.environment["torch"]).startswith("1.13.1")
    assert evidence.environment["transformers"] == "4.28.1"
    assert str(evidence.environment["python"]).startswith("3.9.")
    assert evidence.metrics["accuracy"] > 0.8
    assert (evidence.compiler.name, evidence.compiler.ran) == ("eager", False)


def test_its_model_gives_the_same_scores_in_todays_transformers(
    old_job: Any, prepared: Path
) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(old_job.model).eval()
    rows = read_prepared(prepared).validation
    with torch.no_grad():
        logits = model(
            input_ids=torch.from_numpy(rows.input_ids).long(),
            attention_mask=torch.from_numpy(rows.attention_mask).long(),
        ).logits
    scores = torch.softmax(logits.double(), dim=1).numpy()
    np.testing.assert_allclose(scores, old_job.evidence().examples.scores, atol=1e-5)


def test_inductor_is_refused_with_one_sentence(train_job: TrainJob, python39: Path) -> None:
    job = train_job(python=str(python39), compiler="inductor", on_failure="record")
    failure = job.evidence().evidence.failure
    assert failure.startswith("inductor needs a newer torch, this is torch 1.13.1")
    assert "Traceback" not in job.stderr


def test_xla_is_refused_where_the_image_has_none(train_job: TrainJob, python39: Path) -> None:
    job = train_job(python=str(python39), compiler="xla", on_failure="record")
    failure = job.evidence().evidence.failure
    assert failure.startswith("xla needs the package torch_xla, and this environment has none")
    assert "Traceback" not in job.stderr


def test_the_parity_probe_runs_on_torch_1_13(python39: Path) -> None:
    script = Path(__file__).with_name("python39") / "probe.py"
    process = subprocess.run(
        [python39, script],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout.splitlines()[-1])
    for precision, epsilon in (("fp32", 2.0**-23), ("bf16", 2.0**-7)):
        assert (found[precision]["obstacle"], found[precision]["steps"]) == (None, 2)
        assert 0 < found[precision]["largest_error"] < 100 * epsilon


def test_without_an_eager_in_its_precision_parity_cannot_tell(python39: Path) -> None:
    """Arms that trace whole steps are compared with eager on the host: which this torch has in
    bf16, and of fp16 would compute something else."""
    script = Path(__file__).with_name("python39") / "eager_in_16_bits.py"
    process = subprocess.run(
        [python39, script],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stdout.splitlines() == [
        "bf16: torch.bfloat16",
        "fp16: eager cannot be had in fp16 on the host with torch 1.13.1, so there is nothing to "
        "compare the compiled step with",
    ], process.stderr


def test_the_prepare_job_writes_the_same_tokens(
    prepare_process: Callable[..., subprocess.CompletedProcess[str]],
    raw_data: Path,
    prepared: Path,
    python39: Path,
    tmp_path: Path,
) -> None:
    result = prepare_process(raw_data, tmp_path, python=str(python39))
    assert result.returncode == 0, result.stderr
    for split in ("train.npz", "validation.npz"):
        assert (tmp_path / split).read_bytes() == (prepared / split).read_bytes()
