"""Keras under the gate, as far as numbers go."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from compilegate.gate.evidence import read_evidence
from compilegate.job import CompilegateError
from tests.environments import BuildError, NotOfferedError, folder, make, pip_install
from tests.job.callbacks.fresh import environment, in_job
from tests.job.callbacks.keras_training import train

pytestmark = pytest.mark.slow

TENSORFLOW = ["tensorflow-cpu==2.21.0", "keras==3.15.1", "numpy", "safetensors"]


def test_a_training_is_timed_and_judged_by_its_last_validation(tmp_path: Path) -> None:
    history = in_job(tmp_path, train, config={"batch_size": 8})
    found = read_evidence(tmp_path / "evidence")
    assert found.evidence.metrics["val_accuracy"] == pytest.approx(history["val_accuracy"][-1])
    # The loss of each step, of which Keras says the mean over each epoch's five.
    means = found.steps.loss.reshape(3, 5).mean(axis=1)
    np.testing.assert_allclose(means, history["loss"], rtol=1e-5)
    assert (tmp_path / "model" / "model.keras").exists()


@pytest.mark.parametrize(
    ("compiler", "sentence"),
    [("inductor", "Keras compiles by XLA; set compiler = .xla."), ("xla", "Keras runs on torch")],
)
def test_an_arm_that_keras_cannot_compile_is_refused(
    compiler: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(CompilegateError, match=sentence):
        in_job(tmp_path, train, config={"compiler": compiler, "batch_size": 8})


@pytest.fixture(scope="module")
def tensorflow() -> Path:
    """The interpreter of an environment with TensorFlow, 1.6 GB, which is made once."""
    place = folder("tensorflow")
    try:
        return make(place, sys.executable, lambda place: pip_install(place, TENSORFLOW))
    except NotOfferedError as error:
        pytest.skip(f"NOTHING WAS TRAINED WITH TENSORFLOW: {error}")
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.mark.long
@pytest.mark.parametrize("compiler", ["xla", "eager"])
def test_on_tensorflow_xla_compiles_where_the_arm_says_so(
    compiler: str, tensorflow: Path, tmp_path: Path
) -> None:
    config = {"job": "job-1", "arm": "arm", "compiler": compiler, "batch_size": 8}
    subprocess.run(
        [tensorflow, "-m", "tests.job.callbacks.keras_training"],
        env=environment(tmp_path, config, KERAS_BACKEND="tensorflow"),
        check=True,
    )
    found = read_evidence(tmp_path / "evidence")
    compiled = compiler == "xla"
    assert found.evidence.compiler.ran is compiled
    assert (found.evidence.compiler.proof["xla_must_compile"] > 0) is compiled
    assert (found.evidence.parity is not None) is compiled
    assert len(found.steps.loss) == 15
