"""What a CreateTrainingJob request says to SageMaker Training Compiler.

    training_compiler_hyperparameters(
        distribution="pytorchxla", program="training/train.py", debug=False
    )

The image's own torch_xla reads these out of SM_FRAMEWORK_PARAMS when it is imported, which the
training toolkit fills; without the toolkit the compiler stays off, and says nothing.
"""

from __future__ import annotations

import json

from pipelines.workload import Arm, TrainingCompiler
from pipelines.workload.distribution import Distribution

LAUNCHER = "training/sm_dist_launcher.py"
"""What starts a script on several GPUs in the images of PyTorch 1.10.2 and before."""


def arm_hyperparameters(arm: Arm, program: str) -> dict[str, str]:
    """The compiler's hyperparameters of an arm; empty for an arm of another compiler.

    They go after the toolkit's own, one of which they may replace.
    """
    if not isinstance(arm.stack, TrainingCompiler):
        return {}
    return training_compiler_hyperparameters(
        distribution=arm.distribution, program=program, debug=arm.stack.debug
    )


def training_compiler_hyperparameters(
    *, distribution: Distribution, program: str, debug: bool, enabled: bool = True
) -> dict[str, str]:
    """The compiler's switches, and what starts one process for each GPU.

    `enabled=False` leaves the compiler out and everything else as it is.
    """
    return {
        "sagemaker_training_compiler_enabled": json.dumps(enabled),
        "sagemaker_training_compiler_debug_mode": json.dumps(debug),
        **_launch(distribution, program),
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
