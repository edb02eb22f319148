"""Inductor: `torch.compile` with its default backend, by a short name."""

from compilegate.job.compilers.declaration import Declaration
from compilegate.job.compilers.torch_compile import (
    COMPILE_MODE,
    DYNAMIC_SHAPES,
    FALLBACK_RANDOM,
    REGIONAL,
)

DECLARATION = Declaration(
    name="inductor",
    image="training",
    proof=("torch", "backend", "graph_calls", "unique_graphs", "kernels", "cache"),
    needs=("torch", "working device", "dynamo", "kernels"),
    options=(COMPILE_MODE, DYNAMIC_SHAPES, REGIONAL, FALLBACK_RANDOM),
    output_can_be_kept=True,
    any_shape=DYNAMIC_SHAPES,
)
