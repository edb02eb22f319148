"""PyTorch/XLA on Trainium, and the proof that its device is a NeuronCore."""

from __future__ import annotations

import importlib.util
import os
from typing import Dict

from compilegate.job.compilers.compiler import Compiler
from compilegate.job.compilers.declaration import Settings
from compilegate.job.compilers.xla import runtime
from compilegate.job.compilers.xla.running import Xla
from compilegate.job.errors import CompilerError
from compilegate.job.evidence import Scalar
from compilegate.job.machine.accelerators import NEURON, place_of, this_machine
from compilegate.job.machine.environment import version_of
from compilegate.job.names import NEURON_CACHE_VARIABLE, XLA_DEVICE_VARIABLE


class Neuron(Xla):
    """PyTorch/XLA on a NeuronCore."""

    name = "neuron"
    without_device = "take an ml.trn1 instance"

    def __init__(self, settings: Settings) -> None:
        if importlib.util.find_spec("torch_neuronx") is None:
            raise CompilerError(
                "neuron needs the package torch_neuronx, and this environment has none; run the "
                "arm in the image 'neuron' on a Trainium instance"
            )
        machine = this_machine()
        # Of a described machine this one's processor takes the place of the NeuronCore.
        os.environ[XLA_DEVICE_VARIABLE] = "NEURON" if machine.described is None else "CPU"
        super().__init__(settings)
        hardware = runtime.hardware()
        if place_of("xla", machine, hardware=hardware, computes_on=(NEURON,)) != NEURON:
            raise CompilerError(
                f"the compiler was declared and did not run: the XLA device is {hardware}, not a "
                "NeuronCore; take an ml.trn1 instance"
            )

    def _own_proof(self) -> Dict[str, Scalar]:
        return {
            "torch_neuronx": version_of("torch_neuronx") or "unknown",
            "neuronx_cc": version_of("neuronx-cc") or "unknown",
            "cache": os.environ.get(NEURON_CACHE_VARIABLE, "of this machine"),
        }


def create(settings: Settings) -> Compiler:
    """The compiler of one job."""
    return Neuron(settings)
