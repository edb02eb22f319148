"""Measure the gate's time and memory by examples, arms, seeds and metrics.

    python -m benchmarks.gate.scale [--quick] [--write]

Each row is a separate process that reads evidence from disk, judges it and writes the verdict and
its reports, like the gate's job; writing the evidence is not counted. Jobs do not record what they
trained on: comparing its rows takes 0.7 s more for each job of a million. Memory is the process's
largest resident set. It has no peer; the targets for the last two rows, on two cores, are 5 s and
0.72 GB, and 5.6 s and 0.84 GB.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import results
from benchmarks.gate.simulated import BASELINE, Clock, execution, guards
from benchmarks.timing import Ran, run
from compilegate.gate.verdict import Verdict
from compilegate.job.evidence import Examples, write_evidence

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


def judge(folder: Path, size: Size) -> Ran:
    """Run the gate's job and check that it judged every metric: refusing evidence is faster."""
    places = {"experiment": "gate.json", "evidence": "evidence", "output": "output"}
    command = [sys.executable, "-m", "compilegate.pipelines.programs.gate"]
    ran = run(command + [f"--{option}={folder / place}" for option, place in places.items()])
    verdict = Verdict.from_json((folder / "output" / "verdict.json").read_bytes())
    for candidate in verdict.candidates:
        if len(candidate.metrics) != size.metrics:
            raise SystemExit(f"the gate judged nothing: {candidate.reasons[0].sentence}")
    return ran


def write_all(folder: Path, size: Size) -> None:
    """Write evidence of a baseline and its candidates, and the experiment."""
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


def main() -> None:
    """Measure and print."""
    parser = results.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes only: a smoke test")
    options = parser.parse_args()
    rows = []
    for size in QUICK if options.quick else SIZES:
        with tempfile.TemporaryDirectory(prefix="gate-scale-") as folder:
            write_all(Path(folder), size)
            ran = judge(Path(folder), size)
        figures = [f"{ran.wall:.1f}", f"{ran.cpu:.1f}", f"{ran.gigabytes:.2f}"]
        rows.append([*(f"{count:,}" for count in size), *figures])
    columns = [*Size._fields, "seconds", "CPU seconds", "memory, GB"]
    results.publish("gate-scale", columns, rows, to_file=options.write)


if __name__ == "__main__":
    main()
