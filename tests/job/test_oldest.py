"""The oldest releases that docs/own-script.md promises: Python 3.8, which most of the images for
Training Compiler have, with NumPy alone and with torch 1.10; torch 2.4 where it compiles."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from compilegate.gate.evidence import read_evidence
from compilegate.job.evidence import EvidenceOrigin, EvidenceRecord
from tests.environments import (
    ROOT,
    BuildError,
    NotOfferedError,
    find_python,
    folder,
    make,
    pip_install,
)
from tests.environments.light_torch import install_light

pytestmark = [pytest.mark.slow, pytest.mark.long]

LAUNCHER = ROOT / "compilegate" / "job" / "launch" / "own_script.py"
SCRIPT = """
import sys
import numpy as np
from compilegate import job

assert sys.version_info[:2] == (3, 8)
chance = np.random.default_rng(7)
x = chance.normal(size=(256, 4))
y = (x.sum(axis=1) > 0).astype(np.int64)
w = np.zeros(4)

def probabilities(x):
    return 1 / (1 + np.exp(-x @ w))

batches = [(x[at : at + 16], y[at : at + 16]) for at in range(0, 192, 16)] * 4
for a, b in job.steps(batches):
    p = probabilities(a)
    w -= 0.5 * a.T @ (p - b) / len(b)
    job.loss(-np.mean(np.log(np.where(b == 1, p, 1 - p))))
job.save(lambda folder: np.save(folder / "w.npy", w))
p = probabilities(x[192:])
job.examples(ids=np.arange(64), labels=y[192:], scores=np.stack([1 - p, p], axis=1))
"""

TORCH_SCRIPT = """
import numpy as np
import torch
from compilegate import job

torch.manual_seed(7)
x = torch.randn(256, 4)
y = (x.sum(dim=1) > 0).long()
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
model = job.compile(model)
batches = [(x[at : at + 16], y[at : at + 16]) for at in range(0, 192, 16)] * 4
for a, b in job.steps(batches):
    loss = torch.nn.functional.cross_entropy(model(a), b)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
job.save(lambda folder: torch.save(model.state_dict(), str(folder / "model.pt")))
with torch.no_grad():
    scores = model(x[192:]).softmax(dim=1)
job.examples(ids=np.arange(64), labels=y[192:].numpy(), scores=scores.numpy())
"""


@pytest.fixture(scope="module")
def python38() -> Path:
    """The interpreter of an environment with Python 3.8 and its last NumPy."""
    place = folder("python38-numpy")
    try:
        return make(place, find_python("3.8"), lambda place: pip_install(place, ["numpy"]))
    except NotOfferedError as error:
        pytest.skip(f"NOTHING WAS RUN ON PYTHON 3.8: {error}")
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)


def evidence(
    python: Path, place: Path, text: str, compiler: str = "eager", **variables: str
) -> EvidenceRecord:
    """What a script leaves as a job in the layout of SageMaker's container."""
    for name in ("data", "model", "output"):
        (place / name).mkdir()
    (place / "data" / "rows.txt").write_text("none\n")
    script = place / "train.py"
    script.write_text(text)
    job = {"seed": 7, "compiler": compiler, "batch_size": 16, "precision": "fp32"}
    done = subprocess.run(
        [python, LAUNCHER, "--seed", "7", "--compiler", compiler, "--batch_size", "16"],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "TRAINING_JOB_NAME": "job",
            "SM_CHANNEL_DATA": str(place / "data"),
            "SM_MODEL_DIR": str(place / "model"),
            "SM_OUTPUT_DATA_DIR": str(place / "output"),
            "COMPILEGATE_ARM": "baseline",
            "COMPILEGATE_SCRIPT": str(script),
            "COMPILEGATE_JOB": json.dumps(job),
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return read_evidence(place / "output" / "evidence")


def test_a_script_leaves_evidence_that_the_gate_reads(python38: Path, tmp_path: Path) -> None:
    left = evidence(python38, tmp_path, SCRIPT)
    assert (left.evidence.arm, left.evidence.seed) == ("baseline", 7)
    assert str(left.evidence.environment["python"]).startswith("3.8.")
    assert (len(left.steps.seconds), len(left.examples.ids)) == (48, 64)
    assert left.evidence.metrics["accuracy"] > 0.9
    assert np.load(tmp_path / "model" / "w.npy").shape == (4,)


def test_a_script_that_only_prints_is_searched(python38: Path, tmp_path: Path) -> None:
    caught = {"COMPILEGATE_PRINTED_accuracy": "accuracy ([0-9.]+)"}
    found = evidence(python38, tmp_path, "print('accuracy 0.875')\n", **caught).evidence
    assert (found.origin, found.metrics) == (EvidenceOrigin.PRINTED, {"accuracy": 0.875})


@pytest.mark.parametrize(
    ("python", "torch", "compiler"), [("3.8", "1.10.2", "eager"), ("3.11", "2.4.1", "inductor")]
)
def test_a_script_of_torch(python: str, torch: str, compiler: str, tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"torch=={torch}\nnumpy<2\n")
    place = folder(f"torch-{torch}", requirements)
    try:
        made = make(place, find_python(python), lambda place: install_light(place, requirements))
    except NotOfferedError as error:
        pytest.skip(f"NOTHING WAS TRAINED WITH TORCH {torch}: {error}")
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)
    left = evidence(made, tmp_path, TORCH_SCRIPT, compiler=compiler).evidence
    assert str(left.environment["torch"]).startswith(torch)
    assert str(left.environment["python"]).startswith(f"{python}.")
    assert left.metrics["accuracy"] > 0.9
    assert left.compiler.ran == (compiler != "eager")
    assert left.compiler.ran == (left.parity is not None and left.parity.obstacle is None)
