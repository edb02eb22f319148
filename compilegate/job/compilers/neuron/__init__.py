"""AWS Neuron: PyTorch/XLA on Trainium, whose plugin compiles with neuronx-cc."""

from compilegate.job.compilers.declaration import Declaration
from compilegate.job.compilers.xla import STEP_GRAPHS, TRACED

DECLARATION = Declaration(
    name="neuron",
    image="neuron",
    proof=(*TRACED, "torch_neuronx", "neuronx_cc", "cache"),
    options=(STEP_GRAPHS,),
)
