"""SageMaker Training Compiler: PyTorch/XLA as AWS built it into its training images."""

from compilegate.job.compilers.declaration import Declaration, Option, StackTable
from compilegate.job.compilers.xla import STEP_GRAPHS, TRACED

CONFIGURED = "SM_TRAINING_COMPILER_CONFIGURED"
"""The variable that AWS's torch_xla sets when it is imported with the compiler on."""

DEBUG = Option(
    name="debug",
    key="debug",
    default=False,
    description="the compiler's debug mode: graphs and metrics go into the job's output, and steps "
    "are slower",
)

DECLARATION = Declaration(
    name="training-compiler",
    image="training-compiler",
    proof=(*TRACED, CONFIGURED, "configured_by", "debug_mode"),
    needs=("torch", "gpu of xla", "training compiler"),
    options=(STEP_GRAPHS,),
    keeps_accelerator=True,
    stack=StackTable(
        description="the stack, which is one of AWS's images, and debug mode. The defaults are the "
        "newest stack.",
        frameworks=("pytorch", "tensorflow"),
        version="1.13.1",
        transformers=True,
        options=(DEBUG,),
    ),
)
