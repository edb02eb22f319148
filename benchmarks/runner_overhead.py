"""The local runner's overhead: a five-step definition of jobs that do nothing.

    python benchmarks/runner_overhead.py [--rounds 10]

Each round runs the definition and then the bare programs of its three jobs one after the other, so
that a busy machine slows both. The overhead is the difference: checks, sandboxes,
launchers, state on disk, archives. The jobs are `python -I -S -c pass`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from compilegate.execution.status import ExecutionStatus
from compilegate.local import ImageSources, LocalExecutor

JOB = ("python3", "-I", "-S", "-c", "pass")
TARGET_SECONDS = 0.4


def definition() -> dict[str, Any]:
    """Processing -> Training -> Processing -> Condition -> RegisterModel."""
    model = {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"}
    register = {
        "Name": "register",
        "Type": "RegisterModel",
        "Arguments": {
            "ModelPackageGroupName": "overhead",
            "InferenceSpecification": {"Containers": [{"Image": "any", "ModelDataUrl": model}]},
        },
    }
    decide = {
        "Name": "decide",
        "Type": "Condition",
        "Arguments": {
            "Conditions": [
                {
                    "Type": "Equals",
                    "LeftValue": {"Get": "Steps.gate.ProcessingJobStatus"},
                    "RightValue": "Completed",
                }
            ],
            "IfSteps": [register],
            "ElseSteps": [],
        },
    }
    steps = [_processing("prepare", []), _training(["prepare"]), _processing("gate", ["train"])]
    return {"Version": "2020-12-01", "Parameters": [], "Steps": [*steps, decide]}


def _training(depends_on: Sequence[str]) -> dict[str, Any]:
    return {
        "Name": "train",
        "Type": "Training",
        "DependsOn": list(depends_on),
        "Arguments": {
            "AlgorithmSpecification": {
                "TrainingImage": "any",
                "TrainingInputMode": "File",
                "ContainerEntrypoint": list(JOB),
            },
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
            "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
        },
    }


def _processing(name: str, depends_on: Sequence[str]) -> dict[str, Any]:
    return {
        "Name": name,
        "Type": "Processing",
        "DependsOn": list(depends_on),
        "Arguments": {
            "AppSpecification": {"ImageUri": "any", "ContainerEntrypoint": list(JOB)},
            "ProcessingResources": {
                "ClusterConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1}
            },
        },
    }


def run_pipeline(home: Path) -> None:
    """One execution of the definition, from JSON text to its end."""
    executor = LocalExecutor(
        definition=json.dumps(definition()),
        home=home,
        images=ImageSources(patterns=(("*", "here"),)),
    )
    result = executor.follow(executor.start("overhead", {}))
    if result.status is not ExecutionStatus.SUCCEEDED:
        raise SystemExit(f"the execution ended {result.status}: {result.failure}")


def run_bare_jobs() -> None:
    """The bare programs of the three jobs."""
    for _ in range(3):
        subprocess.run([sys.executable, *JOB[1:]], check=True)


def seconds(action: Callable[[], None]) -> float:
    """Wall-clock seconds that `action` takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def import_seconds() -> float:
    """What importing the runner adds to an interpreter's start."""
    program = (
        "import time; started = time.perf_counter(); import compilegate.local;"
        "print(time.perf_counter() - started)"
    )
    command = [sys.executable, "-c", program]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    columns: dict[str, list[float]] = {
        "execution": [],
        "bare jobs": [],
        "overhead": [],
        "import": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        run_pipeline(home)  # the first run pays for imports and page cache
        for _ in range(rounds):
            whole, bare = seconds(lambda: run_pipeline(home)), seconds(run_bare_jobs)
            columns["execution"].append(whole)
            columns["bare jobs"].append(bare)
            columns["overhead"].append(whole - bare)
            columns["import"].append(import_seconds())
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, "
        f"Python {platform.python_version()}, {rounds} rounds, milliseconds"
    )
    print(f"{'':12}{'median':>10}{'min':>10}{'max':>10}")
    for name, values in columns.items():
        numbers = (statistics.median(values), min(values), max(values))
        print(f"{name:12}" + "".join(f"{1000 * number:10.1f}" for number in numbers))
    overhead = statistics.median(columns["overhead"])
    verdict = "within" if overhead <= TARGET_SECONDS else "above"
    print(f"overhead is {verdict} the target of {1000 * TARGET_SECONDS:.0f} ms")


if __name__ == "__main__":
    main()
