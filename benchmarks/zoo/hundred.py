"""All architectures by name, and the process that imports their libraries once for all others."""

from __future__ import annotations

import contextlib
import importlib

from benchmarks.zoo import others, transformer, vision
from benchmarks.zoo.architecture import prepare_torchvision

_ALL = (*vision.ARCHITECTURES, *transformer.ARCHITECTURES, *others.ARCHITECTURES)
HUNDRED = {each.name: each for each in _ALL}
_IMPORTED = """
benchmarks.zoo.script timm transformers.models.bert.modeling_bert torch_geometric.nn
diffusers.models.unets.unet_2d_condition torch._dynamo.backends.debugging
torch._inductor.compile_fx torch._inductor.codegen.cpp compilegate.job.script
compilegate.job.probes.parity compilegate.job.probes.speed
compilegate.job.compilers.torch_compile
"""


def import_all() -> None:
    """Import what most architectures need, which takes 20 s. What is not here is left out."""
    prepare_torchvision()
    for name in _IMPORTED.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
