"""How long a synth takes, and how close its stacks come to CloudFormation's limits.

    python benchmarks/synth.py [--workloads 1 50] [--jobs 12 72]

Makes the stacks of a project with so many workloads, each time in a new process, as `cdk synth`
does without the CLI's own start: cold, with no compiled definitions; then warm; then warm with the
CDK's validation, which `make deploy` and the tests include and `make synth` and `make diff` skip.
All workloads have different definitions. `--jobs` is the number of training jobs of each.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
MEGABYTE = 1_048_576
MOST_RESOURCES, MOST_OUTPUTS, LARGEST_TEMPLATE = 500, 200, MEGABYTE
"""CloudFormation's limits for one stack."""
TARGETS = {1: 5.0, 50: 20.0}
"""How many seconds a warm synth may take, by the number of workloads."""
BASELINE_AND_CANDIDATES = 6
"""The number of arms of each workload with more than two jobs."""


@dataclass(frozen=True, kw_only=True)
class Synth:
    """What one synth made."""

    seconds: float
    largest_template: int
    most_resources: int
    most_outputs: int
    largest_definition: int


def checkout(folder: Path, workloads: int, jobs: int) -> None:
    """A project with so many workloads of so many jobs, with this checkout's code."""
    (folder / "infra").mkdir(parents=True)
    (folder / "infra" / "settings.toml").write_text(
        'account = "123456789012"\nregion = "us-east-1"\n'
    )
    (folder / "containers").symlink_to(PROJECT / "containers")
    (folder / "workloads").mkdir()
    template = (PROJECT / "workloads" / "news-topics.toml").read_text()
    arms = min(BASELINE_AND_CANDIDATES, max(2, jobs // 2))
    head, _, rest = template.partition("[arms.")
    gate = rest[rest.index("[gate]") :]
    for number in range(1, workloads + 1):
        declared = re.sub(r'name = ".*"', f'name = "workload-{number}"', head, count=1)
        seeds = list(range(1, jobs // arms + 1))
        declared = re.sub(r"(?m)^seeds = .*$", f"seeds = {seeds}", declared)
        declared = re.sub(r"vocabulary = \d+", f"vocabulary = {4000 + number}", declared)
        (folder / "workloads" / f"workload-{number}.toml").write_text(
            declared + "".join(_arm(index) for index in range(arms)) + gate
        )


def _arm(index: int) -> str:
    name, compiler = ("baseline", "eager") if index == 0 else (f"arm-{index}", "inductor")
    return (
        f'[arms.{name}]\ncompiler = "{compiler}"\nbatch_size = {32 + index}\n'
        "learning_rate = 7e-4\n\n"
    )


SYNTH = """
import json, sys
from dataclasses import replace
from pathlib import Path
from aws_cdk import App
from compilegate.infra.app import build, environment_of
from compilegate.infra.project import read_project

folder, out, definitions = map(Path, sys.argv[1:])
context = json.loads(Path("cdk.json").read_text())["context"]
project = replace(read_project(folder), definitions=definitions)
app = App(outdir=str(out), context=context, analytics_reporting=False)
build(app, project, environment_of(project))
app.synth()
"""


def synth(folder: Path, out: Path, definitions: Path, *, validated: bool) -> Synth:
    """Make the stacks in a new process."""
    shutil.rmtree(out, ignore_errors=True)
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", SYNTH, str(folder), str(out), str(definitions)],
        cwd=PROJECT,
        env={
            **os.environ,
            "CDK_VALIDATION": str(validated).lower(),
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        },
        check=True,
    )
    seconds = time.perf_counter() - start
    paths = list(out.glob("*.template.json"))
    templates = [json.loads(path.read_text()) for path in paths]
    return Synth(
        seconds=seconds,
        largest_template=max(path.stat().st_size for path in paths),
        most_resources=max(len(template["Resources"]) for template in templates),
        most_outputs=max(len(template.get("Outputs", ())) for template in templates),
        largest_definition=max(path.stat().st_size for path in definitions.iterdir()),
    )


def measure(workloads: int, jobs: int) -> tuple[Synth, Synth, Synth]:
    """Seconds cold, warm, and warm with validation."""
    with tempfile.TemporaryDirectory(prefix="compilegate-synth-") as work:
        folder, out, definitions = (Path(work) / name for name in ("project", "out", "definitions"))
        checkout(folder, workloads, jobs)
        return (
            synth(folder, out, definitions, validated=False),
            synth(folder, out, definitions, validated=False),
            synth(folder, out, definitions, validated=True),
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workloads", type=int, nargs="+", default=[1, 50])
    parser.add_argument("--jobs", type=int, nargs="+", default=[12, 72])
    chosen = parser.parse_args(arguments)
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print(
        "| workloads | jobs each | cold s | warm s | target s | validated s | definition "
        "| template | resources | outputs |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    missed = False
    for workloads in chosen.workloads:
        for jobs in chosen.jobs:
            cold, warm, validated = measure(workloads, jobs)
            target = TARGETS.get(workloads)
            missed |= target is not None and warm.seconds > target
            missed |= warm.largest_template > LARGEST_TEMPLATE
            missed |= warm.most_resources > MOST_RESOURCES or warm.most_outputs > MOST_OUTPUTS
            print(
                f"| {workloads} | {jobs} | {cold.seconds:.1f} | {warm.seconds:.1f} "
                f"| {target or ''} | {validated.seconds:.1f} "
                f"| {warm.largest_definition / 1024:.0f} KiB "
                f"| {warm.largest_template / 1024:.0f} of {LARGEST_TEMPLATE // 1024} KiB "
                f"| {warm.most_resources} of {MOST_RESOURCES} "
                f"| {warm.most_outputs} of {MOST_OUTPUTS} |",
                flush=True,
            )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
