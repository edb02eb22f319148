"""PyTorch/XLA: a training step is traced, compiled whole and executed at once.

The same code runs on torch_xla 1.13, which AWS built SageMaker Training Compiler into, and on 2.9.
`running` is the compiler, which `training_compiler` and `neuron` build upon; `runtime` puts
torch_xla's two sets of names under one; `step` takes a training step and knows what was compiled
for it; `forward` runs the forward pass, for the parity probe of a model on the host.
"""

from compilegate.job.compilers.declaration import Declaration, Option

STEP_GRAPHS = Option(
    name="step_graphs",
    key="step_graphs",
    # Steps that are all alike need one. But numbers of a step that happen to be equal, such as its
    # learning rate and a bias correction, are one input of its graph, and that is another graph.
    default=4,
    at_least=1,
    at_most=1000,
    description="graphs that XLA may compile for the training steps; one more stops the job",
)
"""An option of every compiler that traces whole steps on an XLA device."""

TRACED = (
    *("torch", "torch_xla", "device", "graphs_compiled", "graphs_reused", "executions"),
    *("gradients_averaged", "xla_compile_seconds"),
)
"""What shows that XLA ran."""

DECLARATION = Declaration(
    name="xla",
    image="xla",
    proof=TRACED,
    needs=("torch", "torch_xla"),
    options=(STEP_GRAPHS,),
    computes_on=(),  # its support of GPUs ended with torch_xla 2.9
)
