"""Time the start of commands, imports and the gate's job, and what the local runner adds.

    python -m benchmarks.startup [--rounds N] [--write]

The peer of the programs is `python -c pass`; the peer of an execution of five steps is the bare
programs of its three jobs, one after the other. All run in turn. Processor time is the figure that
holds on a machine that does other things too. Prints also what the wheel installs.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.timing import Ran, in_turn, run, seconds
from compilegate.execution.status import ExecutionStatus
from compilegate.local import ImageSources, LocalExecutor

COMPILEGATE = str(Path(sys.executable).parent / "compilegate")
WORKLOAD = str(results.PROJECT / "workloads" / "news-topics.toml")
IMPORTS = ("compilegate", "compilegate.job", "compilegate.gate.judge", "compilegate.local")
PROGRAMS = {
    "`python -c pass`": [sys.executable, "-c", "pass"],
    "`compilegate --help`": [COMPILEGATE, "--help"],
    "`compilegate validate`": [COMPILEGATE, "validate", WORKLOAD],
    "`compilegate check tests training`": [
        *(COMPILEGATE, "check", "--fail-on", "never", "tests", "training")
    ],
    "`compilegate pipeline compile`": [COMPILEGATE, "pipeline", "compile", WORKLOAD],
    **{f"`import {name}`": [sys.executable, "-c", f"import {name}"] for name in IMPORTS},
    "the gate's job, `--help`": [
        *(sys.executable, "-m", "compilegate.pipelines.programs.gate", "--help")
    ],
}
NOTHING = ["python3", "-I", "-S", "-c", "pass"]
COMPUTERS = {"InstanceType": "ml.m5.large", "InstanceCount": 1}


def step(kind: str, name: str, after: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """One step of the definition."""
    depends = [after] if after else []
    return {"Name": name, "Type": kind, "DependsOn": depends, "Arguments": arguments}


def definition() -> str:
    """Processing -> Training -> Processing -> Condition -> RegisterModel; no job does anything."""
    processing = {
        "AppSpecification": {"ImageUri": "any", "ContainerEntrypoint": NOTHING},
        "ProcessingResources": {"ClusterConfig": COMPUTERS},
    }
    image = {"TrainingImage": "any", "TrainingInputMode": "File", "ContainerEntrypoint": NOTHING}
    training = {
        "AlgorithmSpecification": image,
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "ResourceConfig": COMPUTERS,
    }
    model = {"Image": "any", "ModelDataUrl": {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"}}
    package = {"ModelPackageGroupName": "m", "InferenceSpecification": {"Containers": [model]}}
    status = {"Get": "Steps.gate.ProcessingJobStatus"}
    decide = {
        "Conditions": [{"Type": "Equals", "LeftValue": status, "RightValue": "Completed"}],
        "IfSteps": [{"Name": "register", "Type": "RegisterModel", "Arguments": package}],
        "ElseSteps": [],
    }
    steps = [
        step("Processing", "prepare", "", processing),
        step("Training", "train", "prepare", training),
        step("Processing", "gate", "train", processing),
        {"Name": "decide", "Type": "Condition", "Arguments": decide},
    ]
    return json.dumps({"Version": "2020-12-01", "Parameters": [], "Steps": steps})


def execute(home: Path) -> None:
    """Run the definition from its text to its end."""
    images = ImageSources(patterns=(("*", "here"),))
    executor = LocalExecutor(definition=definition(), home=home, images=images)
    result = executor.follow(executor.start("overhead", {}))
    if result.status is not ExecutionStatus.SUCCEEDED:
        raise SystemExit(f"the execution ended {result.status}: {result.failure}")


def run_bare_jobs() -> None:
    """Run the programs of the three jobs."""
    for _ in range(3):
        run([sys.executable, *NOTHING[1:]])


def installed() -> str:
    """What the wheel installs, without what Python compiles of it."""
    sizes = [
        (Path(folder) / name).stat().st_size
        for folder, _, names in os.walk(results.PROJECT / "compilegate", followlinks=True)
        for name in names
        if "__pycache__" not in folder
    ]
    return f"The wheel installs {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB."


def main() -> None:
    """Measure and print."""
    parser = results.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    programs = {name: partial(run, command) for name, command in PROGRAMS.items()}
    rows = []
    for name, runs in in_turn(programs, options.rounds).items():
        cpu, wall = (statistics.median(each) for each in zip(*map(times, runs), strict=True))
        rows.append([name, f"{cpu:.3f}", f"{wall:.3f}"])
    with tempfile.TemporaryDirectory() as home:
        execute(Path(home))  # imports and the page cache
        ways = {"execution": lambda: execute(Path(home)), "jobs": run_bare_jobs}
        timed = in_turn({name: partial(seconds, way) for name, way in ways.items()}, options.rounds)
    added = statistics.median(map(float.__sub__, timed["execution"], timed["jobs"]))
    rows.append(["a local execution of five steps, beyond its jobs' programs", "", f"{added:.3f}"])
    columns = ["program", "processor time, s", "wall time, s"]
    results.publish("startup", columns, rows, to_file=options.write, notes=[installed()])


def times(ran: Ran) -> tuple[float, float]:
    """Processor and wall time."""
    return ran.cpu, ran.wall


if __name__ == "__main__":
    main()
