"""Asks version 2 of the SageMaker Python SDK, the last that knows Training Compiler, for requests.

    python answers.py answers.json

Writes, as JSON, the CreateTrainingJob request of each stack, and what the SDK refuses and why. No
call leaves the machine. It is a program of its own because SDK 2 and 3 cannot share an environment:
tests/pipelines/test_sdk_v2.py makes one with sagemaker 2.257.7 and runs it there.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import botocore.client
from sagemaker.huggingface import HuggingFace
from sagemaker.huggingface import TrainingCompilerConfig as HuggingFaceCompiler
from sagemaker.inputs import TrainingInput
from sagemaker.instance_group import InstanceGroup
from sagemaker.pytorch import PyTorch
from sagemaker.pytorch import TrainingCompilerConfig as PyTorchCompiler
from sagemaker.tensorflow import TensorFlow
from sagemaker.tensorflow import TrainingCompilerConfig as TensorFlowCompiler
from sagemaker.workflow.pipeline_context import PipelineSession
from sagemaker.workflow.steps import TrainingStep

PROGRAM = "training/train.py"
LAUNCHER = "compilegate/job/launch/sm_dist.py"
ROLE = "arn:aws:iam::111122223333:role/training"
STACKS = [
    # framework, version, transformers, Python
    ("pytorch", "1.13.1", None, "py39"),
    ("pytorch", "1.12.0", None, "py38"),
    ("pytorch", "1.11.0", "4.21.1", "py38"),
    ("pytorch", "1.10.2", "4.17.0", "py38"),
    ("pytorch", "1.9.0", "4.11.0", "py38"),
    ("tensorflow", "2.11.0", None, "py39"),
    ("tensorflow", "2.10.0", None, "py39"),
    ("tensorflow", "2.9.1", None, "py39"),
    ("tensorflow", "2.6.3", "4.17.0", "py38"),
    ("tensorflow", "2.5.1", "4.11.0", "py37"),
]
KNOWN_AS = {"2.10.0": "2.10.1", "2.9.1": "2.9.2"}
"""TensorFlow releases that AWS documents, and the SDK knows by a later patch release only."""
XLA = {"pytorchxla": {"enabled": True}}


def no_call(self: object, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Stands for AWS: only code is uploaded, and the account's own role is read."""
    if operation in ("PutObject", "HeadBucket"):
        return {}
    if operation == "ListBuckets":
        return {"Buckets": []}
    if operation == "GetCallerIdentity":
        return {"Account": "111122223333", "Arn": ROLE, "UserId": "testing"}
    raise RuntimeError(f"{operation} would have called AWS")


def main(place: Path) -> None:
    botocore.client.BaseClient._make_api_call = no_call
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        for program in (PROGRAM, LAUNCHER):
            Path(program).parent.mkdir(parents=True, exist_ok=True)
            Path(program).write_text("")
        answers = {
            "sagemaker": version("sagemaker"),
            "requests": requests(),
            "refusals": refusals(),
        }
    # Not to standard output: the SDK prints there as well.
    place.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def requests() -> dict[str, Any]:
    """Of each stack: on one GPU, in debug mode, and on two instances with all their GPUs; of the
    newest also with what observes the job."""
    found = {}
    for stack in STACKS:
        framework, number, transformers, _ = stack
        label = f"{framework} {number}" + (
            f" with Transformers {transformers}" if transformers else ""
        )
        several: dict[str, Any] = {"instance_type": "ml.p3.16xlarge", "instance_count": 2}
        if framework == "pytorch" and number in ("1.10.2", "1.9.0"):
            several.update(
                entry_point=LAUNCHER, hyperparameters={"seed": 7, "training_script": PROGRAM}
            )
        elif framework == "pytorch":
            several["distribution"] = XLA
        found[f"{label}, one GPU"] = request(stack)
        found[f"{label}, debug mode"] = request(stack, debug=True)
        if framework == "pytorch":
            found[f"{label}, several GPUs"] = request(stack, **several)
    observed = {"disable_profiler": False, "debugger_hook_config": None}
    found["pytorch 1.13.1, profiler and debugger"] = request(STACKS[0], **observed)
    return found


def request(stack: Any, debug: bool = False, **changes: Any) -> dict[str, Any]:

    job = estimator(stack, debug=debug, **changes)
    arguments = job.fit({"prepared": TrainingInput("s3://data/prepared")}, job_name="job")
    return json.loads(
        json.dumps(TrainingStep("Train", step_args=arguments).arguments, default=plain)
    )


def plain(value: Any) -> Any:
    return getattr(value, "expr", str(value))


def refusals() -> dict[str, str | None]:
    """What is asked for, and the SDK's sentence where it refuses that; null where it does not."""
    native, tensorflow = STACKS[0], STACKS[5]
    asked: dict[str, Any] = {
        f"instance {name}": (native, {"instance_type": f"ml.{name}"})
        for name in (
            "p2.xlarge",
            "p3.2xlarge",
            "p3dn.24xlarge",
            "p4d.24xlarge",
            "p4de.24xlarge",
            "p5.48xlarge",
            "g4dn.xlarge",
            "g5.xlarge",
            "g6.xlarge",
            "m5.xlarge",
            "trn1.2xlarge",
        )
    }
    asked.update(
        {
            "local": (native, {"instance_type": "local"}),
            "local_gpu": (native, {"instance_type": "local_gpu"}),
            "an image of one's own": (
                native,
                {"image_uri": "111122223333.dkr.ecr.us-east-1.amazonaws.com/own:1"},
            ),
            "smdistributed": (
                native,
                {
                    "instance_type": "ml.p3dn.24xlarge",
                    "distribution": {"smdistributed": {"dataparallel": {"enabled": True}}},
                },
            ),
            "torchrun": (native, {"distribution": {"torch_distributed": {"enabled": True}}}),
            "pytorchxla on PyTorch 1.10.2": (STACKS[3], {"distribution": XLA}),
            "TensorFlow's several workers": (
                tensorflow,
                {"distribution": {"multi_worker_mirrored_strategy": {"enabled": True}}},
            ),
            "PyTorch 2.0.1": (("pytorch", "2.0.1", None, "py310"), {}),
            "TensorFlow 2.12.0": (("tensorflow", "2.12.0", None, "py310"), {}),
            "TensorFlow 2.8.0": (("tensorflow", "2.8.0", None, "py39"), {}),
        }
    )
    found: dict[str, str | None] = {}
    for name, (stack, changes) in asked.items():
        try:
            request(stack, **changes)
        except Exception as error:  # noqa: BLE001  the answer, whatever it is
            found[name] = f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
        else:
            found[name] = None
    found["instance groups"] = instance_groups(native)
    return found


def instance_groups(stack: Any) -> str | None:

    try:
        request(
            stack,
            instance_type=None,
            instance_count=None,
            instance_groups=[
                InstanceGroup("a", "ml.p3.2xlarge", 1),
                InstanceGroup("b", "ml.g5.xlarge", 1),
            ],
        )
    except ValueError as error:
        return f"ValueError: {' '.join(str(error).split())}"[:300]
    return None


def estimator(stack: Any, debug: bool, **changes: Any) -> Any:

    framework, number, transformers, python = stack
    options: dict[str, Any] = {
        "entry_point": PROGRAM,
        "source_dir": ".",
        "role": ROLE,
        "instance_count": 1,
        "instance_type": "ml.p3.2xlarge",
        "py_version": python,
        "sagemaker_session": PipelineSession(default_bucket="code"),
        "hyperparameters": {"seed": 7},
        "disable_profiler": True,
        "debugger_hook_config": False,
    }
    if transformers is not None:
        options.update({f"{framework}_version": number, "transformers_version": transformers})
        return HuggingFace(
            compiler_config=HuggingFaceCompiler(debug=debug), **{**options, **changes}
        )
    kind, compiler = (
        (PyTorch, PyTorchCompiler) if framework == "pytorch" else (TensorFlow, TensorFlowCompiler)
    )
    return kind(
        framework_version=KNOWN_AS.get(number, number),
        compiler_config=compiler(debug=debug),
        **{**options, **changes},
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
