"""Inductor: `torch.compile` of the training step's forward and backward pass."""

from compilegate.job.compilers.declaration import Declaration, Option

COMPILE_MODE = Option(
    name="compile_mode",
    key="mode",
    default="default",
    choices=("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
    description="what torch.compile calls its mode",
)
DYNAMIC_SHAPES = Option(
    name="dynamic_shapes",
    key="dynamic",
    default=False,
    description="one compiled graph may serve several shapes; otherwise each shape is a graph of "
    "its own, and too many of them stop the job",
)
REGIONAL = Option(
    name="regional",
    key="regional",
    default=False,
    description="compile the block that the model repeats, once, and not the model as a whole",
)
FALLBACK_RANDOM = Option(
    name="fallback_random",
    key="fallback_random",
    default=True,
    description="compiled dropout draws eager's random numbers, which parity needs",
)

DECLARATION = Declaration(
    name="inductor",
    image="training",
    proof=("torch", "backend", "graph_calls", "unique_graphs", "kernels", "cache"),
    options=(COMPILE_MODE, DYNAMIC_SHAPES, REGIONAL, FALLBACK_RANDOM),
    output_can_be_kept=True,
)
