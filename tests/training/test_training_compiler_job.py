"""Arms of Training Compiler with a torch_xla that is not AWS's: what runs of them anywhere.

The compiler was never run: torch_xla 2.9 on a CPU stands for the image's 1.13, and a variable that
is set beforehand for the image that sets it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.xla_environment import interpreter

pytestmark = pytest.mark.slow

QUICK_TO_COMPILE = {
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
}
TrainJob = Callable[..., Any]


@pytest.fixture(scope="module")
def xla_python() -> str:
    """The interpreter of an environment with torch_xla."""
    found = interpreter()
    if found is None:
        pytest.skip("NOTHING WAS TRAINED WITH XLA: make the environment with `make xla-env`")
    return str(found)


def test_where_nobody_switches_the_compiler_on_nothing_is_trained(
    train_job: TrainJob, xla_python: str
) -> None:
    job = train_job(python=xla_python, arm="compiled", compiler="training-compiler")
    assert job.status == 1
    assert job.failure_file.read_text().startswith(
        "the compiler was declared and did not run: SM_TRAINING_COMPILER_CONFIGURED is not set "
        "after torch_xla was imported"
    )
    assert not list(job.model.iterdir())


def test_where_it_is_on_the_evidence_has_its_proof_and_xlas(
    train_job: TrainJob, xla_python: str
) -> None:
    job = train_job(
        {
            **QUICK_TO_COMPILE,
            "SM_TRAINING_COMPILER_CONFIGURED": "1",
            "SM_FRAMEWORK_PARAMS": '{"sagemaker_training_compiler_debug_mode":true}',
        },
        python=xla_python,
        arm="compiled",
        compiler="training-compiler",
        dropout=0,
        max_steps=6,
        parity_steps=0,
    )
    compiler = job.evidence().evidence.compiler
    assert (compiler.name, compiler.ran, compiler.graphs) == ("training-compiler", True, 1)
    assert compiler.proof["SM_TRAINING_COMPILER_CONFIGURED"] == "1"
    assert compiler.proof["configured_by"] == "the process that started this one"
    assert compiler.proof["debug_mode"] is True
    assert compiler.proof["executions"] == 6
