"""AWS Neuron: PyTorch/XLA on Trainium, whose plugin compiles with neuronx-cc."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from typing import Dict

from compilegate.job.compilers import Compiler
from compilegate.job.compilers.options import CompilerOptions
from compilegate.job.compilers.xla import Xla
from compilegate.job.errors import CompilerError
from compilegate.job.evidence import Scalar
from compilegate.job.xla import runtime

CACHE_URL = "NEURON_COMPILE_CACHE_URL"


class Neuron(Xla):
    """PyTorch/XLA, and the proof that its device is a NeuronCore."""

    name = "neuron"
    without_device = "take an ml.trn1 instance"

    def __init__(self, options: CompilerOptions) -> None:
        if importlib.util.find_spec("torch_neuronx") is None:
            raise CompilerError(
                "neuron needs the package torch_neuronx, and this environment has none; run the "
                "arm in the image 'neuron' on a Trainium instance"
            )
        os.environ["PJRT_DEVICE"] = "NEURON"
        super().__init__(options)
        require_neuron_core()

    def _own_proof(self) -> Dict[str, Scalar]:
        return {
            "torch_neuronx": importlib.metadata.version("torch_neuronx"),
            "neuronx_cc": _version("neuronx-cc"),
            "cache": os.environ.get(CACHE_URL, "of this machine"),
        }


def require_neuron_core() -> None:
    """Raises CompilerError when XLA's device is another."""
    hardware = runtime.hardware()
    if hardware != "NEURON":
        raise CompilerError(
            f"the compiler was declared and did not run: the XLA device is {hardware}, not a "
            "NeuronCore; take an ml.trn1 instance"
        )


def create(options: CompilerOptions) -> Compiler:
    """The compiler object of one job."""
    return Neuron(options)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
