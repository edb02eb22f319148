"""What a CreateTrainingJob request says to SageMaker Training Compiler.

The image's own torch_xla reads these out of SM_FRAMEWORK_PARAMS when it is imported, which the
training toolkit fills; without the toolkit the compiler stays off, and says nothing.
"""

from __future__ import annotations

import json

from compilegate.job.compilers.declaration import DEBUG, TRAINING_COMPILER
from compilegate.job.names import (
    TRAINING_COMPILER_DEBUG_HYPERPARAMETER,
    TRAINING_COMPILER_HYPERPARAMETER,
)
from compilegate.workload import Arm
from compilegate.workload.file import Distribution

LAUNCHER = "compilegate/job/launch/sm_dist.py"
"""What starts a script on several GPUs in the images of PyTorch 1.10.2 and before."""


def arm_hyperparameters(arm: Arm, program: str) -> dict[str, str]:
    """The compiler's switches, and what starts `program` on each GPU; empty for an arm of another
    compiler.

    They go after the toolkit's own, one of which they may replace.
    """
    if arm.compiler != TRAINING_COMPILER.name or arm.stack is None:
        return {}
    return {
        TRAINING_COMPILER_HYPERPARAMETER: "true",
        TRAINING_COMPILER_DEBUG_HYPERPARAMETER: json.dumps(arm.stack.setting(DEBUG)),
        **_launch(arm.distribution, program),
    }


def _launch(distribution: Distribution, program: str) -> dict[str, str]:
    match distribution:
        case "pytorchxla":
            return {"sagemaker_pytorch_xla_multi_worker_enabled": "true"}
        case "sm_dist":
            return {
                "sagemaker_program": json.dumps(LAUNCHER),
                "training_script": json.dumps(program),
            }
        case "none" | "torchrun":  # torchrun is not Training Compiler's
            return {}
