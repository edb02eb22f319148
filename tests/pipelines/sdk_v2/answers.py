"""Asks version 2 of the SageMaker Python SDK, the last that knows Training Compiler, for requests.

    python answers.py answers.json

Writes, as JSON, the CreateTrainingJob request of each stack. No call leaves the machine. SDK 2 and
3 cannot share an environment: run it in one with `sagemaker==2.257.7`, and in its variables
AWS_DEFAULT_REGION=us-east-1 and any AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
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
        answers = {"sagemaker": version("sagemaker"), "requests": requests()}
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
