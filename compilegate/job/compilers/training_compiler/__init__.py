"""SageMaker Training Compiler: PyTorch/XLA as AWS built it into its training images."""

from compilegate.job.compilers.declaration import Declaration
from compilegate.job.compilers.xla import STEP_GRAPHS, TRACED

CONFIGURED = "SM_TRAINING_COMPILER_CONFIGURED"
"""The variable that AWS's torch_xla sets when it is imported with the compiler on."""

DECLARATION = Declaration(
    name="training-compiler",
    image="training-compiler",
    proof=(*TRACED, CONFIGURED, "configured_by", "debug_mode"),
    options=(STEP_GRAPHS,),
)
