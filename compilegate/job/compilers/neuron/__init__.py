"""AWS Neuron: PyTorch/XLA on Trainium, whose plugin compiles with neuronx-cc."""

from compilegate.job.compilers.declaration import Declaration, Option, StackTable
from compilegate.job.compilers.xla import STEP_GRAPHS, TRACED
from compilegate.job.machine.accelerators import NEURON

PRECOMPILE = Option(
    name="precompile",
    key="precompile",
    default=True,
    description="extract the graphs in a job of its own, and compile them side by side, before "
    "training",
)
EXTRACTION_STEPS = Option(
    name="extraction_steps",
    key="extraction_steps",
    default=10,
    at_least=2,
    at_most=1000,
    description="training steps that the extraction goes through; enough for every graph to occur",
)

DECLARATION = Declaration(
    name="neuron",
    image="neuron",
    proof=(*TRACED, "torch_neuronx", "neuronx_cc", "cache"),
    needs=("torch", "neuron device", "torch_xla", "torch-neuronx", "neuronx-cc"),
    options=(STEP_GRAPHS,),
    computes_on=(NEURON,),
    keeps_accelerator=True,
    stack=StackTable(
        description="the stack of AWS Neuron, and how graphs are compiled.",
        frameworks=("pytorch",),
        version="2.9.0",
        options=(PRECOMPILE, EXTRACTION_STEPS),
    ),
)
