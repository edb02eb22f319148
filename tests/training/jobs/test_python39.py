"""The oldest training container: Python 3.9, torch 1.13.1 and transformers 4.28.1.

The environment is built once, from containers/training-compiler/requirements.txt, without CUDA;
tests/environments says where.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.environments import ROOT, BuildError, NotOfferedError, find_python, folder, make
from tests.environments.light_torch import install_light
from tests.training.conftest import TWO, PrepareProcess, TrainJob, start_python
from training.data.prepared import read_prepared
from training.evaluation import logits_of
from training.hyperparameters import Hyperparameters
from training.model import load_model

pytestmark = [pytest.mark.slow, pytest.mark.long]

REQUIREMENTS = ROOT / "containers" / "training-compiler" / "requirements.txt"


@pytest.fixture(scope="module")
def python39() -> str:
    """The interpreter of an environment with the old releases."""
    place = folder("python39", REQUIREMENTS)
    try:
        make(place, find_python("3.9"), lambda place: install_light(place, REQUIREMENTS))
    except NotOfferedError as error:
        pytest.skip(f"NOTHING WAS TRAINED WITH TORCH 1.13: {error}")
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)
    return str(place / "bin" / "python")


def test_an_eager_job_of_two_processes_leaves_a_model_for_today_s_transformers(
    train_job: TrainJob, python39: str, prepared: Path
) -> None:
    job = train_job(python=python39, averaging=0.9, **TWO)
    evidence, found = job.evidence, job.evidence.environment
    assert evidence.recipe["world_size"] == 2
    assert str(found["torch"]).startswith("1.13.1")
    assert found["transformers"] == "4.28.1"
    assert str(found["python"]).startswith("3.9.")
    assert evidence.metrics["accuracy"] > 0.8
    assert (evidence.compiler.name, evidence.compiler.ran) == ("eager", False)
    split, model = read_prepared(prepared).validation, load_model(job.model)
    logits = logits_of(model, split, torch.device("cpu"), Hyperparameters())
    scores = torch.from_numpy(logits).softmax(1).numpy()
    np.testing.assert_allclose(scores, job.record.examples.scores, atol=1e-5)


@pytest.mark.parametrize(
    ("compiler", "reason"),
    [
        ("inductor", "inductor needs a newer torch, this is torch 1.13.1"),
        ("xla", "xla needs the package torch_xla, and this environment has none"),
    ],
)
def test_a_compiler_that_the_image_lacks_is_refused_with_one_sentence(
    train_job: TrainJob, python39: str, compiler: str, reason: str
) -> None:
    job = train_job(python=python39, compiler=compiler, on_failure="record")
    assert str(job.evidence.failure).startswith(reason)
    assert "Traceback" not in job.stderr


def test_the_parity_probe_runs_where_eager_has_the_step_s_precision(python39: str) -> None:
    """Arms that trace whole steps are compared with eager on the host: which this torch has in
    bf16, and of fp16 would compute something else."""
    process = start_python(str(Path(__file__).with_name("python39.py")), python=python39)
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    found = json.loads(stdout.splitlines()[-1])
    for precision, epsilon in (("fp32", 2.0**-23), ("bf16", 2.0**-7)):
        assert (found[precision]["obstacle"], found[precision]["steps"]) == (None, 2)
        assert 0 < found[precision]["largest_error"] < 100 * epsilon
    assert found["traced in bf16"] == "torch.bfloat16"
    assert found["traced in fp16"] == (
        "eager cannot be had in fp16 on the host with torch 1.13.1, so there is nothing to "
        "compare the compiled step with"
    )


def test_the_prepare_job_writes_the_same_tokens(
    prepare_process: PrepareProcess, raw_data: Path, prepared: Path, python39: str, tmp_path: Path
) -> None:
    result = prepare_process(raw_data, tmp_path, python=python39)
    assert result.returncode == 0, result.stderr
    for split in ("train.npz", "validation.npz"):
        assert (tmp_path / split).read_bytes() == (prepared / split).read_bytes()
