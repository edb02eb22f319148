"""Arms of Training Compiler and Neuron with a torch_xla that is not AWS's: what runs anywhere.

Neither compiler was ever run: torch_xla 2.9 on a CPU stands for the image's 1.13, and what it does
at its import for what AWS's does.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.environments import ROOT
from tests.environments.xla import QUICK_TO_COMPILE

pytestmark = [pytest.mark.slow, pytest.mark.long]

IMAGE = """
import importlib.machinery, json, os, sys

class AsInTheImage:
    def find_spec(self, name, path, target=None):
        if name != "torch_xla":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        def configure(module):
            switches = json.loads(os.environ.get("SM_FRAMEWORK_PARAMS", "{}"))
            if switches.get("sagemaker_training_compiler_enabled"):
                os.environ["SM_TRAINING_COMPILER_CONFIGURED"] = "1"
            execute(module)
        spec.loader.exec_module = configure
        return spec

sys.meta_path.insert(0, AsInTheImage())
"""
"""Python reads it at its start: torch_xla then reads the switches when it is imported."""

TrainJob = Callable[..., Any]


def test_where_there_is_no_neuron_core_nothing_is_trained(
    train_job: TrainJob, xla_python: str, tmp_path: Path
) -> None:
    """A package of its name stands for AWS's: torch_xla itself looks for the device."""
    (tmp_path / "torch_neuronx").mkdir()
    (tmp_path / "torch_neuronx" / "__init__.py").touch()
    job = train_job(
        {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        python=xla_python,
        arm="compiled",
        compiler="neuron",
    )
    assert job.status == 1
    assert re.fullmatch(
        r"torch_xla \S+ opens no XLA device, asked for NEURON \(.*libneuronxla.*\); "
        "take an ml.trn1 instance",
        job.failure_file.read_text(),
    )


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
    train_job: TrainJob, xla_python: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(IMAGE)
    job = train_job(
        {
            **QUICK_TO_COMPILE,
            "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
            "SM_FRAMEWORK_PARAMS": json.dumps(
                {
                    "sagemaker_training_compiler_enabled": True,
                    "sagemaker_training_compiler_debug_mode": True,
                }
            ),
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
    # Transformers imports Accelerate, which imports torch_xla: before the job.
    assert compiler.proof["configured_by"] == "an earlier import"
    assert compiler.proof["debug_mode"] is True
    assert compiler.proof["executions"] == 6
