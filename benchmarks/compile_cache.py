"""The first step of a training job: eager, compiled cold, compiled from the compile cache.

    .venv/bin/python benchmarks/compile_cache.py [--workload NAME] [--arm ARM] [--rounds N]

Each round runs three whole training jobs as processes, one after the other on one core: the
workload's baseline, the arm with an empty cache, and the arm with the cache that the job before
left. The figures come from the jobs' own evidence; the last column is CPU time, which other load on
the machine does not affect.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.datasets import cache_folder, raw_data
from compilegate.gate.evidence import read_evidence
from compilegate.job.evidence import EvidenceRecord
from compilegate.job.names import BASELINE_ARM
from compilegate.workload import Workload, read_workload

PROJECT = Path(__file__).parents[1]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(PROJECT),
    "OMP_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
}


@dataclass(frozen=True)
class Bench:
    """A workload with prepared data, and the folder to run its jobs in."""

    workload: Workload
    prepared: Path
    work: Path

    def job(self, arm: str, archives: Path, steps: int) -> tuple[EvidenceRecord, float]:
        """Run one training job of `steps` steps; its evidence and CPU seconds."""
        folder = Path(tempfile.mkdtemp(dir=self.work))
        (folder / "data").mkdir()
        seed = self.workload.seeds[0]
        program = self.workload.kind.training_program(self.workload, arm, seed)
        options: dict[str, Any] = {
            **program.hyperparameters,
            "max_steps": steps,
            "on_failure": "stop",
            "parity_steps": 0,
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        places = {
            "SM_CHANNEL_PREPARED": str(self.prepared),
            "SM_MODEL_DIR": str(folder / "model"),
            "SM_OUTPUT_DATA_DIR": str(folder / "data"),
            "COMPILEGATE_COMPILE_CACHE": str(archives),
        }
        before = processor_seconds()
        run([str(PROJECT / "training" / "train.py"), *arguments], places)
        return read_evidence(folder / "data" / "evidence"), processor_seconds() - before


def processor_seconds() -> float:
    """The CPU time of all finished child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(arguments: list[str], places: dict[str, str]) -> None:
    """Run Python with these arguments on one core of this machine."""
    core = min(os.sched_getaffinity(0))
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        env={**ENVIRONMENT, **places},
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )


def prepare(workload: Workload, path: Path, work: Path) -> Path:
    """The prepared data set of the workload."""
    data, prepared = work / "data", work / "prepared"
    data.mkdir()
    for name, source in raw_data(workload.data, path.parent).fetch(cache_folder(), print).items():
        shutil.copyfile(source, data / name)
    sizes = [
        ("--sequence-length", str(workload.data.sequence_length)),
        ("--vocabulary", str(workload.data.vocabulary)),
    ]
    places = ["--data-dir", str(data), "--output-dir", str(prepared)]
    run(["-m", "training.prepare", *places, *(part for size in sizes for part in size)], {})
    return prepared


def row(name: str, jobs: list[tuple[EvidenceRecord, float]]) -> str:
    """The minimum over some jobs: what they take on an idle machine."""
    records = [record for record, _ in jobs]
    speeds = [record.evidence.speed for record in records]
    figures = (
        [float(record.steps.seconds[0]) for record in records if record.steps is not None],
        [record.evidence.compiler.compile_seconds for record in records],
        [speed.total_seconds for speed in speeds if speed is not None],
        [seconds for _, seconds in jobs],
    )
    return f"{name:<10}" + "".join(f"{min(values):>14.2f}" for values in figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", default="news-topics", help="in workloads/")
    parser.add_argument("--arm", default="compiler-only", help="an arm that compiles")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60, help="of each job")
    options = parser.parse_args()
    path = PROJECT / "workloads" / f"{options.workload}.toml"
    workload = read_workload(path)
    found: dict[str, list[tuple[EvidenceRecord, float]]] = {"eager": [], "cold": [], "warm": []}
    with tempfile.TemporaryDirectory(prefix="compile-cache-") as work:
        bench = Bench(workload, prepare(workload, path, Path(work)), Path(work))
        for _ in range(options.rounds):
            archives = Path(tempfile.mkdtemp(dir=work))
            for name, jobs in found.items():
                arm = BASELINE_ARM if name == "eager" else options.arm
                jobs.append(bench.job(arm, archives, options.steps))
    caches = {name: [job[0].evidence.compile_cache for job in jobs] for name, jobs in found.items()}
    states = {name: {each.state for each in of if each} for name, of in caches.items()}
    assert states == {"eager": set(), "cold": {"cold"}, "warm": {"warm"}}, states  # noqa: S101
    sizes = [each.saved_bytes for each in caches["cold"] if each]
    print(
        f"{workload.name}, arm {options.arm}: {platform.system()} {platform.machine()}, one core, "
        f"Python {platform.python_version()}, {options.rounds} rounds of {options.steps} steps; "
        f"the least seconds of all rounds; the archive has {max(sizes):,} bytes"
    )
    print(f"{'':<10}{'first step':>14}{'compilation':>14}{'whole job':>14}{'processor':>14}")
    for name, jobs in found.items():
        print(row(name, jobs))


if __name__ == "__main__":
    main()
