"""How the gate's time and memory grow with examples, arms, seeds and metrics, up to a million
examples.

    .venv/bin/python benchmarks/gate/scale.py [--quick]

Each row is a separate process that reads evidence from disk, judges it and writes the verdict and
its reports, like the gate's job; making the evidence is not counted. Jobs do not say what they
trained on: looking for its rows takes 0.7 s more for each job of a million. Memory is the process's
largest resident set. The targets for the last two rows, on two cores: 5 s and 0.72 GB; 5.6 s and
0.84 GB.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from simulated import BASELINE, Clock, execution, guards

from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import Examples, write_evidence

PROJECT = Path(__file__).parents[2]
MARGINS = {
    **dict.fromkeys(("accuracy", "balanced_accuracy", "macro_f1", "micro_f1", "auroc"), 0.01),
    **dict.fromkeys(("perplexity", "mse", "mae"), 0.05),
    **{"log_loss": 0.03, "calibration_error": 0.02},
}


class Size(NamedTuple):
    """One row of the table."""

    examples: int
    arms: int
    seeds: int
    metrics: int


SIZES = (
    Size(10_000, 2, 5, 10),
    Size(100_000, 2, 5, 10),
    Size(1_000_000, 2, 2, 10),
    Size(1_000_000, 2, 5, 2),
    Size(200_000, 5, 10, 10),
    Size(1_000_000, 2, 5, 10),
)
QUICK = (Size(10_000, 2, 2, 2), Size(10_000, 3, 10, 10))


def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(description="Measure the gate's time and memory.")
    parser.add_argument("--quick", action="store_true", help="small sizes only: a smoke test")
    sizes = QUICK if parser.parse_args().quick else SIZES
    print(
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, "
        f"Python {platform.python_version()}, numpy {np.__version__}"
    )
    print("| examples | arms | seeds | metrics | seconds | CPU seconds | memory, GB |")
    print("|---|---|---|---|---|---|---|")
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="gate-scale-") as folder:
            _write(Path(folder), size)
            seconds, of_cpu, gigabytes = _judge(Path(folder), size)
        counts = " | ".join(f"{count:,}" for count in size)
        print(f"| {counts} | {seconds:.1f} | {of_cpu:.1f} | {gigabytes:.2f} |", flush=True)


def _judge(folder: Path, size: Size) -> tuple[float, float, float]:
    """Seconds, CPU seconds and gigabytes of the gate's job."""
    command = [sys.executable, "-m", "compilegate.pipelines.programs.gate"]
    places = {"experiment": "gate.json", "evidence": "evidence", "output": "output"}
    command += [f"--{option}={folder / place}" for option, place in places.items()]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status != 0:
        raise SystemExit(f"the gate's job ended with status {status}")
    verdict = Verdict.from_json((folder / "output" / "verdict.json").read_bytes())
    for candidate in verdict.candidates:  # refusing evidence is faster than judging it
        if len(candidate.metrics) != size.metrics:
            raise SystemExit(f"the gate judged nothing: {candidate.reasons[0].sentence}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9


def _write(folder: Path, size: Size) -> None:
    """Evidence of a baseline and its candidates, and the experiment."""
    draw, count = np.random.default_rng(0), size.examples
    ids = np.array([f"example-{index:07d}" for index in range(count)])
    labels, targets = draw.integers(0, 2, count), draw.normal(0.0, 1.0, count)
    shared = draw.normal(1.5, 1.0, count)
    examples = {}
    arms = [BASELINE, *(f"candidate-{number}" for number in range(1, size.arms))]
    for replicate in product(arms, range(1, size.seeds + 1)):
        likely = 1.0 / (1.0 + np.exp(-shared - draw.normal(0.0, 0.5, count)))
        second = np.where(labels == 1, likely, 1.0 - likely)
        scores = np.stack([1.0 - second, second], axis=1)
        predictions = targets + draw.normal(0.0, 0.5, count)
        examples[replicate] = Examples(ids, labels, scores, -np.log(likely), targets, predictions)
    metrics = guards(**dict(list(MARGINS.items())[: size.metrics]))
    made = execution(examples, draw, metrics, Clock())
    (folder / "gate.json").write_text(made.experiment().model_dump_json(), encoding="utf-8")
    for (arm, seed), job in made.jobs.items():
        job.trained_on = None
        record: Any = job.record(32)
        place = folder / "evidence" / f"{arm}--{seed}"
        files = record.steps, record.examples, record.parity
        write_evidence(place, record.evidence, *files, paired=record.paired)


if __name__ == "__main__":
    main()
