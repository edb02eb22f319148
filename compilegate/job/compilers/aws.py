"""AWS's compilers on PyTorch/XLA, SageMaker Training Compiler and Neuron, and the proof that they
are on.

The torch_xla of Training Compiler's images reads its switch from SM_FRAMEWORK_PARAMS when it is
imported, sets SM_TRAINING_COMPILER_CONFIGURED and logs that. In other images, or where SageMaker's
toolkit did not start the program, it does neither and training goes on without: so it is checked
before training.
"""

from __future__ import annotations

import importlib.util
import json
import os
from typing import Mapping

from compilegate.job.compilers import xla_runtime as runtime
from compilegate.job.compilers.declaration import CONFIGURED, Settings
from compilegate.job.compilers.xla import Xla
from compilegate.job.contract import (
    NEURON_CACHE_VARIABLE,
    TRAINING_COMPILER_DEBUG_HYPERPARAMETER,
    TRAINING_COMPILER_HYPERPARAMETER,
    XLA_DEVICE_VARIABLE,
)
from compilegate.job.errors import CompilerError
from compilegate.job.evidence import Scalar
from compilegate.job.machine.accelerators import NEURON, place_of, this_machine
from compilegate.job.machine.environment import version_of

PARAMETERS = "SM_FRAMEWORK_PARAMS"


class TrainingCompiler(Xla):
    """PyTorch/XLA with SageMaker Training Compiler switched on."""

    name = "training-compiler"

    def __init__(self, settings: Settings) -> None:
        if importlib.util.find_spec("torch_xla") is None:
            raise CompilerError(
                "training-compiler is part of AWS's images for it, and this environment has no "
                "torch_xla; run the arm in the image 'training-compiler' on SageMaker"
            )
        # A launcher, or a library that the script imported first (Trainer's does), has imported
        # torch_xla: that switched the compiler on.
        self._imported_before = CONFIGURED in os.environ
        super().__init__(settings)
        require_configured(os.environ)

    def _own_proof(self) -> dict[str, Scalar]:
        return {
            CONFIGURED: os.environ[CONFIGURED],
            "configured_by": "an earlier import" if self._imported_before else "this job's import",
            "debug_mode": debug_mode(os.environ),
        }


def require_configured(environment: Mapping[str, str]) -> None:
    if environment.get(CONFIGURED) == "1":
        return
    if TRAINING_COMPILER_HYPERPARAMETER in environment.get(PARAMETERS, ""):
        why = ", though the request switches it on; the image has a torch_xla that is not AWS's"
    else:
        why = (
            f", since {PARAMETERS} holds no switch of it; the request must name the training "
            "toolkit's sagemaker_program, and no entry point of its own"
        )
    raise CompilerError(
        f"the compiler was declared and did not run: {CONFIGURED} is not set after torch_xla was "
        f"imported{why}"
    )


def debug_mode(environment: Mapping[str, str]) -> bool:
    try:
        parameters = json.loads(environment.get(PARAMETERS) or "{}")
    except ValueError:
        return False
    return str(parameters.get(TRAINING_COMPILER_DEBUG_HYPERPARAMETER)).lower() == "true"


class Neuron(Xla):
    """PyTorch/XLA on a NeuronCore of Trainium, whose plugin compiles with neuronx-cc."""

    name = "neuron"
    without_device = "take an ml.trn1 instance"

    def __init__(self, settings: Settings) -> None:
        if importlib.util.find_spec("torch_neuronx") is None:
            raise CompilerError(
                "neuron needs the package torch_neuronx, and this environment has none; run the "
                "arm in the image 'neuron' on a Trainium instance"
            )
        machine = this_machine()
        # This machine's processor takes the place of a described machine's NeuronCore.
        os.environ[XLA_DEVICE_VARIABLE] = "NEURON" if machine.described is None else "CPU"
        super().__init__(settings)
        hardware = runtime.hardware()
        if place_of("xla", machine, hardware=hardware, computes_on=(NEURON,)) != NEURON:
            raise CompilerError(
                f"the compiler was declared and did not run: the XLA device is {hardware}, not a "
                "NeuronCore; take an ml.trn1 instance"
            )

    def _own_proof(self) -> dict[str, Scalar]:
        return {
            "torch_neuronx": version_of("torch_neuronx") or "unknown",
            "neuronx_cc": version_of("neuronx-cc") or "unknown",
            "cache": os.environ.get(NEURON_CACHE_VARIABLE, "of this machine"),
        }
